//! Access to objects: where × together or alone × read or write × wait or not, in one chain of words as files have it.
//!
//! | where | alone | together |
//! |---|---|---|
//! | explicit number | `file.at(n).read(…)` | `file.at(n).all().read(…)` |
//! | individual pointer | `file.next().read(…)` | `file.next().all().read(…)` |
//! | shared pointer | `file.shared().read(…)` | `file.shared().all().read(…)`, in rank order |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use aqueduct_file::{Access as Bytes, Count, Sink, Source};

use super::open_file::WrittenObjects;
use super::request::{ObjectSplitRequest, ReadRequest, WriteRequest};
use super::view::ObjectView;
use super::{ObjectFile, split_pending};
use crate::error::{Error, Kind, Result};
use crate::into_objects::{EncodedBatch, IntoObjects, measure_batch};
use crate::object::cast;
use crate::schema::ByteOrder;
use crate::{Encoder, Object};

/// Bytes of objects of variable size that are encoded before they are written.
const PART: usize = 1 << 20;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectPosition {
    At(u64),
    Next,
    Shared,
}

/// A place in a file of objects, for this rank alone or, after [`all`](ObjectAccess::all), for all ranks together.
#[derive(Debug)]
pub struct ObjectAccess<'f, T> {
    pub(crate) file: &'f ObjectFile<T>,
    position: ObjectPosition,
    pub(crate) collective: bool,
}

impl<T: Object> ObjectFile<T> {
    /// At object `number` of the view; no pointer moves.
    pub fn at(&self, number: u64) -> ObjectAccess<'_, T> {
        ObjectAccess { file: self, position: ObjectPosition::At(number), collective: false }
    }

    /// At this rank's own pointer, which moves on.
    pub fn at_pointer(&self) -> ObjectAccess<'_, T> {
        ObjectAccess { file: self, position: ObjectPosition::Next, collective: false }
    }

    /// At the pointer that all ranks share, which moves on.
    pub fn shared(&self) -> ObjectAccess<'_, T> {
        ObjectAccess { file: self, position: ObjectPosition::Shared, collective: false }
    }
}

/// Objects and where they go.
pub(crate) struct ViewRange {
    pub(crate) view: Arc<ObjectView>,
    /// The first place in the view.
    pub(crate) start: u64,
    pub(crate) count: u64,
}

impl ViewRange {
    /// The bytes from the first to the last object, gaps included.
    fn byte_span(&self, size: u64) -> Option<std::ops::Range<u64>> {
        if self.count == 0 {
            return Some(0..0);
        }
        let first = self.view.number(self.start)?;
        let last = self.view.number(self.start.checked_add(self.count - 1)?)?;
        Some(first.checked_mul(size)?..last.checked_add(1)?.checked_mul(size)?)
    }

    /// One behind the highest object.
    fn end_object(&self) -> Option<u64> {
        if self.count == 0 {
            return Some(0);
        }
        self.view.number(self.start.checked_add(self.count - 1)?)?.checked_add(1)
    }
}

impl<'f, T: Object> ObjectAccess<'f, T> {
    /// Together with all other ranks: a collective operation, each rank with its own number of objects. At the shared pointer, in rank order.
    #[must_use]
    pub fn all(self) -> Self {
        Self { collective: true, ..self }
    }

