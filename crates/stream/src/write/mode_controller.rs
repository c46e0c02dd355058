//! The ranks that choose together: each measures its steps, all decide alike.
//!
//! With a thread, what was measured meets in the threads, in its place among the steps; the program hears of it some steps later, when
//! nobody has to wait for it. So looking costs no program its overlap.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use aqueduct_comm::{Comm, Op};

use crate::error::{Error, Result, agree};
use crate::write::aggregation_schedule::AggregationSchedule;
use crate::write::mode_policy::{
    DataDistribution, ModeDecision, ModePolicy, OutputMode, StepTimings, WriteMode,
};
use crate::write::step_timer::{StepTime, StepTimer, WallClockTimer};
use crate::write::writer::{StreamWriter, WriteTiming};

/// Steps that are looked at before a decision, and after how many more it is heard where threads find it.
const WINDOW: u64 = 8;
const AT_FIRST: u64 = 3;
const LAG: u64 = 3;

/// A mode that steps were written in, from one on, and why so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModeChange {
    /// The first step written so.
    pub step: u64,
    /// How.
    pub mode: OutputMode,
    /// Why so.
    pub reason: String,
}

/// What is measured, decided and done.
pub(crate) struct ModeController {
    comm: Comm,
    /// None where there is nothing to choose.
    policy: Option<ModePolicy>,
    /// How steps are written.
    write_mode: WriteMode,
    served: bool,
    reason: String,
    changes: Vec<ModeChange>,
    schedule: Arc<AggregationSchedule>,
    timer: Arc<dyn StepTimer>,
    window: TimingWindow,
    /// How many steps are measured before the next decision.
    wanted: u64,
    /// What the threads will have found.
    awaited: Option<Receiver<aqueduct_comm::Result<StepTimings>>>,
    /// The next step is to wait until it is written; what it took.
    waiting: bool,
    waited: Option<f64>,
}

/// Sums over steps, of this rank.
#[derive(Clone, Copy, Default)]
struct TimingWindow {
    steps: u64,
    bytes: f64,
    computing: f64,
    in_commit: f64,
    /// None where whoever writes measures it.
    writing: Option<f64>,
    /// When the last commit ended; none before the first.
    ended: Option<Instant>,
}

impl TimingWindow {
    fn add(&mut self, lap: StepTime, bytes: u64) {
        self.steps += 1;
        self.bytes += bytes as f64;
        self.computing += lap.computing;
        self.in_commit += lap.in_commit;
        self.writing = lap.writing.map(|writing| self.writing.unwrap_or(0.0) + writing);
    }
}

/// What a rank brings to a decision.
struct RankTimings {
    comm: Comm,
    window: TimingWindow,
    waited: Option<f64>,
}

impl ModeController {
    pub(crate) fn comm(&self) -> &Comm {
        &self.comm
    }

    /// For an output that the ranks write themselves; `groups` says whether leaders may come to write, or do.
    pub(crate) fn new(
        comm: Comm,
        asked: OutputMode,
        spread: &DataDistribution,
        groups: bool,
        helm: &Arc<AggregationSchedule>,
        meter: &Arc<dyn StepTimer>,
    ) -> Self {
        let able = comm.allows_background_collectives();
        let fixed = |thread| WriteMode { thread, gather: asked == OutputMode::Leaders };
        let (choice, way, reason) = match asked {
            OutputMode::Auto if able => {
                let choice = ModePolicy::new(spread, groups);
                let (way, reason) = (choice.mode(), choice.reason().to_owned());
                (Some(choice), way, reason)
            }
            OutputMode::Blocking => (None, fixed(false), "asked for".to_owned()),
            _ if able => (None, fixed(true), "asked for".to_owned()),
            _ => {
                let reason = "MPI does not let threads talk between nodes; ask it for thread level multiple";
                (None, fixed(false), reason.to_owned())
            }
        };
        let mut chooser = Self {
            comm,
            policy: choice,
            write_mode: way,
            served: false,
            reason,
            changes: Vec::new(),
            schedule: Arc::clone(helm),
            timer: Arc::clone(meter),
            window: TimingWindow::default(),
            wanted: AT_FIRST,
            awaited: None,
            waiting: false,
            waited: None,
        };
        chooser.schedule_aggregation(0);
        chooser
    }

    /// For an output that servers write.
    pub(crate) fn served(comm: Comm, asked: OutputMode, servers: usize) -> Self {
        let spread = DataDistribution { ranks: 1, nodes: 1, writing_ranks: 1, bytes: 0.0 };
        let (helm, meter): (_, Arc<dyn StepTimer>) = (Arc::default(), Arc::new(WallClockTimer));
        let mut chooser = Self::new(comm, OutputMode::Blocking, &spread, false, &helm, &meter);
        chooser.served = true;
        chooser.reason = match asked {
            OutputMode::Servers => "asked for".to_owned(),
            _ => format!("{servers} of the ranks do nothing but write: they stay servers"),
        };
        chooser.changes.clear();
        chooser.record_change(0);
        chooser
    }

    /// Whether a thread is to write now.
    pub(crate) fn wants_thread(&self) -> bool {
        self.write_mode.thread
    }

