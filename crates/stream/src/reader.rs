//! Reading a stream file: which steps are complete, and their values.

mod objects;
mod open;
mod prefetcher;
mod step_predictor;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_file::layout::Layout;
use aqueduct_file::{File, View};
use aqueduct_object::FileProvenance;

use crate::declare::box_layout::box_layout;
use crate::declare::stream_info::StreamInfo;
use crate::error::{Error, Kind, Result};
use crate::steps_file::checksum_matches;
use crate::steps_format::{ABSENT, StepRecord, StepsHeader};
use crate::value::StreamValue;
use aqueduct_file::hyperslab::Hyperslab;
use prefetcher::{Prefetcher, ValueLocation};

pub use objects::StepObjects;
pub use prefetcher::PrefetchStats;

/// A stream file that is open for reading: a snapshot of the time when it was opened, or last [refreshed](Self::refresh).
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
///     let stored = &reader.stored_steps()[2];
///     assert_eq!((stored.step, stored.is_closing), (2, false));
///     assert_eq!(reader.read::<f64>("level", stored)?, [2.0; 4]);
///     Ok::<_, aqueduct_stream::Error>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct Reader {
    name: Arc<str>,
    comm: Comm,
    data: File,
    header: StepsHeader,
    streams: Vec<StreamInfo>,
    points: Vec<Vec<u64>>,
    written_by: Option<FileProvenance>,
    records: Vec<StepRecord>,
    /// The complete ones among them, as readers see them.
    stored_steps: Vec<StoredStep>,
    incomplete_steps: Vec<IncompleteStep>,
    finished: bool,
    /// Whether values are compared with the checksums of their steps, and the records for which that was done.
    checked: bool,
    verified: Mutex<Vec<bool>>,
    /// Values that are read ahead.
    prefetcher: Mutex<Prefetcher>,
}

/// The stored data of a complete step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStep {
    /// The step, from 0.
    pub step: u64,
    /// True for the reductions that were stored at the end.
    pub is_closing: bool,
    /// The number of its record.
    record: usize,
}

/// A batch that is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteStep {
    /// The number of its record.
    pub record: u64,
    /// The step, if the record is valid.
    pub step: Option<u64>,
    /// True if it was durable: then it is damaged; otherwise it was being written when the program or the machine
    /// failed.
    pub was_durable: bool,
    /// The bytes of the data that belong to it, complete or not; empty if there are none. For consecutive records
    /// that cannot be read: the bytes of all of them.
    pub bytes: Range<u64>,
}

impl Reader {
    /// The same without comparing values with checksums. Steps that were never synced are compared when the file is
    /// opened nevertheless, to determine whether they are complete.
    #[must_use]
    pub fn unchecked(mut self) -> Self {
        self.checked = false;
        self
    }

    /// The streams, in order.
    pub fn streams(&self) -> &[StreamInfo] {
        &self.streams
    }

    /// The complete steps, in order.
    pub fn stored_steps(&self) -> &[StoredStep] {
        &self.stored_steps
    }

    /// Incomplete data: steps whose record is torn or does not match their bytes, and bytes without a record.
    pub fn incomplete_steps(&self) -> &[IncompleteStep] {
        &self.incomplete_steps
    }

    /// True if the program has ended the output: no data is missing at the end.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The data of a step, if it is complete.
    pub fn step(&self, step: u64) -> Option<&StoredStep> {
        self.stored_steps.iter().find(|stored| stored.step == step && !stored.is_closing)
    }

    /// The reductions that were stored at the end, if the program has ended the output and there are some.
    pub fn closing(&self) -> Option<&StoredStep> {
        self.stored_steps.iter().find(|stored| stored.is_closing)
    }

    /// The points of a stream of points, by their numbers in the global array, in the order of its values.
    pub fn points(&self, stream: &str) -> Result<&[u64]> {
        Ok(&self.points[self.find(stream)?])
    }

    /// The number of samples of the values of a stream in a step; none if the stream is not stored in it.
    pub fn samples(&self, stream: &str, stored: &StoredStep) -> Result<Option<u64>> {
        let entry = self.records[stored.record].entries[self.find(stream)?];
        Ok((entry.start != ABSENT).then_some(entry.samples))
    }

    /// The number of items of a stream in a step: points, elements of all boxes, items of a list; none if the stream
    /// is not stored in it.
    pub fn items(&self, stream: &str, stored: &StoredStep) -> Result<Option<u64>> {
        let entry = self.records[stored.record].entries[self.find(stream)?];
        Ok((entry.start != ABSENT).then_some(entry.items))
    }

