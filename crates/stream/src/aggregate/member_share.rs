//! The part of one rank of a stream, as it is sent to other ranks.

use crate::declare::declaration::Declaration;
use crate::wire::wire_struct;
use aqueduct_file::hyperslab::Hyperslab;

/// The part of one rank of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberShare {
    /// The block of the global array.
    pub(crate) block: Hyperslab,
    /// The points of the rank, and the number of points of the ranks before it.
    pub(crate) points: Vec<u64>,
    pub(crate) before: u64,
}

wire_struct!(Hyperslab { start, count });
wire_struct!(MemberShare { block, points, before });

impl MemberShare {
    /// The parts of this rank of all streams.
    pub(crate) fn of(declaration: &Declaration) -> Vec<Self> {
        let shares = declaration.shares.iter().zip(&declaration.points);
        shares
            .map(|(share, (points, before))| Self {
                block: share.block.clone(),
                points: points.clone(),
                before: *before,
            })
            .collect()
    }
}
