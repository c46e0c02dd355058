//! The stream file: `docs/format-stream.md`. One collective write per parcel, then a record.

use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_file::layout::{Layout, LayoutError, Member};
use aqueduct_file::{self as file, File, Mode, OpenOptions, Source, View, WriterLock};

use super::stream_offsets::StreamOffsets;
use super::{ChunkSource, OutputTarget, StepBatch};
use crate::declare::declaration::Declaration;
use crate::declare::rank_share::shift_layout;
use crate::declare::stream_info::{StreamFileMetadata, StreamRegion};
use crate::error::{EXISTS, Error, Kind, Result, agree};
use crate::pack::step_checksum::position_checksum;
use crate::steps_format::{RecordEntry, RecordType, StepRecord, StepsHeader, UNIT, record_size};

/// A stream file that is being written.
pub struct FileTarget {
    name: Arc<str>,
    comm: Comm,
    /// That no other program writes the file; on rank 0.
    writer_lock: Option<WriterLock>,
    declaration: Arc<Declaration>,
    data: File,
    steps: File,
    id: u64,
    /// Where the records begin.
    records: u64,
    /// How many there are, and how many of them are durable.
    count: u64,
    durable: u64,
    /// Where the next parcel begins.
    end: u64,
    /// How the last parcel was laid out.
    last_layout: Option<BatchLayout>,
}

/// A parcel laid out over the ranks, and those that look like it.
#[derive(Clone)]
struct BatchLayout {
    /// Which streams it has.
    streams: Vec<usize>,
    /// Of all ranks, one for each stream.
    items: Vec<u64>,
    offsets: StreamOffsets,
    /// Where this rank's bytes of each stream lie in the parcel, and the bytes of a value.
    places: Vec<(Layout, u64)>,
    /// This rank's bytes.
    mine: u64,
    /// Where the view begins in the file.
    origin: u64,
    /// In how many operations it is written: one, unless it is too large for a buffer.
    rounds: u64,
}

