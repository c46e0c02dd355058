//! The cases of the comparison: the access patterns, and for each its coordination, directions, sizes and cache modes.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Error, Result, bail, ensure};

use crate::access_pattern::AccessPattern;

/// Whether an access is independent or collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coordination {
    /// By one rank.
    Independent,
    /// By all ranks.
    Collective,
}

/// Whether data is written or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseDirection {
    /// Data is written.
    Write,
    /// Data is read.
    Read,
}

/// The state of the file, and how it is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileState {
    /// It exists and is overwritten through the page cache.
    Cached,
    /// It exists and is overwritten with `O_DIRECT`.
    Direct,
    /// Its lifetime is measured; it does not exist before.
    New,
    /// Its lifetime is measured; it exists before, with all its bytes in the page cache.
    Existing,
    /// Its lifetime is measured; it has its length before, and no data.
    Holes,
}

impl FileState {
    const NAMES: [(Self, &'static str); 5] = [
        (Self::Cached, "cached"),
        (Self::Direct, "direct"),
        (Self::New, "new"),
        (Self::Existing, "existing"),
        (Self::Holes, "holes"),
    ];

    /// Its name in texts.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(state, _)| *state == self).map_or("", |(_, name)| name)
    }
}

/// An access pattern and the cases in which it is measured.
#[derive(Debug)]
pub struct PatternSpec {
    /// Its name in texts.
    pub name: &'static str,
    /// The accesses.
    pub access: AccessPattern,
    /// How it is coordinated.
    pub coordinations: &'static [Coordination],
    /// Whether it is written, read, or both.
    pub directions: &'static [CaseDirection],
    /// The states of the file.
    pub states: &'static [FileState],
    /// The largest size per rank; larger ones add no information.
    pub largest: u64,
}

use CaseDirection::{Read, Write};
use Coordination::{Collective, Independent};
use FileState::{Cached, Direct};

const BOTH: &[Coordination] = &[Independent, Collective];
const DIRECTIONS: &[CaseDirection] = &[Write, Read];
const LARGEST: u64 = 64 << 20;
/// The largest size of a lifetime, for patterns of any size.
const LARGEST_OF_LIFETIME: u64 = 256 << 20;

/// Contiguous is the first: the others are compared with it.
pub const PATTERNS: [PatternSpec; 20] = [
    transfer("contiguous", AccessPattern::Contiguous, &[Cached, Direct]),
    transfer("round-robin-4", AccessPattern::RoundRobin { piece: 4 }, &[Cached]),
    transfer("round-robin-64", AccessPattern::RoundRobin { piece: 64 }, &[Cached]),
    transfer("round-robin-4096", AccessPattern::RoundRobin { piece: 4096 }, &[Cached, Direct]),
    transfer("tiles", AccessPattern::Tiles { row: 1024 }, &[Cached]),
    transfer("page-tiles", AccessPattern::Tiles { row: 4096 }, &[Direct]),
    transfer("blocks", AccessPattern::Blocks, &[Cached]),
    transfer("nested", AccessPattern::Nested, &[Cached]),
    calls("explicit-64", AccessPattern::Explicit { piece: 64 }, &[Independent], 1 << 20),
    calls("explicit-4096", AccessPattern::Explicit { piece: 4096 }, BOTH, 4 << 20),
    calls("explicit-65536", AccessPattern::Explicit { piece: 65536 }, BOTH, 64 << 20),
    calls("explicit-1048576", AccessPattern::Explicit { piece: 1 << 20 }, BOTH, 64 << 20),
    own_files("own-4096", 4096, 4 << 20),
    own_files("own-65536", 65536, 64 << 20),
    own_files("own-1048576", 1 << 20, 64 << 20),
    calls("shared", AccessPattern::Shared, &[Independent], 16 << 20),
    calls("ordered", AccessPattern::Ordered, &[Collective], 1 << 20),
    transfer("atomic", AccessPattern::Atomic, &[Cached]),
    PatternSpec {
        name: "open",
        access: AccessPattern::Open,
        coordinations: &[Collective],
        directions: &[Write],
        states: &[Cached],
        largest: OPEN_SIZE,
    },
    calls("objects", AccessPattern::Objects, &[Collective], LARGEST),
];

/// The size in the cases of `open`, which transfers no data.
pub const OPEN_SIZE: u64 = 4096;

