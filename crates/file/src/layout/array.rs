//! Parts of arrays: a box out of an array, and the share of one process of a distributed array.

use super::Layout;
use super::bounds::Bounds;
use super::error::{LayoutError, Problem, Result};
use super::pattern::Pattern;
use super::tree::Tree;
use crate::hyperslab::Hyperslab;

/// Which index of an array runs fastest in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// The last one: row by row.
    #[doc(alias = "MPI_ORDER_C")]
    C,
    /// The first one: column by column.
    #[doc(alias = "MPI_ORDER_FORTRAN")]
    Fortran,
}

/// How one dimension is distributed over processes, as in High Performance Fortran.
///
/// ```text
///            elements  0 1 2 3 4 5 6 7 8 9   on 2 processes
/// Block                a a a a a b b b b b
/// BlockOf(6)           a a a a a a b b b b
/// Cyclic               a b a b a b a b a b
/// CyclicOf(3)          a a a b b b a a a b
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Not at all: the one process of this dimension has all of it.
    #[doc(alias = "MPI_DISTRIBUTE_NONE")]
    Whole,
    /// One block per process, as equal as blocks of one length can be.
    #[doc(alias = "MPI_DISTRIBUTE_BLOCK")]
    #[doc(alias = "MPI_DISTRIBUTE_DFLT_DARG")]
    Block,
    /// One block of this length per process.
    BlockOf(u64),
    /// One element each, round-robin.
    #[doc(alias = "MPI_DISTRIBUTE_CYCLIC")]
    Cyclic,
    /// Blocks of this length, round-robin.
    CyclicOf(u64),
}

/// One dimension of a distributed array: what [`Layout::darray`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Distributed {
    /// Elements of the whole array.
    pub size: u64,
    /// How they are distributed.
    pub distribution: Distribution,
    /// To how many processes.
    pub processes: u64,
}

/// The elements of one dimension that a process has: `count` blocks of `block`, `period` apart, and then a shorter one.
struct DimensionShare {
    first: u64,
    block: u64,
    count: u64,
    period: u64,
    rest: u64,
}

impl Layout {
    /// A hyperslab of an array of this layout; the bounds are those of the whole array.
    ///
    /// ```text
    /// shape 4 × 6, start 1 × 2, count 2 × 3, Order::C
    /// . . . . . .
    /// . . # # # .      the data bytes go along the rows,
    /// . . # # # .      copies side by side are 24 elements apart
    /// . . . . . .
    /// ```
    ///
    /// A hyperslab without elements is allowed (MPI forbids it), so that ranks without data need no
    /// special case. No dimensions mean one element.
    #[doc(alias = "MPI_Type_create_subarray")]
    pub fn subarray(&self, shape: &[u64], part: &Hyperslab, order: Order) -> Result<Self> {
        let dimensions = [shape.len(), part.start.len(), part.count.len()];
        let share = |dimension: usize| {
            let (size, start, subsize) = (shape[dimension], part.start[dimension], part.count[dimension]);
            if start.checked_add(subsize).is_none_or(|end| end > size) {
                return Err(Problem::OutsideArray { dimension, size, start, subsize });
            }
            let share = DimensionShare { first: start, block: subsize, count: 1, period: 0, rest: 0 };
            Ok((size, share))
        };
        let shares = if dimensions == [shape.len(); 3] {
            (0..shape.len()).map(share).collect()
        } else {
            Err(Problem::DimensionMismatch { dimensions })
        };
        self.part("subarray", shares, order)
    }

    /// The share of process `rank` of an array that is distributed over a grid of processes; the bounds are those of the whole array.
    ///
    /// Ranks are numbered along the last dimension of the grid first, whatever the order of the array.
    ///
    /// ```
    /// use aqueduct_file::layout::{Basic, Distributed, Distribution, Layout, Order, Run};
    ///
    /// // 10 elements on 3 processes, blocks of 2, round-robin: process 1 has 2, 3, 8, 9.
    /// let cyclic = Distributed { size: 10, distribution: Distribution::CyclicOf(2), processes: 3 };
    /// let mine = Layout::from(Basic::I32).darray(1, &[cyclic], Order::C)?;
    /// assert!(mine.runs(..).eq([Run { offset: 8, len: 8 }, Run { offset: 32, len: 8 }]));
    /// assert_eq!(mine.extent(), 40);
    /// # Ok::<_, aqueduct_file::layout::LayoutError>(())
    /// ```
    #[doc(alias = "MPI_Type_create_darray")]
    pub fn darray(&self, rank: u64, dimensions: &[Distributed], order: Order) -> Result<Self> {
        let shares = coordinates(rank, dimensions).and_then(|coordinates| {
            let all = dimensions.iter().zip(coordinates).enumerate();
            all.map(|(index, (axis, mine))| Ok((axis.size, axis.share(index, mine)?))).collect()
        });
        self.part("darray", shares, order)
    }

