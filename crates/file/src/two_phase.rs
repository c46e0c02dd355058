//! Two-phase collective transfers: the ranks exchange data so that few of them access large contiguous parts of the file.
//!
//! Each round has one window of the file per aggregator. A rank's data bytes inside a window are one slice of its data, because
//! views never go backwards. Inside a node ranks copy straight into windows in shared memory ([`one_node`](crate::one_node)); between nodes each
//! node sends what its ranks have for a window in one message. A rank that fails stays until all know; the outcome is agreed at the end.

mod arrange;
mod between;
mod cache;
mod exchange;
mod message;

use std::ops::Range;
use std::sync::atomic::Ordering;

use aqueduct_device::{HandleExt, LockKind, Piece};

use crate::core::Core;
use crate::error::{Error, Result};
use crate::field::Field;
use crate::flow::{Inflow, Outflow};
use crate::layout::Pattern;
use crate::perform::Position;
use crate::plan::{self, Direction, Domains, Plan, Summary};
use crate::transfer::Company;
pub(crate) use between::Between;
pub(crate) use cache::{Cache, Rounds};
use cache::{Key, Planned};
pub(crate) use message::Runs;

/// A collective access in two phases, as one rank sees it.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    pub(crate) direction: Direction,
    pub(crate) domains: &'a Domains,
    /// Whether the ranks' bytes are known to have no gaps.
    pub(crate) dense: bool,
    pub(crate) pattern: &'a Pattern,
    /// Which data bytes.
    pub(crate) window: &'a Range<u64>,
}

impl Job<'_> {
    fn operation(&self) -> &'static str {
        operation(self.direction)
    }
}

fn operation(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "read_all",
        Direction::Write => "write_all",
    }
}

/// A job between nodes under way.
struct Exchange<'a> {
    core: &'a Core,
    job: &'a Job<'a>,
    between: Between,
    /// The windows whose aggregators are on this node.
    local: Vec<usize>,
    rounds: &'a mut Rounds,
    /// Counts the steps: which message buffer is in use.
    turn: u64,
}

/// A plan that the ranks have agreed on.
struct Course {
    domains: Domains,
    dense: bool,
    /// The rounds, as far as they are known already.
    rounds: Rounds,
    /// What the plan is to be kept by, if it is new.
    new: Option<(Key, Summary)>,
}

impl Core {
    /// Writes `data` to the data bytes from `first` on, together with all other ranks. `mine` fails the operation from the start, on all
    /// ranks, but takes part in it.
    pub(crate) fn write_together(
        &self,
        position: Position,
        pattern: &Pattern,
        first: u64,
        data: Result<&Outflow<'_>>,
    ) -> Result<u64> {
        let (data, failed) = data.map_or_else(|error| (&Outflow::NOTHING, Some(error)), |data| (data, None));
        let window = first..first + data.len();
        let course = self.course(position, Direction::Write, pattern, &window)?;
        self.follow(course, Direction::Write, pattern, &window, |work| match work {
            Work::Apart => failed.map_or_else(|| self.write_window(Company::All, pattern, first, data), Err),
            Work::InNode(job, rounds) => self.write_staged(job, rounds, data, failed),
            Work::Between(mut exchange) => exchange.write(data, failed),
        })
    }

    /// Fills `data` from the data bytes from `first` on, together with all other ranks; the count is less at the end of the file.
    pub(crate) fn read_together(
        &self,
        position: Position,
        pattern: &Pattern,
        first: u64,
        data: Result<&mut Inflow<'_>>,
    ) -> Result<u64> {
        let nothing = &mut Inflow::Straight(&mut []);
        let (data, failed) = match data {
            Ok(data) => (data, None),
            Err(error) => (nothing, Some(error)),
        };
        let window = first..first + data.len();
        let course = self.course(position, Direction::Read, pattern, &window)?;
        self.follow(course, Direction::Read, pattern, &window, |work| match work {
            Work::Apart => failed.map_or_else(|| self.read_window(Company::All, pattern, first, data), Err),
            Work::InNode(job, rounds) => self.read_staged(job, rounds, data, failed),
            Work::Between(mut exchange) => exchange.read(data, failed),
        })
    }

    /// Copies this rank's bytes of a window of the file to their places in it.
    pub(crate) fn put_shares(
        &self,
        field: &Field<'_>,
        job: &Job<'_>,
        share: &Range<u64>,
        data: &Outflow<'_>,
    ) -> Result<()> {
        let origin = job.window.start;
        self.tally.copied.add(share.end - share.start);
        data.each_to_memory(&self.tally, share.start - origin..share.end - origin, |part, bytes| {
            field.put(job.pattern, origin + part.start..origin + part.end, bytes);
            Ok(())
        })
    }

    /// Copies this rank's bytes of a window of the file from their places in it.
    pub(crate) fn get_shares(
        &self,
        field: &Field<'_>,
        job: &Job<'_>,
        share: &Range<u64>,
        data: &mut Inflow<'_>,
    ) -> Result<()> {
        let origin = job.window.start;
        self.tally.copied.add(share.end - share.start);
        let filled = data.each(&self.tally, share.start - origin..share.end - origin, |part, bytes| {
            field.get(job.pattern, origin + part.start..origin + part.end, bytes);
            Ok(bytes.len() as u64)
        });
        filled.map(|_| ())
    }

