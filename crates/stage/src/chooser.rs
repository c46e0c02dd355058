//! The ranks that choose together: each measures its steps, all decide alike.
//!
//! With a thread, what was measured meets in the threads, in its place among the steps; the program hears of it some steps later, when
//! nobody has to wait for it. So looking costs no program its overlap.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use aqueduct_comm::{Comm, Op};

use crate::choice::{Choice, Decision, Seen, Spread, Way};
use crate::driver::{Driver, Written};
use crate::error::{Error, Result, agree};
use crate::helm::Helm;
use crate::meter::{Clock, Lap, Meter};
use crate::options::Mode;

/// Steps that are looked at before a decision, and after how many more it is heard where threads find it.
const WINDOW: u64 = 8;
const AT_FIRST: u64 = 3;
const LAG: u64 = 3;

/// A mode that steps were written in, from one on, and why so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The first step written so.
    pub step: u64,
    /// How.
    pub mode: Mode,
    /// Why so.
    pub reason: String,
}

/// What is measured, decided and done.
pub(crate) struct Chooser {
    comm: Comm,
    /// None where there is nothing to choose.
    choice: Option<Choice>,
    /// How steps are written.
    way: Way,
    served: bool,
    reason: String,
    changes: Vec<Change>,
    helm: Arc<Helm>,
    meter: Arc<dyn Meter>,
    window: Window,
    /// How many steps are measured before the next decision.
    wanted: u64,
    /// What the threads will have found.
    awaited: Option<Receiver<aqueduct_comm::Result<Seen>>>,
    /// The next step is to wait until it is written; what it took.
    waiting: bool,
    waited: Option<f64>,
}

/// Sums over steps, of this rank.
#[derive(Clone, Copy, Default)]
struct Window {
    steps: u64,
    bytes: f64,
    computing: f64,
    in_commit: f64,
    /// None where whoever writes measures it.
    writing: Option<f64>,
    /// When the last commit ended; none before the first.
    ended: Option<Instant>,
}

impl Window {
    fn add(&mut self, lap: Lap, bytes: u64) {
        self.steps += 1;
        self.bytes += bytes as f64;
        self.computing += lap.computing;
        self.in_commit += lap.in_commit;
        self.writing = lap.writing.map(|writing| self.writing.unwrap_or(0.0) + writing);
    }
}

/// What a rank brings to a decision.
struct Sample {
    comm: Comm,
    window: Window,
    waited: Option<f64>,
}

impl Chooser {
    pub(crate) fn comm(&self) -> &Comm {
        &self.comm
    }

    /// For an output that the ranks write themselves; `groups` says whether leaders may come to write, or do.
    pub(crate) fn new(
        comm: Comm,
        asked: Mode,
        spread: &Spread,
        groups: bool,
        helm: &Arc<Helm>,
        meter: &Arc<dyn Meter>,
    ) -> Self {
        let able = comm.serves_threads();
        let fixed = |thread| Way { thread, gather: asked == Mode::Leaders };
        let (choice, way, reason) = match asked {
            Mode::Auto if able => {
                let choice = Choice::new(spread, groups);
                let (way, reason) = (choice.way(), choice.reason().to_owned());
                (Some(choice), way, reason)
            }
            Mode::Blocking => (None, fixed(false), "asked for".to_owned()),
            _ if able => (None, fixed(true), "asked for".to_owned()),
            _ => {
                let reason = "MPI does not let threads talk between nodes; ask it for thread level multiple";
                (None, fixed(false), reason.to_owned())
            }
        };
        let mut chooser = Self {
            comm,
            choice,
            way,
            served: false,
            reason,
            changes: Vec::new(),
            helm: Arc::clone(helm),
            meter: Arc::clone(meter),
            window: Window::default(),
            wanted: AT_FIRST,
            awaited: None,
            waiting: false,
            waited: None,
        };
        chooser.turn(0);
        chooser
    }

    /// For an output that servers write.
    pub(crate) fn served(comm: Comm, asked: Mode, servers: usize) -> Self {
        let spread = Spread { ranks: 1, nodes: 1, holders: 1, bytes: 0.0 };
        let (helm, meter): (_, Arc<dyn Meter>) = (Arc::default(), Arc::new(Clock));
        let mut chooser = Self::new(comm, Mode::Blocking, &spread, false, &helm, &meter);
        chooser.served = true;
        chooser.reason = match asked {
            Mode::Servers => "asked for".to_owned(),
            _ => format!("{servers} of the ranks do nothing but write: they stay servers"),
        };
        chooser.changes.clear();
        chooser.note(0);
        chooser
    }

