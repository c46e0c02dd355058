//! Trees: data bytes in order, described by repetition instead of by enumeration.
//!
//! A tree knows nothing of bounds; its first data byte is at offset 0. So a child never needs a displacement of its own, equal parts
//! look equal wherever they lie, and a resized layout shares its tree with the original. Every inner node has
//! at least two parts, none of them empty: walking costs a constant per run on average.

mod build;
mod overlap;
mod seek;

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::basic::Basic;
use super::error::{MAX_DEPTH, Problem};
use super::facts::Facts;

/// Data bytes in order, the first of them at offset 0.
#[derive(Clone)]
pub(crate) struct Tree {
    pub(crate) kind: Kind,
    pub(crate) facts: Facts,
    /// A hash of the description, so that comparing and hashing rarely look at all of it.
    pub(crate) fingerprint: u64,
}

/// How a tree is made of smaller ones.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Values of one kind, one after the other.
    Block { basic: Basic, count: u64 },
    /// The child at 0, `stride`, twice `stride` …
    Repeat { child: Arc<Tree>, count: u64, stride: i64 },
    /// The child at each offset.
    Listed { child: Arc<Tree>, offsets: Box<[i64]> },
    /// Blocks of different length: block `i` has the children `firsts[i]..firsts[i + 1]`, from `offsets[i]` on, `step` apart.
    Ragged { child: Arc<Tree>, step: i64, offsets: Box<[i64]>, firsts: Box<[u64]> },
    /// Different trees; `flat` if each of them is one run.
    Mixed { parts: Box<[TreePart]>, flat: bool },
}

/// A part of [`Kind::Mixed`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct TreePart {
    /// Where it lies.
    pub(crate) offset: i64,
    /// Data bytes before it.
    pub(crate) start: u64,
    /// Elements before it.
    pub(crate) first: u64,
    /// What lies there.
    pub(crate) tree: Arc<Tree>,
}

impl Tree {
    /// A tree of this kind with these facts, unless it is too deep.
    fn new(kind: Kind, facts: Facts) -> Result<Arc<Self>, Problem> {
        if facts.depth > MAX_DEPTH {
            return Err(Problem::TooDeep);
        }
        let mut hasher = DefaultHasher::new();
        kind.hash(&mut hasher);
        Ok(Arc::new(Self { kind, facts, fingerprint: hasher.finish() }))
    }

    /// Data bytes.
    pub(crate) fn size(&self) -> u64 {
        self.facts.size
    }
}

impl PartialEq for Tree {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint && self.kind == other.kind
    }
}

impl Eq for Tree {}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fingerprint.hash(state);
    }
}

/// How many parts of a list, and how many levels, are shown.
const SHOWN: usize = 4;

impl fmt::Display for Tree {
    /// Short whatever the size: long lists and deep nests are cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show(f, SHOWN)
    }
}

impl Tree {
    fn show(&self, f: &mut fmt::Formatter<'_>, levels: usize) -> fmt::Result {
        if levels == 0 {
            return f.write_str("…");
        }
        let list = |f: &mut fmt::Formatter<'_>, offsets: &[i64]| {
            let shown: Vec<_> = offsets.iter().take(SHOWN).map(i64::to_string).collect();
            write!(f, "@[{}", shown.join(", "))?;
            f.write_str(if offsets.len() > SHOWN { ", …]" } else { "]" })
        };
        match &self.kind {
            Kind::Block { basic, count: 1 } => write!(f, "{basic}"),
            Kind::Block { basic, count } => write!(f, "{count}*{basic}"),
            Kind::Repeat { child, count, stride } => {
                write!(f, "{count}*(")?;
                child.show(f, levels - 1)?;
                write!(f, ")/{stride}")
            }
            Kind::Listed { child, offsets } => {
                write!(f, "{}*(", offsets.len())?;
                child.show(f, levels - 1)?;
                f.write_str(")")?;
                list(f, offsets)
            }
            Kind::Ragged { child, step, offsets, firsts } => {
                write!(f, "{}*(", firsts.last().unwrap_or(&0))?;
                child.show(f, levels - 1)?;
                write!(f, ")/{step}")?;
                list(f, offsets)
            }
            Kind::Mixed { parts, .. } => {
                f.write_str("{")?;
                for (index, part) in parts.iter().take(SHOWN).enumerate() {
                    write!(f, "{}{}: ", if index > 0 { ", " } else { "" }, part.offset)?;
                    part.tree.show(f, levels - 1)?;
                }
                f.write_str(if parts.len() > SHOWN { ", …}" } else { "}" })
            }
        }
    }
}
