//! What one rank has of a stream, as numbers that travel.

use serde::{Deserialize, Serialize};

use crate::declare::cuboid::Cuboid;
use crate::declare::declaration::Declaration;

/// What one rank has of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemberShare {
    /// Of the global array.
    pub(crate) block: Cuboid,
    /// Its points, and how many those of the ranks before it are.
    pub(crate) points: Vec<u64>,
    pub(crate) before: u64,
}

impl MemberShare {
    /// This rank's share of all streams.
    pub(crate) fn of(declared: &Declaration) -> Vec<Self> {
        let shares = declared.shares.iter().zip(&declared.points);
        let share =
            |(piece, (points, before)): (&crate::declare::rank_share::RankShare, &(Vec<u64>, u64))| Self {
                block: piece.block.clone(),
                points: points.clone(),
                before: *before,
            };
        shares.map(share).collect()
    }

    /// For a message.
    pub(crate) fn encode(shares: &[Self]) -> Vec<u8> {
        serde_json::to_vec(shares).expect("lists of numbers are JSON")
    }

    /// What a message holds, if it holds shares.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<Self>> {
        serde_json::from_slice(bytes).ok()
    }
}