    /// Whether a thread is to write now.
    pub(crate) fn wants_thread(&self) -> bool {
        self.way.thread
    }

    pub(crate) fn mode(&self) -> Mode {
        if self.served { Mode::Servers } else { self.way.mode() }
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The outcome of a change, agreed by all ranks.
    pub(crate) fn agree(&self, name: &str, outcome: Result<()>) -> Result<()> {
        agree(&self.comm, "change mode", name, outcome)
    }

    /// Whether the step that was just handed over is to be waited for.
    pub(crate) fn waits(&self) -> bool {
        self.waiting
    }

    /// Notes a step that was committed from `begin` until now; whether it is time to think, which is so on all ranks alike.
    pub(crate) fn observe(&mut self, begin: Instant, bytes: u64) -> bool {
        if self.choice.is_none() {
            return false;
        }
        let now = Instant::now();
        // The time before the first commit is none between commits.
        if let Some(ended) = self.window.ended.replace(now) {
            let (computing, in_commit) = ((begin - ended).as_secs_f64(), (now - begin).as_secs_f64());
            let (waited, clock) =
                (std::mem::take(&mut self.waiting), Lap { computing, in_commit, writing: None });
            let lap = self.meter.lap(self.way, waited, clock);
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
    pub(crate) fn think(&mut self, name: &str, driver: &mut Driver) -> Result<Option<Decision>> {
        let heard = match self.awaited.take() {
            Some(awaited) => awaited,
            None => {
                let sample =
                    Sample { comm: self.comm.clone(), window: self.window, waited: self.waited.take() };
                let (tell, told) = channel();
                driver.measure(move |written| _ = tell.send(sample.meet(written)));
                if self.way.thread {
                    self.awaited = Some(told);
                    return Ok(None);
                }
                told
            }
        };
        // After a failure nobody measures any more; the board tells of it.
        let (Ok(seen), Some(choice)) = (heard.recv(), &mut self.choice) else { return Ok(None) };
        let seen = seen.map_err(|error| Error::talk("choose mode", name, &error))?;
        Ok(Some(choice.decide(&seen)))
    }

    /// From this step on, what was decided.
    pub(crate) fn follow(&mut self, decision: Decision, step: u64) {
        let changed = self.way != decision.way;
        (self.way, self.reason, self.waiting) = (decision.way, decision.reason, decision.wait);
        if changed {
            self.turn(step);
        }
    }

    /// Measures anew, from now on.
    pub(crate) fn restart(&mut self, driver: &mut Driver) {
        self.window = Window { ended: Some(Instant::now()), ..Window::default() };
        self.wanted = WINDOW;
        driver.measure(|written| *written = Written::default());
    }

    fn turn(&mut self, step: u64) {
        self.helm.turn(step, self.way.gather);
        self.note(step);
    }

    fn note(&mut self, step: u64) {
        self.changes.push(Change { step, mode: self.mode(), reason: self.reason.clone() });
    }
}

impl Sample {
    /// What all ranks have measured. Collective.
    fn meet(self, written: &Written) -> aqueduct_comm::Result<Seen> {
        let Self { comm, window, waited } = self;
        let per_step = |sum: f64| sum / window.steps.max(1) as f64;
        let measured = written.busy.as_secs_f64() / written.parcels.max(1) as f64;
        let writing = window.writing.map_or(measured, per_step);
        let (computing, in_commit) = (per_step(window.computing), per_step(window.in_commit));
        let times = [computing, in_commit, computing + in_commit, waited.unwrap_or(0.0), -writing];
        let times = comm.allreduce(Op::Max, &times)?;
        let spread = Spread::of(&comm, per_step(window.bytes))?;
        Ok(Seen {
            spread,
            steps: window.steps,
            computing: times[0],
            in_commit: times[1],
            cycle: times[2],
            writing: -times[4],
            waited: waited.map(|_| times[3]),
        })
    }
}

impl Spread {
    /// Of ranks of which this one stores so many bytes in a step. Collective.
    pub(crate) fn of(comm: &Comm, bytes: f64) -> aqueduct_comm::Result<Self> {
        let amounts = comm.allreduce(Op::Sum, &[bytes, f64::from(u8::from(bytes > 0.0))])?;
        let (ranks, nodes) = (comm.size(), comm.node_count());
        Ok(Self { ranks, nodes, holders: amounts[1] as usize, bytes: amounts[0] })
    }
}

#[cfg(test)]
mod tests;
