//! An output: the program passes its steps, the writer of the mode stores them.

mod put_bytes;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_comm::Comm;
use aqueduct_file::trace::StreamTrace;
use aqueduct_object::Object;

use crate::declare::declaration::Declaration;
use crate::declare::stream::{ObjectKey, Reduction, StreamKey};
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result, agree};
use crate::pack::accumulator::Accumulator;
use crate::pack::encoder::{LengthEncoder, StepInput};
use crate::pack::packer::{Packer, StreamData};
use crate::resume_state::ResumeState;
use crate::server::OutputClient;
use crate::target::{BatchEntry, OutputTarget, StepBatch};
use crate::value::{StreamValue, ValueKind};
use crate::write::buffer_limits::OutputMemory;
use crate::write::chunk_spill::SpillOptions;
use crate::write::mode_policy::{ModeChoice, OutputMode};
use crate::write::progress::{OutputProgress, PendingFlush, ProgressCell, Receipt, RemoteProgress};
use crate::write::writer::StreamWriter;

/// An output of streams to a file. See the [crate](crate).
pub struct Output {
    name: Arc<str>,
    declaration: Arc<Declaration>,
    /// The reductions; none for streams of which every sample is stored.
    accumulators: Vec<Option<Accumulator>>,
    progress: Arc<ProgressCell>,
    writer: StreamWriter,
    mode: ModeChoice,
    memory: OutputMemory,
    steps: u64,
    /// An error of this rank that the other ranks do not know yet.
    unreported: Option<Error>,
    totals: OutputTotals,
    trace: Option<StreamTrace>,
}

/// Totals of an output on this rank.
#[derive(Clone, Debug, Default)]
struct OutputTotals {
    bytes: u64,
    computing: Duration,
    in_commit: Duration,
    /// The time of the return of the last `commit`; `None` before the first.
    last_commit: Option<Instant>,
}

/// What an output has done on this rank.
#[derive(Clone, Debug)]
pub struct OutputReport {
    /// The mode in which steps were written.
    pub mode: OutputMode,
    /// The reason for this mode.
    pub reason: String,
    /// The number of steps.
    pub steps: u64,
    /// Bytes that were stored.
    pub bytes: u64,
    /// The peak of the memory of buffers in bytes.
    pub memory_peak: u64,
    /// The limit of that memory.
    pub memory_cap: u64,
    /// The memory of reductions in bytes.
    pub reduction_memory: u64,
    /// Bytes that found no buffer and were spilled to a local disk.
    pub spilled: u64,
    /// The time between commits: from the return of each `commit` to the next call.
    pub computing: Duration,
    /// The time that the program spent in `commit`.
    pub in_commit: Duration,
    /// The time that the I/O thread or the server spent writing; without them it is a part of `in_commit`.
    pub writing: Duration,
}

impl fmt::Display for OutputReport {
    /// One line: the mode and its reason, the amount of data, and the mean times of a step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mode, reason, steps, bytes, .. } = self;
        let each = |time: Duration| time.as_secs_f64() * 1e3 / (*steps).max(1) as f64;
        write!(f, "{mode:?} ({reason}): {steps} steps, {bytes} bytes; ")?;
        let (computing, in_commit) = (each(self.computing), each(self.in_commit));
        write!(f, "per step {computing:.2} ms computing, {in_commit:.2} ms in commit, ")?;
        write!(f, "{:.2} ms writing", each(self.writing))
    }
}

impl Output {
    /// An output that the ranks write themselves; its I/O threads communicate by `own`. Collective over `comm`.
    pub(crate) fn local(
        mode: ModeChoice,
        (comm, own, name): (&Comm, &Comm, &str),
        declaration: Arc<Declaration>,
        target: Box<dyn OutputTarget>,
        (pinned, spill): (&[usize], Option<&SpillOptions>),
        memory: OutputMemory,
    ) -> Result<Self> {
        let progress = Arc::new(ProgressCell::default());
        progress.set_persistent(target.is_persistent());
        let name: Arc<str> = name.into();
        let thread = mode.thread.then_some((pinned, spill));
        let writer = StreamWriter::local((&name, own), target, &progress, &memory, thread);
        let writer = writer.map_err(|error| {
            let detail = format!(
                "the I/O thread could not be started: {error}; use the blocking mode, or other processors, or another folder to spill to"
            );
            Error::new(Kind::Unsupported, "create", &name, detail)
        });
        let writer = agree(comm, "create", &name, writer)?;
        let trace = StreamTrace::new(comm, &name);
        Ok(Self::new(mode, name, declaration, writer, (progress, memory, trace)))
    }

