//! Ratios of the results, and whether they reach their targets.

use super::results::{ComparisonResults, OperationRate};
use super::target::{SpeedTarget, is_comparable, speed_target};
use crate::cases::{BenchCase, CaseFamily};
use crate::timing::median;

/// The ratios of one of ours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpeedRatios {
    /// To the best comparable peer, medians.
    pub(super) peer: Option<f64>,
    /// To the best comparable peer, best times.
    pub(super) peer_best: Option<f64>,
    /// To our own contiguous bandwidth, medians.
    pub(super) contiguous: Option<f64>,
}

/// Whether a target is met; unknown without a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetStatus {
    Met,
    Missed,
    Unknown,
}

impl SpeedRatios {
    /// One of the two ratios is enough.
    pub(super) fn status(&self, target: &SpeedTarget) -> TargetStatus {
        let peer = self.peer.map(|ratio| ratio >= target.peer);
        let contiguous = target.contiguous.and_then(|least| Some(self.contiguous? >= least));
        match (peer, contiguous) {
            (Some(true), _) | (_, Some(true)) => TargetStatus::Met,
            (None, _) => TargetStatus::Unknown,
            _ => TargetStatus::Missed,
        }
    }
}

/// A line of the table.
pub(super) struct ComparisonRow {
    pub(super) ranks: usize,
    pub(super) case: BenchCase,
    pub(super) ours: Vec<(&'static str, Option<OperationRate>, SpeedRatios)>,
    pub(super) peers: Vec<(&'static str, Option<OperationRate>)>,
    pub(super) target: SpeedTarget,
}

impl ComparisonRow {
    /// The rates and ratios of a case.
    pub(super) fn new(
        results: &ComparisonResults,
        ranks: usize,
        case: BenchCase,
        ours: &[&'static str],
        peers: &[&'static str],
    ) -> Self {
        let rate = |name: &'static str| (name, results.rate(name, ranks, &case));
        let peers: Vec<_> = peers.iter().map(|name| rate(name)).collect();
        let evaluate = |name: &'static str| {
            let best = |of: fn(&OperationRate) -> f64| {
                let comparable = peers.iter().filter(|(peer, _)| is_comparable(&case.family, name, peer));
                comparable.filter_map(|(_, rate)| rate.as_ref().map(of)).max_by(f64::total_cmp)
            };
            let (best_median, best_best) = (best(|rate| rate.median), best(|rate| rate.best));
            let mine = rate(name).1;
            let contiguous =
                BenchCase { family: CaseFamily { pattern: "contiguous", ..case.family }, ..case };
            let contiguous = results.rate(name, ranks, &contiguous);
            let ratios = SpeedRatios {
                peer: mine.and_then(|mine| Some(mine.median / best_median?)),
                peer_best: mine.and_then(|mine| Some(mine.best / best_best?)),
                contiguous: mine.and_then(|mine| Some(mine.median / contiguous?.median)),
            };
            (name, mine, ratios)
        };
        let ours = ours.iter().map(|name| evaluate(name)).collect();
        Self { ranks, case, ours, peers, target: speed_target(&case.family) }
    }
}

/// The medians of the ratios over the sizes of a family.
pub(super) fn over_sizes(rows: &[&ComparisonRow], name: &str) -> SpeedRatios {
    let of = |part: fn(&SpeedRatios) -> Option<f64>| {
        let ours = rows.iter().flat_map(|row| row.ours.iter().filter(|(other, _, _)| *other == name));
        median(&ours.filter_map(|(_, _, ratios)| part(ratios)).collect::<Vec<_>>())
    };
    SpeedRatios {
        peer: of(|ratios| ratios.peer),
        peer_best: of(|ratios| ratios.peer_best),
        contiguous: of(|ratios| ratios.contiguous),
    }
}

#[cfg(test)]
mod tests {
    use super::super::job::CaseOutcome;
    use super::*;
    use crate::cases::PATTERNS;

    const OURS: [&str; 1] = ["ours/threads"];
    const PEERS: [&str; 2] = ["ompio", "mpich"];

    fn case(pattern: &str) -> BenchCase {
        PATTERNS.iter().find(|known| known.name == pattern).unwrap().cases(&[1 << 20])[0]
    }

    fn row(pattern: &str, seconds: &[(&'static str, &str, f64)]) -> ComparisonRow {
        let mut results = ComparisonResults::default();
        for (name, pattern, seconds) in seconds {
            results.add(name, 2, case(pattern), CaseOutcome::Seconds(vec![*seconds], None));
        }
        ComparisonRow::new(&results, 2, case(pattern), &OURS, &PEERS)
    }

    fn status(row: &ComparisonRow) -> TargetStatus {
        row.ours[0].2.status(&row.target)
    }

    #[test]
    fn the_best_peer_counts() {
        let row =
            row("tiles", &[("ours/threads", "tiles", 2.0), ("ompio", "tiles", 4.0), ("mpich", "tiles", 1.0)]);
        assert_eq!((row.ours[0].2.peer, row.ours[0].2.contiguous), (Some(0.5), None));
        assert_eq!(status(&row), TargetStatus::Missed);
    }

    #[test]
    fn a_fraction_of_our_contiguous_bandwidth_is_enough() {
        let slow =
            [("ours/threads", "tiles", 1.0), ("ours/threads", "contiguous", 0.95), ("mpich", "tiles", 0.5)];
        assert_eq!(status(&row("tiles", &slow)), TargetStatus::Met);
        let slower =
            [("ours/threads", "tiles", 1.0), ("ours/threads", "contiguous", 0.5), ("mpich", "tiles", 0.5)];
        assert_eq!(status(&row("tiles", &slower)), TargetStatus::Missed);
    }

    #[test]
    fn status_is_unknown_without_a_peer() {
        assert_eq!(status(&row("tiles", &[("ours/threads", "tiles", 1.0)])), TargetStatus::Unknown);
        assert_eq!(status(&row("tiles", &[("mpich", "tiles", 1.0)])), TargetStatus::Unknown);
    }

    #[test]
    fn ompio_is_not_compared_in_atomic_mode() {
        let figures = [("ours/threads", "atomic", 1.0), ("ompio", "atomic", 0.1), ("mpich", "atomic", 2.0)];
        assert_eq!(row("atomic", &figures).ours[0].2.peer, Some(2.0));
    }

    #[test]
    fn preloaded_programs_are_compared_with_their_own_library() {
        let mut results = ComparisonResults::default();
        let case = case("tiles");
        for (name, seconds) in
            [("preload/mpich", 1.0), ("preload/openmpi", 1.0), ("ompio", 3.0), ("mpich", 2.0)]
        {
            results.add(name, 2, case, CaseOutcome::Seconds(vec![seconds], None));
        }
        let row = ComparisonRow::new(&results, 2, case, &["preload/mpich", "preload/openmpi"], &PEERS);
        assert_eq!(
            row.ours.iter().map(|(_, _, ratios)| ratios.peer).collect::<Vec<_>>(),
            [Some(2.0), Some(3.0)]
        );
    }

    #[test]
    fn the_ratio_of_a_family_is_the_median_over_sizes() {
        let rows = [1.0, 5.0, 2.0]
            .map(|seconds| row("open", &[("ours/threads", "open", 1.0), ("mpich", "open", seconds)]));
        let rows: Vec<&ComparisonRow> = rows.iter().collect();
        assert_eq!(over_sizes(&rows, "ours/threads").peer, Some(2.0));
    }
}