    /// The product of the shares of all dimensions, each given with the size of the whole.
    fn part(
        &self,
        operation: &'static str,
        shares: std::result::Result<Vec<(u64, DimensionShare)>, Problem>,
        order: Order,
    ) -> Result<Self> {
        let build = || {
            let mut shares = shares?;
            if order == Order::C {
                shares.reverse();
            }
            let mut extent = self.extent();
            let mut pattern = self.pattern().clone();
            for (size, share) in shares {
                pattern = share.apply(&pattern, extent)?;
                let whole = i128::from(extent) * i128::from(size);
                extent = i64::try_from(whole).map_err(|_| Problem::TooLarge)?;
            }
            Ok(Self::assemble(pattern, Bounds::marked(0, extent)?))
        };
        build().map_err(|problem| LayoutError::new(operation, problem))
    }
}

impl DimensionShare {
    /// Copies of the pattern at the elements of the share, which are `extent` apart.
    fn apply(&self, pattern: &Pattern, extent: i64) -> std::result::Result<Pattern, Problem> {
        let Some((origin, tree)) = pattern.placed() else {
            return Ok(Pattern::EMPTY);
        };
        let place = |element: u128| {
            let offset = i128::try_from(element).ok().and_then(|n| n.checked_mul(extent.into()));
            offset.and_then(|offset| i64::try_from(offset).ok()).ok_or(Problem::TooLarge)
        };
        let mut parts = Vec::new();
        if self.count > 0 && self.block > 0 {
            let block = Tree::repeat(tree, self.block, extent)?;
            let stride = if self.count > 1 { place(self.period.into())? } else { 0 };
            parts.push((place(self.first.into())?, Tree::repeat(&block, self.count, stride)?));
        }
        if self.rest > 0 {
            let first = u128::from(self.first) + u128::from(self.count) * u128::from(self.period);
            parts.push((place(first)?, Tree::repeat(tree, self.rest, extent)?));
        }
        match Tree::mixed(&parts)? {
            Some((shift, tree)) => Pattern::new(origin.checked_add(shift).ok_or(Problem::TooLarge)?, tree),
            None => Ok(Pattern::EMPTY),
        }
    }
}

impl Distributed {
    /// What process `mine` of this dimension has.
    fn share(&self, dimension: usize, mine: u64) -> std::result::Result<DimensionShare, Problem> {
        let &Self { size, distribution, processes } = self;
        let least = size.div_ceil(processes);
        let one = |first: u64, len: u64| {
            let block = len.min(size.saturating_sub(first));
            DimensionShare { first: first.min(size), block, count: 1, period: 0, rest: 0 }
        };
        match distribution {
            Distribution::Whole if processes > 1 => Err(Problem::NotDistributed { dimension, processes }),
            Distribution::CyclicOf(0) => Err(Problem::BlockTooShort { dimension, block: 0, least: 1 }),
            Distribution::BlockOf(block) if block < least.max(1) => {
                Err(Problem::BlockTooShort { dimension, block, least: least.max(1) })
            }
            Distribution::Whole => Ok(one(0, size)),
            Distribution::Block => Ok(one(mine.saturating_mul(least), least)),
            Distribution::BlockOf(block) => Ok(one(mine.saturating_mul(block), block)),
            // One process has everything.
            Distribution::Cyclic | Distribution::CyclicOf(_) if processes == 1 => Ok(one(0, size)),
            Distribution::Cyclic => Ok(in_turn(size, processes, mine, 1)),
            Distribution::CyclicOf(block) => Ok(in_turn(size, processes, mine, block)),
        }
    }
}

/// The share of process `mine` of blocks in round-robin order.
fn in_turn(size: u64, processes: u64, mine: u64, block: u64) -> DimensionShare {
    let first = mine.saturating_mul(block);
    let period = processes.saturating_mul(block);
    let reach = size.saturating_sub(first);
    // A last block may be cut short by the end of the array.
    let (count, left) = (reach / period, reach % period);
    if left >= block {
        DimensionShare { first, block, count: count + 1, period, rest: 0 }
    } else {
        DimensionShare { first, block, count, period, rest: left }
    }
}

/// The place of the rank in the grid.
fn coordinates(rank: u64, dimensions: &[Distributed]) -> std::result::Result<Vec<u64>, Problem> {
    let mut processes = 1_u64;
    for (dimension, axis) in dimensions.iter().enumerate() {
        if axis.processes == 0 {
            return Err(Problem::NoProcesses { dimension });
        }
        processes = processes.checked_mul(axis.processes).ok_or(Problem::TooLarge)?;
    }
    if rank >= processes {
        return Err(Problem::NoSuchRank { rank, processes });
    }
    let mut left = rank;
    let mut mine: Vec<_> = dimensions
        .iter()
        .rev()
        .map(|axis| {
            let coordinate = left % axis.processes;
            left /= axis.processes;
            coordinate
        })
        .collect();
    mine.reverse();
    Ok(mine)
}
