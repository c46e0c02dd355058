//! Whether what was measured is enough.

use super::cell::{Cell, Family};
use super::goal::{Goal, counts, goal};
use super::results::{Rate, Results, median};

/// How one of ours did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ratios {
    /// Of the best peer that counts, medians.
    pub(super) peer: Option<f64>,
    /// The same, best times.
    pub(super) peer_best: Option<f64>,
    /// Of our own contiguous transfer, medians.
    pub(super) contiguous: Option<f64>,
}

/// Whether a goal is met; none where there is nothing to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Met,
    Missed,
    Unknown,
}

impl Ratios {
    /// One of the two columns is enough.
    pub(super) fn verdict(&self, goal: &Goal) -> Verdict {
        let peer = self.peer.map(|ratio| ratio >= goal.peer);
        let contiguous = goal.contiguous.and_then(|least| Some(self.contiguous? >= least));
        match (peer, contiguous) {
            (Some(true), _) | (_, Some(true)) => Verdict::Met,
            (None, _) => Verdict::Unknown,
            _ => Verdict::Missed,
        }
    }
}

/// A line of the table.
pub(super) struct Row {
    pub(super) ranks: usize,
    pub(super) cell: Cell,
    pub(super) ours: Vec<(&'static str, Option<Rate>, Ratios)>,
    pub(super) peers: Vec<(&'static str, Option<Rate>)>,
    pub(super) goal: Goal,
}

impl Row {
    /// Puts the figures of a cell side by side.
    pub(super) fn new(
        results: &Results,
        ranks: usize,
        cell: Cell,
        ours: &[&'static str],
        peers: &[&'static str],
    ) -> Self {
        let rate = |name: &'static str| (name, results.rate(name, ranks, &cell));
        let peers: Vec<_> = peers.iter().map(|name| rate(name)).collect();
        let judge = |name: &'static str| {
            let best = |of: fn(&Rate) -> f64| {
                let sound = peers.iter().filter(|(peer, _)| counts(&cell.family, name, peer));
                sound.filter_map(|(_, rate)| rate.as_ref().map(of)).max_by(f64::total_cmp)
            };
            let (best_median, best_best) = (best(|rate| rate.median), best(|rate| rate.best));
            let mine = rate(name).1;
            let contiguous = Cell { family: Family { pattern: "contiguous", ..cell.family }, ..cell };
            let contiguous = results.rate(name, ranks, &contiguous);
            let ratios = Ratios {
                peer: mine.and_then(|mine| Some(mine.median / best_median?)),
                peer_best: mine.and_then(|mine| Some(mine.best / best_best?)),
                contiguous: mine.and_then(|mine| Some(mine.median / contiguous?.median)),
            };
            (name, mine, ratios)
        };
        let ours = ours.iter().map(|name| judge(name)).collect();
        Self { ranks, cell, ours, peers, goal: goal(&cell.family) }
    }
}

/// The ratios of a family over its larger sizes: the median of each.
pub(super) fn over_sizes(rows: &[&Row], name: &str) -> Ratios {
    let of = |part: fn(&Ratios) -> Option<f64>| {
        let ours = rows.iter().flat_map(|row| row.ours.iter().filter(|(other, _, _)| *other == name));
        median(&ours.filter_map(|(_, _, ratios)| part(ratios)).collect::<Vec<_>>())
    };
    Ratios {
        peer: of(|ratios| ratios.peer),
        peer_best: of(|ratios| ratios.peer_best),
        contiguous: of(|ratios| ratios.contiguous),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::PATTERNS;
    use super::super::job::Outcome;
    use super::*;

    const OURS: [&str; 1] = ["ours/threads"];
    const PEERS: [&str; 2] = ["ompio", "mpich"];

    fn cell(pattern: &str) -> Cell {
        PATTERNS.iter().find(|known| known.name == pattern).unwrap().cells(&[1 << 20])[0]
    }

    fn row(pattern: &str, seconds: &[(&'static str, &str, f64)]) -> Row {
        let mut results = Results::default();
        for (name, pattern, seconds) in seconds {
            results.add(name, 2, cell(pattern), Outcome::Seconds(vec![*seconds], None));
        }
        Row::new(&results, 2, cell(pattern), &OURS, &PEERS)
    }

    fn verdict(row: &Row) -> Verdict {
        row.ours[0].2.verdict(&row.goal)
    }

    #[test]
    fn the_best_peer_counts() {
        let row =
            row("tiles", &[("ours/threads", "tiles", 2.0), ("ompio", "tiles", 4.0), ("mpich", "tiles", 1.0)]);
        assert_eq!((row.ours[0].2.peer, row.ours[0].2.contiguous), (Some(0.5), None));
        assert_eq!(verdict(&row), Verdict::Missed);
    }

    #[test]
    fn our_own_contiguous_transfer_is_enough() {
        let slow =
            [("ours/threads", "tiles", 1.0), ("ours/threads", "contiguous", 0.95), ("mpich", "tiles", 0.5)];
        assert_eq!(verdict(&row("tiles", &slow)), Verdict::Met);
        let slower =
            [("ours/threads", "tiles", 1.0), ("ours/threads", "contiguous", 0.5), ("mpich", "tiles", 0.5)];
        assert_eq!(verdict(&row("tiles", &slower)), Verdict::Missed);
    }

    #[test]
    fn without_a_peer_nothing_is_missed() {
        assert_eq!(verdict(&row("tiles", &[("ours/threads", "tiles", 1.0)])), Verdict::Unknown);
        assert_eq!(verdict(&row("tiles", &[("mpich", "tiles", 1.0)])), Verdict::Unknown);
    }

    #[test]
    fn who_takes_no_lock_is_no_measure_for_atomic_access() {
        let figures = [("ours/threads", "atomic", 1.0), ("ompio", "atomic", 0.1), ("mpich", "atomic", 2.0)];
        assert_eq!(row("atomic", &figures).ours[0].2.peer, Some(2.0));
    }

    #[test]
    fn through_the_door_the_library_itself_is_the_measure() {
        let mut results = Results::default();
        let cell = cell("tiles");
        for (name, seconds) in [("door/mpich", 1.0), ("door/openmpi", 1.0), ("ompio", 3.0), ("mpich", 2.0)] {
            results.add(name, 2, cell, Outcome::Seconds(vec![seconds], None));
        }
        let row = Row::new(&results, 2, cell, &["door/mpich", "door/openmpi"], &PEERS);
        assert_eq!(
            row.ours.iter().map(|(_, _, ratios)| ratios.peer).collect::<Vec<_>>(),
            [Some(2.0), Some(3.0)]
        );
    }

    #[test]
    fn sizes_are_summed_up_by_their_median() {
        let rows = [1.0, 5.0, 2.0]
            .map(|seconds| row("open", &[("ours/threads", "open", 1.0), ("mpich", "open", seconds)]));
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(over_sizes(&rows, "ours/threads").peer, Some(2.0));
    }
}
