//! Reading a stream file: which steps are complete, and their values.

mod objects;
mod open;
mod prefetcher;
mod step_predictor;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_file::layout::Layout;
use aqueduct_file::{File, View};

use crate::declare::box_layout::box_layout;
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result};
use crate::pack::step_checksum::position_checksum;
use crate::steps_format::{ABSENT, RecordType, StepRecord};
use crate::value::StreamValue;
use aqueduct_file::hyperslab::Hyperslab;
use prefetcher::{Prefetcher, ValueLocation};

pub use objects::StepObjects;
pub use prefetcher::PrefetchStats;

/// Bytes that are read at a time where sums are looked at.
const WINDOW: usize = 1 << 20;

/// A stream file that is read: a snapshot of what was there when it was opened.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_stream::{Output, Reader, Stream, Streams};
///
/// Launch::threads(1).run(|world| {
///     let mut streams = Streams::new();
///     let level = streams.add::<f64>(Stream::array("level", [4]).block([0], [4]));
///     let mut output = Output::create(world, "memfs:levels", &streams)?;
///     for step in 0..3 {
///         output.step()?.put(level, &[f64::from(step); 4]).commit()?;
///     }
///     output.finish()?;
///
///     let reader = Reader::open(world, "memfs:levels")?;
///     assert!(reader.is_finished());
///     let parcel = &reader.stored_steps()[2];
///     assert_eq!((parcel.step, parcel.is_closing), (2, false));
///     assert_eq!(reader.read::<f64>("level", parcel)?, [2.0; 4]);
///     Ok::<_, aqueduct_stream::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct Reader {
    name: Arc<str>,
    data: File,
    streams: Vec<StreamInfo>,
    points: Vec<Vec<u64>>,
    records: Vec<StepRecord>,
    /// The complete ones among them, as readers see them.
    stored_steps: Vec<StoredStep>,
    incomplete_steps: Vec<IncompleteStep>,
    finished: bool,
    /// Whether values are compared with the checksums of their steps, and of which records they have been.
    checked: bool,
    verified: Mutex<Vec<bool>>,
    /// What is read ahead of the program.
    prefetcher: Mutex<Prefetcher>,
}

/// What is stored of a step, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStep {
    /// The step, from 0.
    pub step: u64,
    /// Whether it is what reductions had come to at the end.
    pub is_closing: bool,
    /// Its place among the records.
    record: usize,
}

/// A parcel that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteStep {
    /// The number of its record.
    pub record: u64,
    /// Its step, where the record tells.
    pub step: Option<u64>,
    /// Whether it was durable once: then it is damage, else it was under way when the program or the machine failed.
    pub was_durable: bool,
    /// Which bytes of the data are its own, complete or not; nothing, if none of them came there. Of several records in a row that cannot be read: those
    /// of all of them.
    pub bytes: Range<u64>,
}

