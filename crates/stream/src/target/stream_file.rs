//! The stream file: see `docs/format-stream.md`. One collective write per batch, then a record.

use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_file::layout::{Layout, LayoutError, Member};
use aqueduct_file::{self as file, File, Mode, OpenOptions, Source, View, WriterLock};
use aqueduct_object::FileProvenance;

use super::resume_point::ResumePoint;
use super::stream_offsets::StreamOffsets;
use super::{ChunkSource, OutputTarget, StepBatch};
use crate::declare::declaration::Declaration;
use crate::declare::rank_share::shift_layout;
use crate::declare::stream_info::{StreamFileMetadata, StreamRegion};
use crate::error::{EXISTS, Error, Kind, Result, agree};
use crate::pack::step_checksum::position_checksum;
use crate::steps_file::steps_name;
use crate::steps_format::{RecordEntry, RecordType, StepRecord, StepsHeader, UNIT, record_size};

/// A stream file that is being written.
pub struct FileTarget {
    name: Arc<str>,
    comm: Comm,
    /// The lock of the one program that writes the file; on rank 0.
    writer_lock: Option<WriterLock>,
    declaration: Arc<Declaration>,
    data: File,
    steps: File,
    id: u64,
    /// The offset of the records.
    records: u64,
    /// The number of records, and how many of them are durable.
    count: u64,
    durable: u64,
    /// The offset of the next batch.
    end: u64,
    /// The layout of the last batch.
    last_layout: Option<BatchLayout>,
}

/// The layout of a batch over the ranks; also that of later batches of the same streams and sizes.
#[derive(Clone)]
struct BatchLayout {
    /// The streams of the batch.
    streams: Vec<usize>,
    /// Items of all ranks, one number for each stream.
    items: Vec<u64>,
    offsets: StreamOffsets,
    /// The places of this rank's bytes of each stream in the batch, and the width of a value.
    places: Vec<(Layout, u64)>,
    /// This rank's bytes.
    mine: u64,
    /// The displacement of the view.
    origin: u64,
    /// The number of collective operations: one, unless the batch is larger than a buffer.
    rounds: u64,
}

