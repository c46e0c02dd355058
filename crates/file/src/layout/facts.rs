//! What is known about a tree without walking it: computed once, when it is built.

use super::basic::Basic;

/// How data bytes follow one another; each one implies those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MemoryArrangement {
    /// Anyhow.
    Loose,
    /// No element starts below the one before it.
    Sorted,
    /// Every data byte lies above the one before it.
    Ascending,
    /// All bytes are one run.
    Dense,
}

/// The facts about a tree. Offsets count from its first data byte, so that trees can be placed anywhere unchanged.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Data bytes.
    pub(crate) size: u64,
    /// The lowest offset of a data byte; at most 0.
    pub(crate) low: i64,
    /// The offset after the highest data byte.
    pub(crate) high: i64,
    /// Where the last element, in data order, starts.
    pub(crate) last: i64,
    /// Where the last element, in data order, ends.
    pub(crate) tail: i64,
    /// Longest possible runs, in data order.
    pub(crate) runs: u64,
    /// Basic elements.
    pub(crate) elements: u64,
    /// Bytes in `external32`.
    pub(crate) external32: u64,
    /// The kind of all elements, if it is one.
    pub(crate) uniform: Option<Basic>,
    /// The strictest alignment of an element.
    pub(crate) alignment: u64,
    /// How the bytes follow one another.
    pub(crate) arrangement: MemoryArrangement,
    /// Certainly no byte twice.
    pub(crate) disjoint: bool,
    /// Levels, a block being one.
    pub(crate) depth: u32,
    /// Nodes and list entries of the description.
    pub(crate) weight: u64,
}

impl Facts {
    /// `count` values of one kind, one after the other; `None` if that is too large.
    pub(crate) fn block(basic: Basic, count: u64) -> Option<Self> {
        let size = count.checked_mul(basic.size())?;
        let tail = i64::try_from(size).ok()?;
        Some(Self {
            size,
            low: 0,
            high: tail,
            last: tail - basic.size() as i64,
            tail,
            runs: 1,
            elements: count,
            external32: count * basic.external32_size(),
            uniform: Some(basic),
            alignment: basic.alignment(),
            arrangement: MemoryArrangement::Dense,
            disjoint: true,
            depth: 1,
            weight: 1,
        })
    }

    /// The same again, `count` times in all (at least once), each `stride` further; `None` if that is too large.
    ///
    /// `disjoint` is set by the caller, which has the whole tree; here it is true only if the order shows it.
    pub(crate) fn repeat(&self, count: u64, stride: i64) -> Option<Self> {
        let size = self.size.checked_mul(count).filter(|&size| i64::try_from(size).is_ok())?;
        let shift = i64::try_from(i128::from(count - 1) * i128::from(stride)).ok()?;
        let single = count == 1;
        let joins = if self.tail == stride { count - 1 } else { 0 };
        let arrangement = if single { self.arrangement } else { self.arrangement.min(self.meets(stride)) };
        Some(Self {
            size,
            low: self.low.checked_add(shift.min(0))?,
            high: self.high.checked_add(shift.max(0))?,
            last: self.last.checked_add(shift)?,
            tail: self.tail.checked_add(shift)?,
            runs: self.runs * count - joins,
            elements: self.elements * count,
            external32: self.external32 * count,
            uniform: self.uniform,
            alignment: self.alignment,
            arrangement,
            disjoint: arrangement >= MemoryArrangement::Ascending || (single && self.disjoint),
            depth: self.depth + 1,
            weight: self.weight + 1,
        })
    }

    /// This, and then `next` at `offset`; `None` if that is too large. `disjoint` as in [`Facts::repeat`].
    pub(crate) fn then(&self, offset: i64, next: &Self) -> Option<Self> {
        let size = self.size + next.size;
        i64::try_from(size).ok()?;
        let arrangement = self.arrangement.min(next.arrangement).min(self.meets(offset));
        Some(Self {
            size,
            low: self.low.min(offset.checked_add(next.low)?),
            high: self.high.max(offset.checked_add(next.high)?),
            last: offset.checked_add(next.last)?,
            tail: offset.checked_add(next.tail)?,
            runs: self.runs + next.runs - u64::from(self.tail == offset),
            elements: self.elements + next.elements,
            external32: self.external32 + next.external32,
            uniform: self.uniform.filter(|_| self.uniform == next.uniform),
            alignment: self.alignment.max(next.alignment),
            arrangement,
            disjoint: arrangement >= MemoryArrangement::Ascending,
            depth: self.depth.max(next.depth),
            weight: self.weight.saturating_add(next.weight),
        })
    }

    /// How this and something that starts at `offset` follow one another, if both are well arranged themselves.
    fn meets(&self, offset: i64) -> MemoryArrangement {
        match offset {
            _ if offset == self.tail => MemoryArrangement::Dense,
            _ if offset > self.tail => MemoryArrangement::Ascending,
            _ if offset >= self.last => MemoryArrangement::Sorted,
            _ => MemoryArrangement::Loose,
        }
    }

    /// Whether all bytes are one run.
    pub(crate) fn dense(&self) -> bool {
        self.arrangement == MemoryArrangement::Dense
    }

    /// Whether every data byte lies above the one before it.
    pub(crate) fn ascending(&self) -> bool {
        self.arrangement >= MemoryArrangement::Ascending
    }

    /// Whether no element starts below the one before it.
    pub(crate) fn sorted(&self) -> bool {
        self.arrangement >= MemoryArrangement::Sorted
    }
}