const fn transfer(name: &'static str, access: AccessPattern, states: &'static [FileState]) -> PatternSpec {
    PatternSpec { name, access, coordinations: BOTH, directions: DIRECTIONS, states, largest: LARGEST }
}

const fn calls(
    name: &'static str,
    access: AccessPattern,
    coordinations: &'static [Coordination],
    largest: u64,
) -> PatternSpec {
    PatternSpec { name, access, coordinations, directions: DIRECTIONS, states: &[Cached], largest }
}

/// Files of their own are measured by their lifetime only.
const fn own_files(name: &'static str, piece: usize, largest: u64) -> PatternSpec {
    let access = AccessPattern::OwnFiles { piece };
    PatternSpec { name, access, coordinations: &[Independent], directions: DIRECTIONS, states: &[], largest }
}

/// Everything but the size: cases of one family differ only in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CaseFamily {
    /// The name of the pattern.
    pub pattern: &'static str,
    /// The state of the file.
    pub state: FileState,
    /// Whether it is collective.
    pub coordination: Coordination,
    /// Whether it writes or reads.
    pub direction: CaseDirection,
}

/// A family and a size per rank; as text `tiles:collective:write:1048576:cached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BenchCase {
    /// Everything but the size.
    pub family: CaseFamily,
    /// Bytes of each rank: a power of two, at least 4 KiB.
    pub bytes: u64,
}

impl BenchCase {
    /// The accesses of the pattern.
    pub fn access(&self) -> AccessPattern {
        let spec = PATTERNS.iter().find(|spec| spec.name == self.family.pattern);
        spec.unwrap_or(&PATTERNS[0]).access
    }

    /// True if all ranks access the file together.
    pub fn is_collective(&self) -> bool {
        self.family.coordination == Collective
    }

    /// True if data is read.
    pub fn is_read(&self) -> bool {
        self.family.direction == Read
    }

    /// True if the page cache is passed by.
    pub fn is_direct(&self) -> bool {
        self.family.state == Direct
    }

    /// The case that writes what this one reads.
    #[must_use]
    pub fn as_write(&self) -> Self {
        Self { family: CaseFamily { direction: Write, ..self.family }, ..*self }
    }

    /// The case that reads what this one writes.
    #[must_use]
    pub fn as_read(&self) -> Self {
        Self { family: CaseFamily { direction: Read, ..self.family }, ..*self }
    }
}

impl CaseFamily {
    /// Whether the other differs at most in direction: data that cannot be written cannot be read back.
    pub fn is_like(&self, other: &Self) -> bool {
        Self { direction: other.direction, ..*self } == *other
    }
}

impl PatternSpec {
    /// All cases of these sizes, those of a family in ascending order of size.
    pub fn cases(&'static self, sizes: &[u64]) -> Vec<BenchCase> {
        let mut cases = Vec::new();
        for &state in self.states {
            for &coordination in self.coordinations {
                for &direction in self.directions {
                    let family = CaseFamily { pattern: self.name, state, coordination, direction };
                    cases.extend(self.sizes(sizes).into_iter().map(|bytes| BenchCase { family, bytes }));
                }
            }
        }
        cases
    }

    /// The cases of lifetimes of a file of this size in this state: each has both directions.
    pub fn lifetimes(&self, bytes: u64, state: FileState) -> Vec<BenchCase> {
        // One access of a new file makes its pages: larger sizes do add information.
        let largest = if self.largest == LARGEST { LARGEST_OF_LIFETIME } else { self.largest };
        let is_measured =
            bytes <= largest && !matches!(self.access, AccessPattern::Open | AccessPattern::Objects);
        let coordinations = self.coordinations.iter().filter(|_| is_measured);
        let family = |coordination| CaseFamily { pattern: self.name, state, coordination, direction: Write };
        coordinations.map(|&coordination| BenchCase { family: family(coordination), bytes }).collect()
    }

    fn sizes(&self, wanted: &[u64]) -> Vec<u64> {
        if self.largest == OPEN_SIZE {
            return vec![OPEN_SIZE];
        }
        wanted.iter().copied().filter(|bytes| *bytes <= self.largest).collect()
    }
}

impl fmt::Display for CaseFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pattern, coordination, direction, state } = self;
        let coordination = match coordination {
            Independent => "independent",
            Collective => "collective",
        };
        let direction = match direction {
            Write => "write",
            Read => "read",
        };
        write!(f, "{pattern}:{coordination}:{direction}:{}", state.name())
    }
}