    /// Sets the memory for reading ahead in bytes; the default is 64 MiB, 0 disables it.
    ///
    /// Consecutive steps, forwards or backwards, or steps at a constant distance, are recognized as a sequence: the
    /// next steps are read in the background, as many as fit, at most eight.
    pub fn prefetch(&self, bytes: u64) {
        self.lock_prefetcher().limit(bytes);
    }

    /// Statistics of reading ahead.
    pub fn prefetch_stats(&self) -> PrefetchStats {
        self.lock_prefetcher().stats()
    }

    /// All values of a stream in a step: the array, or the boxes one after the other, values of points, items of a
    /// list.
    ///
    /// The first read of a step, by this call or another, compares all bytes of the step with their checksum.
    pub fn read<T: StreamValue>(&self, stream: &str, stored: &StoredStep) -> Result<Vec<T>> {
        let (index, ..) = self.entry::<T>(stream, stored)?;
        let width = self.streams[index].item_bytes().unwrap_or(0);
        let find = |stored: &StoredStep| {
            let (_, start, items) = self.entry::<T>(stream, stored)?;
            let bytes = items.saturating_mul(width) / size_of::<T>() as u64 * size_of::<T>() as u64;
            let view = self.fits(View::of(start, &byte()), start, bytes, stored)?;
            Ok(ValueLocation { view, bytes })
        };
        self.values(&(index, None), stored, find)
    }

    /// The values of a part of a stored box: of the whole array (`number` 0), or of a box. `part` is counted from the
    /// start of the global array, so that any rank can read any block.
    pub fn read_part<T: StreamValue>(
        &self,
        stream: &str,
        stored: &StoredStep,
        number: usize,
        part: &Hyperslab,
    ) -> Result<Vec<T>> {
        let (index, ..) = self.entry::<T>(stream, stored)?;
        let boxes = self.streams[index].boxes();
        let refuse = |detail: String| Err(self.error(Kind::BadArgument, detail).in_step(stored.step));
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
        let find = |stored: &StoredStep| {
            let (_, start, _) = self.entry::<T>(stream, stored)?;
            let start = start.saturating_add(before * width);
            let end = (layout.true_lower_bound() + layout.true_extent()).max(0) as u64;
            let view = self.fits(View::new(start, &byte(), &layout), start, end, stored)?;
            Ok(ValueLocation { view, bytes: layout.size() })
        };
        self.values(&(index, Some((number, part.start.clone(), part.count.clone()))), stored, find)
    }

    /// Reads everything and compares it with its checksums; returns the damaged steps.
    pub fn verify(&self) -> Result<Vec<StoredStep>> {
        let mut damaged = Vec::new();
        for stored in &self.stored_steps {
            if !self.verify_step(stored)? {
                damaged.push(stored.clone());
            }
        }
        Ok(damaged)
    }

    /// Reads a step and compares it with its checksum; false if it is damaged. Ranks can share the steps of a file.
    pub fn verify_step(&self, stored: &StoredStep) -> Result<bool> {
        let record = self.records.get(stored.record);
        let record =
            record.ok_or_else(|| self.error(Kind::BadArgument, "the step is not of this file".to_owned()))?;
        checksum_matches(&self.data, &self.streams, record, None)
    }

    /// The program that created the file; none in files of versions that do not record it.
    pub fn written_by(&self) -> Option<&FileProvenance> {
        self.written_by.as_ref()
    }

    /// The bytes of the data that hold the values of a stream in a step; none if the stream is not stored in it.
    pub fn byte_range(&self, stream: &str, stored: &StoredStep) -> Result<Option<Range<u64>>> {
        let index = self.find(stream)?;
        let entry = self.records.get(stored.record).and_then(|record| record.entries.get(index));
        let size = self.streams[index].item_bytes().unwrap_or(0);
        let stored = entry.filter(|entry| entry.start != ABSENT);
        Ok(stored.map(|entry| entry.start..entry.start.saturating_add(entry.items.saturating_mul(size))))
    }

    fn find(&self, stream: &str) -> Result<usize> {
        let missing = || {
            let names: Vec<&str> = self.streams.iter().map(|about| about.name.as_str()).collect();
            self.error(Kind::NoSuchName, format!("there is no stream {stream:?}; there are {names:?}"))
        };
        self.streams.iter().position(|about| about.name == stream).ok_or_else(missing)
    }

