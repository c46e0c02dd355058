//! Reading a stream file: which steps are complete, and their values.

mod objects;
mod open;
mod values;

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_file::layout::Layout;
use aqueduct_file::prefetcher::Prefetcher;
use aqueduct_file::{File, View};
use aqueduct_object::FileProvenance;

use crate::declare::stream_info::StreamInfo;
use crate::error::{Error, Kind, Result};
use crate::steps_file::checksum_matches;
use crate::steps_format::{ABSENT, StepRecord, StepsHeader};

pub use aqueduct_file::PrefetchStats;
pub use objects::StepObjects;

/// The default limit of the memory for reading ahead.
const PREFETCH_CAP: u64 = 64 << 20;

/// The values of a read: the stream, and a box with a part of it (its start and shape); all values if there is none.
type PartKey = (usize, Option<(usize, Vec<u64>, Vec<u64>)>);

/// The place of values.
#[derive(Clone, Debug)]
struct ValueLocation {
    view: View,
    bytes: u64,
}

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
    prefetcher: Mutex<Prefetcher<PartKey>>,
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

    /// Fills memory of the size of values with them.
    fn read_now(&self, want: &ValueLocation, stored: &StoredStep, values: &mut [u8]) -> Result<()> {
        let read = self.data.with_view(&want.view).read(values);
        let read = read.map_err(|error| error.in_step(stored.step))?.bytes();
        if read < want.bytes {
            let (bytes, start) = (want.bytes, want.view.displacement());
            let detail = format!("only {read} of {bytes} bytes at {start} exist: the data was truncated");
            return Err(self.error(Kind::Damaged, detail).in_step(stored.step));
        }
        Ok(())
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

    fn lock_prefetcher(&self) -> MutexGuard<'_, Prefetcher<PartKey>> {
        self.prefetcher.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn error(&self, kind: Kind, detail: String) -> Error {
        Error::new(kind, "read", &self.name, detail)
    }
}

fn byte() -> Layout {
    aqueduct_file::layout::Basic::Byte.into()
}
