//! An output: steps are handed over, and written by whoever the mode says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use aqueduct_comm::Comm;
use aqueduct_object::Object;

use crate::accumulator::Accumulator;
use crate::chooser::{Change, Chooser};
use crate::declared::Declared;
use crate::description::Region;
use crate::driver::Driver;
use crate::encoding::{Given, Lengths};
use crate::error::{Error, Kind, Result};
use crate::options::{Mode, Options};
use crate::packing::{Feed, Packing};
use crate::progress::{Board, Herald, Progress, Receipt};
use crate::server::Client;
use crate::stream::{Key, ObjectKey, Reduction, Streams};
use crate::target::{Entry, Parcel, Target};
use crate::value::{Value, ValueKind};
use crate::worker::Limits;

/// The streams of a program on their way into a file. See the [crate](crate).
pub struct Output {
    name: Arc<str>,
    declared: Arc<Declared>,
    /// What reduced streams have come to; none where every sample is stored.
    accumulators: Vec<Option<Accumulator>>,
    board: Arc<Board>,
    driver: Driver,
    chooser: Chooser,
    memory: Memory,
    steps: u64,
    /// An error of this rank that the others have not learnt of yet.
    untold: Option<Error>,
    tally: Tally,
}

/// What buffers may take, and what gathering for others has taken beside them.
pub(crate) struct Memory {
    pub(crate) limits: Limits,
    /// Buffers that are needed beside those that rotate.
    pub(crate) more: usize,
    pub(crate) gathered: Arc<AtomicU64>,
}

/// What an output has done on this rank.
#[derive(Clone, Debug, Default)]
struct Tally {
    bytes: u64,
    in_commit: Duration,
}

/// What an output has done on this rank.
#[derive(Clone, Debug)]
pub struct Report {
    /// How steps were written at the end.
    pub mode: Mode,
    /// Why so.
    pub reason: String,
    /// How steps were written from when on, and why so: what it began with, and every change since.
    pub changes: Vec<Change>,
    /// How many steps were handed over.
    pub steps: u64,
    /// How many bytes of them were stored.
    pub bytes: u64,
    /// What buffers have taken at most.
    pub memory_peak: u64,
    /// What they might have taken.
    pub memory_cap: u64,
    /// What reductions keep between steps.
    pub reduction_memory: u64,
    /// How long the program was in `commit`.
    pub in_commit: Duration,
    /// How long the I/O thread was writing; in `commit`, where there is none.
    pub writing: Duration,
}

impl Memory {
    fn cap(&self) -> u64 {
        self.limits.capacity * (self.limits.buffers + self.more) as u64
    }
}

impl Output {
    /// Creates a stream file with the usual [`Options`]. One that exists is refused: [`Options::replace`] replaces it. Collective.
    pub fn create(comm: &Comm, name: &str, streams: &Streams) -> Result<Self> {
        Options::new().create(comm, name, streams)
    }

    pub(crate) fn new(
        chooser: Chooser,
        name: &str,
        declared: Arc<Declared>,
        target: Box<dyn Target>,
        pinned: &[usize],
        memory: Memory,
        comm: &Comm,
    ) -> Result<Self> {
        let board = Arc::new(Board::default());
        board.set_persistent(target.is_persistent());
        let name: Arc<str> = name.into();
        let driver = Driver::blocking((&name, comm), target, &board, memory.limits, pinned);
        let mut output = Self::driven(chooser, name, declared, driver, (board, memory));
        output.change()?;
        Ok(output)
    }

    /// An output that a server writes.
    pub(crate) fn served(
        chooser: Chooser,
        name: &str,
        declared: Arc<Declared>,
        client: Arc<Client>,
        limits: Limits,
    ) -> Self {
        let board = Arc::new(Board::heralded(Arc::clone(&client) as Arc<dyn Herald>));
        board.set_persistent(client.is_persistent());
        let name: Arc<str> = name.into();
        let driver = Driver::served((&name, chooser.comm()), client, &board, limits);
        // One more: a message to the server.
        let memory = Memory { limits, more: 1, gathered: Arc::default() };
        Self::driven(chooser, name, declared, driver, (board, memory))
    }

