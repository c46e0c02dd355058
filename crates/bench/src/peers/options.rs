//! The command line of `peers`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::cases::{FileState, PATTERNS, PatternSpec};
use crate::tools::root;

pub(super) const USAGE: &str = "\
--quick              fewer sizes: a few minutes
--only tiles,open    these patterns only; also lifetime, strategies, repeated, overlap, memory: these parts only
--ranks 2,4          these numbers of ranks
--rounds 3           number of rounds; 0 only verifies
--preload            adds the peers' program on the interposition library
--baseline PROGRAM   compares with the aqueduct-bench of an earlier build instead of with MPI libraries
--csv PATH           file for the figures (target/peers/peers.csv)";

/// The parts of the benchmark: the tables of lifetimes, of strategies and of repeated accesses, overlap and memory.
const PARTS: [&str; 5] = ["lifetime", "strategies", "repeated", "overlap", "memory"];

/// What is measured.
#[derive(Debug, PartialEq)]
pub(super) struct Options {
    pub(super) sizes: Vec<u64>,
    pub(super) ranks: Vec<usize>,
    /// The sizes, numbers of ranks and states of the file in the table of lifetimes.
    pub(super) lifetime_sizes: Vec<u64>,
    pub(super) lifetime_ranks: Vec<usize>,
    pub(super) states: Vec<FileState>,
    pub(super) rounds: usize,
    /// Empty: all patterns.
    pub(super) only: Vec<String>,
    pub(super) csv: PathBuf,
    /// Whether the interposition library is a candidate.
    pub(super) preload: bool,
    /// The program of an earlier build.
    pub(super) baseline: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self {
            sizes: vec![64 << 10, 1 << 20, 16 << 20, 64 << 20],
            ranks: vec![2, 4],
            lifetime_sizes: vec![64 << 10, 1 << 20, 4 << 20, 64 << 20, 256 << 20],
            lifetime_ranks: vec![1, 2, 4, 8],
            states: vec![FileState::New, FileState::Existing, FileState::Holes],
            rounds: 3,
            only: Vec::new(),
            csv: root().join("target/peers/peers.csv"),
            preload: false,
            baseline: None,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match *word {
                "--quick" => {
                    options.sizes = vec![64 << 10, 4 << 20];
                    options.lifetime_sizes = vec![4 << 20];
                    options.lifetime_ranks = vec![2, 4];
                    options.states = vec![FileState::New];
                }
                "--baseline" => options.baseline = Some(PathBuf::from(value()?)),
                "--preload" => options.preload = true,
                "--rounds" => options.rounds = value()?.parse().context("--rounds needs a number")?,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--ranks" => {
                    let counts = value()?.split(',').map(str::parse::<usize>);
                    options.ranks =
                        counts.collect::<Result<_, _>>().context("--ranks needs numbers, for example 2,4")?;
                    options.lifetime_ranks.clone_from(&options.ranks);
                }
                "--csv" => options.csv = PathBuf::from(value()?),
                _ => bail!("peers has no option {word}; `peers --help` lists them"),
            }
        }
        let known = |name: &String| {
            PARTS.contains(&name.as_str()) || PATTERNS.iter().any(|pattern| pattern.name == name)
        };
        if let Some(unknown) = options.only.iter().find(|name| !known(name)) {
            let names: Vec<&str> = PATTERNS.iter().map(|pattern| pattern.name).chain(PARTS).collect();
            bail!("there is no pattern {unknown}; the names are {}", names.join(", "));
        }
        ensure!(options.ranks.iter().all(|ranks| *ranks > 0), "--ranks needs one rank or more");
        Ok(options)
    }

    /// True if a part of the benchmark is to be done: it is named, or none is.
    pub(super) fn wants(&self, part: &str) -> bool {
        let is_part = |only: &String| PARTS.contains(&only.as_str());
        let patterns_only = !self.only.is_empty() && !self.only.iter().any(is_part);
        let of_patterns = part == "lifetime" || part == "repeated";
        self.only.is_empty() || self.only.iter().any(|only| only == part) || patterns_only && of_patterns
    }

    /// The patterns to be measured; always contiguous, with which others are compared.
    pub(super) fn patterns(&self) -> impl Iterator<Item = &'static PatternSpec> {
        let is_part = |only: &&String| PARTS.contains(&only.as_str());
        let all = self.only.iter().filter(|only| !is_part(only)).count() == 0;
        let wants = move |name: &str| all || self.only.iter().any(|only| only == name);
        PATTERNS.iter().filter(move |pattern| wants(pattern.name) || pattern.name == "contiguous")
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
        assert!(options.wants("lifetime") && options.wants("repeated") && !options.wants("overlap"));
    }

    #[test]
    fn parts_are_chosen_by_name() {
        let wanted = |only: &str| {
            let options = Options::parse(&["--only", only]).unwrap();
            PARTS.map(|part| options.wants(part))
        };
        assert_eq!(wanted("overlap"), [false, false, false, true, false]);
        assert_eq!(wanted("lifetime,tiles"), [true, false, false, false, false]);
        assert_eq!(wanted("tiles"), [true, false, true, false, false]);
        assert_eq!(PARTS.map(|part| Options::parse(&[]).unwrap().wants(part)), [true; 5]);
        assert_eq!(Options::parse(&["--only", "lifetime"]).unwrap().patterns().count(), PATTERNS.len());
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