    /// An output that a server writes.
    pub(crate) fn served(
        mode: ModeChoice,
        (comm, name): (&Comm, &str),
        declaration: Arc<Declaration>,
        client: Arc<OutputClient>,
        memory: OutputMemory,
    ) -> Self {
        let progress = Arc::new(ProgressCell::with_remote(Arc::clone(&client) as Arc<dyn RemoteProgress>));
        progress.set_persistent(client.is_persistent());
        let name: Arc<str> = name.into();
        let writer = StreamWriter::remote((&name, comm), client, &progress);
        let trace = StreamTrace::new(comm, &name);
        Self::new(mode, name, declaration, writer, (progress, memory, trace))
    }

    /// The state of the output on this rank, for a checkpoint: the number of its steps and its reductions. The steps
    /// before it have to be in the file when the checkpoint counts: [`flush`](Self::flush) before the checkpoint is
    /// committed.
    pub fn state(&self) -> Result<ResumeState> {
        self.progress.check()?;
        Ok(ResumeState::new(&self.declaration, &self.accumulators, self.steps))
    }

    /// Continues with this step and these reductions. Collective.
    pub(crate) fn restore(&mut self, comm: &Comm, step: u64, states: &[ResumeState]) -> Result<()> {
        self.steps = step;
        self.progress.update(|progress| {
            (progress.accepted, progress.visible, progress.durable) = (step, step, step);
        });
        ResumeState::restore(comm, &self.name, &self.declaration, states, &mut self.accumulators)
    }

    fn new(
        mode: ModeChoice,
        name: Arc<str>,
        declaration: Arc<Declaration>,
        writer: StreamWriter,
        (progress, memory, trace): (Arc<ProgressCell>, OutputMemory, Option<StreamTrace>),
    ) -> Self {
        let streams = declaration.streams.iter().zip(&declaration.shares);
        let accumulators = streams.map(|(info, share)| {
            let reduction = info.reduction;
            (reduction != Reduction::None).then(|| Accumulator::new(info.kind, reduction, share.items))
        });
        let accumulators = accumulators.collect();
        Self {
            name,
            accumulators,
            writer,
            mode,
            declaration,
            progress,
            memory,
            trace,
            steps: 0,
            unreported: None,
            totals: OutputTotals::default(),
        }
    }

    /// Begins a step. Fails if an earlier step has failed, in the background too.
    pub fn step(&mut self) -> Result<OutputStep<'_, '_>> {
        self.progress.check()?;
        let data = self.declaration.streams.iter().map(|_| None).collect();
        Ok(OutputStep { output: self, data, objection: None })
    }

    /// Waits until all steps so far are synced: durable, where the device is persistent. Collective.
    pub fn flush(&mut self) -> Result<()> {
        self.progress.check()?;
        self.writer.sync();
        let steps = self.steps;
        self.progress.wait("flush", |progress| progress.durable >= steps)
    }

    /// Begins what [`flush`](Self::flush) does, and returns before it is done: a program that writes a checkpoint in the
    /// background need not wait for its output, only its checkpoint has to. Collective.
    pub fn start_flush(&mut self) -> Result<PendingFlush> {
        self.progress.check()?;
        self.writer.sync();
        Ok(PendingFlush { progress: Arc::clone(&self.progress), steps: self.steps })
    }

    /// The number of steps that were committed, those before a restart included.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// The progress of the steps.
    pub fn progress(&self) -> OutputProgress {
        self.progress.progress()
    }

