//! Which way of writing pays, by what was measured: a pure rule with a memory. It knows neither ranks nor clocks.

/// Who writes, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OutputMode {
    /// The program itself: `commit` returns when the step is visible.
    Blocking,
    /// One thread per rank, while the program computes.
    Thread,
    /// As with threads, but groups of ranks hand their bytes to one of them, and only these leaders meet over the file.
    Leaders,
    /// Ranks of their own, split off the world: see [`split_io_servers`](crate::split_io_servers).
    Servers,
    /// What pays, by what is measured; servers, where there are some.
    #[default]
    Auto,
}

/// Steps below this, over all ranks, are not worth a thread.
const SMALL: f64 = 1.5e6;
/// What must be saved of the time of a step.
const WORTHWHILE: f64 = 0.05;
/// Another way must take less than this share of what the one before took.
const BETTER: f64 = 0.97;
/// Where a program spends more of a step than this in `commit`, it waits for the medium in spite of its thread: much, or enough to look for a
/// faster way to write.
const WAITING: f64 = 0.25;
const LINGERING: f64 = 0.1;
/// Leaders may be worth their gathering from so many ranks of a node on, each with less than this.
const FEW: usize = 4;
const PIECE: f64 = 1e6;
/// With less than this they are at first, where ranks are on several nodes: many small pieces would cross the network.
const SCANTY: f64 = 65536.0;
/// After how many steps something that did not pay is tried again, or something that does is compared again: more and more, within these.
const SOON: u64 = 32;
const LATE: u64 = 512;

/// How ranks and data are spread: known before anything is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DataDistribution {
    pub(crate) ranks: usize,
    pub(crate) nodes: usize,
    /// Ranks that store something.
    pub(crate) writing_ranks: usize,
    /// What all ranks store in a step.
    pub(crate) bytes: f64,
}

impl DataDistribution {
    fn bytes_per_rank(&self) -> f64 {
        self.bytes / self.ranks.max(1) as f64
    }

    /// Whether leaders are worth a trial.
    pub(crate) fn may_gather(&self) -> bool {
        self.ranks >= FEW * self.nodes && self.bytes_per_rank() < PIECE
    }

    /// Why no thread is worth its while, whatever is measured.
    fn thread_objection(&self) -> Option<String> {
        if self.bytes < SMALL {
            let megabytes = self.bytes / 1e6;
            return Some(format!("steps of {megabytes:.2} MB are too small: a thread pays from 1.5 MB on"));
        }
        (self.ranks > 1 && self.writing_ranks == 1).then(|| "one rank holds all that is stored".to_owned())
    }

    fn pieces(&self) -> String {
        format!(
            "{} ranks of a node have {:.0} kB each",
            self.ranks / self.nodes.max(1),
            self.bytes_per_rank() / 1e3
        )
    }
}

/// A way of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteMode {
    /// While the program computes.
    pub(crate) thread: bool,
    /// By leaders, for their groups.
    pub(crate) gather: bool,
}

impl WriteMode {
    pub(crate) fn mode(self) -> OutputMode {
        match self {
            Self { thread: false, .. } => OutputMode::Blocking,
            Self { thread: true, gather: false } => OutputMode::Thread,
            Self { thread: true, gather: true } => OutputMode::Leaders,
        }
    }
}

/// What was measured of some steps, in seconds per step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct StepTimings {
    pub(crate) distribution: DataDistribution,
    pub(crate) steps: u64,
    /// Of the rank where each took longest: between commits, in `commit`, and both.
    pub(crate) computing: f64,
    pub(crate) in_commit: f64,
    pub(crate) cycle: f64,
    /// Of the rank where it took least: the others have waited for one another.
    pub(crate) writing: f64,
    /// What a step took whose `commit` waited for the medium, if there was one.
    pub(crate) waited: Option<f64>,
}

/// What to do from now on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModeDecision {
    pub(crate) mode: WriteMode,
    /// The next step is to wait until it is written, for comparison.
    pub(crate) wait: bool,
    pub(crate) reason: String,
}

/// A trial: how long until the next one.
#[derive(Clone, Copy, Debug)]
struct Backoff {
    left: u64,
    pause: u64,
}

impl Backoff {
    fn new(left: u64) -> Self {
        Self { left, pause: SOON }
    }

