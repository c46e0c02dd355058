//! The command line of `peers`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::cases::{PATTERNS, PatternSpec};
use crate::tools::root;

pub(super) const USAGE: &str = "\
--quick              fewer sizes: a few minutes
--only tiles,open    these patterns only; also overlap, memory
--ranks 2,4          these numbers of ranks
--rounds 3           number of rounds; 0 only verifies
--preload            adds the peers' program on the interposition library
--csv PATH           file for the figures (target/peers/peers.csv)";

/// What is measured.
#[derive(Debug, PartialEq)]
pub(super) struct Options {
    pub(super) sizes: Vec<u64>,
    pub(super) ranks: Vec<usize>,
    pub(super) rounds: usize,
    /// Empty: all patterns.
    pub(super) only: Vec<String>,
    pub(super) csv: PathBuf,
    /// Whether the interposition library is a candidate.
    pub(super) preload: bool,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            sizes: vec![64 << 10, 1 << 20, 16 << 20, 64 << 20],
            ranks: vec![2, 4],
            rounds: 3,
            only: Vec::new(),
            csv: root().join("target/peers/peers.csv"),
            preload: false,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match *word {
                "--quick" => options.sizes = vec![64 << 10, 4 << 20],
                "--preload" => options.preload = true,
                "--rounds" => options.rounds = value()?.parse().context("--rounds needs a number")?,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--ranks" => {
                    let counts = value()?.split(',').map(str::parse::<usize>);
                    options.ranks =
                        counts.collect::<Result<_, _>>().context("--ranks needs numbers, for example 2,4")?;
                }
                "--csv" => options.csv = PathBuf::from(value()?),
                _ => bail!("peers has no option {word}; `peers --help` lists them"),
            }
        }
        let known = |name: &String| PATTERNS.iter().any(|pattern| pattern.name == name);
        if let Some(unknown) =
            options.only.iter().find(|name| !known(name) && *name != "overlap" && *name != "memory")
        {
            let names: Vec<&str> = PATTERNS.iter().map(|pattern| pattern.name).collect();
            bail!("there is no pattern {unknown}; the patterns are {}, overlap, memory", names.join(", "));
        }
        ensure!(options.ranks.iter().all(|ranks| *ranks > 0), "--ranks needs one rank or more");
        Ok(options)
    }

    pub(super) fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// The patterns to be measured; always contiguous, with which others are compared.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &'static PatternSpec> {
        let any = PATTERNS.iter().any(|pattern| self.wants(pattern.name));
        PATTERNS.iter().filter(move |pattern| self.wants(pattern.name) || any && pattern.name == "contiguous")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed() {
        let options =
            Options::parse(&["--quick", "--only", "tiles,blocks", "--ranks", "3", "--csv", "x.csv"]).unwrap();
        assert_eq!((options.sizes.len(), options.ranks.as_slice()), (2, &[3][..]));
        assert_eq!(options.csv, PathBuf::from("x.csv"));
        let names: Vec<&str> = options.patterns().map(|pattern| pattern.name).collect();
        assert_eq!(names, ["contiguous", "tiles", "blocks"]);
        assert!(options.wants("tiles") && !options.wants("overlap"));
    }

    #[test]
    fn overlap_alone_measures_no_pattern() {
        assert_eq!(Options::parse(&["--only", "overlap"]).unwrap().patterns().count(), 0);
    }

    #[test]
    fn invalid_options_are_errors() {
        for bad in
            [&["--fast"][..], &["--only"], &["--only", "zigzag"], &["--ranks", "0"], &["--ranks", "two"]]
        {
            assert!(Options::parse(bad).is_err(), "{bad:?}");
        }
    }
}