impl Reader {
    /// The same without comparing what is read with checksums. Steps that were never synced are compared when the file is opened all the same: that
    /// tells whether they are complete.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.checked = false;
        self
    }

    /// The streams, in order.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// What is complete, in order.
    pub fn stored_steps(&self) -> &[StoredStep] {
        &self.stored_steps
    }

    /// What was begun and is not complete: steps whose record is torn or does not agree with their bytes, and bytes that no record speaks of yet.
    pub fn incomplete_steps(&self) -> &[IncompleteStep] {
        &self.incomplete_steps
    }

    /// Whether the program came to its end: nothing is missing behind the last parcel.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The parcel of a step, if it is complete.
    pub fn step(&self, step: u64) -> Option<&StoredStep> {
        self.stored_steps.iter().find(|parcel| parcel.step == step && !parcel.is_closing)
    }

    /// What reductions had come to at the end, if the program came to it and there were some.
    pub fn closing(&self) -> Option<&StoredStep> {
        self.stored_steps.iter().find(|parcel| parcel.is_closing)
    }

    /// The points of a stream of points, by their numbers in the global array, in the order of its values.
    pub fn points(&self, stream: &str) -> Result<&[u64]> {
        Ok(&self.points[self.find(stream)?])
    }

    /// Whether a parcel has something of a stream, and of how many samples its values are made.
    pub fn samples(&self, stream: &str, parcel: &StoredStep) -> Result<Option<u64>> {
        let entry = self.records[parcel.record].entries[self.find(stream)?];
        Ok((entry.start != ABSENT).then_some(entry.samples))
    }

    /// How many items a parcel has of a stream: points, elements of all boxes, items of a list; none if nothing of it is stored.
    pub fn items(&self, stream: &str, parcel: &StoredStep) -> Result<Option<u64>> {
        let entry = self.records[parcel.record].entries[self.find(stream)?];
        Ok((entry.start != ABSENT).then_some(entry.items))
    }

    /// How many bytes are read ahead for a program that walks through time; 64 MiB unless it is said, 0 for none.
    ///
    /// Steps in a row, forwards or backwards, or at a distance that repeats, are a walk: while the program looks at one, the next are read, as many as
    /// fit and eight at most.
    pub fn prefetch(&self, bytes: u64) {
        self.lock_prefetcher().limit(bytes);
    }

    /// What came of reading ahead.
    pub fn prefetch_stats(&self) -> PrefetchStats {
        self.lock_prefetcher().stats()
    }

    /// All values of a stream in a parcel: the array or the cuboids one after the other, values of points, items of a list.
    ///
    /// The first read of a parcel, by this call or another, compares all bytes of the parcel with their checksum.
    pub fn read<T: StreamValue>(&self, stream: &str, parcel: &StoredStep) -> Result<Vec<T>> {
        let (index, ..) = self.entry::<T>(stream, parcel)?;
        let width = self.streams[index].item_bytes().unwrap_or(0);
        let find = |parcel: &StoredStep| {
            let (_, start, items) = self.entry::<T>(stream, parcel)?;
            let bytes = items.saturating_mul(width) / size_of::<T>() as u64 * size_of::<T>() as u64;
            let view = self.fits(View::of(start, &byte()), start, bytes, parcel)?;
            Ok(ValueLocation { view, bytes })
        };
        self.values(&(index, None), parcel, find)
    }

    /// The values of a part of a stored box: of the whole domain (`number` 0), or of a cuboid. `part` is counted from the start of the
    /// global array, so that any rank gets the block that it wants.
    pub fn read_part<T: StreamValue>(
        &self,
        stream: &str,
        parcel: &StoredStep,
        number: usize,
        part: &Hyperslab,
    ) -> Result<Vec<T>> {
        let (index, ..) = self.entry::<T>(stream, parcel)?;
        let boxes = self.streams[index].boxes();
        let refuse = |detail: String| Err(self.error(Kind::BadArgument, detail).in_step(parcel.step));
        let Some(outer) = boxes.get(number) else {
            return refuse(format!(
                "stream {stream:?} has {} boxes; there is no number {number}",
                boxes.len()
            ));
        };
        let inner = part.relative_to(outer);
        if part.start.len() != outer.start.len()
            || part.intersection(outer) != *part
            || !inner.is_inside(&outer.count)
        {
            let (start, shape) = (&part.start, &part.count);
            return refuse(format!(
                "the block of shape {shape:?} at {start:?} does not lie in box {number} of stream {stream:?}, of shape {:?} at {:?}",
                outer.count, outer.start
            ));
        }
        let before: u64 = boxes[..number].iter().filter_map(Hyperslab::volume).sum();
        let width = size_of::<T>() as u64;
        let layout = Layout::bytes(width).and_then(|element| box_layout(&inner, &element, &outer.count));
        let layout = layout.map_err(|error| self.error(Kind::BadArgument, error.to_string()))?;
        let find = |parcel: &StoredStep| {
            let (_, start, _) = self.entry::<T>(stream, parcel)?;
            let start = start.saturating_add(before * width);
            let end = (layout.true_lower_bound() + layout.true_extent()).max(0) as u64;
            let view = self.fits(View::new(start, &byte(), &layout), start, end, parcel)?;
            Ok(ValueLocation { view, bytes: layout.size() })
        };
        self.values(&(index, Some((number, part.start.clone(), part.count.clone()))), parcel, find)
    }

    /// Reads everything and compares it with its sums; the parcels that are not what was written.
    pub fn verify(&self) -> Result<Vec<StoredStep>> {
        let mut damaged = Vec::new();
        for parcel in &self.stored_steps {
            let record = &self.records[parcel.record];
            if !checksum_matches(&self.data, &self.streams, record, None)? {
                damaged.push(parcel.clone());
            }
        }
        Ok(damaged)
    }

    fn find(&self, stream: &str) -> Result<usize> {
        let missing = || {
            let names: Vec<&str> = self.streams.iter().map(|about| about.name.as_str()).collect();
            self.error(Kind::NoSuchName, format!("there is no stream {stream:?}; there are {names:?}"))
        };
        self.streams.iter().position(|about| about.name == stream).ok_or_else(missing)
    }

    /// The stream's number, and where its values are and how many items.
    fn entry<T: StreamValue>(&self, stream: &str, parcel: &StoredStep) -> Result<(usize, u64, u64)> {
        let index = self.find(stream)?;
        let stored = self.streams[index].stored();
        if stored != T::KIND {
            let detail = format!("stream {stream:?} has values {stored:?}, not {:?}", T::KIND);
            return Err(self.error(Kind::NoSuchName, detail));
        }
        let (start, items) = self.place(index, parcel)?;
        Ok((index, start, items))
    }

    /// Where the values of a stream are in a parcel, and how many items.
    fn place(&self, index: usize, parcel: &StoredStep) -> Result<(u64, u64)> {
        let entry = self.records.get(parcel.record).map(|record| record.entries[index]);
        let absent = || {
            let detail = format!("stream {:?} is not stored in this step", self.streams[index].name);
            self.error(Kind::NoSuchName, detail).in_step(parcel.step)
        };
        let entry = entry.filter(|entry| entry.start != ABSENT).ok_or_else(absent)?;
        Ok((entry.start, entry.items))
    }

    /// A view of values, if they all lie before the end of the data. Asked before there is memory for them: the record may lie.
    fn fits(
        &self,
        view: aqueduct_file::Result<View>,
        start: u64,
        bytes: u64,
        parcel: &StoredStep,
    ) -> Result<View> {
        if start.checked_add(bytes).is_none_or(|end| self.data.size().is_ok_and(|size| end > size)) {
            let detail = format!("{bytes} bytes at {start} lie behind the end of the data: it was cut off");
            return Err(self.error(Kind::Damaged, detail).in_step(parcel.step));
        }
        view.map_err(|error| error.in_step(parcel.step))
    }

    /// Values that were read ahead, or are read now; and those that will be wanted next are asked for.
    fn values<T: StreamValue>(
        &self,
        kind: &prefetcher::Kind,
        parcel: &StoredStep,
        find: impl Fn(&StoredStep) -> Result<ValueLocation>,
    ) -> Result<Vec<T>> {
        let early = self.lock_prefetcher().take(kind, parcel.record);
        let values = match early {
            Some(bytes) => {
                let mut values = bytemuck::zeroed_vec(bytes.len() / size_of::<T>());
                bytemuck::cast_slice_mut(&mut values).copy_from_slice(&bytes);
                values
            }
            None => self.read_now(&find(parcel)?, parcel)?,
        };
        let whole = kind.1.is_none().then(|| (kind.0, bytemuck::cast_slice(&values)));
        self.check(parcel, whole)?;
        let next =
            |record: usize| find(self.stored_steps.iter().find(|parcel| parcel.record == record)?).ok();
        self.lock_prefetcher().request_next(&self.data, kind, parcel.record, next);
        Ok(values)
    }

    fn read_now<T: StreamValue>(&self, want: &ValueLocation, parcel: &StoredStep) -> Result<Vec<T>> {
        let mut values = bytemuck::zeroed_vec(want.bytes as usize / size_of::<T>());
        let read = self.data.with_view(&want.view).read(&mut values);
        let read = read.map_err(|error| error.in_step(parcel.step))?.bytes();
        if read < want.bytes {
            let (bytes, start) = (want.bytes, want.view.displacement());
            let detail = format!("only {read} of {bytes} bytes at {start} are there: it was cut off");
            return Err(self.error(Kind::Damaged, detail).in_step(parcel.step));
        }
        Ok(values)
    }

    /// Compares the bytes of a parcel with their checksum, once. Those of a stream that are in memory already are not read again.
    fn check(&self, parcel: &StoredStep, known: Option<(usize, &[u8])>) -> Result<()> {
        let is_verified = |verified: &Mutex<Vec<bool>>| {
            verified
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(parcel.record)
                .copied()
                .unwrap_or(false)
        };
        if !self.checked || is_verified(&self.verified) {
            return Ok(());
        }
        let right = checksum_matches(&self.data, &self.streams, &self.records[parcel.record], known);
        if !right.map_err(|error| error.in_step(parcel.step))? {
            let detail = "its bytes do not have the checksum that they were written with; restore the file, or read it with `Reader::unchecked`";
            return Err(self.error(Kind::Damaged, detail.to_owned()).in_step(parcel.step));
        }
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)[parcel.record] = true;
        Ok(())
    }

    fn lock_prefetcher(&self) -> MutexGuard<'_, Prefetcher> {
        self.prefetcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, kind: Kind, detail: String) -> Error {
        Error::new(kind, "read", &self.name, detail)
    }
}

