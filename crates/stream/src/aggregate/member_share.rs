//! The part of one rank of a stream, as it is sent to other ranks.

use crate::declare::declaration::Declaration;
use crate::declare::rank_points::RankPoints;
use crate::wire::wire_struct;
use aqueduct_file::hyperslab::Hyperslab;

/// The part of one rank of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberShare {
    /// The block of the global array.
    pub(crate) block: Hyperslab,
    pub(crate) points: RankPoints,
}

wire_struct!(Hyperslab { start, count });
wire_struct!(RankPoints { points, before, numbers });
wire_struct!(MemberShare { block, points });

impl MemberShare {
    /// The parts of this rank of all streams.
    pub(crate) fn of(declaration: &Declaration) -> Vec<Self> {
        let shares = declaration.shares.iter().zip(&declaration.points);
        shares.map(|(share, points)| Self { block: share.block.clone(), points: points.clone() }).collect()
    }
}