    /// The mode in which steps are written, and the reason for it.
    pub fn mode(&self) -> (OutputMode, &str) {
        (self.mode.mode, &self.mode.reason)
    }

    /// Stores the reductions, makes everything durable, and ends the file. Fails if a step has failed in the
    /// background.
    /// Collective.
    pub fn finish(mut self) -> Result<OutputReport> {
        self.progress.check()?;
        let missing = self.check_given(|_, _| true).err();
        self.unreported = self.unreported.take().or(missing);
        let (entries, feeds) = closing(&self.declaration, &mut self.accumulators);
        let batch = StepBatch { step: self.steps.saturating_sub(1), closing: true, entries };
        let mut packing = Packer::new(feeds, self.memory.limits.capacity);
        if !batch.entries.is_empty() || self.unreported.is_some() {
            self.totals.bytes += packing.size();
            let refused = self.unreported.take();
            let written = self.writer.write(batch, refused.map_or(Ok(&mut packing), Err));
            written.inspect_err(|_| self.progress.mark_reported())?;
        }
        drop(packing);
        let report = self.report();
        let (driver, progress, steps) = (self.writer, self.progress, self.steps);
        let (remote, writing) = driver.finish(steps);
        let memory_peak = remote.unwrap_or_else(|| self.memory.peak());
        progress.check()?;
        progress.update(|progress| progress.in_memory = 0);
        progress.close();
        Ok(OutputReport { memory_peak, writing, ..report })
    }

    fn report(&self) -> OutputReport {
        let kept = self.accumulators.iter().flatten().map(Accumulator::memory).sum();
        OutputReport {
            mode: self.mode.mode,
            reason: self.mode.reason.clone(),
            steps: self.steps,
            bytes: self.totals.bytes,
            memory_peak: 0,
            memory_cap: self.memory.cap,
            reduction_memory: kept,
            spilled: self.writer.spilled(),
            computing: self.totals.computing,
            in_commit: self.totals.in_commit,
            writing: Duration::ZERO,
        }
    }

    /// Adds the samples of a step to the reductions, and writes the streams that are due.
    fn take(&mut self, data: Vec<Option<StepInput<'_>>>, objection: Option<Error>) -> Result<Receipt> {
        let begin = Instant::now();
        self.totals.computing += self.totals.last_commit.map_or(Duration::ZERO, |last| begin - last);
        let step = self.steps;
        self.steps += 1;
        self.progress.update(|progress| progress.accepted = step + 1);
        let error = objection.or_else(|| self.accumulate(step, &data).err()).map(|error| error.in_step(step));
        if self.unreported.is_none() {
            self.unreported.clone_from(&error);
        }
        let (entries, feeds) = due(&self.declaration, &mut self.accumulators, step, data);
        let batch = StepBatch { step, closing: false, entries };
        let nothing = batch.entries.is_empty();
        let mut packing = Packer::new(feeds, self.memory.limits.capacity);
        let bytes = packing.size();
        let refused = if nothing { None } else { self.unreported.take() };
        let written = self.writer.write(batch, refused.map_or(Ok(&mut packing), Err));
        drop(packing);
        let in_memory = self.accumulators.iter().flatten().map(Accumulator::samples).max().unwrap_or(0);
        self.progress.update(|progress| progress.in_memory = in_memory);
        self.totals.bytes += bytes;
        let end = Instant::now();
        self.totals.in_commit += end - begin;
        self.totals.last_commit = Some(end);
        if let Some(trace) = &self.trace {
            let OutputProgress { accepted, visible, durable, .. } = self.progress.progress();
            let memory = self.memory.budget.level();
            trace.record_commit(end - begin, [accepted, visible, durable], [memory.held, self.memory.cap]);
        }
        written.and(error.map_or(Ok(()), Err))?;
        Ok(Receipt { progress: Arc::clone(&self.progress), step })
    }

