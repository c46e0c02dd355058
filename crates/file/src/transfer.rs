//! Independent transfers: the data bytes of a window of a pattern, between contiguous memory and the device.

use std::ops::Range;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Instant;

use aqueduct_device::{HandleExt, LockGuard, LockKind, Piece, PieceMut};

use crate::core::Core;
use crate::error::Result;
use crate::flow::{Inflow, Outflow};
use crate::layout::Pattern;
use crate::plan::{self, Choice, Direction, Extent, Market, Strategy};
use crate::repeats::Repeats;
use crate::verbose;

/// Runs in one call of the device: as many as one vectored system call takes.
pub(crate) const BATCH: usize = 1024;

/// With whom a rank accesses the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// By itself.
    Alone,
    /// In a collective operation, though each for itself.
    All,
}

impl Core {
    /// Writes `data` to the data bytes from `first` on; the count, less only with an error.
    pub(crate) fn write_window(
        &self,
        company: Company,
        pattern: &Pattern,
        first: u64,
        data: &Outflow<'_>,
    ) -> Result<u64> {
        let window = first..first + data.len();
        let span = span(pattern, &window);
        if is_one_run(&window, &span) {
            let _guard = self.write_lock(&span, self.sieves_writes())?;
            self.expect(&span);
            return self.write_run(pattern, first, &span, data);
        }
        let choice = self.choose(company, Direction::Write, pattern, &window);
        // Where anyone reads, changes and writes back, everyone who writes must lock.
        let _guard = self.write_lock(&span, choice.strategy != Strategy::Sieve && self.sieves_writes())?;
        self.timed(company, Direction::Write, choice, || {
            self.pour(data, |part, bytes| {
                let window = first + part.start..first + part.end;
                match choice.strategy {
                    Strategy::Direct => self.write_list(pattern, window, bytes, 1),
                    Strategy::Sieve => self.write_sieved(pattern, window, bytes),
                    Strategy::Map => self.write_mapped(pattern, window, bytes),
                    Strategy::List | Strategy::TwoPhase => self.write_list(pattern, window, bytes, BATCH),
                }
            })
        })
    }

    /// Writes one run of the file: by a call, until it has been written so often that its pages are worth mapping.
    fn write_run(&self, pattern: &Pattern, first: u64, run: &Range<u64>, data: &Outflow<'_>) -> Result<u64> {
        self.repeated(Direction::Write, run, |strategy| {
            self.pour(data, |part, bytes| match strategy {
                Strategy::Map => {
                    self.write_mapped(pattern, first + part.start..first + part.end, bytes).map(drop)
                }
                _ => self.device("write", self.handle.write_at(run.start + part.start, bytes)),
            })
        })
    }

    /// Reads one run of the file, in the same way.
    fn read_run(
        &self,
        pattern: &Pattern,
        first: u64,
        run: &Range<u64>,
        data: &mut Inflow<'_>,
    ) -> Result<u64> {
        self.repeated(Direction::Read, run, |strategy| {
            self.draw(data, |part, bytes| match strategy {
                Strategy::Map => self.read_mapped(pattern, first + part.start..first + part.end, bytes),
                _ => self.device("read", self.handle.read_at(run.start + part.start, bytes)),
            })
        })
    }

    /// Accesses one run of the file the way that has been cheaper, and remembers what it cost.
    fn repeated(
        &self,
        direction: Direction,
        run: &Range<u64>,
        access: impl FnOnce(Strategy) -> Result<u64>,
    ) -> Result<u64> {
        let (strategy, telling) = self.way_for(direction, run);
        let start = telling.then(Instant::now);
        let count = access(strategy)?;
        // Of what lies behind the end of the file nothing was moved.
        if let Some(start) = start.filter(|_| count == run.end - run.start) {
            self.repeats(direction).learn(strategy, run, start.elapsed().as_nanos() as f64);
        }
        Ok(count)
    }

    /// How a run is accessed, and whether what that takes is telling: not where pages are made present for all later accesses.
    fn way_for(&self, direction: Direction, run: &Range<u64>) -> (Strategy, bool) {
        let hints = self.hints();
        if !self.can.maps || !hints.map || hints.strategy.is_some_and(|strategy| strategy != Strategy::Map) {
            return (Strategy::List, false);
        }
        let write = direction == Direction::Write;
        if !Repeats::is_telling(run) {
            let follows = hints.strategy.is_none() && self.streak(direction).note(run);
            if follows && self.reach_ahead(run, direction) {
                return (Strategy::Map, false);
            }
            if !write {
                // To ask whether the pages are there would cost what the call does.
                return (Strategy::List, false);
            }
        }
        let mut repeats = self.repeats(direction);
        let (often, told) = (repeats.note(run), hints.strategy.is_some());
        let mapping = if often || told { self.mapping_beside(run) } else { None };
        match mapping.filter(|mapping| !write || mapping.keeps_room()) {
            Some(_) if told => (Strategy::Map, false),
            Some(mapping) => {
                let choice = repeats.choose(run);
                let bytes = run.end - run.start;
                let extent = Extent { span: bytes, bytes, runs: 1, fresh: false };
                self.tell(Company::Alone, direction, extent, choice, || repeats.prices(run).to_vec());
                let strategy = choice.strategy;
                let lasting = strategy == Strategy::Map && !mapping.was_reached(run, write);
                (strategy, !lasting && Repeats::is_telling(run))
            }
            None => (Strategy::List, Repeats::is_telling(run)),
        }
    }

