//! Access to objects: position × independent or collective × read or write × blocking or not, in the same chain of methods as files have.
//!
//! | position | independent | collective |
//! |---|---|---|
//! | explicit number | `file.at(n).read(…)` | `file.at(n).all().read(…)` |
//! | individual pointer | `file.at_pointer().read(…)` | `file.at_pointer().all().read(…)` |
//! | shared pointer | `file.shared().read(…)` | `file.shared().all().read(…)`, in rank order |

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use aqueduct_file::{Access as ByteAccess, Count, Source};

use super::open_file::WrittenObjects;
use super::request::{ObjectSplitRequest, ReadRequest, WriteRequest};
use super::scope::{Collective, Independent, ObjectScope};
use super::view::ObjectView;
use super::{ObjectFile, split_pending};
use crate::error::{Error, Kind, Result};
use crate::into_objects::{EncodedBatch, IntoObjects, encode_range, measure_batch};
use crate::object::cast;
use crate::schema::ByteOrder;
use crate::{Encoder, Object};

/// Bytes of objects of variable size that are encoded between two writes; more than twice as many are encoded in parts.
const PART: usize = 1 << 20;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectPosition {
    Number(u64),
    IndividualPointer,
    SharedPointer,
}

/// A position in a file of objects, for an independent or, after [`all`](ObjectAccess::all), a collective access.
#[derive(Debug)]
pub struct ObjectAccess<'f, T, S = Independent> {
    file: &'f ObjectFile<T>,
    position: ObjectPosition,
    scope: PhantomData<S>,
}

/// A position in a file of objects, for a collective access.
pub type CollectiveObjectAccess<'f, T> = ObjectAccess<'f, T, Collective>;

impl<T: Object> ObjectFile<T> {
    /// At object `number` of the view; no pointer moves.
    pub fn at(&self, number: u64) -> ObjectAccess<'_, T> {
        ObjectAccess::new(self, ObjectPosition::Number(number))
    }

    /// At this rank's own pointer, which moves on.
    pub fn at_pointer(&self) -> ObjectAccess<'_, T> {
        ObjectAccess::new(self, ObjectPosition::IndividualPointer)
    }

    /// At the pointer that all ranks share, which moves on.
    pub fn shared(&self) -> ObjectAccess<'_, T> {
        ObjectAccess::new(self, ObjectPosition::SharedPointer)
    }
}

/// A range of the objects that a view shows.
pub(crate) struct ViewRange {
    pub(crate) view: Arc<ObjectView>,
    /// The first object, counted in the view.
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

    /// The number after the highest object.
    fn end_object(&self) -> Option<u64> {
        if self.count == 0 {
            return Some(0);
        }
        self.view.number(self.start.checked_add(self.count - 1)?)?.checked_add(1)
    }
}

impl<'f, T: Object> ObjectAccess<'f, T> {
    /// A collective access, each rank with its own number of objects. At the shared pointer, in rank order.
    #[must_use]
    pub fn all(self) -> CollectiveObjectAccess<'f, T> {
        ObjectAccess::new(self.file, self.position)
    }
}

impl<'f, T: Object> CollectiveObjectAccess<'f, T> {
    /// Begins a split write; until it is ended, no other collective operation on this file.
    pub fn begin_write(self, objects: Vec<T>) -> Result<ObjectSplitRequest<WriteRequest<T>>>
    where
        T: Send,
    {
        let pending = Arc::clone(&self.file.split);
        Ok(ObjectSplitRequest::new(self.start_write(objects)?, pending))
    }

    /// Begins a split read; until it is ended, no other collective operation on this file.
    pub fn begin_read(self, count: u64) -> Result<ObjectSplitRequest<ReadRequest<'f, T, Collective>>>
    where
        T: Send,
    {
        let pending = Arc::clone(&self.file.split);
        Ok(ObjectSplitRequest::new(self.start_read(count)?, pending))
    }
}

impl<'f, T: Object, S: ObjectScope> ObjectAccess<'f, T, S> {
    fn new(file: &'f ObjectFile<T>, position: ObjectPosition) -> Self {
        Self { file, position, scope: PhantomData }
    }