    fn pass(&mut self, steps: u64) {
        self.left = self.left.saturating_sub(steps);
    }

    /// The next trial comes later than the last one did.
    fn renew(&mut self) {
        self.left = self.pause;
        self.pause = (2 * self.pause).min(LATE);
    }
}

/// What is known, and what is being tried.
#[derive(Clone, Debug)]
pub(crate) struct ModePolicy {
    mode: WriteMode,
    reason: String,
    /// Whether leaders are possible at all.
    groups: bool,
    /// A step without a thread took so long; to be compared with what one takes with it.
    without: Option<f64>,
    /// Writing the other way, alone or by leaders, took so long; to be compared with this one.
    otherwise: Option<f64>,
    overlap: Backoff,
    gathering: Backoff,
}

impl ModePolicy {
    /// Where to begin, by the layout alone; `groups` says whether leaders are possible.
    pub(crate) fn new(spread: &DataDistribution, groups: bool) -> Self {
        let gather = groups && spread.nodes > 1 && spread.may_gather() && spread.bytes_per_rank() < SCANTY;
        let objection = spread.thread_objection();
        let thread = objection.is_none();
        let reason = objection.unwrap_or_else(|| {
            format!("steps of {:.2} MB: with a thread, until more is known", spread.bytes / 1e6)
        });
        let reason = if gather {
            format!("{reason}; {}: one of them writes for all", spread.pieces())
        } else {
            reason
        };
        let (overlap, gathering) = (Backoff::new(0), Backoff::new(SOON));
        let way = WriteMode { thread, gather };
        Self { mode: way, reason, groups, without: None, otherwise: None, overlap, gathering }
    }

