//! Reading objects of variable size: all parts of the data that they occupy, in one access, blocking or not, collective or not.

use std::ops::Range;

use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Count, Incoming, Request, Sink, View};

use super::ObjectFile;
use super::access::ViewRange;
use super::meta_file::{BLOCK, IndexEntry};
use super::open_file::{OpenObjectFile, merged};
use super::scope::ObjectScope;
use crate::Object;
use crate::error::{Error, Kind, Result};

/// Where the objects of a read are, in the data and in the buffer of the read.
pub(crate) struct ObjectReadPlan {
    /// The number and the index entry of each object, in the order of the view.
    pub(crate) entries: Vec<(u64, IndexEntry)>,
    /// The bytes of the data, sorted, without overlap.
    runs: Vec<Range<u64>>,
    /// The place of each run in the buffer.
    starts: Vec<u64>,
    size: u64,
}

impl ObjectReadPlan {
    pub(crate) fn new(entries: Vec<(u64, IndexEntry)>) -> Self {
        let bytes = entries.iter().map(|(_, entry)| entry.offset..entry.offset + entry.length);
        let runs = merged(bytes.filter(|bytes| !bytes.is_empty()).collect());
        let mut size = 0;
        let starts = runs.iter().map(|run| {
            size += run.end - run.start;
            size - (run.end - run.start)
        });
        let starts = starts.collect();
        Self { entries, runs, starts, size }
    }

    /// The bytes of the data as a view.
    fn view(&self) -> Result<View> {
        let byte = Layout::from(Basic::Byte);
        if self.runs.is_empty() {
            return View::of(0, &byte);
        }
        let blocks = self.runs.iter().map(|run| (run.end - run.start, run.start as i64));
        let layout = byte.hindexed(blocks);
        let layout = layout.map_err(|error| Error::new(Kind::Damaged, "read", "index", error.to_string()))?;
        View::new(0, &byte, &layout)
    }

    /// The place of an object's bytes in the buffer.
    pub(crate) fn place(&self, entry: IndexEntry) -> Range<usize> {
        let run = self.runs.partition_point(|run| run.start <= entry.offset).checked_sub(1);
        let start = run.map_or(0, |run| self.starts[run] + (entry.offset - self.runs[run].start)) as usize;
        let len = if run.is_some() { entry.length as usize } else { 0 };
        start..start + len
    }

    /// True if the objects follow each other in the buffer as they do in the view.
    fn is_consecutive(&self) -> bool {
        let mut end = 0;
        self.runs.len() == 1
            && self.entries.iter().all(|(_, entry)| {
                let place = self.place(*entry);
                std::mem::replace(&mut end, place.end) == place.start
            })
            && end as u64 == self.size
    }

    /// The bytes from the first to the last.
    fn hull(&self) -> Range<u64> {
        match (self.runs.first(), self.runs.last()) {
            (Some(first), Some(last)) => first.start..last.end,
            _ => 0..0,
        }
    }
}

/// The buffer of a non-blocking read, or the error with which this rank takes part in it.
pub(crate) struct GatherBuffer(Result<Vec<u8>>);

impl Incoming for GatherBuffer {
    fn sink(&mut self) -> Sink<'_> {
        match &mut self.0 {
            Ok(bytes) => bytes.into(),
            Err(error) => Sink::failing(error.clone()),
        }
    }
}

/// A non-blocking read of objects of variable size.
pub(crate) struct PendingGather {
    plan: ObjectReadPlan,
    request: Request<GatherBuffer>,
}

impl PendingGather {
    /// True if the bytes have been read.
    pub(crate) fn is_done(&self) -> bool {
        self.request.is_done()
    }
}