impl FileTarget {
    /// Creates the file. Fails if it exists, unless the output [replaces](Declaration::replaces) it and no program is
    /// writing it. Collective.
    pub fn create(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Self> {
        if let Some(step) = declared.resumes_at() {
            return Self::resume(comm, name, declared, step);
        }
        let replace = declared.replaces();
        let claimed = if comm.rank() == 0 { make_files(&comm.comm_self(), name, replace) } else { Ok(None) };
        let claim = agree(comm, "create", name, claimed)?;
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(comm, name);
        let steps = open(&steps_name(name))?;
        let data = open(name)?;
        if replace {
            // In this order: a description must not outlive its data.
            steps.set_size(0)?;
            steps.sync()?;
            data.set_size(0)?;
        }
        let start = ResumePoint { id: 0, records: 0, count: 0, end: 0 };
        let mut target = Self::at(start, (comm, name, declared), (claim, data, steps));
        target.describe()?;
        Ok(target)
    }

    /// Continues a file after this number of steps; takes back what follows them, the records first. Collective.
    fn resume(comm: &Comm, name: &str, declared: &Arc<Declaration>, step: u64) -> Result<Self> {
        let claimed = match (comm.rank() == 0).then(|| file::claim(steps_name(name))) {
            Some(Err(error)) if error.kind() == file::Kind::InUse => {
                Err(Error::new(error.kind(), "resume", name, error.detail()))
            }
            // Opening the file reports other errors.
            claim => Ok(claim.and_then(file::Result::ok).flatten()),
        };
        let claim = agree(comm, "resume", name, claimed)?;
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(comm, name);
        let (steps, data) = (open(&steps_name(name))?, open(name)?);
        let point = agree(comm, "resume", name, ResumePoint::find(name, &steps, &data, declared, step))?;
        steps.set_size(point.records + point.count * record_size(declared.streams.len()) as u64)?;
        steps.sync()?;
        let size = comm.allreduce_one(Op::Max, agree(comm, "resume", name, data.size())?);
        let size = size.map_err(|error| Error::from_comm("resume", name, &error))?;
        data.set_size(point.end.min(size))?;
        data.sync()?;
        Ok(Self::at(point, (comm, name, declared), (claim, data, steps)))
    }

    fn at(
        point: ResumePoint,
        (comm, name, declared): (&Comm, &str, &Arc<Declaration>),
        (writer_lock, data, steps): (Option<WriterLock>, File, File),
    ) -> Self {
        let ResumePoint { id, records, count, end } = point;
        Self {
            name: name.into(),
            comm: comm.clone(),
            writer_lock,
            declaration: Arc::clone(declared),
            data,
            steps,
            id,
            records,
            count,
            durable: count,
            end,
            last_layout: None,
        }
    }

    /// Writes everything before the records. Collective.
    fn describe(&mut self) -> Result<()> {
        let mut id = [0u64];
        if self.comm.rank() == 0 {
            // Without random numbers the id is only less unique; it distinguishes files of the same name.
            let _ = rustix::rand::getrandom(
                bytemuck::bytes_of_mut(&mut id),
                rustix::rand::GetRandomFlags::empty(),
            );
        }
        self.map_comm_error(self.comm.broadcast(0, &mut id))?;
        self.id = id[0];
        let abouts = &self.declaration.streams;
        // Its length and checksum must be the same on all ranks.
        let description = StreamFileMetadata::encode(abouts, Some(FileProvenance::now(&self.comm)));
        let description = self.map_comm_error(self.comm.broadcast_vec(0, description))?;
        let tables = (UNIT + description.len() as u64).next_multiple_of(8);
        let (end, tables_sum) = self.write_tables(tables)?;
        self.records = end.next_multiple_of(UNIT);
        let header = StepsHeader {
            id: self.id,
            description_length: description.len() as u64,
            description_sum: crc32c::crc32c(&description),
            streams: abouts.len() as u32,
            tables,
            tables_sum,
            records: self.records,
        };
        self.write_on_root(0, &[header.encode(), description].concat())?;
        self.data.sync()?;
        self.steps.sync()
    }

    /// Writes the points of all streams; returns their end and their checksum. Collective.
    fn write_tables(&self, start: u64) -> Result<(u64, u64)> {
        let (mut place, mut total) = (start, 0u64);
        let refused = |error: LayoutError| self.layout_error(&error);
        for (about, points) in self.declaration.streams.iter().zip(&self.declaration.points) {
            let StreamRegion::Points(count) = about.region else { continue };
            let number = Layout::bytes(8).map_err(refused)?;
            let layout = agree(&self.comm, "create", &self.name, points.layout(&number).map_err(refused))?;
            let view = View::new(place, &Layout::bytes(1).map_err(refused)?, &layout)?;
            self.steps.with_view(&view).all().write(&points.points)?;
            for run in points.runs() {
                let bytes = bytemuck::cast_slice(&points.points[run.first..run.first + run.count]);
                total = total.wrapping_add(position_checksum(8, place - start + 8 * run.start, bytes));
            }
            place += 8 * count;
        }
        Ok((place, self.map_comm_error(self.comm.allreduce_one(Op::Sum, total))?))
    }

    /// Rank 0 writes to the `.steps`; the outcome is agreed. Collective.
    fn write_on_root(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mine = if self.comm.rank() == 0 { self.steps.at(at).write(bytes).map(drop) } else { Ok(()) };
        agree(&self.comm, "write", &self.name, mine)
    }

    fn map_comm_error<T>(&self, outcome: aqueduct_comm::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::from_comm("write", &self.name, &error))
    }

    /// The layout of a batch; the last one, if streams and sizes are the same. Collective.
    fn lay_out(&mut self, batch: &StepBatch, chunks: u64) -> Result<BatchLayout> {
        let streams: Vec<usize> = batch.entries.iter().map(|entry| entry.stream).collect();
        let lists =
            streams.iter().any(|stream| self.declaration.streams[*stream].region == StreamRegion::List);
        if let Some(last) = self.last_layout.as_ref().filter(|last| !lists && last.streams == streams)
            && self.end.checked_sub(last.origin).is_some_and(|by| last.copies(by).is_some())
        {
            return Ok(last.clone());
        }
        let laid = self.new_layout(batch, streams, lists, chunks)?;
        let view = self.view(&laid);
        match view {
            Ok(view) => self.data.set_view(&view)?,
            Err(error) => self.data.refuse_view(error)?,
        }
        Ok(self.last_layout.insert(laid).clone())
    }