    /// The file.
    pub(super) fn file(&self) -> &'f ObjectFile<T> {
        self.file
    }

    /// Writes objects; how many.
    pub fn write<'a>(self, objects: impl IntoObjects<'a, T>) -> Result<u64> {
        if let Some(objects) = objects.slice().filter(|objects| self.file.streams(objects)) {
            return match T::SIZE {
                Some(size) => self.write_generated(objects, size),
                None => self.write_encoding(objects),
            };
        }
        let packed = objects.encode_batch();
        let count = packed.count as u64;
        let (offset, packed, written) = self.prepare_write(packed).map_err(|error| self.fail_write(error))?;
        self.write_bytes(offset, &packed.bytes)?;
        self.file.open_file.record_write(written);
        Ok(count)
    }

    /// Writes many objects of constant size, which are encoded in the chunks that the access takes.
    fn write_generated(&self, objects: &[T], size: usize) -> Result<u64> {
        let packed = EncodedBatch { bytes: (&[]).into(), count: objects.len(), ends: Vec::new() };
        let (offset, _, written) = self.prepare_write(packed).map_err(|error| self.fail_write(error))?;
        let generate = |from: u64, out: &mut [u8]| encode_range(objects, from, out);
        S::write(self.place(offset), Source::generated((objects.len() * size) as u64, &generate))?;
        self.file.open_file.record_write(written);
        Ok(objects.len() as u64)
    }

    /// Writes many objects of variable size in parts of [`PART`] bytes, so that the encoded form stays in the processor's cache.
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
            let detail = format!(
                "{name}::encoded_size() disagrees with {name}::encode(); fix the implementation of Object"
            );
            return Err(self.fail_write(self.file.open_file.error(Kind::BadArgument, "write", detail)));
        }
        // If the write is collective, this last part is the collective call.
        self.write_bytes(at, &part)?;
        self.file.open_file.record_write(written);
        Ok(objects.len() as u64)
    }

    pub(super) fn write_bytes(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        S::write(self.place(offset), bytes.into()).map(drop)
    }

    pub(super) fn fail_write(&self, error: Error) -> Error {
        S::fail_write(self.place(0), error)
    }

    fn fail_read(&self, error: Error) -> Error {
        S::fail_read(self.place(0), error)
    }

    /// Reads into `objects`, from the first on; how many, less at the end of the file.
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

    /// Appends up to `count` objects to a container, less at the end of the file; how many.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_object::ObjectFile;
    /// use std::collections::BTreeSet;
    ///
    /// # Launch::threads(1).run(|world| {
    /// let file = ObjectFile::create(world, "memfs:onto")?;
    /// file.at(0).write(&[3u32, 1, 3])?;
    /// let mut set = BTreeSet::from([7]);
    /// assert_eq!(file.at(0).read_onto(9, &mut set)?, 3);
    /// assert_eq!(set, BTreeSet::from([1, 3, 7]));
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn read_onto(self, count: u64, container: &mut impl Extend<T>) -> Result<u64> {
        let objects = self.read_vec(count)?;
        let count = objects.len() as u64;
        container.extend(objects);
        Ok(count)
    }

    /// Starts writing objects, which the request owns until it is done.
    pub fn start_write(self, objects: Vec<T>) -> Result<WriteRequest<T>>
    where
        T: Send,
    {
        if self.file.is_plain && self.file.open_file.size().is_some() {
            let packed = EncodedBatch {
                bytes: cast::bytes(&objects).unwrap_or_default().into(),
                count: objects.len(),
                ends: Vec::new(),
            };
            let prepared = self.prepare_write(packed);
            let (offset, _, written) = prepared.map_err(|error| self.fail_start_write(error))?;
            self.file.open_file.record_write(written);
            return WriteRequest::start_plain::<S>(self.place(offset), objects);
        }
        let prepared = self.prepare_write(objects.as_slice().encode_batch());
        let (offset, packed, written) = prepared.map_err(|error| self.fail_start_write(error))?;
        self.file.open_file.record_write(written);
        let bytes = packed.bytes.into_owned();
        WriteRequest::start_encoded::<S>(self.place(offset), objects, bytes)
    }

    /// Starts reading up to `count` objects.
    pub fn start_read(self, count: u64) -> Result<ReadRequest<'f, T, S>>
    where
        T: Send,
    {
        let prepared = self.prepare_read(count);
        let placed = prepared.map_err(|error| S::fail_start_read(self.place(0), error))?;
        ReadRequest::start(self.file, &placed)
    }

    /// Takes part in a non-blocking write with an error, so that the other ranks fail too.
    pub(super) fn fail_start_write(&self, error: Error) -> Error {
        S::fail_start_write(self.place(0), error)
    }

    /// The position in the data file: an object of the view if sizes are constant, else a byte.
    pub(super) fn place(&self, offset: u64) -> ByteAccess<'f> {
        self.file.open_file.data.at(offset)
    }

    fn start(&self, count: u64) -> Result<u64> {
        let numbers = self.file.open_file.count_pointer();
        match self.position {
            ObjectPosition::Number(number) => Ok(number),
            ObjectPosition::IndividualPointer => self.file.take_pointer(count),
            ObjectPosition::SharedPointer => S::reserve(numbers, count),
        }
    }

    /// Resolves the position of a write and marks the bytes that it changes. Returns the offset in the data file, the bytes, and the record for
    /// the index. The outcome is this rank's own; the allocation of space is collective if the access is.
    pub(super) fn prepare_write<'a>(
        &self,
        packed: EncodedBatch<'a>,
    ) -> Result<(u64, EncodedBatch<'a>, WrittenObjects)> {
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
            // The other ranks wait for this rank's part of the prefix sum; it is empty.
            (None, Err(_)) if S::IS_COLLECTIVE => store.data.reserve_ordered(0).map(|_| None),
            (Some(_), _) | (None, Err(_)) => Ok(None),
        };
        let (placed, packed) = prepared?;
        let (offset, ends) = room?.unwrap_or((placed.start, Vec::new()));
        let high = placed.end_object().unwrap_or(0);
        let written = WrittenObjects { view: placed.view, start: placed.start, offset, ends, high };
        Ok((offset, packed, written))
    }

    /// Allocates space in the data for objects of variable size, by prefix sums if the write is collective; its offset, and the end of each object.
    fn find_room(&self, placed: &ViewRange, packed: &mut EncodedBatch<'_>) -> Result<(u64, Vec<u64>)> {
        let (store, bytes) = (&self.file.open_file, packed.size() as u64);
        let offset = S::reserve(&store.data, bytes)?;
        let first = placed.view.number(placed.start).unwrap_or(0);
        let overwrites = placed.count > 0 && first < store.changes().slot.count;
        store.mark_dirty(offset..offset + bytes, overwrites)?;
        Ok((offset, std::mem::take(&mut packed.ends)))
    }

    fn may_write(&self, placed: &ViewRange) -> Result<()> {
        let store = &self.file.open_file;
        if S::IS_COLLECTIVE && self.file.split.load(Ordering::SeqCst) {
            return Err(split_pending(store));
        }
        if !store.mode.is_write() {
            return Err(store.error(Kind::BadArgument, "write", "the file was opened for reading only"));
        }
        if placed.byte_span(store.size().unwrap_or(1)).is_none_or(|hull| i64::try_from(hull.end).is_err()) {
            let (count, start) = (placed.count, placed.start);
            let detail = format!(
                "{count} objects from object {start} on: the view ends before, or they exceed the maximum file size (2^63-1 bytes)"
            );
            return Err(store.error(Kind::BadArgument, "write", detail));
        }
        Ok(())
    }

    /// Resolves the position of a read, up to the end of the file. The outcome is this rank's own.
    fn prepare_read(&self, count: u64) -> Result<ViewRange> {
        let (store, start) = (&self.file.open_file, self.start(count)?);
        if S::IS_COLLECTIVE && self.file.split.load(Ordering::SeqCst) {
            return Err(split_pending(store));
        }
        let view = self.file.view();
        let there = view.count_before(store.count()?).saturating_sub(start);
        Ok(ViewRange { view, start, count: count.min(there) })
    }

    /// Reads the bytes of objects of constant size.
    fn read_bytes(&self, placed: &ViewRange, bytes: &mut [u8]) -> Result<Count> {
        let place = self.place(placed.start);
        let count = S::read(place, (&mut *bytes).into())?;
        self.file.check_read::<S>(placed, count, bytes.len() as u64)
    }

    /// Reads and decodes objects whose encoded form differs from memory.
    fn load(&self, placed: &ViewRange) -> Result<Vec<T>> {
        let store = &self.file.open_file;
        let Some(size) = store.size() else {
            return self.file.gather::<S>(placed);
        };
        let mut bytes = vec![0; (placed.count * size) as usize];
        self.read_bytes(placed, &mut bytes)?;
        let number = placed.view.number(placed.start).unwrap_or(0);
        let loaded =
            self.file.decode_stored(&mut bytes, placed.count as usize, number, number.saturating_mul(size));
        store.outcome::<S, _>("read", loaded)
    }
}