impl FileTarget {
    /// Creates the file. One that exists is refused, unless the output [replaces](Declaration::replaces) it and nobody is writing it. Collective.
    pub fn create(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Self> {
        let replace = declared.replaces();
        let claimed = if comm.rank() == 0 { make_files(&comm.comm_self(), name, replace) } else { Ok(None) };
        let claim = agree(comm, "create", name, claimed)?;
        let open = |name: &str| OpenOptions::new().read(true).write(true).open(comm, name);
        let steps = open(&steps_name(name))?;
        let data = open(name)?;
        if replace {
            // The order matters: a description of data that is gone must not survive.
            steps.set_size(0)?;
            steps.sync()?;
            data.set_size(0)?;
        }
        let mut target = Self {
            name: name.into(),
            comm: comm.clone(),
            writer_lock: claim,
            declaration: Arc::clone(declared),
            data,
            steps,
            id: 0,
            records: 0,
            count: 0,
            durable: 0,
            end: 0,
            last_layout: None,
        };
        target.describe()?;
        Ok(target)
    }

    /// Writes everything that comes before the records. Collective.
    fn describe(&mut self) -> Result<()> {
        let mut id = [0u64];
        if self.comm.rank() == 0 {
            // Without randomness the id is only the less surprising; it tells files of one name apart.
            let _ = rustix::rand::getrandom(
                bytemuck::bytes_of_mut(&mut id),
                rustix::rand::GetRandomFlags::empty(),
            );
        }
        self.map_comm_error(self.comm.broadcast(0, &mut id))?;
        self.id = id[0];
        let abouts = &self.declaration.streams;
        let description = StreamFileMetadata::encode(abouts);
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

    /// Writes the points of all streams; where they end, and their sum. Collective.
    fn write_tables(&self, start: u64) -> Result<(u64, u64)> {
        let (mut place, mut total) = (start, 0u64);
        for (about, (points, before)) in self.declaration.streams.iter().zip(&self.declaration.points) {
            let StreamRegion::Points(count) = about.region else { continue };
            let mine = place + 8 * before;
            self.steps.at(mine).all().write(points)?;
            total = total.wrapping_add(position_checksum(8, mine - start, bytemuck::cast_slice(points)));
            place += 8 * count;
        }
        Ok((place, self.map_comm_error(self.comm.allreduce_one(Op::Sum, total))?))
    }

    /// Rank 0 writes to the `.steps`; all learn how it went. Collective.
    fn write_on_root(&self, at: u64, bytes: &[u8]) -> Result<()> {
        let mine = if self.comm.rank() == 0 { self.steps.at(at).write(bytes).map(drop) } else { Ok(()) };
        agree(&self.comm, "write", &self.name, mine)
    }

    fn map_comm_error<T>(&self, outcome: aqueduct_comm::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::from_comm("write", &self.name, &error))
    }

    /// How a parcel lies in the file: as the last one did, if it looks like it. Collective.
    fn lay_out(&mut self, parcel: &StepBatch, chunks: u64) -> Result<BatchLayout> {
        let streams: Vec<usize> = parcel.entries.iter().map(|entry| entry.stream).collect();
        let lists =
            streams.iter().any(|stream| self.declaration.streams[*stream].region == StreamRegion::List);
        if let Some(last) = self.last_layout.as_ref().filter(|last| !lists && last.streams == streams)
            && self.end.checked_sub(last.origin).is_some_and(|by| last.copies(by).is_some())
        {
            return Ok(last.clone());
        }
        let laid = self.new_layout(parcel, streams, lists, chunks)?;
        let view = self.view(&laid);
        match view {
            Ok(view) => self.data.set_view(&view)?,
            Err(error) => self.data.refuse_view(error)?,
        }
        Ok(self.last_layout.insert(laid).clone())
    }

    /// A new arrangement. Collective; what can fail here fails on all ranks alike, except for layouts, which `view` looks at.
    fn new_layout(
        &self,
        parcel: &StepBatch,
        streams: Vec<usize>,
        lists: bool,
        chunks: u64,
    ) -> Result<BatchLayout> {
        let rounds = self.map_comm_error(self.comm.allreduce_one(Op::Max, chunks.max(1)))?;
        let mine: Vec<u64> = parcel.entries.iter().map(|entry| entry.items).collect();
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
        let places = self.places(parcel, &before, &arrangement);
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

    /// Where this rank's bytes of each stream lie in the parcel.
    fn places(
        &self,
        parcel: &StepBatch,
        before: &[u64],
        arrangement: &StreamOffsets,
    ) -> Result<Vec<(Layout, u64)>, LayoutError> {
        let entries = parcel.entries.iter().zip(before).zip(&arrangement.starts);
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

    /// Writes this rank's bytes; their sum. Collective.
    fn transfer(&self, laid: &BatchLayout, supply: &mut dyn ChunkSource) -> Result<u64> {
        let base = laid.copies(self.end - laid.origin).unwrap_or(0) * laid.mine;
        let (mut done, mut total) = (0, 0u64);
        for _ in 0..laid.rounds {
            match supply.next() {
                Ok(chunk) => {
                    // Nothing may be written where other ranks or the next parcel are.
                    let rest =
                        chunk.get(..(laid.mine - done).min(chunk.len() as u64) as usize).unwrap_or(chunk);
                    self.data.at(base + done).all().write(rest)?;
                    // Behind the meeting: before it, other ranks of this machine may still be handing over, and need the processor.
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

    /// Says that a parcel is there. Collective.
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

/// The file beside the data that says what it holds.
pub(crate) fn steps_name(name: &str) -> String {
    format!("{name}.steps")
}

/// Rank 0 makes both files, or finds those that are replaced, and takes the lock of the one writer that they may have.
fn make_files(own: &Comm, name: &str, replace: bool) -> Result<Option<WriterLock>> {
    let mode = if replace { Mode::read_write().create() } else { Mode::read_write().exclusive() };
    let steps = steps_name(name);
    if let Err(error) = OpenOptions::from(mode).open(own, &steps) {
        return Err(refusal(name, &steps, &error));
    }
    let claimed = match file::claim(&steps) {
        Err(error) if error.kind() == file::Kind::InUse => Err(of_stream(name, &error, error.detail())),
        // Whatever else is wrong with the file, opening it reports.
        claim => Ok(claim.ok().flatten()),
    };
    let made = claimed.and_then(|claim| match OpenOptions::from(mode).open(own, name) {
        Ok(_) => Ok(claim),
        Err(error) if error.kind() == file::Kind::FileExists => Err(of_stream(name, &error, EXISTS)),
        Err(error) => Err(of_stream(name, &error, error.detail())),
    });
    if made.is_err() && !replace {
        // Made just now, without data of its own. A failure to delete it is not the one to report.
        let _ = file::delete(&steps);
    }
    made
}

/// Why the `.steps` could not be made. One that exists may be in use; it is not locked to find out, since who has just made it may be about to do so.
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
    /// How many parcels like this one make so many bytes, if a whole number does.
    fn copies(&self, bytes: u64) -> Option<u64> {
        let length = self.offsets.length;
        (length > 0 && bytes.is_multiple_of(length)).then(|| bytes / length)
    }

    /// The sum of this rank's bytes from number `first` on.
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
    fn write(&mut self, parcel: &StepBatch, supply: &mut dyn ChunkSource) -> Result<()> {
        let laid = self.lay_out(parcel, supply.chunks())?;
        let total = self.transfer(&laid, supply)?;
        let mut record =
            self.record(if parcel.closing { RecordType::Closing } else { RecordType::Step }, parcel.step);
        record.length = laid.offsets.length;
        record.sum = total;
        let parts = parcel.entries.iter().zip(&laid.items).zip(&laid.offsets.starts);
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
        // Before the ranks meet: after that any of them may open it again.
        drop(claim);
        data.close()?;
        steps.close()
    }
}
