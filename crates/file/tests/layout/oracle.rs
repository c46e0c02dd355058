//! The oracle: type maps as the standard defines them, entry by entry, with its two marker types.

use aqueduct_file::layout::{Basic, Distributed, Distribution, Order};

use crate::spec::Spec;

/// More entries than this are not worth the time.
const CAP: usize = 6000;

/// A type map: the entries in data order, and where the markers are.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeMap {
    pub(crate) entries: Vec<(i64, Basic)>,
    lower_marks: Vec<i64>,
    upper_marks: Vec<i64>,
}

impl TypeMap {
    /// The type map of a specification; `None` if it is too long to be looked at.
    pub(crate) fn of(spec: &Spec) -> Option<Self> {
        let mut map = Self::default();
        match spec {
            Spec::Basic(basic) => map.entries.push((0, *basic)),
            Spec::Contiguous(count, old) => {
                let old = Self::of(old)?;
                (0..*count as i64).try_for_each(|i| map.place(&old, i * old.extent()))?;
            }
            Spec::Vector(vector, old) | Spec::Hvector(vector, old) => {
                let bytes = matches!(spec, Spec::Hvector(..));
                let old = Self::of(old)?;
                for i in 0..vector.count as i64 {
                    let start = i * vector.stride * if bytes { 1 } else { old.extent() };
                    (0..vector.block as i64).try_for_each(|j| map.place(&old, start + j * old.extent()))?;
                }
            }
            Spec::Indexed(blocks, old) | Spec::Hindexed(blocks, old) => {
                let bytes = matches!(spec, Spec::Hindexed(..));
                let old = Self::of(old)?;
                for &(length, displacement) in blocks {
                    let start = displacement * if bytes { 1 } else { old.extent() };
                    (0..length as i64).try_for_each(|j| map.place(&old, start + j * old.extent()))?;
                }
            }
            Spec::IndexedBlock(length, displacements, old) => {
                let blocks = displacements.iter().map(|&at| (*length, at)).collect();
                map = Self::of(&Spec::Indexed(blocks, old.clone()))?;
            }
            Spec::HindexedBlock(length, displacements, old) => {
                let blocks = displacements.iter().map(|&at| (*length, at)).collect();
                map = Self::of(&Spec::Hindexed(blocks, old.clone()))?;
            }
            Spec::Structure(members) => {
                for (count, displacement, old) in members {
                    let old = Self::of(old)?;
                    (0..*count as i64).try_for_each(|j| map.place(&old, displacement + j * old.extent()))?;
                }
            }
            Spec::Subarray(shape, part, order, old) => {
                let inside = |index: &[u64]| part.ranges().zip(index).all(|(range, at)| range.contains(at));
                map = Self::picked(&Self::of(old)?, shape, *order, inside)?;
            }
            Spec::Darray(rank, dimensions, order, old) => {
                let mine = |index: &[u64]| owner(index, dimensions) == *rank;
                let sizes: Vec<_> = dimensions.iter().map(|d| d.size).collect();
                map = Self::picked(&Self::of(old)?, &sizes, *order, mine)?;
            }
            Spec::Resized(lower, extent, old) => {
                map.entries = Self::of(old)?.entries;
                map.lower_marks = vec![*lower];
                map.upper_marks = vec![lower + extent];
            }
            Spec::Dup(old) => map = Self::of(old)?,
        }
        Some(map)
    }

    /// Adds the entries of another map, displaced.
    fn place(&mut self, old: &Self, displacement: i64) -> Option<()> {
        self.entries.extend(old.entries.iter().map(|&(at, basic)| (at + displacement, basic)));
        self.lower_marks.extend(old.lower_marks.iter().map(|at| at + displacement));
        self.upper_marks.extend(old.upper_marks.iter().map(|at| at + displacement));
        (self.entries.len() <= CAP && self.lower_marks.len() <= CAP).then_some(())
    }

    /// The elements of an array for which the predicate holds, in the order of memory, with the bounds of the array.
    fn picked(old: &Self, sizes: &[u64], order: Order, keep: impl Fn(&[u64]) -> bool) -> Option<Self> {
        let data = Self { entries: old.entries.clone(), ..Self::default() };
        let mut map = Self::default();
        let total: u64 = sizes.iter().product();
        for linear in 0..total {
            if keep(&index(linear, sizes, order)) {
                map.place(&data, linear as i64 * old.extent())?;
            }
        }
        map.lower_marks = vec![0];
        map.upper_marks = vec![total as i64 * old.extent()];
        Some(map)
    }

    pub(crate) fn lower(&self) -> i64 {
        let data = self.entries.iter().map(|&(at, _)| at).min();
        self.lower_marks.iter().copied().min().or(data).unwrap_or(0)
    }

    pub(crate) fn upper(&self) -> i64 {
        if let Some(&mark) = self.upper_marks.iter().max() {
            return mark;
        }
        let alignment = self.entries.iter().map(|(_, basic)| basic.alignment() as i64).max().unwrap_or(1);
        let mut upper = self.true_upper();
        while (upper - self.lower()) % alignment != 0 {
            upper += 1;
        }
        upper
    }

    pub(crate) fn extent(&self) -> i64 {
        self.upper() - self.lower()
    }

    pub(crate) fn true_lower(&self) -> i64 {
        self.entries.iter().map(|&(at, _)| at).min().unwrap_or(0)
    }

    pub(crate) fn true_upper(&self) -> i64 {
        self.entries.iter().map(|&(at, basic)| at + basic.size() as i64).max().unwrap_or(0)
    }

    /// The map of `count` copies side by side, from `displacement` on.
    pub(crate) fn tiled(&self, count: u64, displacement: i64) -> Self {
        let tile =
            |i: i64| self.entries.iter().map(move |&(at, b)| (at + displacement + i * self.extent(), b));
        Self { entries: (0..count as i64).flat_map(tile).collect(), ..Self::default() }
    }

    /// The offset of every data byte.
    pub(crate) fn bytes(&self) -> Vec<i64> {
        self.entries.iter().flat_map(|&(at, basic)| at..at + basic.size() as i64).collect()
    }
}

/// The index of an element, dimension by dimension, from its place in memory.
fn index(linear: u64, sizes: &[u64], order: Order) -> Vec<u64> {
    let mut left = linear;
    let mut index = vec![0; sizes.len()];
    let fastest_first: Vec<usize> = match order {
        Order::C => (0..sizes.len()).rev().collect(),
        Order::Fortran => (0..sizes.len()).collect(),
    };
    for dimension in fastest_first {
        index[dimension] = left % sizes[dimension];
        left /= sizes[dimension];
    }
    index
}

/// The rank that has an element: High Performance Fortran's rules, the grid numbered row by row.
pub(crate) fn owner(index: &[u64], dimensions: &[Distributed]) -> u64 {
    index.iter().zip(dimensions).fold(0, |rank, (&i, dimension)| {
        let &Distributed { size, distribution, processes } = dimension;
        let coordinate = match distribution {
            Distribution::Whole => 0,
            Distribution::Block => i / size.div_ceil(processes),
            Distribution::BlockOf(block) => i / block,
            Distribution::Cyclic => i % processes,
            Distribution::CyclicOf(block) => i / block % processes,
        };
        rank * processes + coordinate
    })
}