    /// Writes objects; how many.
    pub fn write<'a>(self, objects: impl IntoObjects<'a, T>) -> Result<u64> {
        if let Some(objects) = objects.slice().filter(|objects| self.file.streams(objects)) {
            return self.write_encoding(objects);
        }
        let packed = objects.encode_batch();
        let count = packed.count as u64;
        let (offset, packed, written) = self.prepare_write(packed).map_err(|error| self.fail_write(error))?;
        self.write_bytes(offset, &packed.bytes)?;
        self.file.open_file.record_write(written);
        Ok(count)
    }

    /// Writes many objects of variable size, a part of them encoded at a time: memory that the processor's cache holds instead of memory of their
    /// size.
    fn write_encoding(&self, objects: &[T]) -> Result<u64> {
        let prepared = self.prepare_write(measure_batch(objects));
        let (offset, _, written) = prepared.map_err(|error| self.fail_write(error))?;
        let end = offset + written.ends.last().copied().unwrap_or(0);
        let (mut at, mut part) = (offset, Vec::with_capacity(PART));
        for object in objects {
            if part.len() >= PART {
                self.place(at).write(&part).map_err(|error| self.fail_write(error))?;
                at += part.len() as u64;
                part.clear();
            }
            object.encode(&mut Encoder::new(&mut part));
        }
        if at + part.len() as u64 != end {
            let name = self.file.open_file.schema.name();
            let detail =
                format!("encoded_size of {name} is not what encode makes; mend its implementation of Object");
            return Err(self.fail_write(self.file.open_file.error(Kind::BadArgument, "write", detail)));
        }
        // If the ranks write together, it is in this that they meet.
        self.write_bytes(at, &part)?;
        self.file.open_file.record_write(written);
        Ok(objects.len() as u64)
    }

    fn write_bytes(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self.place(offset) {
            place if self.collective => place.all().write(bytes)?,
            place => place.write(bytes)?,
        };
        Ok(())
    }

    /// A write that cannot be: if the ranks write together, this one takes part in it with its error, so that the others learn of it.
    fn fail_write(&self, error: Error) -> Error {
        if self.collective {
            // The error brought is the one that comes back.
            let _ = self.place(0).all().write(Source::failing(error.clone()));
        }
        error
    }

    /// The same for a read.
    fn fail_read(&self, error: Error) -> Error {
        let store = &self.file.open_file;
        if self.collective && store.size().is_some() {
            let _ = self.place(0).all().read(Sink::failing(error.clone()));
        } else if self.collective {
            let _ = store.agree("read", Err::<(), _>(error.clone()));
        }
        error
    }

    /// Overwrites objects with those of the file, from the front; how many, less at the end of the file.
    pub fn read(self, objects: &mut [T]) -> Result<u64> {
        let placed = self.prepare_read(objects.len() as u64).map_err(|error| self.fail_read(error))?;
        if let (true, Some(bytes)) =
            (self.file.is_plain, cast::bytes_mut(&mut objects[..placed.count as usize]))
        {
            self.read_bytes(&placed, bytes)?;
            return Ok(placed.count);
        }
        let read = self.load(&placed)?;
        objects.iter_mut().zip(read).for_each(|(old, new)| *old = new);
        Ok(placed.count)
    }

    /// Reads up to `count` objects, less at the end of the file.
    pub fn read_vec(self, count: u64) -> Result<Vec<T>> {
        let placed = self.prepare_read(count).map_err(|error| self.fail_read(error))?;
        if self.file.is_plain
            && let Some(mut objects) = cast::zeroed(placed.count as usize)
            && let Some(bytes) = cast::bytes_mut(&mut objects)
        {
            self.read_bytes(&placed, bytes)?;
            return Ok(objects);
        }
        self.load(&placed)
    }

    /// Starts writing objects, which the request keeps meanwhile.
    pub fn start_write(self, objects: Vec<T>) -> Result<WriteRequest<T>>
    where
        T: Send,
    {
        if self.file.is_plain && self.file.open_file.size().is_some() {
            let count = objects.len() as u64;
            let packed = EncodedBatch {
                bytes: cast::bytes(&objects).unwrap_or_default().into(),
                count: objects.len(),
                ends: Vec::new(),
            };
            let (offset, _, written) = self.agreed("write", self.prepare_write(packed))?;
            self.file.open_file.record_write(written);
            return WriteRequest::start_plain(self.place(offset), self.collective, objects, count);
        }
        let (offset, packed, written) =
            self.agreed("write", self.prepare_write(objects.as_slice().encode_batch()))?;
        self.file.open_file.record_write(written);
        let bytes = packed.bytes.into_owned();
        WriteRequest::start_encoded(self.place(offset), self.collective, objects, bytes)
    }

    /// Starts reading up to `count` objects.
    pub fn start_read(self, count: u64) -> Result<ReadRequest<'f, T>>
    where
        T: Send,
    {
        let placed = self.agreed("read", self.prepare_read(count))?;
        ReadRequest::start(self.file, &placed, self.collective)
    }

    /// Begins a split write, together only; until it is ended, no other collective operation on this file.
    pub fn begin_write(self, objects: Vec<T>) -> Result<ObjectSplitRequest<WriteRequest<T>>>
    where
        T: Send,
    {
        let pending = Arc::clone(&self.file.split);
        let request = self.require_collective()?.start_write(objects)?;
        Ok(ObjectSplitRequest::new(request, pending))
    }

    /// Begins a split read, together only; until it is ended, no other collective operation on this file.
    pub fn begin_read(self, count: u64) -> Result<ObjectSplitRequest<ReadRequest<'f, T>>>
    where
        T: Send,
    {
        let pending = Arc::clone(&self.file.split);
        let request = self.require_collective()?.start_read(count)?;
        Ok(ObjectSplitRequest::new(request, pending))
    }

    fn agreed<R>(&self, operation: &'static str, mine: Result<R>) -> Result<R> {
        self.file.open_file.outcome(self.collective, operation, mine)
    }

    fn require_collective(self) -> Result<Self> {
        if self.collective {
            return Ok(self);
        }
        let detail = "the split form is for all ranks together: put .all() before it";
        Err(self.file.open_file.error(Kind::BadArgument, "begin", detail))
    }

    /// The place in the file layer: an object of the view where sizes are constant, a byte where they are not.
    fn place(&self, offset: u64) -> Bytes<'f> {
        self.file.open_file.data.at(offset)
    }

    fn start(&self, count: u64) -> Result<u64> {
        let numbers = self.file.open_file.count_pointer();
        match self.position {
            ObjectPosition::At(number) => Ok(number),
            ObjectPosition::Next => self.file.take_pointer(count),
            ObjectPosition::Shared if self.collective => Ok(numbers.reserve_ordered(count)?),
            ObjectPosition::Shared => Ok(numbers.reserve_shared(count)?),
        }
    }

    /// Takes the place of a write and marks what it changes; where the file layer writes, what, and what is to be noted when it has. The outcome is
    /// this rank's own, but all ranks take room together.
    fn prepare_write<'a>(&self, packed: EncodedBatch<'a>) -> Result<(u64, EncodedBatch<'a>, WrittenObjects)> {
        let store = &self.file.open_file;
        let start = self.start(packed.count as u64);
        let mut prepared = start.and_then(|start| {
            let placed = ViewRange { view: self.file.view(), start, count: packed.count as u64 };
            self.may_write(&placed)?;
            let packed = self.file.encode_stored(packed)?;
            if let Some(size) = store.size() {
                store.mark_dirty(placed.byte_span(size).unwrap_or(0..0), false)?;
            }
            Ok((placed, packed))
        });
        let room = match (store.size(), &mut prepared) {
            (None, Ok((placed, packed))) => self.find_room(placed, packed).map(Some),
            // The others count this rank's part, empty, before they go on.
            (None, Err(_)) if self.collective => store.data.reserve_ordered(0).map(|_| None),
            (Some(_), _) | (None, Err(_)) => Ok(None),
        };
        let (placed, packed) = prepared?;
        let (offset, ends) = room?.unwrap_or((placed.start, Vec::new()));
        let high = placed.end_object().unwrap_or(0);
        let written = WrittenObjects { view: placed.view, start: placed.start, offset, ends, high };
        Ok((offset, packed, written))
    }

    /// Room in the data for objects of variable size, by prefix sums if all ranks write together; where it is, and where each object ends in it.
    fn find_room(&self, placed: &ViewRange, packed: &mut EncodedBatch<'_>) -> Result<(u64, Vec<u64>)> {
        let (store, bytes) = (&self.file.open_file, packed.size() as u64);
        let offset = if self.collective {
            store.data.reserve_ordered(bytes)?
        } else {
            store.data.reserve_shared(bytes)?
        };
        let first = placed.view.number(placed.start).unwrap_or(0);
        let overwrites = placed.count > 0 && first < store.changes().slot.count;
        store.mark_dirty(offset..offset + bytes, overwrites)?;
        Ok((offset, std::mem::take(&mut packed.ends)))
    }

    fn may_write(&self, placed: &ViewRange) -> Result<()> {
        let store = &self.file.open_file;
        if self.collective && self.file.split.load(Ordering::SeqCst) {
            return Err(split_pending(store));
        }
        if !store.mode.is_write() {
            return Err(store.error(Kind::BadArgument, "write", "the file was opened for reading only"));
        }
        if placed.byte_span(store.size().unwrap_or(1)).is_none_or(|hull| i64::try_from(hull.end).is_err()) {
            let (count, start) = (placed.count, placed.start);
            let detail = format!(
                "{count} objects from {start} on: the view sees none there, or they reach behind every file"
            );
            return Err(store.error(Kind::BadArgument, "write", detail));
        }
        Ok(())
    }

    /// Takes the place of a read, cut at the end of the file. The outcome is this rank's own.
    fn prepare_read(&self, count: u64) -> Result<ViewRange> {
        let (store, start) = (&self.file.open_file, self.start(count)?);
        if self.collective && self.file.split.load(Ordering::SeqCst) {
            return Err(split_pending(store));
        }
        let view = self.file.view();
        let there = view.count_before(store.count()?).saturating_sub(start);
        Ok(ViewRange { view, start, count: count.min(there) })
    }

    /// Reads objects of constant size as they lie in the file.
    fn read_bytes(&self, placed: &ViewRange, bytes: &mut [u8]) -> Result<Count> {
        let place = self.place(placed.start);
        let count = if self.collective { place.all().read(&mut *bytes)? } else { place.read(&mut *bytes)? };
        self.file.check_read(placed, self.collective, count, bytes.len() as u64)
    }

    /// Reads objects that are not in the file as they are in memory.
    fn load(&self, placed: &ViewRange) -> Result<Vec<T>> {
        let store = &self.file.open_file;
        let Some(size) = store.size() else {
            let read = self.file.gather(placed);
            return store.outcome(self.collective, "read", read);
        };
        let mut bytes = vec![0; (placed.count * size) as usize];
        self.read_bytes(placed, &mut bytes)?;
        let number = placed.view.number(placed.start).unwrap_or(0);
        let loaded =
            self.file.decode_stored(&mut bytes, placed.count as usize, number, number.saturating_mul(size));
        store.outcome(self.collective, "read", loaded)
    }
}

impl<T: Object> ObjectFile<T> {
    /// Whether objects are written while they are encoded: many of variable size, in the order of bytes they have in memory.
    fn streams(&self, objects: &[T]) -> bool {
        let mut bytes = 0;
        let mut is_much = |object: &T| {
            bytes += object.encoded_size();
            bytes > 2 * PART
        };
        T::SIZE.is_none() && self.open_file.order == ByteOrder::Little && objects.iter().any(&mut is_much)
    }

    /// Compares checksums of what was read, and whether it is all there.
    pub(crate) fn check_read(
        &self,
        placed: &ViewRange,
        together: bool,
        count: Count,
        wanted: u64,
    ) -> Result<Count> {
        let store = &self.open_file;
        let hull = placed.byte_span(store.size().unwrap_or(1)).unwrap_or(0..0);
        let verified = if together { store.verify_collective(hull) } else { store.verify(hull) };
        verified?;
        if count.bytes() == wanted {
            return Ok(count);
        }
        let detail =
            format!("the data ended after {} of {wanted} bytes; it was cut while it was read", count.bytes());
        Err(store.error(Kind::Damaged, "read", detail))
    }
}