    fn driven(
        chooser: Chooser,
        name: Arc<str>,
        declared: Arc<Declared>,
        driver: Driver,
        (board, memory): (Arc<Board>, Memory),
    ) -> Self {
        let reduced = declared.abouts.iter().zip(&declared.pieces).map(|(about, piece)| {
            let reduction = about.reduction;
            (reduction != Reduction::None).then(|| Accumulator::new(about.kind, reduction, piece.items))
        });
        Self {
            name,
            accumulators: reduced.collect(),
            driver,
            chooser,
            declared,
            board,
            memory,
            steps: 0,
            untold: None,
            tally: Tally::default(),
        }
    }

    /// Begins a step. Fails with what has failed since the last call, in the background too.
    pub fn step(&mut self) -> Result<Step<'_, '_>> {
        self.board.check()?;
        let data = self.declared.abouts.iter().map(|_| None).collect();
        Ok(Step { output: self, data, objection: None })
    }

    /// Waits until all steps so far are synced: durable, where the device is persistent. Collective.
    pub fn flush(&mut self) -> Result<()> {
        self.board.check()?;
        self.driver.sync();
        let steps = self.steps;
        self.board.wait("flush", |progress| progress.durable >= steps)
    }

    /// How many steps have come how far.
    pub fn progress(&self) -> Progress {
        self.board.progress()
    }

    /// How steps are written now, and why so.
    pub fn mode(&self) -> (Mode, &str) {
        (self.chooser.mode(), self.chooser.reason())
    }

    /// Stores what reductions have come to, makes everything durable, and ends the file. Fails with what has failed in the background.
    /// Collective.
    pub fn finish(mut self) -> Result<Report> {
        self.board.check()?;
        let (entries, feeds) = closing(&self.declared, &mut self.accumulators);
        let parcel = Parcel { step: self.steps.saturating_sub(1), closing: true, entries };
        let mut packing = Packing::new(feeds, self.memory.limits.capacity);
        if !parcel.entries.is_empty() || self.untold.is_some() {
            self.tally.bytes += packing.size();
            let refused = self.untold.take();
            let written = self.driver.write(parcel, refused.map_or(Ok(&mut packing), Err));
            written.inspect_err(|_| self.board.mark_reported())?;
        }
        drop(packing);
        let report = self.report();
        let (driver, board, steps) = (self.driver, self.board, self.steps);
        let (buffers, writing) = driver.finish(steps);
        let memory_peak = buffers + self.memory.gathered.load(Ordering::Relaxed);
        board.check()?;
        board.note(|progress| progress.in_memory = 0);
        board.close();
        Ok(Report { memory_peak, writing, ..report })
    }

    fn report(&self) -> Report {
        let kept = self.accumulators.iter().flatten().map(Accumulator::memory).sum();
        Report {
            mode: self.chooser.mode(),
            reason: self.chooser.reason().to_owned(),
            changes: self.chooser.changes().to_vec(),
            steps: self.steps,
            bytes: self.tally.bytes,
            memory_peak: 0,
            memory_cap: self.memory.cap(),
            reduction_memory: kept,
            in_commit: self.tally.in_commit,
            writing: Duration::ZERO,
        }
    }

    /// Does what was decided by all ranks.
    fn change(&mut self) -> Result<()> {
        let refuse = |error: std::io::Error| {
            let detail = format!(
                "the I/O thread could not be started: {error}; use the blocking mode, or other processors"
            );
            Error::new(Kind::Unsupported, "create", &self.name, detail)
        };
        let outcome = self.driver.change(self.chooser.wants_thread()).map_err(refuse);
        self.chooser.agree(&self.name, outcome)
    }

