//! A cell of the table: what is done, by whom together, in which direction, how much, through the page cache or not.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

use crate::pattern::AccessPattern;

#[derive(Clone)]
/// What one line of output is about; as text `tiles:collective:write:1048576:cached`.
pub(crate) struct BenchCase {
    text: String,
    pub(crate) pattern: AccessPattern,
    pub(crate) collective: bool,
    pub(crate) read: bool,
    /// Bytes of each rank: a power of two, at least 4 KiB.
    pub(crate) bytes: u64,
    pub(crate) direct: bool,
}

impl BenchCase {
    /// What cells of different sizes have in common.
    pub(crate) fn family(&self) -> (AccessPattern, bool, bool, bool) {
        (self.pattern, self.collective, self.read, self.direct)
    }

    /// The cell that puts there what this one reads.
    pub(crate) fn written(&self) -> Self {
        Self { read: false, ..self.clone() }
    }
}

impl FromStr for BenchCase {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(':').collect();
        let [pattern, coordination, direction, bytes, cache] = words[..] else {
            bail!("{text}: a cell is pattern:coordination:direction:bytes:cache");
        };
        let one_of = |word: &str, no: &str, yes: &str| {
            ensure!(word == no || word == yes, "{text}: {word} is neither {no} nor {yes}");
            Ok(word == yes)
        };
        let bytes: u64 = bytes.parse().with_context(|| format!("{text}: {bytes} is no number of bytes"))?;
        ensure!(
            bytes.is_power_of_two() && bytes >= 4096,
            "{text}: bytes have to be a power of two, 4096 or more"
        );
        Ok(Self {
            text: text.to_owned(),
            pattern: pattern.parse()?,
            collective: one_of(coordination, "independent", "collective")?,
            read: one_of(direction, "write", "read")?,
            bytes,
            direct: one_of(cache, "cached", "direct")?,
        })
    }
}

impl fmt::Display for BenchCase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_five_words() {
        let cell: BenchCase = "round-robin-64:collective:read:65536:direct".parse().unwrap();
        assert_eq!(cell.pattern, AccessPattern::RoundRobin { piece: 64 });
        assert!(cell.collective && cell.read && cell.direct);
        assert_eq!(
            (cell.bytes, cell.to_string().as_str()),
            (65536, "round-robin-64:collective:read:65536:direct")
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            "tiles",
            "zigzag:collective:read:65536:cached",
            "tiles:alone:read:65536:cached",
            "tiles:collective:read:65537:cached",
            "tiles:collective:read:1024:cached",
            "tiles:collective:read:many:cached",
        ] {
            assert!(bad.parse::<BenchCase>().is_err(), "{bad}");
        }
    }
}
