//! Tests of plans without ranks.

mod reference_choices;
mod scale;

use std::ops::Range;

use aqueduct_device::Capabilities;

use super::*;
use crate::hints::{Hints, Toggle};
use crate::layout::Layout;

/// One rank on one node.
struct OneRankTopology;

impl RankTopology for OneRankTopology {
    fn ranks(&self) -> usize {
        1
    }

    fn nodes(&self) -> usize {
        1
    }

    fn rank_at(&self, _: usize, place: usize) -> Option<usize> {
        (place == 0).then_some(0)
    }
}

/// Ranks that access so many bytes of a span: its front, and its last byte.
fn plan(direction: TransferDirection, parts: &[(Range<u64>, u64)], hints: &Hints) -> Option<ExchangePlan> {
    let mut all = AccessSummary::NOTHING;
    for (span, bytes) in parts.iter().filter(|(_, bytes)| *bytes > 0) {
        let last = (span.end - span.start - 1) as i64;
        let blocks = [(bytes - 1, 0), (1, last)];
        let layout = Layout::from(crate::layout::Basic::Byte).indexed(blocks).unwrap();
        let pattern = layout.endless(span.start as i64).unwrap();
        all.merge(&AccessSummary::of(&pattern, 0..*bytes));
    }
    let (capabilities, calibration) = (Capabilities::default(), Calibration::default());
    let model = CostModel::new(hints, &capabilities, &calibration);
    let size = AccessSize { span: 1, bytes: 1, runs: 1, new_pages: false };
    let access = AccessFacts::AllRanks { size, summary: &all, topology: &OneRankTopology, cached: None };
    let plan = make_plan(PlanInput { direction, model, access });
    assert_eq!(plan.exchange.is_some(), plan.estimate.strategy == Strategy::TwoPhase);
    plan.exchange
}

#[test]
fn interleaved_ranks_exchange_data_and_contiguous_ones_do_not() {
    let hints = Hints::default();
    let interleaved = [(0..97, 25), (4..100, 25)];
    assert!(plan(TransferDirection::Write, &interleaved, &hints).is_some());
    let dense = [(0..50, 50), (50..100, 50), (0..0, 0)];
    assert_eq!(plan(TransferDirection::Write, &dense, &hints), None);
}

#[test]
fn the_same_bytes_are_read_once() {
    let same = [(0..1000, 1000), (0..1000, 1000)];
    assert!(plan(TransferDirection::Read, &same, &Hints::default()).is_some());
}

#[test]
fn hints_override_estimates_and_an_empty_access_has_no_exchange() {
    let force = |strategy| Hints { strategy: Some(strategy), ..Hints::default() };
    let dense = [(0..50, 50), (50..100, 50)];
    assert!(plan(TransferDirection::Read, &dense, &force(Strategy::TwoPhase)).is_some());
    let interleaved = [(0..97, 25), (4..100, 25)];
    assert_eq!(plan(TransferDirection::Read, &interleaved, &force(Strategy::List)), None);
    assert_eq!(plan(TransferDirection::Read, &[(0..0, 0)], &force(Strategy::TwoPhase)), None);
}

#[test]
fn writes_are_sieved_only_if_a_hint_says_so() {
    let size = AccessSize { span: 1 << 20, bytes: 1 << 18, runs: 1 << 16, new_pages: false };
    let (capabilities, calibration) = (Capabilities::default(), Calibration::default());
    let choose = |hints: &Hints| {
        let model = CostModel::new(hints, &capabilities, &calibration);
        let (direction, access) = (TransferDirection::Write, AccessFacts::OneRank(size));
        make_plan(PlanInput { direction, model, access }).estimate.strategy
    };
    assert_eq!(choose(&Hints::default()), Strategy::List);
    assert_eq!(choose(&Hints { sieve_write: Toggle::Enable, ..Hints::default() }), Strategy::Sieve);
}

#[test]
fn a_few_bytes_of_a_huge_file_are_not_exchanged() {
    let hints = Hints { strategy: Some(Strategy::TwoPhase), ..Hints::default() };
    let far = |far: u64| plan(TransferDirection::Write, &[(0..10, 4), (far..far + 10, 4)], &hints);
    assert_eq!(far(1 << 62), None);
    assert!(far(1 << 20).is_some());
}