fn byte() -> Layout {
    aqueduct_file::layout::Basic::Byte.into()
}

/// Whether the data of a record has the sum that it says; not, if there is less data. All values of one stream may be in memory already.
fn checksum_matches(
    data: &File,
    abouts: &[StreamInfo],
    record: &StepRecord,
    known: Option<(usize, &[u8])>,
) -> Result<bool> {
    if record.record_type == RecordType::End {
        return Ok(true);
    }
    let mut total = 0u64;
    let mut window = vec![0; WINDOW];
    let streams = abouts.iter().zip(&record.entries).enumerate();
    for (stream, (about, entry)) in streams.filter(|(_, (_, entry))| entry.start != ABSENT) {
        let bytes = about.item_bytes().and_then(|each| each.checked_mul(entry.items));
        let place = entry.start.checked_sub(record.start);
        let end = bytes.and_then(|bytes| entry.start.checked_add(bytes));
        let (Some(bytes), Some(place), Some(_)) = (bytes, place, end) else { return Ok(false) };
        if about.region != StreamRegion::List && about.items() != Some(entry.items) {
            return Ok(false);
        }
        if let Some((_, values)) =
            known.filter(|(known, values)| *known == stream && values.len() as u64 == bytes)
        {
            total = total.wrapping_add(position_checksum(about.stored().width(), place, values));
            continue;
        }
        let mut done = 0;
        while done < bytes {
            let length = (bytes - done).min(WINDOW as u64);
            let part = &mut window[..length as usize];
            if data.at(entry.start + done).read(&mut *part)?.bytes() < length {
                return Ok(false);
            }
            total = total.wrapping_add(position_checksum(about.stored().width(), place + done, part));
            done += length;
        }
    }
    Ok(total == record.sum)
}
