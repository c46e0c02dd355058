//! The cells of the table: which patterns there are, and in which ways each is done.

use std::fmt;

/// Whether ranks access alone or together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Coordination {
    Independent,
    Collective,
}

/// Whether data goes to the file or comes from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CaseDirection {
    Write,
    Read,
}

/// Whether the page cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum CacheMode {
    Cached,
    Direct,
}

/// A pattern and the ways it is done.
#[derive(Debug)]
pub(super) struct PatternSpec {
    pub(super) name: &'static str,
    pub(super) coordinations: &'static [Coordination],
    pub(super) directions: &'static [CaseDirection],
    pub(super) caches: &'static [CacheMode],
    /// The largest size per rank that tells anything.
    pub(super) largest: u64,
}

use CacheMode::{Cached, Direct};
use CaseDirection::{Read, Write};
use Coordination::{Collective, Independent};

const BOTH: &[Coordination] = &[Independent, Collective];
const WAYS: &[CaseDirection] = &[Write, Read];
const LARGEST: u64 = 64 << 20;

/// Contiguous first: the others are compared with it.
pub(super) const PATTERNS: [PatternSpec; 14] = [
    transfer("contiguous", &[Cached, Direct]),
    transfer("round-robin-4", &[Cached]),
    transfer("round-robin-64", &[Cached]),
    transfer("round-robin-4096", &[Cached, Direct]),
    transfer("tiles", &[Cached]),
    transfer("page-tiles", &[Direct]),
    transfer("blocks", &[Cached]),
    transfer("nested", &[Cached]),
    calls("explicit-64", &[Independent], 1 << 20),
    calls("shared", &[Independent], 16 << 20),
    calls("ordered", &[Collective], 1 << 20),
    transfer("atomic", &[Cached]),
    PatternSpec {
        name: "open",
        coordinations: &[Collective],
        directions: &[Write],
        caches: &[Cached],
        largest: OPEN_SIZE,
    },
    PatternSpec {
        name: "objects",
        coordinations: &[Collective],
        directions: WAYS,
        caches: &[Cached],
        largest: LARGEST,
    },
];

/// Opening has no size; this one stands for it.
pub(super) const OPEN_SIZE: u64 = 4096;

const fn transfer(name: &'static str, caches: &'static [CacheMode]) -> PatternSpec {
    PatternSpec { name, coordinations: BOTH, directions: WAYS, caches, largest: LARGEST }
}

/// A pattern of many small calls: their number is no matter beyond a point.
const fn calls(name: &'static str, coordinations: &'static [Coordination], largest: u64) -> PatternSpec {
    PatternSpec { name, coordinations, directions: WAYS, caches: &[Cached], largest }
}

/// What is done: cells of one family differ in size only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CaseFamily {
    pub(super) pattern: &'static str,
    pub(super) cache: CacheMode,
    pub(super) coordination: Coordination,
    pub(super) direction: CaseDirection,
}

/// A family at a size per rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ComparisonCase {
    pub(super) family: CaseFamily,
    pub(super) bytes: u64,
}

impl CaseFamily {
    /// Whether the other differs in direction at most: what cannot be written can hardly be read.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        Self { direction: other.direction, ..*self } == *other
    }
}

impl PatternSpec {
    /// All cells of these sizes, those of a family in ascending order.
    pub(super) fn cases(&'static self, sizes: &[u64]) -> Vec<ComparisonCase> {
        let mut cells = Vec::new();
        for &cache in self.caches {
            for &coordination in self.coordinations {
                for &direction in self.directions {
                    let family = CaseFamily { pattern: self.name, cache, coordination, direction };
                    cells.extend(self.sizes(sizes).into_iter().map(|bytes| ComparisonCase { family, bytes }));
                }
            }
        }
        cells
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
        let Self { pattern, coordination, direction, cache } = self;
        let coordination = match coordination {
            Independent => "independent",
            Collective => "collective",
        };
        let direction = match direction {
            Write => "write",
            Read => "read",
        };
        let cache = match cache {
            Cached => "cached",
            Direct => "direct",
        };
        write!(f, "{pattern}:{coordination}:{direction}:{cache}")
    }
}

impl fmt::Display for ComparisonCase {
    /// As the programs take it: the size goes before the cache.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.family.to_string();
        let (front, cache) = family.rsplit_once(':').unwrap_or((&family, ""));
        write!(f, "{front}:{}:{cache}", self.bytes)
    }
}

/// A size as people write it.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_come_by_family_in_ascending_order() {
        let cells = PATTERNS[0].cases(&[65536, 1 << 20]);
        assert_eq!(cells.len(), 2 * 2 * 2 * 2);
        assert_eq!(cells[0].to_string(), "contiguous:independent:write:65536:cached");
        assert_eq!(cells[1].to_string(), "contiguous:independent:write:1048576:cached");
        assert_eq!(cells[15].to_string(), "contiguous:collective:read:1048576:direct");
    }

    #[test]
    fn small_calls_are_not_repeated_for_ever_and_opening_has_one_size() {
        let named = |name| PATTERNS.iter().find(|pattern| pattern.name == name).unwrap();
        assert_eq!(named("explicit-64").cases(&[65536, 1 << 20, 64 << 20]).len(), 4);
        assert_eq!(named("open").cases(&[65536, 1 << 20]).len(), 1);
    }
}