impl<T: Object> ObjectFile<T> {
    /// Writes encoded objects of variable size from object `start` of the view on, which is the current one.
    pub(super) fn write_batch<S: ObjectScope>(
        &self,
        view: &Arc<ObjectView>,
        start: u64,
        packed: EncodedBatch<'_>,
    ) -> Result<u64> {
        let access = ObjectAccess::<T, S>::new(self, ObjectPosition::Number(start));
        if self.view() != *view {
            let detail = "the view was changed after `field` was called; call it again";
            return Err(access.fail_write(self.open_file.error(Kind::BadArgument, "write", detail)));
        }
        let count = packed.count as u64;
        let (offset, packed, written) =
            access.prepare_write(packed).map_err(|error| access.fail_write(error))?;
        access.write_bytes(offset, &packed.bytes)?;
        self.open_file.record_write(written);
        Ok(count)
    }

    /// True if objects are encoded and written in parts: many that are not bytes of memory, in the byte order of their encoded form.
    fn streams(&self, objects: &[T]) -> bool {
        let mut bytes = 0;
        let mut is_much = |object: &T| {
            bytes += object.encoded_size();
            bytes > 2 * PART
        };
        !cast::is_plain::<T>()
            && self.open_file.order == ByteOrder::Little
            && objects.iter().any(&mut is_much)
    }

    /// Compares the checksums and the length of what was read.
    pub(crate) fn check_read<S: ObjectScope>(
        &self,
        placed: &ViewRange,
        count: Count,
        wanted: u64,
    ) -> Result<Count> {
        let store = &self.open_file;
        store.verify_in::<S>(placed.byte_span(store.size().unwrap_or(1)).unwrap_or(0..0))?;
        if count.bytes() == wanted {
            return Ok(count);
        }
        let detail = format!(
            "the data ended after {} of {wanted} bytes; the file was truncated during the read",
            count.bytes()
        );
        Err(store.error(Kind::Damaged, "read", detail))
    }
}