    /// Adds the samples of all reduced streams.
    fn accumulate(&mut self, step: u64, data: &[Option<StepInput<'_>>]) -> Result<()> {
        let abouts = &self.declaration.streams;
        let streams = self.accumulators.iter_mut().zip(&self.declaration.shares).zip(data).zip(abouts);
        for (((accumulator, piece), data), about) in streams.filter(|(_, about)| about.is_sampled(step)) {
            if let Some(accumulator) = accumulator {
                if about.reduction == Reduction::Last && data.is_none() {
                    accumulator.skip();
                    continue;
                }
                let refused = |error: aqueduct_file::layout::LayoutError| {
                    Error::new(Kind::BadArgument, "commit", &self.name, error.to_string())
                };
                put_bytes::add_sample(accumulator, data.as_ref(), &piece.memory).map_err(refused)?;
            }
        }
        self.check_given(|about, accumulator| about.is_due(step, accumulator.samples()))
    }

    /// Fails if a reduction that is stored has no values.
    fn check_given(&self, is_stored: impl Fn(&StreamInfo, &Accumulator) -> bool) -> Result<()> {
        let mut streams = self.declaration.streams.iter().zip(&self.accumulators);
        let missing = streams.find(|(about, accumulator)| {
            accumulator
                .as_ref()
                .is_some_and(|kept| !kept.is_given() && kept.samples() > 0 && is_stored(about, kept))
        });
        let Some((about, _)) = missing else { return Ok(()) };
        let detail =
            format!("stream {:?} was not put in any step; its last value is to be stored", about.name);
        Err(Error::new(Kind::BadArgument, "commit", &self.name, detail))
    }
}

/// The entries of the streams that are stored in this step, and their data in memory.
fn due<'a>(
    declared: &'a Declaration,
    accumulators: &'a mut [Option<Accumulator>],
    step: u64,
    data: Vec<Option<StepInput<'a>>>,
) -> (Vec<BatchEntry>, Vec<StreamData<'a>>) {
    let (mut entries, mut feeds) = (Vec::new(), Vec::new());
    for (stream, (accumulator, given)) in accumulators.iter_mut().zip(data).enumerate() {
        let (about, piece) = (&declared.streams[stream], &declared.shares[stream]);
        let samples = accumulator.as_ref().map_or(1, Accumulator::samples);
        if !about.is_due(step, samples) {
            continue;
        }
        let (given, width) = (given.unwrap_or(StepInput::Values(&[])), about.accumulated().width());
        let each = about.item_bytes().unwrap_or(1).max(1);
        let (items, feed) = match (accumulator, given, &about.region) {
            (Some(accumulator), ..) => {
                (piece.items, StreamData::Contiguous { bytes: accumulator.finish(), width })
            }
            (None, StepInput::Encoded(encoding), _) => {
                (encoding.size() / each, StreamData::Encoded { encoding, width })
            }
            (None, StepInput::Values(bytes), StreamRegion::List) => {
                (bytes.len() as u64 / each, StreamData::Contiguous { bytes, width })
            }
            (None, StepInput::Values(memory), _) => {
                (piece.items, StreamData::Strided { memory, pattern: &piece.memory, width })
            }
            (None, StepInput::Placed(memory, pattern), region) => {
                let listed = *region == StreamRegion::List;
                let items = if listed { pattern.size() / each } else { piece.items };
                (items, StreamData::Placed { memory, pattern, width })
            }
            (None, StepInput::Gathered(bytes), _) => (piece.items, StreamData::Gathered { bytes, width }),
        };
        entries.push(BatchEntry { stream, samples, items });
        feeds.push(feed.converted(about.accumulated(), about.stored()));
    }
    (entries, feeds)
}

/// The entries and data of reductions that are stored at the end.
fn closing<'a>(
    declared: &Declaration,
    accumulators: &'a mut [Option<Accumulator>],
) -> (Vec<BatchEntry>, Vec<StreamData<'a>>) {
    let kept =
        accumulators.iter_mut().enumerate().filter_map(|(stream, kept)| Some((stream, kept.as_mut()?)));
    let left = kept.filter(|(_, accumulator)| accumulator.samples() > 0);
    let close = |(stream, accumulator): (usize, &'a mut Accumulator)| {
        let (items, samples) = (declared.shares[stream].items, accumulator.samples());
        let about = &declared.streams[stream];
        let feed = StreamData::Contiguous { bytes: accumulator.finish(), width: about.accumulated().width() };
        (BatchEntry { stream, samples, items }, feed.converted(about.accumulated(), about.stored()))
    };
    left.map(close).unzip()
}