    pub(crate) fn mode(&self) -> WriteMode {
        self.mode
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// What pays, as far as is known now.
    pub(crate) fn decide(&mut self, seen: &StepTimings) -> ModeDecision {
        self.overlap.pass(seen.steps);
        self.gathering.pass(seen.steps);
        self.without = seen.waited.or(self.without);
        let before = self.mode;
        let reason = if self.otherwise.is_some() { None } else { Some(self.decide_overlap(seen)) };
        // One thing at a time: what has just changed, or is being compared, says nothing of leaders.
        let settled = self.mode == before && self.without.is_none();
        let wait = settled && reason.is_some() && self.is_time_to_compare(seen);
        let told = if settled && !wait { self.decide_aggregation(seen) } else { None };
        if let Some(reason) = told.or(reason) {
            self.reason = reason;
        }
        ModeDecision { mode: self.mode, wait, reason: self.reason.clone() }
    }

    /// With a thread or without.
    fn decide_overlap(&mut self, seen: &StepTimings) -> String {
        if let Some(objection) = seen.distribution.thread_objection() {
            (self.mode.thread, self.without) = (false, None);
            return objection;
        }
        let (computing, cycle) = (seen.computing * 1e3, seen.cycle * 1e3);
        if let (true, Some(without)) = (self.mode.thread, self.without.take()) {
            self.mode.thread = seen.cycle < BETTER * without;
            self.overlap.renew();
            return format!("a step took {cycle:.2} ms with a thread, {:.2} ms without", without * 1e3);
        }
        let (writing, saved) = if self.mode.thread {
            (seen.writing, seen.writing - seen.in_commit)
        } else {
            (seen.in_commit, seen.computing.min(seen.in_commit))
        };
        let pays = saved >= WORTHWHILE * (seen.computing + writing);
        let times = format!("{computing:.2} ms of computing and {:.2} ms of writing per step", writing * 1e3);
        match (self.mode.thread, pays) {
            (_, false) => {
                self.mode.thread = false;
                format!("{times}: overlap could not save 5 %")
            }
            // It was tried, and did not help.
            (false, true) if self.overlap.left > 0 => self.reason.clone(),
            (false, true) => {
                (self.mode.thread, self.without) = (true, Some(seen.cycle));
                format!("{times}: a thread hides the shorter")
            }
            (true, true) => format!("{times}: a thread hides the shorter"),
        }
    }

    /// A program that waits in spite of its thread may be better off without; others are asked less often.
    fn is_time_to_compare(&mut self, seen: &StepTimings) -> bool {
        let waits = seen.in_commit > WAITING * seen.cycle;
        if !self.mode.thread || self.overlap.left > 0 {
            return false;
        }
        if !waits && self.overlap.pause < LATE {
            self.overlap.renew();
            return false;
        }
        true
    }

    /// By leaders or each rank for itself, if there is something to say of it.
    fn decide_aggregation(&mut self, seen: &StepTimings) -> Option<String> {
        let (now, way) = (seen.writing * 1e3, |gather| if gather { "by leaders" } else { "by each rank" });
        if let Some(otherwise) = self.otherwise.take() {
            self.gathering.renew();
            let kept = seen.writing < BETTER * otherwise;
            let (this, other) = (way(self.mode.gather), way(!self.mode.gather));
            self.mode.gather ^= !kept;
            let otherwise = otherwise * 1e3;
            return Some(format!("writing a step took {now:.2} ms {this}, {otherwise:.2} ms {other}"));
        }
        let possible = self.groups && (self.mode.gather || seen.distribution.may_gather());
        let share = if self.mode.thread { LINGERING } else { WORTHWHILE };
        let matters = seen.in_commit > share * seen.cycle;
        if !possible || !matters || self.gathering.left > 0 {
            return None;
        }
        self.otherwise = Some(seen.writing);
        self.mode.gather = !self.mode.gather;
        let pieces = seen.distribution.pieces();
        Some(format!("{pieces}, and writing takes {now:.2} ms per step: tried {}", way(self.mode.gather)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aqueduct_testkit::rng::SeededRng;

    const SPREAD: DataDistribution = DataDistribution { ranks: 4, nodes: 1, writing_ranks: 4, bytes: 3.2e6 };

    /// A program and its medium, in seconds per step.
    #[derive(Clone, Copy, Debug)]
    struct World {
        computing: f64,
        writing: f64,
        /// How much longer computing takes beside a thread, writing beside computing, writing by leaders.
        slowed: f64,
        disturbed: f64,
        gathered: f64,
        spread: DataDistribution,
    }

    const EVEN: World =
        World { computing: 0.1, writing: 0.1, slowed: 1.0, disturbed: 1.0, gathered: 1.0, spread: SPREAD };

    impl World {
        fn seen(&self, way: WriteMode, waits: bool) -> StepTimings {
            let writing = self.writing * if way.gather { self.gathered } else { 1.0 };
            let packing = 0.02 * writing;
            let (computing, writing, in_commit) = if way.thread {
                let (computing, disturbed) = (self.computing * self.slowed, writing * self.disturbed);
                (computing, disturbed, packing.max(disturbed - computing))
            } else {
                (self.computing, writing, writing)
            };
            let waited = waits.then_some(self.computing + packing + self.writing);
            let cycle = computing + in_commit;
            StepTimings { distribution: self.spread, steps: 8, computing, in_commit, cycle, writing, waited }
        }

        fn best(&self) -> f64 {
            let ways = [(false, false), (false, true), (true, false), (true, true)];
            let cycle = |(thread, gather)| self.seen(WriteMode { thread, gather }, false).cycle;
            ways.into_iter().map(cycle).fold(f64::MAX, f64::min)
        }

        /// Lets the choice run for so many windows; the cycles of all steps, and how often the way has changed.
        fn run(&self, choice: &mut ModePolicy, windows: usize) -> (Vec<f64>, usize) {
            let (mut waits, mut changes, mut cycles) = (false, 0, Vec::new());
            for _ in 0..windows {
                let before = choice.mode();
                let seen = self.seen(before, waits);
                let decision = choice.decide(&seen);
                assert!(!decision.reason.is_empty() && decision.mode == choice.mode());
                changes += usize::from(decision.mode != before);
                waits = decision.wait;
                cycles.push(seen.cycle);
            }
            (cycles, changes)
        }
    }

    fn mode_after(world: &World, windows: usize) -> (OutputMode, String) {
        let mut choice = ModePolicy::new(&world.spread, true);
        world.run(&mut choice, windows);
        (choice.mode().mode(), choice.reason().to_owned())
    }

    #[test]
    fn it_begins_by_the_layout() {
        let begins = |spread: &DataDistribution, groups| ModePolicy::new(spread, groups).mode().mode();
        assert_eq!(begins(&SPREAD, true), OutputMode::Thread);
        assert_eq!(begins(&DataDistribution { bytes: 1e6, ..SPREAD }, true), OutputMode::Blocking);
        assert_eq!(begins(&DataDistribution { writing_ranks: 1, ..SPREAD }, true), OutputMode::Blocking);
        assert_eq!(
            begins(&DataDistribution { ranks: 1, nodes: 1, writing_ranks: 1, bytes: 1e8 }, false),
            OutputMode::Thread
        );
        let many = DataDistribution { ranks: 64, nodes: 4, writing_ranks: 64, bytes: 3e6 };
        assert_eq!((begins(&many, true), begins(&many, false)), (OutputMode::Leaders, OutputMode::Thread));
    }

    #[test]
    fn a_thread_where_it_hides_something_and_none_where_it_does_not() {
        let cases = [
            (EVEN, OutputMode::Thread, "hides the shorter"),
            (World { computing: 1.0, ..EVEN }, OutputMode::Thread, "hides the shorter"),
            (World { computing: 0.001, ..EVEN }, OutputMode::Blocking, "could not save"),
            (World { writing: 0.001, ..EVEN }, OutputMode::Blocking, "could not save"),
            (
                World { spread: DataDistribution { bytes: 1e6, ..SPREAD }, ..EVEN },
                OutputMode::Blocking,
                "1.00 MB",
            ),
            (
                World { spread: DataDistribution { writing_ranks: 1, ..SPREAD }, ..EVEN },
                OutputMode::Blocking,
                "one rank",
            ),
            (World { disturbed: 3.0, ..EVEN }, OutputMode::Blocking, "ms with a thread"),
        ];
        for (world, mode, words) in cases {
            let (found, reason) = mode_after(&world, 3);
            assert!(found == mode && reason.contains(words), "{world:?}: {found:?}, {reason}");
        }
    }

    #[test]
    fn leaders_where_they_write_faster() {
        let waiting = World { writing: 0.2, ..EVEN };
        let (mode, reason) = mode_after(&World { gathered: 0.5, ..waiting }, 12);
        assert!(mode == OutputMode::Leaders && reason.contains("hides"), "{mode:?}, {reason}");
        let (mode, _) = mode_after(&World { gathered: 2.0, ..waiting }, 12);
        assert_eq!(mode, OutputMode::Thread);
        let (mode, _) = mode_after(&World { gathered: 0.5, ..EVEN }, 100);
        assert_eq!(mode, OutputMode::Thread, "nobody waits for the medium: nothing to gain");
    }

    /// Whatever the program and its medium are like: in the end a step takes little more than the best way would, and changes become rare.
    #[test]
    fn random_worlds_end_near_the_best_way() {
        for number in 0..2000 {
            let mut seed = SeededRng::new(number);
            let mut between = |low: f64, high: f64| low + (high - low) * (seed.below(1001) as f64 / 1000.0);
            let world = World {
                computing: between(0.001, 0.1),
                writing: between(0.001, 0.1),
                slowed: between(1.0, 1.3),
                disturbed: between(1.0, 3.0),
                gathered: between(0.4, 2.5),
                spread: SPREAD,
            };
            let mut choice = ModePolicy::new(&SPREAD, true);
            world.run(&mut choice, 150);
            let (mut cycles, changes) = world.run(&mut choice, 150);
            cycles.sort_by(f64::total_cmp);
            let (median, best) = (cycles[75], world.best());
            assert!(
                median <= 1.15 * best,
                "seed {number}: {median} instead of {best}: {world:?}, {choice:?}"
            );
            assert!(changes <= 10, "seed {number}: {changes} changes: {world:?}");
        }
    }

    /// The load changes in the middle, and the mode follows.
    #[test]
    fn random_changes_are_followed() {
        for number in 0..500 {
            let mut seed = SeededRng::new(number);
            let mut choice = ModePolicy::new(&SPREAD, true);
            for _ in 0..6 {
                let computing = [0.0005, 0.1, 0.1][seed.below(3)];
                let writing = [0.001, 0.1, 0.2][seed.below(3)];
                let world = World { computing, writing, ..EVEN };
                world.run(&mut choice, 40);
                let last = world.seen(choice.mode(), false).cycle;
                assert!(last <= 1.12 * world.best(), "seed {number}: {world:?}, {choice:?}");
            }
        }
    }
}
