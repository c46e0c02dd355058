//! Choosing the mode from what was measured: a pure rule, and the ranks that follow it together.

use std::time::Instant;

use aqueduct_comm::{Comm, Op};

use crate::error::{Error, Result, agree};
use crate::options::Mode;

/// Steps below this, over all ranks, are not worth a thread.
const SMALL: f64 = 1.5e6;
/// Leaders are worth their gathering from so many ranks of a node on, each with less than this.
const FEW: usize = 4;
const SCANTY: f64 = 65536.0;
/// What must be saved of the time of a step.
const WORTHWHILE: f64 = 0.05;
/// With a thread a step must take less than this share of what it took without.
const BETTER: f64 = 0.97;
/// Steps that are looked at before the first decision, after a thread was started, and after one was given up.
const AT_FIRST: u64 = 2;
const WITH_THREAD: u64 = 16;
const AFTER_A_TRIAL: u64 = 256;
/// The longest time without a look at a thread.
const SELDOM: u64 = 1024;

/// What all ranks will do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) mode: Mode,
    pub(crate) reason: String,
}

/// What was measured of some steps, of all ranks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    mode: Mode,
    ranks: usize,
    /// Ranks that stored something.
    holders: usize,
    /// Per step, over all ranks.
    bytes: f64,
    /// Seconds per step, of the rank that took longest.
    computing: f64,
    in_commit: f64,
    /// Seconds per step when the program itself wrote, if that was ever measured.
    before: Option<f64>,
}

/// What pays.
fn choose(seen: &Seen) -> Decision {
    let stay = |mode, reason| Decision { mode, reason };
    let (computing, in_commit) = (seen.computing * 1e3, seen.in_commit * 1e3);
    let cycle = computing + in_commit;
    if let (Mode::Thread, Some(before)) = (seen.mode, seen.before) {
        let before = before * 1e3;
        let helps = cycle < BETTER * before;
        let mode = if helps { Mode::Thread } else { Mode::Blocking };
        return stay(mode, format!("a step took {cycle:.2} ms with a thread, {before:.2} ms without"));
    }
    if seen.bytes < SMALL {
        let megabytes = seen.bytes / 1e6;
        return stay(
            Mode::Blocking,
            format!("steps of {megabytes:.2} MB are too small: a thread pays from 1.5 MB on"),
        );
    }
    if seen.ranks > 1 && seen.holders == 1 {
        return stay(Mode::Blocking, "one rank holds all that is stored".to_owned());
    }
    let hidden = computing.min(in_commit);
    if hidden < WORTHWHILE * cycle {
        let reason = format!(
            "{computing:.2} ms of computing and {in_commit:.2} ms of writing per step: overlap could not save 5 %"
        );
        return stay(Mode::Blocking, reason);
    }
    let reason = format!(
        "{computing:.2} ms of computing and {in_commit:.2} ms of writing per step: a thread hides the shorter"
    );
    stay(Mode::Thread, reason)
}

/// How ranks and data are spread: known before anything is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    ranks: usize,
    nodes: usize,
    /// What all ranks store in a step.
    bytes: u64,
}

impl Spread {
    /// Collective.
    pub(crate) fn new(comm: &Comm, bytes: u64) -> aqueduct_comm::Result<Self> {
        let bytes = comm.allreduce_one(Op::Sum, bytes)?;
        Ok(Self { ranks: comm.size(), nodes: comm.node_count(), bytes })
    }
}

/// Whether ranks hand their bytes to leaders, and why so: where it was asked for, or where pieces are small and would cross the network
/// in many small meetings.
pub(crate) fn gathering(asked: Mode, spread: &Spread) -> Option<String> {
    let each = spread.bytes as f64 / spread.ranks as f64;
    match asked {
        Mode::Leaders => Some("asked for".to_owned()),
        Mode::Auto if spread.nodes > 1 && spread.ranks >= FEW * spread.nodes && each < SCANTY => {
            let (per_node, kilobytes) = (spread.ranks / spread.nodes, each / 1e3);
            Some(format!(
                "{per_node} ranks of a node have {kilobytes:.0} kB each: one of them writes for all"
            ))
        }
        _ => None,
    }
}

/// Measures steps, and finds with the other ranks what to do.
pub(crate) struct Chooser {
    comm: Comm,
    /// Whether there is anything to choose.
    open: bool,
    reason: String,
    first: Mode,
    /// Why leaders write for their groups, if they do.
    gathering: Option<String>,
    window: Window,
    /// How many steps are measured before the next decision.
    wanted: u64,
    before: Option<f64>,
}

/// Sums over steps, of this rank.
#[derive(Default)]
struct Window {
    steps: u64,
    bytes: f64,
    computing: f64,
    in_commit: f64,
    /// When the last commit ended; none before the first.
    ended: Option<Instant>,
}

impl Chooser {
    pub(crate) fn new(comm: Comm, asked: Mode, gathering: Option<String>) -> Self {
        let able = comm.serves_threads();
        let (first, reason) = match asked {
            Mode::Blocking => (Mode::Blocking, "asked for"),
            _ if !able => (
                Mode::Blocking,
                "MPI does not let threads talk between nodes; ask it for thread level multiple",
            ),
            Mode::Thread | Mode::Leaders => (Mode::Thread, "asked for"),
            // Servers have no choice: see `served`.
            Mode::Auto | Mode::Servers => (Mode::Blocking, "nothing measured yet"),
        };
        let open = asked == Mode::Auto && able;
        let (window, wanted) = (Window::default(), AT_FIRST);
        let mut chooser =
            Self { comm, open, reason: String::new(), first, gathering, window, wanted, before: None };
        chooser.reason = chooser.explained(reason.to_owned());
        chooser
    }