impl fmt::Display for BenchCase {
    /// As the programs parse it: the size is before the state.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.family.to_string();
        let (front, state) = family.rsplit_once(':').unwrap_or((&family, ""));
        write!(f, "{front}:{}:{state}", self.bytes)
    }
}

impl FromStr for BenchCase {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split(':').collect();
        let [pattern, coordination, direction, bytes, state] = words[..] else {
            bail!("{text}: a case is pattern:coordination:direction:bytes:state");
        };
        let spec = PATTERNS.iter().find(|spec| spec.name == pattern);
        let pattern = spec.with_context(|| format!("{text}: there is no pattern {pattern}"))?.name;
        let is_second = |word: &str, first: &str, second: &str| {
            ensure!(word == first || word == second, "{text}: {word} is neither {first} nor {second}");
            Ok(word == second)
        };
        let coordination =
            if is_second(coordination, "independent", "collective")? { Collective } else { Independent };
        let direction = if is_second(direction, "write", "read")? { Read } else { Write };
        let known = FileState::NAMES.iter().find(|(_, name)| *name == state);
        let state = known.with_context(|| format!("{text}: {state} is not a state of a file"))?.0;
        let bytes: u64 =
            bytes.parse().with_context(|| format!("{text}: {bytes} is not a number of bytes"))?;
        ensure!(
            bytes.is_power_of_two() && bytes >= 4096,
            "{text}: the number of bytes must be a power of two, 4096 or more"
        );
        Ok(Self { family: CaseFamily { pattern, state, coordination, direction }, bytes })
    }
}

/// A size with its unit.
pub fn size_with_unit(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_ordered_by_family_and_size() {
        let cases = PATTERNS[0].cases(&[65536, 1 << 20]);
        assert_eq!(cases.len(), 2 * 2 * 2 * 2);
        assert_eq!(cases[0].to_string(), "contiguous:independent:write:65536:cached");
        assert_eq!(cases[1].to_string(), "contiguous:independent:write:1048576:cached");
        assert_eq!(cases[15].to_string(), "contiguous:collective:read:1048576:direct");
    }

    #[test]
    fn small_calls_have_a_largest_size_and_opening_has_one_size() {
        let named = |name| PATTERNS.iter().find(|pattern| pattern.name == name).unwrap();
        assert_eq!(named("explicit-64").cases(&[65536, 1 << 20, 64 << 20]).len(), 4);
        assert_eq!(named("open").cases(&[65536, 1 << 20]).len(), 1);
    }

    #[test]
    fn lifetimes_have_larger_sizes_and_files_of_their_own() {
        let named = |name| PATTERNS.iter().find(|pattern| pattern.name == name).unwrap();
        let count = |name, bytes| named(name).lifetimes(bytes, FileState::New).len();
        assert_eq!((count("tiles", 256 << 20), count("tiles", 512 << 20)), (2, 0));
        assert_eq!((count("shared", 16 << 20), count("shared", 64 << 20)), (1, 0));
        assert_eq!((count("own-4096", 4 << 20), named("own-4096").cases(&[4 << 20]).len()), (1, 0));
        assert_eq!((count("open", 65536), count("objects", 65536)), (0, 0));
    }

    #[test]
    fn every_case_is_parsed_from_its_text() {
        for case in PATTERNS.iter().flat_map(|pattern| pattern.cases(&[65536])) {
            assert_eq!(case.to_string().parse::<BenchCase>().unwrap(), case);
        }
        let case: BenchCase = "round-robin-64:collective:read:65536:direct".parse().unwrap();
        assert_eq!(case.access(), AccessPattern::RoundRobin { piece: 64 });
        assert!(case.is_collective() && case.is_read() && case.is_direct() && !case.as_write().is_read());
    }

    #[test]
    fn invalid_cases_are_errors() {
        for invalid in [
            "tiles",
            "zigzag:collective:read:65536:cached",
            "tiles:alone:read:65536:cached",
            "tiles:collective:read:65537:cached",
            "tiles:collective:read:1024:cached",
            "tiles:collective:read:many:cached",
        ] {
            assert!(invalid.parse::<BenchCase>().is_err(), "{invalid}");
        }
    }
}