    /// Takes the samples of a step, and hands over what is due.
    fn take(&mut self, data: Vec<Option<Given<'_>>>, objection: Option<Error>) -> Result<Receipt> {
        let begin = Instant::now();
        let step = self.steps;
        self.steps += 1;
        self.board.note(|progress| progress.accepted = step + 1);
        let told = objection.or_else(|| self.accumulate(&data).err()).map(|error| error.in_step(step));
        if self.untold.is_none() {
            self.untold.clone_from(&told);
        }
        let (entries, feeds) = due(&self.declared, &mut self.accumulators, step, data);
        let parcel = Parcel { step, closing: false, entries };
        let nothing = parcel.entries.is_empty();
        let mut packing = Packing::new(feeds, self.memory.limits.capacity);
        let bytes = packing.size();
        let refused = if nothing { None } else { self.untold.take() };
        let written = self.driver.write(parcel, refused.map_or(Ok(&mut packing), Err));
        drop(packing);
        let in_memory = self.accumulators.iter().flatten().map(Accumulator::samples).max().unwrap_or(0);
        self.board.note(|progress| progress.in_memory = in_memory);
        if !nothing && self.chooser.waits() {
            self.board.wait("commit", |progress| progress.visible > step)?;
        }
        self.tally.bytes += bytes;
        self.tally.in_commit += begin.elapsed();
        // Before this rank's own error is told: the others count on it. Steps that store nothing are a part of computing.
        if !nothing && self.chooser.observe(begin, bytes) {
            // Without a way to go on, nothing may seem to be accepted.
            self.reconsider().inspect_err(|error| self.board.fail(error.clone()))?;
        }
        written.and(told.map_or(Ok(()), Err))?;
        Ok(Receipt { board: Arc::clone(&self.board), step })
    }

    /// Finds with the other ranks how to go on. Before a change everything is written: what has failed then has failed on all ranks, and none
    /// waits here for one that knew earlier.
    fn reconsider(&mut self) -> Result<()> {
        let Some(decision) = self.chooser.think(&self.name, &mut self.driver)? else { return Ok(()) };
        let (steps, changes) = (self.steps, decision.way.thread != self.chooser.wants_thread());
        if changes || decision.wait {
            self.board.wait("commit", |progress| progress.visible >= steps)?;
        }
        self.chooser.follow(decision, steps);
        if changes {
            self.change()?;
        }
        self.chooser.restart(&mut self.driver);
        Ok(())
    }

    /// Adds the samples of all reduced streams.
    fn accumulate(&mut self, data: &[Option<Given<'_>>]) -> Result<()> {
        let streams = self.accumulators.iter_mut().zip(&self.declared.pieces).zip(data);
        for ((accumulator, piece), data) in streams {
            if let Some(accumulator) = accumulator {
                let unlaid = |error: aqueduct_file::layout::LayoutError| {
                    Error::new(Kind::BadArgument, "commit", &self.name, error.to_string())
                };
                let values = data.as_ref().map_or(&[][..], Given::values);
                accumulator.add(values, &piece.memory).map_err(unlaid)?;
            }
        }
        Ok(())
    }
}

/// What is stored in this step, and where it is in memory.
fn due<'a>(
    declared: &'a Declared,
    accumulators: &'a mut [Option<Accumulator>],
    step: u64,
    data: Vec<Option<Given<'a>>>,
) -> (Vec<Entry>, Vec<Feed<'a>>) {
    let (mut entries, mut feeds) = (Vec::new(), Vec::new());
    for (stream, (accumulator, given)) in accumulators.iter_mut().zip(data).enumerate() {
        let (about, piece) = (&declared.abouts[stream], &declared.pieces[stream]);
        let samples = accumulator.as_ref().map_or(1, Accumulator::samples);
        if !about.is_due(step, samples) {
            continue;
        }
        let (given, width) = (given.unwrap_or(Given::Values(&[])), about.stored().width());
        let (memory, each) = (given.values(), about.item_bytes().unwrap_or(1).max(1));
        let (items, feed) = match (accumulator, given, &about.region) {
            (Some(accumulator), ..) => (piece.items, Feed::Straight { bytes: accumulator.finish(), width }),
            (None, Given::Encoded(encoding), _) => {
                (encoding.size() / each, Feed::Encoded { encoding, width })
            }
            (None, Given::Values(bytes), Region::List) => {
                (bytes.len() as u64 / each, Feed::Straight { bytes, width })
            }
            (None, ..) => (piece.items, Feed::Sampled { memory, pattern: &piece.memory, width }),
        };
        entries.push(Entry { stream, samples, items });
        feeds.push(feed);
    }
    (entries, feeds)
}

/// What is left in reductions at the end.
fn closing<'a>(
    declared: &Declared,
    accumulators: &'a mut [Option<Accumulator>],
) -> (Vec<Entry>, Vec<Feed<'a>>) {
    let kept =
        accumulators.iter_mut().enumerate().filter_map(|(stream, kept)| Some((stream, kept.as_mut()?)));
    let left = kept.filter(|(_, accumulator)| accumulator.samples() > 0);
    let close = |(stream, accumulator): (usize, &'a mut Accumulator)| {
        let (items, samples) = (declared.pieces[stream].items, accumulator.samples());
        let width = declared.abouts[stream].stored().width();
        (Entry { stream, samples, items }, Feed::Straight { bytes: accumulator.finish(), width })
    };
    left.map(close).unzip()
}