    /// For an output that servers write.
    pub(crate) fn served(comm: Comm, asked: Mode, servers: usize) -> Self {
        let mut chooser = Self::new(comm, Mode::Blocking, None);
        chooser.first = Mode::Servers;
        chooser.reason = match asked {
            Mode::Servers => "asked for".to_owned(),
            _ => format!("{servers} of the ranks do nothing but write"),
        };
        chooser
    }

    /// What to begin with.
    pub(crate) fn first(&self) -> Mode {
        self.first
    }

    /// The mode that is told, if the hand that writes is in this one.
    pub(crate) fn called(&self, hand: Mode) -> Mode {
        if hand == Mode::Thread && self.is_gathering() { Mode::Leaders } else { hand }
    }

    /// Whether leaders write for their groups.
    pub(crate) fn is_gathering(&self) -> bool {
        self.gathering.is_some()
    }

    fn explained(&self, reason: String) -> String {
        match &self.gathering {
            Some(why) if *why != reason => format!("{reason}; {why}"),
            _ => reason,
        }
    }

    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }

    /// The outcome of a change, agreed by all ranks.
    pub(crate) fn agree(&self, name: &str, outcome: Result<()>) -> Result<()> {
        agree(&self.comm, "change mode", name, outcome)
    }

    /// Notes a step that was committed from `begin` until now; whether it is time to decide, which is so on all ranks alike.
    pub(crate) fn observe(&mut self, begin: Instant, bytes: u64) -> bool {
        if !self.open {
            return false;
        }
        let now = Instant::now();
        // The time before the first commit is none between commits.
        if let Some(ended) = self.window.ended.replace(now) {
            self.window.steps += 1;
            self.window.bytes += bytes as f64;
            self.window.computing += (begin - ended).as_secs_f64();
            self.window.in_commit += (now - begin).as_secs_f64();
        }
        self.window.steps >= self.wanted
    }

    /// Finds what to do from now on. Collective.
    pub(crate) fn decide(&mut self, name: &str, mode: Mode) -> Result<Mode> {
        let talk = |error: aqueduct_comm::Error| Error::talk("choose mode", name, &error);
        let window = std::mem::take(&mut self.window);
        let per_step = |sum: f64| sum / window.steps as f64;
        let times = [per_step(window.computing), per_step(window.in_commit)];
        let amounts = [per_step(window.bytes), f64::from(u8::from(window.bytes > 0.0))];
        let times = self.comm.allreduce(Op::Max, &times).map_err(talk)?;
        let amounts = self.comm.allreduce(Op::Sum, &amounts).map_err(talk)?;
        let seen = Seen {
            mode,
            ranks: self.comm.size(),
            holders: amounts[1] as usize,
            bytes: amounts[0],
            computing: times[0],
            in_commit: times[1],
            before: self.before,
        };
        let decision = choose(&seen);
        if mode == Mode::Blocking {
            self.before = Some(seen.computing + seen.in_commit);
        }
        self.wanted = match (mode, decision.mode) {
            (Mode::Thread, Mode::Blocking) => AFTER_A_TRIAL,
            // To look, everything must be written first: what has proved itself is disturbed less and less.
            (Mode::Thread, _) => (2 * self.wanted).min(SELDOM),
            _ => WITH_THREAD,
        };
        self.reason = self.explained(decision.reason);
        Ok(decision.mode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEN: Seen = Seen {
        mode: Mode::Blocking,
        ranks: 4,
        holders: 4,
        bytes: 1e8,
        computing: 0.1,
        in_commit: 0.1,
        before: None,
    };

    #[test]
    fn a_thread_is_chosen_where_it_can_hide_something() {
        assert_eq!(choose(&SEEN).mode, Mode::Thread);
        assert_eq!(choose(&Seen { computing: 1.0, ..SEEN }).mode, Mode::Thread);
        assert_eq!(choose(&Seen { in_commit: 1.0, ..SEEN }).mode, Mode::Thread);
        assert_eq!(choose(&Seen { ranks: 1, holders: 1, ..SEEN }).mode, Mode::Thread);
    }

    #[test]
    fn and_not_where_it_cannot() {
        let cases = [
            (Seen { bytes: 1e6, ..SEEN }, "1.00 MB"),
            (Seen { holders: 1, ..SEEN }, "one rank"),
            (Seen { computing: 0.001, ..SEEN }, "could not save"),
            (Seen { in_commit: 0.001, ..SEEN }, "could not save"),
            (Seen { mode: Mode::Thread, before: Some(0.2), ..SEEN }, "200.00 ms without"),
        ];
        for (seen, words) in cases {
            let decision = choose(&seen);
            assert_eq!(decision.mode, Mode::Blocking, "{decision:?}");
            assert!(decision.reason.contains(words), "{decision:?}");
        }
        let better = Seen { mode: Mode::Thread, before: Some(0.3), ..SEEN };
        assert_eq!(choose(&better).mode, Mode::Thread);
    }
}
