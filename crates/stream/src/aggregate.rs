//! Aggregation: one rank, or a server, writes for a group of ranks.

mod box_order;
mod gather_plan;
mod group;
mod leader_gather;
mod leaders;
mod member_share;

pub(crate) use self::gather_plan::GatherPlan;
pub(crate) use self::group::AggregationGroup;
pub(crate) use self::leaders::{LeaderOptions, LeaderTarget, PORTION};
pub(crate) use self::member_share::MemberShare;
