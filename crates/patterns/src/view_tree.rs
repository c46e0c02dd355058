//! Views as trees of datatypes, which the engine and an MPI library build with their own constructors.

use anyhow::Result;
use aqueduct::file::View;
use aqueduct::file::hyperslab::Hyperslab;
use aqueduct::file::layout::{Basic, Layout, Member, Order};

/// A datatype.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatatypeTree {
    /// So many bytes: `MPI_Type_contiguous`.
    Bytes(u64),
    /// A datatype with another extent: `MPI_Type_create_resized`.
    Resized {
        /// The datatype.
        inner: Box<Self>,
        /// Its extent in bytes.
        extent: u64,
    },
    /// A part of an array of bytes in the order of C: `MPI_Type_create_subarray`.
    Subarray {
        /// The shape of the array.
        shape: Vec<u64>,
        /// The first index of the part in each dimension.
        start: Vec<u64>,
        /// The shape of the part.
        part: Vec<u64>,
    },
    /// Members at displacements: `MPI_Type_create_struct`.
    Structure(Vec<TreeMember>),
}

/// A member of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeMember {
    /// How many of the datatype.
    pub count: u64,
    /// The displacement in bytes.
    pub displacement: u64,
    /// The datatype.
    pub datatype: DatatypeTree,
}

/// The view of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewTree {
    /// Where it begins, in bytes.
    pub displacement: u64,
    /// The unit of offsets.
    pub etype: DatatypeTree,
    /// The datatype that is repeated.
    pub file_type: DatatypeTree,
}

impl DatatypeTree {
    /// The same with another extent.
    #[must_use]
    pub fn resized(self, extent: u64) -> Self {
        Self::Resized { inner: Box::new(self), extent }
    }

    /// As a layout of the engine.
    pub fn layout(&self) -> Result<Layout> {
        Ok(match self {
            Self::Bytes(1) => Layout::from(Basic::Byte),
            Self::Bytes(count) => Layout::bytes(*count)?,
            Self::Resized { inner, extent } => inner.layout()?.resized(0, *extent as i64)?,
            Self::Subarray { shape, start, part } => {
                let part = Hyperslab::new(start.clone(), part.clone());
                Layout::from(Basic::Byte).subarray(shape, &part, Order::C)?
            }
            Self::Structure(members) => {
                let member = |member: &TreeMember| -> Result<Member> {
                    let TreeMember { count, displacement, datatype } = member;
                    Ok(Member {
                        count: *count,
                        displacement: *displacement as i64,
                        layout: datatype.layout()?,
                    })
                };
                Layout::structure(members.iter().map(member).collect::<Result<Vec<_>>>()?)?
            }
        })
    }
}

impl ViewTree {
    /// All bytes of the file: the view of a file that was just opened.
    pub fn bytes() -> Self {
        Self { displacement: 0, etype: DatatypeTree::Bytes(1), file_type: DatatypeTree::Bytes(1) }
    }

    /// Pieces in turn over the ranks; offsets count pieces.
    pub fn round_robin(piece: u64, rank: u64, ranks: u64) -> Self {
        let etype = DatatypeTree::Bytes(piece);
        let file_type = etype.clone().resized(piece * ranks);
        Self { displacement: piece * rank, etype, file_type }
    }

    /// True if it is that of a file that was just opened.
    pub fn is_plain(&self) -> bool {
        *self == Self::bytes()
    }

    /// As a view of the engine.
    pub fn view(&self) -> Result<View> {
        if self.is_plain() {
            return Ok(View::default());
        }
        Ok(View::new(self.displacement, &self.etype.layout()?, &self.file_type.layout()?)?)
    }
}