    /// Writes data piece by piece; an error tells how much went before it.
    fn pour<T>(
        &self,
        data: &Outflow<'_>,
        mut write: impl FnMut(Range<u64>, &[u8]) -> Result<T>,
    ) -> Result<u64> {
        data.each(&self.tally, 0..data.len(), |part, bytes| {
            let before = part.start;
            let outcome = write(part, bytes);
            outcome.map(|_| ()).map_err(|error| error.clone().after(before + error.transferred()))
        })?;
        Ok(data.len())
    }

    /// Fills `data` from the data bytes from `first` on; the count is less at the end of the file.
    pub(crate) fn read_window(
        &self,
        company: Company,
        pattern: &Pattern,
        first: u64,
        data: &mut Inflow<'_>,
    ) -> Result<u64> {
        let window = first..first + data.len();
        let span = span(pattern, &window);
        let _guard =
            if self.locks_accesses() { self.lock("read", span.clone(), LockKind::Shared)? } else { None };
        if is_one_run(&window, &span) {
            return self.read_run(pattern, first, &span, data);
        }
        let choice = self.choose(company, Direction::Read, pattern, &window);
        self.timed(company, Direction::Read, choice, || {
            self.draw(data, |part, bytes| {
                let window = first + part.start..first + part.end;
                match choice.strategy {
                    Strategy::Sieve => self.read_sieved(pattern, window, bytes),
                    // Where a view shows a byte twice, a list could read on behind the end of the file, and so behind the count.
                    _ if !pattern.is_ascending() => self.read_list(pattern, window, bytes, 1),
                    Strategy::Direct => self.read_list(pattern, window, bytes, 1),
                    Strategy::Map => self.read_mapped(pattern, window, bytes),
                    Strategy::List | Strategy::TwoPhase => self.read_list(pattern, window, bytes, BATCH),
                }
            })
        })
    }

    /// Reads data piece by piece; an error tells how much went before it.
    fn draw(
        &self,
        data: &mut Inflow<'_>,
        mut read: impl FnMut(Range<u64>, &mut [u8]) -> Result<u64>,
    ) -> Result<u64> {
        let all = 0..data.len();
        data.each(&self.tally, all, |part, bytes| {
            let before = part.start;
            read(part, bytes).map_err(|error| error.clone().after(before + error.transferred()))
        })
    }