    /// A new layout. Collective; errors are the same on all ranks, except for those of layouts, which `view` checks.
    fn new_layout(
        &self,
        batch: &StepBatch,
        streams: Vec<usize>,
        lists: bool,
        chunks: u64,
    ) -> Result<BatchLayout> {
        let rounds = self.map_comm_error(self.comm.allreduce_one(Op::Max, chunks.max(1)))?;
        let mine: Vec<u64> = batch.entries.iter().map(|entry| entry.items).collect();
        let (mut before, mut items) = (vec![0; mine.len()], mine.clone());
        if lists {
            before = self.map_comm_error(self.comm.exclusive_scan(Op::Sum, &mine))?.unwrap_or(before);
            items = self.map_comm_error(self.comm.allreduce(Op::Sum, &mine))?;
        }
        let abouts = streams.iter().map(|stream| &self.declaration.streams[*stream]);
        for (items, about) in items.iter_mut().zip(abouts.clone()) {
            if about.region != StreamRegion::List {
                *items = about.items().unwrap_or(u64::MAX);
            }
        }
        let sizes: Option<Vec<u64>> =
            items.iter().zip(abouts).map(|(items, about)| items.checked_mul(about.item_bytes()?)).collect();
        let arrangement = sizes.and_then(StreamOffsets::new).ok_or_else(|| self.too_large())?;
        let places = self.places(batch, &before, &arrangement);
        let places =
            agree(&self.comm, "write", &self.name, places.map_err(|error| self.layout_error(&error)))?;
        let bytes = places.iter().map(|(place, _)| place.size()).sum();
        Ok(BatchLayout {
            streams,
            items,
            offsets: arrangement,
            places,
            mine: bytes,
            origin: self.end,
            rounds,
        })
    }

    /// The places of this rank's bytes of each stream in the batch.
    fn places(
        &self,
        batch: &StepBatch,
        before: &[u64],
        arrangement: &StreamOffsets,
    ) -> Result<Vec<(Layout, u64)>, LayoutError> {
        let entries = batch.entries.iter().zip(before).zip(&arrangement.starts);
        let place = |((entry, before), start): ((&super::BatchEntry, &u64), &u64)| {
            let (about, place) =
                (&self.declaration.streams[entry.stream], self.declaration.place(entry.stream));
            let place = match about.region {
                StreamRegion::List => {
                    shift_layout(&place.contiguous(entry.items)?, start + before * place.size())
                }
                _ => shift_layout(place, *start),
            };
            Ok((place?, about.stored().width()))
        };
        entries.map(place).collect()
    }

    fn view(&self, laid: &BatchLayout) -> Result<View> {
        let members = laid.places.iter().filter(|(place, _)| place.size() > 0);
        let member = |(place, _): &(Layout, u64)| Member { count: 1, displacement: 0, layout: place.clone() };
        let tile = Layout::structure(members.map(member)).and_then(|tile| match tile.size() {
            0 => Ok(Layout::empty()),
            _ => tile.resized(0, laid.offsets.length as i64),
        });
        let tile = tile.map_err(|error| self.layout_error(&error))?;
        let byte = Layout::bytes(1).map_err(|error| self.layout_error(&error))?;
        View::new(laid.origin, &byte, &tile)
    }

    /// Writes this rank's bytes; returns their checksum. Collective.
    fn transfer(&self, laid: &BatchLayout, source: &mut dyn ChunkSource) -> Result<u64> {
        let base = laid.copies(self.end - laid.origin).unwrap_or(0) * laid.mine;
        let (mut done, mut total) = (0, 0u64);
        for _ in 0..laid.rounds {
            match source.next() {
                Ok(chunk) => {
                    // Bytes of other ranks and of the next batch must not be overwritten.
                    let rest =
                        chunk.get(..(laid.mine - done).min(chunk.len() as u64) as usize).unwrap_or(chunk);
                    self.data.at(base + done).all().write(rest)?;
                    // After the collective write: before it, other ranks of this machine may still pack and need the
                    // processor.
                    total = total.wrapping_add(laid.sum(done, rest));
                    done += rest.len() as u64;
                }
                Err(error) => {
                    let _ = self.data.at(0).all().write(Source::failing(error.clone()));
                    return Err(error);
                }
            }
        }
        Ok(total)
    }

    /// Writes the record of a batch. Collective.
    fn write_record(&mut self, mut record: StepRecord) -> Result<()> {
        let sums = self.map_comm_error(self.comm.reduce(0, Op::Sum, &[record.sum]))?;
        record.sum = sums.map_or(0, |sums| sums[0]);
        let at = self.records + self.count * record_size(self.declaration.streams.len()) as u64;
        self.write_on_root(at, &record.encode(self.id))?;
        self.count += 1;
        self.end += record.length;
        Ok(())
    }

    fn record(&self, of: RecordType, step: u64) -> StepRecord {
        let entries = vec![RecordEntry::NONE; self.declaration.streams.len()];
        let (number, start, durable) = (self.count, self.end, self.durable);
        StepRecord { number, step, record_type: of, start, length: 0, sum: 0, durable, entries }
    }