    /// What all ranks bring, merged, and from it the same course on every rank; none where each works for itself. A plan that all
    /// ranks have made before is not made again.
    fn course(
        &self,
        position: Position,
        direction: Direction,
        pattern: &Pattern,
        window: &Range<u64>,
    ) -> Result<Option<Course>> {
        // What others see through views of their own, nobody knows.
        let known = position != Position::Through && self.plain.load(Ordering::Acquire);
        if known && self.hints().leaves_open(direction) {
            return Ok(None);
        }
        let key = Key { direction, pattern: pattern.clone(), window: window.clone() };
        let mine = self.plans().offer(&key).tell(|| Summary::of(pattern, window.clone()));
        // Each rank might as well work for itself on one machine's page cache.
        let asked = self.can.maps && self.comm.node_count() == 1 && !window.is_empty();
        let prices = asked.then(|| self.prices(direction, pattern, window));
        let priced = prices.map_or(mine, |(apart, together)| mine.costing(apart, together));
        let all = self.comm.allreduce_with(&[priced.words()], |into, with| {
            let mut sum = Summary::from_words(into);
            sum.merge(&Summary::from_words(with));
            *into = sum.words();
        });
        let all = Summary::from_words(&self.talk("plan", all)?[0]);
        let hints = self.hints();
        // Overlapping atomic accesses must look as if one came after the other: each rank locks and works for itself.
        if self.is_atomic() || !plan::together(direction, &all, &hints) {
            return Ok(None);
        }
        let fits = |by: i64| plan::keeps_granules(by, &hints, &self.can);
        if let Some(Planned { domains, dense, rounds }) = self.plans().recall(&key, &all, fits) {
            let rounds = Rounds::known(rounds);
            return Ok(Some(Course { domains, dense, rounds, new: None }));
        }
        let rank_at = |node: usize, place: usize| self.comm.ranks_of_node(node).get(place).copied();
        // Writers of a file in one machine's page cache wait for one another: a second one would only be in the way.
        let one = direction == Direction::Write && self.can.maps && self.comm.node_count() == 1;
        let wish = hints.aggregators.or(one.then_some(1));
        let chosen = plan::aggregators(self.comm.size(), self.comm.node_count(), wish, rank_at);
        let Plan::Together(domains) = plan::collective(direction, &all, &chosen, &hints, &self.can) else {
            return Ok(None);
        };
        let (dense, rounds) = (all.interlocks(), Rounds::default());
        Ok(Some(Course { domains, dense, rounds, new: Some((key, mine)) }))
    }

    /// Does the work and agrees on its outcome; a plan that went well is kept, and what it cost is remembered.
    fn follow(
        &self,
        course: Option<Course>,
        direction: Direction,
        pattern: &Pattern,
        window: &Range<u64>,
        work: impl FnOnce(Work<'_>) -> Result<u64>,
    ) -> Result<u64> {
        let operation = operation(direction);
        let Some(Course { domains, dense, mut rounds, new }) = course else {
            return self.agree_count(operation, work(Work::Apart));
        };
        let job = Job { direction, domains: &domains, dense, pattern, window };
        let access = || {
            let outcome = if self.comm.node_count() == 1 {
                work(Work::InNode(&job, &mut rounds))
            } else {
                work(Work::Between(Exchange::new(self, &job, &mut rounds)?))
            };
            self.agree(operation, outcome)
        };
        let agreed = self.exchanged(direction, pattern, window, access)?;
        self.tally.planned.add(rounds.planned());
        if let Some((key, mine)) = new {
            let planned = rounds.into_kept().map(|rounds| Planned { domains, dense, rounds });
            self.plans().keep(key, mine, planned);
        }
        Ok(agreed)
    }

    /// As [`agree`](Core::agree), for what each rank has transferred by itself: a rank that others fail has still transferred it.
    fn agree_count(&self, operation: &'static str, mine: Result<u64>) -> Result<u64> {
        let done = mine.as_ref().ok().copied();
        let agreed = self.agree(operation, mine);
        agreed.map_err(|error| done.map_or(error.clone(), |done| error.after(done)))
    }

    /// Writes what an aggregator has together, in ascending order.
    pub(crate) fn write_pieces(&self, pieces: &[Piece<'_>]) -> Result<()> {
        let start = pieces.first().map_or(0, |piece| piece.offset);
        let end = pieces.last().map_or(0, |piece| piece.offset + piece.bytes.len() as u64);
        let locks = self.sieves_writes() || self.locks_for_coherence();
        let _guard = if locks { self.lock("write_all", start..end, LockKind::Exclusive)? } else { None };
        // Whose bytes the device did write, an aggregator does not tell.
        self.device("write_all", self.handle.write_all(pieces)).map_err(|error| error.after(0))
    }

    pub(crate) fn garbled(&self, operation: &'static str, rank: usize) -> Error {
        let detail = format!("rank {rank} sent something else; do all ranks run the same program?");
        self.error(crate::Kind::Communication, operation, detail).on_rank(rank)
    }
}

/// One of the ways in which a rank takes part.
enum Work<'a> {
    Apart,
    InNode(&'a Job<'a>, &'a mut Rounds),
    Between(Exchange<'a>),
}