    /// The number of the stream, the place of its values, and the number of items.
    fn entry<T: StreamValue>(&self, stream: &str, step: &StoredStep) -> Result<(usize, u64, u64)> {
        let index = self.find(stream)?;
        let stored = self.streams[index].stored();
        if stored != T::KIND {
            let detail = format!("stream {stream:?} has values {stored:?}, not {:?}", T::KIND);
            return Err(self.error(Kind::NoSuchName, detail));
        }
        let (start, items) = self.place(index, step)?;
        Ok((index, start, items))
    }

    /// The place of the values of a stream in a step, and the number of items.
    fn place(&self, index: usize, stored: &StoredStep) -> Result<(u64, u64)> {
        let entry = self.records.get(stored.record).map(|record| record.entries[index]);
        let absent = || {
            let detail = format!("stream {:?} is not stored in this step", self.streams[index].name);
            self.error(Kind::NoSuchName, detail).in_step(stored.step)
        };
        let entry = entry.filter(|entry| entry.start != ABSENT).ok_or_else(absent)?;
        Ok((entry.start, entry.items))
    }

    /// A view of values, if all are before the end of the data. Checked before memory is allocated: the record may be
    /// wrong.
    fn fits(
        &self,
        view: aqueduct_file::Result<View>,
        start: u64,
        bytes: u64,
        stored: &StoredStep,
    ) -> Result<View> {
        if start.checked_add(bytes).is_none_or(|end| self.data.size().is_ok_and(|size| end > size)) {
            let detail =
                format!("{bytes} bytes at {start} are beyond the end of the data, which was truncated");
            return Err(self.error(Kind::Damaged, detail).in_step(stored.step));
        }
        view.map_err(|error| error.in_step(stored.step))
    }

    /// Values that were read ahead, or are read now; requests those that are expected to be read next.
    fn values<T: StreamValue>(
        &self,
        kind: &prefetcher::Kind,
        stored: &StoredStep,
        find: impl Fn(&StoredStep) -> Result<ValueLocation>,
    ) -> Result<Vec<T>> {
        let early = self.lock_prefetcher().take(kind, stored.record);
        let values = match early {
            Some(bytes) => {
                let mut values = bytemuck::zeroed_vec(bytes.len() / size_of::<T>());
                bytemuck::cast_slice_mut(&mut values).copy_from_slice(&bytes);
                values
            }
            None => self.read_now(&find(stored)?, stored)?,
        };
        let whole = kind.1.is_none().then(|| (kind.0, bytemuck::cast_slice(&values)));
        self.check(stored, whole)?;
        let next =
            |record: usize| find(self.stored_steps.iter().find(|stored| stored.record == record)?).ok();
        self.lock_prefetcher().request_next(&self.data, kind, stored.record, next);
        Ok(values)
    }

    fn read_now<T: StreamValue>(&self, want: &ValueLocation, stored: &StoredStep) -> Result<Vec<T>> {
        let mut values = bytemuck::zeroed_vec(want.bytes as usize / size_of::<T>());
        let read = self.data.with_view(&want.view).read(&mut values);
        let read = read.map_err(|error| error.in_step(stored.step))?.bytes();
        if read < want.bytes {
            let (bytes, start) = (want.bytes, want.view.displacement());
            let detail = format!("only {read} of {bytes} bytes at {start} exist: the data was truncated");
            return Err(self.error(Kind::Damaged, detail).in_step(stored.step));
        }
        Ok(values)
    }

    /// Compares the bytes of a step with their checksum, once. The bytes of a stream that are in memory already are
    /// not read again.
    fn check(&self, stored: &StoredStep, known: Option<(usize, &[u8])>) -> Result<()> {
        let is_verified = |verified: &Mutex<Vec<bool>>| {
            verified
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get(stored.record)
                .copied()
                .unwrap_or(false)
        };
        if !self.checked || is_verified(&self.verified) {
            return Ok(());
        }
        let right = checksum_matches(&self.data, &self.streams, &self.records[stored.record], known);
        if !right.map_err(|error| error.in_step(stored.step))? {
            let detail = "its bytes do not match their checksum; restore the file, or read it with `Reader::unchecked`";
            return Err(self.error(Kind::Damaged, detail.to_owned()).in_step(stored.step));
        }
        self.verified.lock().unwrap_or_else(PoisonError::into_inner)[stored.record] = true;
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