    fn too_large(&self) -> Error {
        Error::new(Kind::BadArgument, "write", &self.name, "the step has more bytes than can be counted")
    }

    fn layout_error(&self, error: &LayoutError) -> Error {
        Error::new(Kind::BadArgument, "write", &self.name, error.to_string())
    }
}

/// Rank 0 creates both files, or opens those that are replaced, and acquires the writer lock.
fn make_files(own: &Comm, name: &str, replace: bool) -> Result<Option<WriterLock>> {
    let mode = if replace { Mode::read_write().create() } else { Mode::read_write().exclusive() };
    let steps = steps_name(name);
    if let Err(error) = OpenOptions::from(mode).open(own, &steps) {
        return Err(refusal(name, &steps, &error));
    }
    let claimed = match file::claim(&steps) {
        Err(error) if error.kind() == file::Kind::InUse => Err(of_stream(name, &error, error.detail())),
        // Opening the file reports other errors.
        claim => Ok(claim.ok().flatten()),
    };
    let made = claimed.and_then(|claim| match OpenOptions::from(mode).open(own, name) {
        Ok(_) => Ok(claim),
        Err(error) if error.kind() == file::Kind::FileExists => Err(of_stream(name, &error, EXISTS)),
        Err(error) => Err(of_stream(name, &error, error.detail())),
    });
    if made.is_err() && !replace {
        // It was created just now and has no data. An error of deleting it is less important than the one that is
        // returned.
        let _ = file::delete(&steps);
    }
    made
}

/// Why the `.steps` cannot be created. One that exists may be in use; it is not locked to find out, because the
/// program that has just created it may be about to lock it.
fn refusal(name: &str, steps: &str, error: &file::Error) -> Error {
    if error.kind() != file::Kind::FileExists {
        return of_stream(name, error, error.detail());
    }
    match file::check_unclaimed(steps) {
        Err(in_use) if in_use.kind() == file::Kind::InUse => of_stream(name, &in_use, in_use.detail()),
        _ => of_stream(name, error, EXISTS),
    }
}

/// An error of one of the two files as an error of the stream file.
fn of_stream(name: &str, error: &file::Error, detail: &str) -> Error {
    Error::new(error.kind(), "create", name, detail)
}

impl BatchLayout {
    /// How many batches of this layout have this number of bytes, if it is a multiple.
    fn copies(&self, bytes: u64) -> Option<u64> {
        let length = self.offsets.length;
        (length > 0 && bytes.is_multiple_of(length)).then(|| bytes / length)
    }

    /// The checksum of this rank's bytes from number `first` on.
    fn sum(&self, first: u64, bytes: &[u8]) -> u64 {
        let (mut skip, mut rest, mut total) = (first, bytes, 0u64);
        for (place, width) in &self.places {
            if skip >= place.size() {
                skip -= place.size();
                continue;
            }
            let here = (place.size() - skip).min(rest.len() as u64);
            for run in place.runs(skip..skip + here) {
                let (now, later) = rest.split_at(run.len as usize);
                total = total.wrapping_add(position_checksum(*width, run.offset as u64, now));
                rest = later;
            }
            skip = 0;
        }
        total
    }
}

impl OutputTarget for FileTarget {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
        let laid = self.lay_out(batch, source.chunks())?;
        let total = self.transfer(&laid, source)?;
        let mut record =
            self.record(if batch.closing { RecordType::Closing } else { RecordType::Step }, batch.step);
        record.length = laid.offsets.length;
        record.sum = total;
        let parts = batch.entries.iter().zip(&laid.items).zip(&laid.offsets.starts);
        for ((entry, items), start) in parts {
            record.entries[entry.stream] =
                RecordEntry { start: record.start + start, items: *items, samples: entry.samples };
        }
        self.write_record(record)
    }

    fn is_persistent(&self) -> bool {
        self.data.is_persistent() && self.steps.is_persistent()
    }

    fn sync(&mut self) -> Result<()> {
        self.data.sync()?;
        self.steps.sync()?;
        self.durable = self.count;
        Ok(())
    }

    fn finish(mut self: Box<Self>, steps: u64) -> Result<()> {
        self.sync()?;
        self.write_record(self.record(RecordType::End, steps))?;
        self.steps.sync()?;
        let Self { writer_lock: claim, data, steps, .. } = *self;
        // Before the collective call: after it any rank may open the file again.
        drop(claim);
        data.close()?;
        steps.close()
    }
}
