//! Declarations: the streams of an output, what all ranks agree on, and the part of each rank.

pub(crate) mod array_storage;
pub(crate) mod box_layout;
pub(crate) mod declaration;
pub(crate) mod output_plan;
pub(crate) mod rank_points;
pub(crate) mod rank_share;
pub(crate) mod stream;
pub(crate) mod stream_info;