/// A step that is being assembled. [`commit`](OutputStep::commit) writes it.
#[must_use = "`commit` writes the step"]
pub struct OutputStep<'o, 'd> {
    output: &'o mut Output,
    data: Vec<Option<StepInput<'d>>>,
    /// The first error of the step. `commit` returns it, so that all ranks learn of it.
    objection: Option<Error>,
}

impl<'d> OutputStep<'_, 'd> {
    /// Adds this rank's values of a stream: its array in memory, or any number of items of a list. Once per step.
    pub fn put<T: StreamValue>(mut self, key: StreamKey<T>, values: &'d [T]) -> Self {
        let objection = self.object(key.index, T::KIND, values.len() as u64);
        if self.objection.is_none() {
            self.objection = objection.map(|detail| self.refuse(detail));
        }
        if let Some(place) = self.data.get_mut(key.index) {
            *place = Some(StepInput::Values(bytemuck::cast_slice(values)));
        }
        self
    }

    /// Adds this rank's objects of a stream, any number of them. Once per step.
    pub fn put_objects<T: Object>(mut self, key: ObjectKey<T>, objects: &'d [T]) -> Self {
        let about = self.output.declaration.streams.get(key.index);
        if about.and_then(|about| about.object.as_ref()) != Some(&*T::schema()) {
            let name = T::schema().name();
            let detail = format!("there is no such stream of {name} objects; the key is of another output");
            self.objection = self.objection.take().or_else(|| Some(self.refuse(detail)));
            return self;
        }
        if self.data[key.index].is_some() {
            let twice = self.refuse(put_twice(&self.output.declaration.streams[key.index].name));
            self.objection.get_or_insert(twice);
            return self;
        }
        self.data[key.index] = Some(StepInput::objects(objects));
        if T::SIZE.is_none() {
            self.data[key.index + 1] = Some(StepInput::Encoded(Box::new(LengthEncoder::new(objects))));
        }
        self
    }

    /// Passes the step to the writer; the program may change its values when it returns. A stream that was not put is
    /// an error, unless this rank has no values of it, or the step is not sampled. Collective.
    pub fn commit(mut self) -> Result<Receipt> {
        let declared = &self.output.declaration;
        let step = self.output.steps;
        let forgotten = |index: &usize| {
            let required = declared.shares[*index].items > 0 && declared.streams[*index].is_required(step);
            required && self.data[*index].is_none()
        };
        let forgotten = (0..self.data.len()).find(forgotten);
        let forgotten = forgotten
            .map(|index| format!("stream {:?} was not put in this step", declared.streams[index].name));
        if self.objection.is_none() {
            self.objection = forgotten.map(|detail| self.refuse(detail));
        }
        if self.objection.is_some() {
            // The data of an invalid step is not used.
            self.data.iter_mut().for_each(|given| *given = None);
        }
        let progress = Arc::clone(&self.output.progress);
        self.output.take(self.data, self.objection).inspect_err(|_| progress.mark_reported())
    }

    fn object(&self, index: usize, kind: ValueKind, values: u64) -> Option<String> {
        let declared = &self.output.declaration;
        let Some((about, piece)) = declared.streams.get(index).zip(declared.shares.get(index)) else {
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
        (piece.expected.is_none() && !values.is_multiple_of(width)).then(|| {
            format!("stream {name:?}: {values} values are not a multiple of the {width} values of an item")
        })
    }

    fn refuse(&self, detail: String) -> Error {
        Error::new(Kind::BadArgument, "commit", &self.output.name, detail).in_step(self.output.steps)
    }
}

fn put_twice(stream: &str) -> String {
    format!("stream {stream:?} was put twice in this step; put it once")
}