    pub(crate) fn mode(&self) -> OutputMode {
        if self.served { OutputMode::Servers } else { self.write_mode.mode() }
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn changes(&self) -> &[ModeChange] {
        &self.changes
    }

    /// The outcome of a change, agreed by all ranks.
    pub(crate) fn agree(&self, name: &str, outcome: Result<()>) -> Result<()> {
        agree(&self.comm, "change mode", name, outcome)
    }

    /// Whether the step that was just handed over is to be waited for.
    pub(crate) fn waits_for_step(&self) -> bool {
        self.waiting
    }

    /// Notes a step that was committed from `begin` until now; whether it is time to think, which is so on all ranks alike.
    pub(crate) fn observe(&mut self, begin: Instant, bytes: u64) -> bool {
        if self.policy.is_none() {
            return false;
        }
        let now = Instant::now();
        // The time before the first commit is none between commits.
        if let Some(ended) = self.window.ended.replace(now) {
            let (computing, in_commit) = ((begin - ended).as_secs_f64(), (now - begin).as_secs_f64());
            let (waited, clock) =
                (std::mem::take(&mut self.waiting), StepTime { computing, in_commit, writing: None });
            let lap = self.timer.step_time(self.write_mode, waited, clock);
            if waited {
                self.waited = Some(lap.computing + lap.in_commit);
                return false;
            }
            self.window.add(lap, bytes);
        }
        let lag = if self.awaited.is_some() { LAG } else { 0 };
        self.window.steps >= self.wanted + lag
    }

    /// Lets the ranks compare what they have measured: at once, or in their threads, to be heard of later. Then decides; none as long as nothing
    /// is known. Collective.
    pub(crate) fn decide(&mut self, name: &str, driver: &mut StreamWriter) -> Result<Option<ModeDecision>> {
        let heard = match self.awaited.take() {
            Some(awaited) => awaited,
            None => {
                let sample =
                    RankTimings { comm: self.comm.clone(), window: self.window, waited: self.waited.take() };
                let (tell, told) = channel();
                driver.measure(move |written| _ = tell.send(sample.reduce(written)));
                if self.write_mode.thread {
                    self.awaited = Some(told);
                    return Ok(None);
                }
                told
            }
        };
        // After a failure nobody measures any more; the board tells of it.
        let (Ok(seen), Some(choice)) = (heard.recv(), &mut self.policy) else { return Ok(None) };
        let seen = seen.map_err(|error| Error::from_comm("choose mode", name, &error))?;
        Ok(Some(choice.decide(&seen)))
    }

    /// From this step on, what was decided.
    pub(crate) fn apply_decision(&mut self, decision: ModeDecision, step: u64) {
        let changed = self.write_mode != decision.mode;
        (self.write_mode, self.reason, self.waiting) = (decision.mode, decision.reason, decision.wait);
        if changed {
            self.schedule_aggregation(step);
        }
    }

    /// Measures anew, from now on.
    pub(crate) fn restart(&mut self, driver: &mut StreamWriter) {
        self.window = TimingWindow { ended: Some(Instant::now()), ..TimingWindow::default() };
        self.wanted = WINDOW;
        driver.measure(|written| *written = WriteTiming::default());
    }

    fn schedule_aggregation(&mut self, step: u64) {
        self.schedule.set_from_step(step, self.write_mode.gather);
        self.record_change(step);
    }

    fn record_change(&mut self, step: u64) {
        self.changes.push(ModeChange { step, mode: self.mode(), reason: self.reason.clone() });
    }
}

impl RankTimings {
    /// What all ranks have measured. Collective.
    fn reduce(self, written: &WriteTiming) -> aqueduct_comm::Result<StepTimings> {
        let Self { comm, window, waited } = self;
        let per_step = |sum: f64| sum / window.steps.max(1) as f64;
        let measured = written.busy.as_secs_f64() / written.batches.max(1) as f64;
        let writing = window.writing.map_or(measured, per_step);
        let (computing, in_commit) = (per_step(window.computing), per_step(window.in_commit));
        let times = [computing, in_commit, computing + in_commit, waited.unwrap_or(0.0), -writing];
        let times = comm.allreduce(Op::Max, &times)?;
        let spread = DataDistribution::of(&comm, per_step(window.bytes))?;
        Ok(StepTimings {
            distribution: spread,
            steps: window.steps,
            computing: times[0],
            in_commit: times[1],
            cycle: times[2],
            writing: -times[4],
            waited: waited.map(|_| times[3]),
        })
    }
}

impl DataDistribution {
    /// Of ranks of which this one stores so many bytes in a step. Collective.
    pub(crate) fn of(comm: &Comm, bytes: f64) -> aqueduct_comm::Result<Self> {
        let amounts = comm.allreduce(Op::Sum, &[bytes, f64::from(u8::from(bytes > 0.0))])?;
        let (ranks, nodes) = (comm.size(), comm.node_count());
        Ok(Self { ranks, nodes, writing_ranks: amounts[1] as usize, bytes: amounts[0] })
    }
}

#[cfg(test)]
mod tests;