    fn write_lock(&self, span: &Range<u64>, sieved: bool) -> Result<Option<Box<dyn LockGuard + '_>>> {
        let locks = self.locks_accesses() || sieved;
        if locks { self.lock("write", span.clone(), LockKind::Exclusive) } else { Ok(None) }
    }

    fn choose(
        &self,
        company: Company,
        direction: Direction,
        pattern: &Pattern,
        window: &Range<u64>,
    ) -> Choice {
        let (hints, experience) = (self.hints(), self.experience(company));
        let market = Market { hints: &hints, can: &self.can, experience: &experience };
        let extent = self.extent(direction, pattern, window);
        let choice = plan::independent(direction, &extent, &market);
        let together = company == Company::All;
        self.tell(company, direction, extent, choice, || market.prices(direction, &extent, together));
        choice
    }

    /// Tells people how an access is done, aloud or in a trace, if they have asked and it is not as it was.
    fn tell(
        &self,
        company: Company,
        direction: Direction,
        extent: Extent,
        choice: Choice,
        prices: impl FnOnce() -> Vec<Choice>,
    ) {
        let aloud = verbose::is_on() && self.comm.rank() == 0;
        if !aloud && !self.can.records {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut told[company as usize][direction as usize];
        if *last != Some(choice.strategy) {
            *last = Some(choice.strategy);
            let together = company == Company::All;
            let access = verbose::Access { direction, together, extent, choice, prices: &prices() };
            if aloud {
                eprintln!("aqueduct: {}: {access}", self.name);
            }
            self.handle.remark(&access);
        }
    }

    /// Does a two-phase access, and remembers what it cost.
    pub(crate) fn exchanged(
        &self,
        direction: Direction,
        pattern: &Pattern,
        window: &Range<u64>,
        access: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let choice = {
            let (hints, experience) = (self.hints(), self.experience(Company::All));
            let market = Market { hints: &hints, can: &self.can, experience: &experience };
            let extent = self.extent(direction, pattern, window);
            let choice = market.price(direction, Strategy::TwoPhase, &extent);
            self.tell(Company::All, direction, extent, choice, || market.prices(direction, &extent, true));
            choice
        };
        self.timed(Company::All, direction, choice, access)
    }

    /// What this rank pays for its part of a collective access, in nanoseconds: by itself, and together with the others.
    pub(crate) fn prices(&self, direction: Direction, pattern: &Pattern, window: &Range<u64>) -> (f64, f64) {
        let (hints, experience) = (self.hints(), self.experience(Company::All));
        let market = Market { hints: &hints, can: &self.can, experience: &experience };
        let extent = self.extent(direction, pattern, window);
        let together = market.price(direction, Strategy::TwoPhase, &extent);
        (plan::independent(direction, &extent, &market).estimate, together.estimate)
    }

    /// Does an access the chosen way, and remembers what it cost.
    pub(crate) fn timed(
        &self,
        company: Company,
        direction: Direction,
        choice: Choice,
        access: impl FnOnce() -> Result<u64>,
    ) -> Result<u64> {
        let start = Instant::now();
        let count = access()?;
        self.experience(company).learn(direction, choice, start.elapsed().as_nanos() as f64);
        Ok(count)
    }

    /// The size of an access.
    fn extent(&self, direction: Direction, pattern: &Pattern, window: &Range<u64>) -> Extent {
        let (span, bytes) = (span(pattern, window), window.end - window.start);
        // Only prices of the page cache know the difference.
        let asks = direction == Direction::Write && self.can.maps;
        let fresh = asks && self.is_fresh(&span);
        Extent { span: span.end - span.start, bytes, runs: estimated_runs(pattern, window), fresh }
    }

    /// Whether whoever writes a part of the file makes its pages. The middle stands for the whole: where a file was given its length first, it is
    /// a hole; where it was none, it stays so.
    fn is_fresh(&self, part: &Range<u64>) -> bool {
        let middle = part.start.midpoint(part.end);
        let behind = self.handle.len().is_ok_and(|len| len < part.end);
        let hole = || self.solid.load(Ordering::Relaxed) != middle && self.handle.is_hole(middle);
        let fresh = behind || hole();
        if !fresh {
            self.solid.store(middle, Ordering::Relaxed);
        }
        fresh
    }

    /// Whether anyone may read, change and write back, so that everyone who writes must lock.
    pub(crate) fn sieves_writes(&self) -> bool {
        let hints = self.hints();
        hints.strategy == Some(Strategy::Sieve) || hints.sieve_write == crate::hints::Toggle::Enable
    }

    pub(crate) fn write_list(
        &self,
        pattern: &Pattern,
        window: Range<u64>,
        data: &[u8],
        batch: usize,
    ) -> Result<u64> {
        let (mut rest, mut done) = (data, 0);
        let mut runs = pattern.runs(window).peekable();
        while runs.peek().is_some() {
            let mut pieces = Vec::with_capacity(batch.min(64));
            self.tally.buffer(pieces.capacity() * size_of::<Piece<'_>>());
            for run in runs.by_ref().take(batch) {
                let (now, later) = rest.split_at(run.len as usize);
                pieces.push(Piece::new(run.offset as u64, now));
                rest = later;
            }
            let outcome = self.device("write", self.handle.write_all(&pieces));
            outcome.map_err(|error| error.clone().after(done + error.transferred()))?;
            done = (data.len() - rest.len()) as u64;
        }
        Ok(done)
    }

    pub(crate) fn read_list(
        &self,
        pattern: &Pattern,
        window: Range<u64>,
        data: &mut [u8],
        batch: usize,
    ) -> Result<u64> {
        let (mut rest, mut done) = (data, 0);
        let mut runs = pattern.runs(window).peekable();
        while runs.peek().is_some() {
            let mut pieces = Vec::with_capacity(batch.min(64));
            self.tally.buffer(pieces.capacity() * size_of::<PieceMut<'_>>());
            let mut wanted = 0;
            for run in runs.by_ref().take(batch) {
                let (now, later) = rest.split_at_mut(run.len as usize);
                pieces.push(PieceMut::new(run.offset as u64, now));
                wanted += run.len;
                rest = later;
            }
            let outcome = self.device("read", self.handle.read_full(&mut pieces));
            let count = outcome.map_err(|error| error.clone().after(done + error.transferred()))?;
            done += count;
            if count < wanted {
                break;
            }
        }
        Ok(done)
    }
}

/// Strips by which the number of runs is judged.
const SAMPLE: usize = 64;

/// How many runs a window has, judged by the first strips of them: counting all could cost more than it saves.
fn estimated_runs(pattern: &Pattern, window: &Range<u64>) -> u64 {
    let (mut runs, mut bytes) = (0u64, 0);
    for strip in pattern.strips(window.clone()).take(SAMPLE) {
        runs += strip.count;
        bytes += strip.size();
    }
    let all = window.end - window.start;
    if bytes == 0 { 0 } else { (u128::from(runs) * u128::from(all) / u128::from(bytes)) as u64 }
}

/// Whether a window is one run of the file, or empty.
fn is_one_run(window: &Range<u64>, span: &Range<u64>) -> bool {
    window.end - window.start == span.end - span.start
}

/// The bytes of the file from the first to the last of a window.
pub(crate) fn span(pattern: &Pattern, window: &Range<u64>) -> Range<u64> {
    let span = pattern.span(window.clone());
    span.start as u64..span.end as u64
}