/// A step that is being put together. Nothing happens before [`commit`](Step::commit).
#[must_use = "a step is taken by `commit`"]
pub struct Step<'o, 'd> {
    output: &'o mut Output,
    data: Vec<Option<Given<'d>>>,
    /// The first thing that is wrong with it; told by `commit`, so that all ranks learn of it.
    objection: Option<Error>,
}

impl<'d> Step<'_, 'd> {
    /// This rank's values of a stream: its array in memory, or any number of items of a list. Once in a step.
    pub fn put<T: Value>(mut self, key: Key<T>, values: &'d [T]) -> Self {
        let objection = self.object(key.index, T::KIND, values.len() as u64);
        if self.objection.is_none() {
            self.objection = objection.map(|detail| self.refuse(detail));
        }
        if let Some(place) = self.data.get_mut(key.index) {
            *place = Some(Given::Values(bytemuck::cast_slice(values)));
        }
        self
    }

    /// This rank's objects of a stream, any number of them. Once in a step.
    pub fn put_objects<T: Object>(mut self, key: ObjectKey<T>, objects: &'d [T]) -> Self {
        let about = self.output.declared.abouts.get(key.index);
        if about.and_then(|about| about.object.as_ref()) != Some(&*T::schema()) {
            let name = T::schema().name();
            let detail = format!("there is no such stream of {name} objects; the key is of another output");
            self.objection = self.objection.take().or_else(|| Some(self.refuse(detail)));
            return self;
        }
        if self.data[key.index].is_some() {
            let twice = self.refuse(put_twice(&self.output.declared.abouts[key.index].name));
            self.objection.get_or_insert(twice);
            return self;
        }
        self.data[key.index] = Some(Given::objects(objects));
        if T::SIZE.is_none() {
            self.data[key.index + 1] = Some(Given::Encoded(Box::new(Lengths::new(objects))));
        }
        self
    }

    /// Hands the step over: its values are the program's again when it returns. A stream that was not put is an error, unless this rank
    /// has nothing of it. Collective.
    pub fn commit(mut self) -> Result<Receipt> {
        let declared = &self.output.declared;
        let forgotten = |index: &usize| self.data[*index].is_none() && declared.pieces[*index].items > 0;
        let forgotten = (0..self.data.len()).find(forgotten);
        let forgotten =
            forgotten.map(|index| format!("stream {:?} was not put", declared.abouts[index].name));
        if self.objection.is_none() {
            self.objection = forgotten.map(|detail| self.refuse(detail));
        }
        if self.objection.is_some() {
            // Nothing of it is looked at.
            self.data.iter_mut().for_each(|given| *given = None);
        }
        let board = Arc::clone(&self.output.board);
        self.output.take(self.data, self.objection).inspect_err(|_| board.mark_reported())
    }

    fn object(&self, index: usize, kind: ValueKind, values: u64) -> Option<String> {
        let declared = &self.output.declared;
        let Some((about, piece)) = declared.abouts.get(index).zip(declared.pieces.get(index)) else {
            return Some("there is no such stream; the key is of another output".to_owned());
        };
        let name = &about.name;
        if self.data[index].is_some() {
            return Some(put_twice(name));
        }
        if about.kind != kind {
            let declared = about.kind;
            return Some(format!(
                "stream {name:?} has values {declared:?}, not {kind:?}; the key is of another output"
            ));
        }
        if let Some(expected) = piece.expected.filter(|expected| *expected != values) {
            return Some(format!("stream {name:?}: {values} values, but this rank's array has {expected}"));
        }
        let width = about.shape[0];
        (piece.expected.is_none() && !values.is_multiple_of(width))
            .then(|| format!("stream {name:?}: {values} values are no whole number of items of {width}"))
    }

    fn refuse(&self, detail: String) -> Error {
        Error::new(Kind::BadArgument, "commit", &self.output.name, detail).in_step(self.output.steps)
    }
}

fn put_twice(stream: &str) -> String {
    format!("stream {stream:?} was put twice in this step; put it once")
}
