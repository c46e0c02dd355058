//! Whether what was measured is enough.

use super::case::{CaseFamily, ComparisonCase};
use super::results::{ComparisonResults, OperationRate, median};
use super::target::{SpeedTarget, is_comparable, speed_target};

/// How one of ours did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct SpeedRatios {
    /// Of the best peer that counts, medians.
    pub(super) peer: Option<f64>,
    /// The same, best times.
    pub(super) peer_best: Option<f64>,
    /// Of our own contiguous transfer, medians.
    pub(super) contiguous: Option<f64>,
}

/// Whether a goal is met; none where there is nothing to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetStatus {
    Met,
    Missed,
    Unknown,
}

impl SpeedRatios {
    /// One of the two columns is enough.
    pub(super) fn status(&self, goal: &SpeedTarget) -> TargetStatus {
        let peer = self.peer.map(|ratio| ratio >= goal.peer);
        let contiguous = goal.contiguous.and_then(|least| Some(self.contiguous? >= least));
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
    pub(super) cell: ComparisonCase,
    pub(super) ours: Vec<(&'static str, Option<OperationRate>, SpeedRatios)>,
    pub(super) peers: Vec<(&'static str, Option<OperationRate>)>,
    pub(super) target: SpeedTarget,
}

impl ComparisonRow {
    /// Puts the figures of a cell side by side.
    pub(super) fn new(
        results: &ComparisonResults,
        ranks: usize,
        cell: ComparisonCase,
        ours: &[&'static str],
        peers: &[&'static str],
    ) -> Self {
        let rate = |name: &'static str| (name, results.rate(name, ranks, &cell));
        let peers: Vec<_> = peers.iter().map(|name| rate(name)).collect();
        let judge = |name: &'static str| {
            let best = |of: fn(&OperationRate) -> f64| {
                let sound = peers.iter().filter(|(peer, _)| is_comparable(&cell.family, name, peer));
                sound.filter_map(|(_, rate)| rate.as_ref().map(of)).max_by(f64::total_cmp)
            };
            let (best_median, best_best) = (best(|rate| rate.median), best(|rate| rate.best));
            let mine = rate(name).1;
            let contiguous =
                ComparisonCase { family: CaseFamily { pattern: "contiguous", ..cell.family }, ..cell };
            let contiguous = results.rate(name, ranks, &contiguous);
            let ratios = SpeedRatios {
                peer: mine.and_then(|mine| Some(mine.median / best_median?)),
                peer_best: mine.and_then(|mine| Some(mine.best / best_best?)),
                contiguous: mine.and_then(|mine| Some(mine.median / contiguous?.median)),
            };
            (name, mine, ratios)
        };
        let ours = ours.iter().map(|name| judge(name)).collect();
        Self { ranks, cell, ours, peers, target: speed_target(&cell.family) }
    }
}

/// The ratios of a family over its larger sizes: the median of each.
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
    use super::super::case::PATTERNS;
    use super::super::job::CaseOutcome;
    use super::*;

    const OURS: [&str; 1] = ["ours/threads"];
    const PEERS: [&str; 2] = ["ompio", "mpich"];

    fn cell(pattern: &str) -> ComparisonCase {
        PATTERNS.iter().find(|known| known.name == pattern).unwrap().cases(&[1 << 20])[0]
    }

    fn row(pattern: &str, seconds: &[(&'static str, &str, f64)]) -> ComparisonRow {
        let mut results = ComparisonResults::default();
        for (name, pattern, seconds) in seconds {
            results.add(name, 2, cell(pattern), CaseOutcome::Seconds(vec![*seconds], None));
        }
        ComparisonRow::new(&results, 2, cell(pattern), &OURS, &PEERS)
    }

    fn verdict(row: &ComparisonRow) -> TargetStatus {
        row.ours[0].2.status(&row.target)
    }

    #[test]
    fn the_best_peer_counts() {
        let row =
            row("tiles", &[("ours/threads", "tiles", 2.0), ("ompio", "tiles", 4.0), ("mpich", "tiles", 1.0)]);
        assert_eq!((row.ours[0].2.peer, row.ours[0].2.contiguous), (Some(0.5), None));
        assert_eq!(verdict(&row), TargetStatus::Missed);
    }

    #[test]
    fn our_own_contiguous_transfer_is_enough() {
        let slow =
            [("ours/threads", "tiles", 1.0), ("ours/threads", "contiguous", 0.95), ("mpich", "tiles", 0.5)];
        assert_eq!(verdict(&row("tiles", &slow)), TargetStatus::Met);
        let slower =
            [("ours/threads", "tiles", 1.0), ("ours/threads", "contiguous", 0.5), ("mpich", "tiles", 0.5)];
        assert_eq!(verdict(&row("tiles", &slower)), TargetStatus::Missed);
    }

    #[test]
    fn without_a_peer_nothing_is_missed() {
        assert_eq!(verdict(&row("tiles", &[("ours/threads", "tiles", 1.0)])), TargetStatus::Unknown);
        assert_eq!(verdict(&row("tiles", &[("mpich", "tiles", 1.0)])), TargetStatus::Unknown);
    }

    #[test]
    fn who_takes_no_lock_is_no_measure_for_atomic_access() {
        let figures = [("ours/threads", "atomic", 1.0), ("ompio", "atomic", 0.1), ("mpich", "atomic", 2.0)];
        assert_eq!(row("atomic", &figures).ours[0].2.peer, Some(2.0));
    }

    #[test]
    fn through_the_door_the_library_itself_is_the_measure() {
        let mut results = ComparisonResults::default();
        let cell = cell("tiles");
        for (name, seconds) in [("door/mpich", 1.0), ("door/openmpi", 1.0), ("ompio", 3.0), ("mpich", 2.0)] {
            results.add(name, 2, cell, CaseOutcome::Seconds(vec![seconds], None));
        }
        let row = ComparisonRow::new(&results, 2, cell, &["door/mpich", "door/openmpi"], &PEERS);
        assert_eq!(
            row.ours.iter().map(|(_, _, ratios)| ratios.peer).collect::<Vec<_>>(),
            [Some(2.0), Some(3.0)]
        );
    }

    #[test]
    fn sizes_are_summed_up_by_their_median() {
        let rows = [1.0, 5.0, 2.0]
            .map(|seconds| row("open", &[("ours/threads", "open", 1.0), ("mpich", "open", seconds)]));
        let rows: Vec<&ComparisonRow> = rows.iter().collect();
        assert_eq!(over_sizes(&rows, "ours/threads").peer, Some(2.0));
    }
}