impl OpenObjectFile {
    /// Reads the bytes of these objects in one access and decodes them. Collective if the access is: an error on any rank is an error on all.
    pub(crate) fn read_objects<S: ObjectScope, R>(
        &self,
        entries: Result<Vec<(u64, IndexEntry)>>,
        decode: impl FnOnce(&ObjectReadPlan, &mut [u8]) -> Result<R>,
    ) -> Result<R> {
        let planned = entries.map(ObjectReadPlan::new).and_then(|plan| Ok((plan.view()?, plan)));
        let (view, plan) = planned.map_err(|error| S::fail_read(self.data.at(0), error))?;
        let mut bytes = vec![0; plan.size as usize];
        let count = S::read(self.data.with_view(&view), (&mut bytes).into())?;
        self.finish_read::<S, R>(&plan, count, &mut bytes, decode)
    }

    /// Starts reading the bytes of these objects, in one access.
    fn start_objects<S: ObjectScope>(
        &self,
        entries: Result<Vec<(u64, IndexEntry)>>,
    ) -> Result<PendingGather> {
        let planned = entries.map(ObjectReadPlan::new).and_then(|plan| Ok((plan.view()?, plan)));
        let (view, plan) = match planned {
            Ok(planned) => planned,
            Err(error) => return Err(S::fail_start_read(self.data.at(0), error)),
        };
        let buffer = GatherBuffer(Ok(vec![0; plan.size as usize]));
        let request = S::start_read(self.data.with_view(&view), buffer)?;
        Ok(PendingGather { plan, request })
    }

    /// Compares checksums and decodes what was read.
    fn finish_read<S: ObjectScope, R>(
        &self,
        plan: &ObjectReadPlan,
        count: Count,
        bytes: &mut [u8],
        decode: impl FnOnce(&ObjectReadPlan, &mut [u8]) -> Result<R>,
    ) -> Result<R> {
        if S::IS_COLLECTIVE {
            self.verify_collective(plan.hull())?;
        } else {
            let blocks = plan.runs.iter().map(|run| run.start / BLOCK..run.end.div_ceil(BLOCK));
            for blocks in merged(blocks.collect()) {
                let end = (blocks.end * BLOCK).min(plan.hull().end);
                self.verify(blocks.start * BLOCK..end)?;
            }
        }
        let checked = self.check_length(plan.hull().start, bytes.len(), count);
        self.outcome::<S, _>("read", checked.and_then(|()| decode(plan, bytes)))
    }
}

impl<T: Object> ObjectFile<T> {
    /// Reads objects of variable size.
    pub(crate) fn gather<S: ObjectScope>(&self, placed: &ViewRange) -> Result<Vec<T>> {
        let entries = self.open_file.entries(&placed.view, placed.start, placed.count);
        self.open_file.read_objects::<S, _>(entries, |plan, bytes| self.decode_gathered(plan, bytes))
    }

    /// Starts reading objects of variable size. Their index entries are read at once, their bytes in the background.
    pub(crate) fn start_gather<S: ObjectScope>(&self, placed: &ViewRange) -> Result<PendingGather> {
        self.open_file.start_objects::<S>(self.open_file.entries(&placed.view, placed.start, placed.count))
    }

    /// Waits for a started read and decodes its objects.
    pub(crate) fn finish_gather<S: ObjectScope>(&self, pending: PendingGather) -> Result<Vec<T>> {
        let PendingGather { plan, request } = pending;
        let (GatherBuffer(bytes), count) = request.wait()?;
        let mut bytes = bytes?;
        self.open_file
            .finish_read::<S, _>(&plan, count, &mut bytes, |plan, bytes| self.decode_gathered(plan, bytes))
    }

    fn decode_gathered(&self, plan: &ObjectReadPlan, bytes: &mut [u8]) -> Result<Vec<T>> {
        let (is_little, count) =
            (self.open_file.order == crate::schema::ByteOrder::Little, plan.entries.len());
        if is_little
            && plan.is_consecutive()
            && let Ok(objects) = self.decode_stored(bytes, count, 0, 0)
        {
            return Ok(objects);
        }
        // One by one: in any order, or to find the object of an error.
        let mut objects = Vec::with_capacity(count);
        for (number, entry) in &plan.entries {
            let part = bytes.get_mut(plan.place(*entry)).unwrap_or_default();
            objects.extend(self.decode_stored(part, 1, *number, entry.offset)?.pop());
        }
        Ok(objects)
    }
}
