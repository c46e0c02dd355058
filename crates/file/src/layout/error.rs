//! What can be wrong with a description of bytes, and the way out.

use std::fmt;
use std::ops::Range;

/// The result of describing or walking bytes.
pub type Result<T> = std::result::Result<T, LayoutError>;

/// The reason why a layout is invalid or cannot be used in an operation: which operation, what is wrong, and what to do.
#[derive(Clone, PartialEq, Eq)]
pub struct LayoutError {
    operation: &'static str,
    problem: Problem,
}

/// What is wrong with a layout or its use.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// A size, bound or offset does not fit in 63 bits and a sign.
    TooLarge,
    /// More levels of nesting than [`MAX_DEPTH`].
    TooDeep,
    /// The part lies outside of the array in this dimension.
    OutsideArray {
        /// Which dimension, from 0.
        dimension: usize,
        /// Elements of the array.
        size: u64,
        /// Where the part starts.
        start: u64,
        /// Elements of the part.
        subsize: u64,
    },
    /// The shape of the array, the start and the count of the part differ in their number of
    /// dimensions.
    DimensionMismatch {
        /// The number of dimensions of the shape, the start and the count.
        dimensions: [usize; 3],
    },
    /// The grid of processes has no such rank.
    NoSuchRank {
        /// The rank asked for.
        rank: u64,
        /// The product of the processes of all dimensions.
        processes: u64,
    },
    /// This dimension of the process grid has no processes.
    NoProcesses {
        /// Which dimension, from 0.
        dimension: usize,
    },
    /// A dimension that is not distributed lies over several processes.
    NotDistributed {
        /// Which dimension, from 0.
        dimension: usize,
        /// How many processes it has.
        processes: u64,
    },
    /// Blocks of this length, one per process, do not cover the dimension; or the length is zero.
    BlockTooShort {
        /// Which dimension, from 0.
        dimension: usize,
        /// The length given.
        block: u64,
        /// The least that works.
        least: u64,
    },
    /// The memory does not hold all bytes that would be touched.
    OutsideMemory {
        /// The offsets that would be touched.
        touched: Range<i64>,
        /// Bytes of memory there are.
        memory: usize,
    },
    /// More data bytes were asked for than the pattern has.
    OutsideData {
        /// The data bytes asked for.
        asked: Range<u64>,
        /// Data bytes there are.
        size: u64,
    },
}

/// The most levels a description nests after simplification: far more than programs use, few enough to walk without care for the stack.
pub const MAX_DEPTH: u32 = 512;

impl LayoutError {
    pub(crate) fn new(operation: &'static str, problem: Problem) -> Self {
        Self { operation, problem }
    }

    /// The operation that failed, by the name of its method.
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge => f.write_str(
                "a size or an offset is beyond 2^63 - 1 bytes; check counts and strides, or describe less at once",
            ),
            Self::TooDeep => {
                write!(f, "more than {MAX_DEPTH} levels of nesting; describe the bytes with fewer levels")
            }
            Self::OutsideArray { dimension, size, start, subsize } => write!(
                f,
                "dimension {dimension} has {size} elements, not {subsize} from {start} on; choose start + subsize <= size"
            ),
            Self::DimensionMismatch { dimensions: [shape, start, count] } => write!(
                f,
                "the array has {shape} dimensions, the part has {start} starts and {count} counts; give one of each per dimension"
            ),
            Self::NoSuchRank { rank, processes } => {
                write!(f, "the grid has {processes} processes, no rank {rank}; ranks count from 0")
            }
            Self::NoProcesses { dimension } => {
                write!(f, "dimension {dimension} of the process grid is 0; give each at least 1")
            }
            Self::NotDistributed { dimension, processes } => write!(
                f,
                "dimension {dimension} is not distributed but has {processes} processes; give it 1, or a distribution"
            ),
            Self::BlockTooShort { dimension, block, least } => write!(
                f,
                "blocks of {block} do not work in dimension {dimension}; use at least {least}, or leave the length to the distribution"
            ),
            Self::OutsideMemory { touched, memory } => write!(
                f,
                "touches offsets {} to {} of a memory of {memory} bytes; give all of the memory, or shift the pattern into it",
                touched.start, touched.end
            ),
            Self::OutsideData { asked, size } => write!(
                f,
                "data bytes {} to {} of a pattern that has {size}; ask for fewer, or tile the layout more often",
                asked.start, asked.end
            ),
        }
    }
}

impl fmt::Debug for LayoutError {
    /// The text of `Display`: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LayoutError {}
