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

use crate::error::{Error, Kind, Result};
use crate::file::{ObjectFile, split_pending};
use crate::items::{Items, Packed, measured};
use crate::request::{ReadRequest, Split, WriteRequest};
use crate::schema::ByteOrder;
use crate::store::Written;
use crate::view::ObjectView;
use crate::{Encoder, Object, cast};

/// Bytes of objects of variable size that are encoded before they are written.
const PART: usize = 1 << 20;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    At(u64),
    Next,
    Shared,
}

/// A place in a file of objects, for this rank alone or, after [`all`](Access::all), for all ranks together.
#[derive(Debug)]
pub struct Access<'f, T> {
    pub(crate) file: &'f ObjectFile<T>,
    position: Position,
    pub(crate) together: bool,
}

impl<T: Object> ObjectFile<T> {
    /// At object `number` of the view; no pointer moves.
    pub fn at(&self, number: u64) -> Access<'_, T> {
        Access { file: self, position: Position::At(number), together: false }
    }

    /// At this rank's own pointer, which moves on.
    pub fn next(&self) -> Access<'_, T> {
        Access { file: self, position: Position::Next, together: false }
    }

    /// At the pointer that all ranks share, which moves on.
    pub fn shared(&self) -> Access<'_, T> {
        Access { file: self, position: Position::Shared, together: false }
    }
}

/// Objects and where they go.
pub(crate) struct Placed {
    pub(crate) view: Arc<ObjectView>,
    /// The first place in the view.
    pub(crate) start: u64,
    pub(crate) count: u64,
}

impl Placed {
    /// The bytes from the first to the last object, gaps included.
    fn hull(&self, size: u64) -> Option<std::ops::Range<u64>> {
        if self.count == 0 {
            return Some(0..0);
        }
        let first = self.view.number(self.start)?;
        let last = self.view.number(self.start.checked_add(self.count - 1)?)?;
        Some(first.checked_mul(size)?..last.checked_add(1)?.checked_mul(size)?)
    }

    /// One behind the highest object.
    fn high(&self) -> Option<u64> {
        if self.count == 0 {
            return Some(0);
        }
        self.view.number(self.start.checked_add(self.count - 1)?)?.checked_add(1)
    }
}

impl<'f, T: Object> Access<'f, T> {
    /// Together with all other ranks: a collective operation, each rank with its own number of objects. At the shared pointer, in rank order.
    #[must_use]
    pub fn all(self) -> Self {
        Self { together: true, ..self }
    }

    /// Writes objects; how many.
    pub fn write<'a>(self, objects: impl Items<'a, T>) -> Result<u64> {
        if let Some(objects) = objects.slice().filter(|objects| self.file.streams(objects)) {
            return self.write_encoding(objects);
        }
        let packed = objects.pack();
        let count = packed.count as u64;
        let (offset, packed, written) =
            self.prepare_write(packed).map_err(|error| self.refuse_write(error))?;
        self.write_bytes(offset, &packed.bytes)?;
        self.file.store.note(written);
        Ok(count)
    }

    /// Writes many objects of variable size, a part of them encoded at a time: memory that the processor's cache holds instead of memory of their
    /// size.
    fn write_encoding(&self, objects: &[T]) -> Result<u64> {
        let prepared = self.prepare_write(measured(objects));
        let (offset, _, written) = prepared.map_err(|error| self.refuse_write(error))?;
        let end = offset + written.ends.last().copied().unwrap_or(0);
        let (mut at, mut part) = (offset, Vec::with_capacity(PART));
        for object in objects {
            if part.len() >= PART {
                self.place(at).write(&part).map_err(|error| self.refuse_write(error.into()))?;
                at += part.len() as u64;
                part.clear();
            }
            object.encode(&mut Encoder::new(&mut part));
        }
        if at + part.len() as u64 != end {
            let name = self.file.store.schema.name();
            let detail =
                format!("encoded_size of {name} is not what encode makes; mend its implementation of Object");
            return Err(self.refuse_write(self.file.store.error(Kind::BadArgument, "write", detail)));
        }
        // If the ranks write together, it is in this that they meet.
        self.write_bytes(at, &part)?;
        self.file.store.note(written);
        Ok(objects.len() as u64)
    }

    fn write_bytes(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self.place(offset) {
            place if self.together => place.all().write(bytes).map_err(Error::together)?,
            place => place.write(bytes)?,
        };
        Ok(())
    }

    /// A write that cannot be: if the ranks write together, this one takes part in it with its error, so that the others learn of it.
    fn refuse_write(&self, error: Error) -> Error {
        if self.together {
            // The error brought is the one that comes back.
            let _ = self.place(0).all().write(Source::refused(error.refusal()));
        }
        error
    }

    /// The same for a read.
    fn refuse_read(&self, error: Error) -> Error {
        let store = &self.file.store;
        if self.together && store.size().is_some() {
            let _ = self.place(0).all().read(Sink::refused(error.refusal()));
        } else if self.together {
            let _ = store.agree("read", Err::<(), _>(error.clone()));
        }
        error
    }

    /// Overwrites objects with those of the file, from the front; how many, less at the end of the file.
    pub fn read(self, objects: &mut [T]) -> Result<u64> {
        let placed = self.prepare_read(objects.len() as u64).map_err(|error| self.refuse_read(error))?;
        if let (true, Some(bytes)) =
            (self.file.straight, cast::bytes_mut(&mut objects[..placed.count as usize]))
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
        let placed = self.prepare_read(count).map_err(|error| self.refuse_read(error))?;
        if self.file.straight
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
        if self.file.straight && self.file.store.size().is_some() {
            let count = objects.len() as u64;
            let packed = Packed {
                bytes: cast::bytes(&objects).unwrap_or_default().into(),
                count: objects.len(),
                ends: Vec::new(),
            };
            let (offset, _, written) = self.agreed("write", self.prepare_write(packed))?;
            self.file.store.note(written);
            return WriteRequest::straight(self.place(offset), self.together, objects, count);
        }
        let (offset, packed, written) =
            self.agreed("write", self.prepare_write(objects.as_slice().pack()))?;
        self.file.store.note(written);
        let bytes = packed.bytes.into_owned();
        WriteRequest::encoded(self.place(offset), self.together, objects, bytes)
    }

    /// Starts reading up to `count` objects.
    pub fn start_read(self, count: u64) -> Result<ReadRequest<'f, T>>
    where
        T: Send,
    {
        let placed = self.agreed("read", self.prepare_read(count))?;
        ReadRequest::start(self.file, &placed, self.together)
    }

    /// Begins a split write, together only; until it is ended, no other collective operation on this file.
    pub fn begin_write(self, objects: Vec<T>) -> Result<Split<WriteRequest<T>>>
    where
        T: Send,
    {
        let pending = Arc::clone(&self.file.split);
        let request = self.only_together()?.start_write(objects)?;
        Ok(Split::new(request, pending))
    }

    /// Begins a split read, together only; until it is ended, no other collective operation on this file.
    pub fn begin_read(self, count: u64) -> Result<Split<ReadRequest<'f, T>>>
    where
        T: Send,
    {
        let pending = Arc::clone(&self.file.split);
        let request = self.only_together()?.start_read(count)?;
        Ok(Split::new(request, pending))
    }

    fn agreed<R>(&self, operation: &'static str, mine: Result<R>) -> Result<R> {
        self.file.store.outcome(self.together, operation, mine)
    }

    fn only_together(self) -> Result<Self> {
        if self.together {
            return Ok(self);
        }
        let detail = "the split form is for all ranks together: put .all() before it";
        Err(self.file.store.error(Kind::BadArgument, "begin", detail))
    }

    /// The place in the file layer: an object of the view where sizes are constant, a byte where they are not.
    fn place(&self, offset: u64) -> Bytes<'f> {
        self.file.store.data.at(offset)
    }

    fn start(&self, count: u64) -> Result<u64> {
        let numbers = self.file.store.numbers();
        match self.position {
            Position::At(number) => Ok(number),
            Position::Next => self.file.take_pointer(count),
            Position::Shared if self.together => Ok(numbers.reserve_ordered(count)?),
            Position::Shared => Ok(numbers.reserve_shared(count)?),
        }
    }

    /// Takes the place of a write and marks what it changes; where the file layer writes, what, and what is to be noted when it has. The outcome is
    /// this rank's own, but all ranks take room together.
    fn prepare_write<'a>(&self, packed: Packed<'a>) -> Result<(u64, Packed<'a>, Written)> {
        let store = &self.file.store;
        let start = self.start(packed.count as u64);
        let mut prepared = start.and_then(|start| {
            let placed = Placed { view: self.file.view(), start, count: packed.count as u64 };
            self.may_write(&placed)?;
            let packed = self.file.stored(packed)?;
            if let Some(size) = store.size() {
                store.touch(placed.hull(size).unwrap_or(0..0), false)?;
            }
            Ok((placed, packed))
        });
        let room = match (store.size(), &mut prepared) {
            (None, Ok((placed, packed))) => self.find_room(placed, packed).map(Some),
            // The others count this rank's part, empty, before they go on.
            (None, Err(_)) if self.together => {
                store.data.reserve_ordered(0).map(|_| None).map_err(Error::from)
            }
            (Some(_), _) | (None, Err(_)) => Ok(None),
        };
        let (placed, packed) = prepared?;
        let (offset, ends) = room?.unwrap_or((placed.start, Vec::new()));
        let high = placed.high().unwrap_or(0);
        let written = Written { view: placed.view, start: placed.start, offset, ends, high };
        Ok((offset, packed, written))
    }

    /// Room in the data for objects of variable size, by prefix sums if all ranks write together; where it is, and where each object ends in it.
    fn find_room(&self, placed: &Placed, packed: &mut Packed<'_>) -> Result<(u64, Vec<u64>)> {
        let (store, bytes) = (&self.file.store, packed.size() as u64);
        let offset = if self.together {
            store.data.reserve_ordered(bytes)?
        } else {
            store.data.reserve_shared(bytes)?
        };
        let first = placed.view.number(placed.start).unwrap_or(0);
        let overwrites = placed.count > 0 && first < store.changes().slot.count;
        store.touch(offset..offset + bytes, overwrites)?;
        Ok((offset, std::mem::take(&mut packed.ends)))
    }

    fn may_write(&self, placed: &Placed) -> Result<()> {
        let store = &self.file.store;
        if self.together && self.file.split.load(Ordering::SeqCst) {
            return Err(split_pending(store));
        }
        if !store.mode.is_write() {
            return Err(store.error(Kind::BadArgument, "write", "the file was opened for reading only"));
        }
        if placed.hull(store.size().unwrap_or(1)).is_none_or(|hull| i64::try_from(hull.end).is_err()) {
            let (count, start) = (placed.count, placed.start);
            let detail = format!(
                "{count} objects from {start} on: the view sees none there, or they reach behind every file"
            );
            return Err(store.error(Kind::BadArgument, "write", detail));
        }
        Ok(())
    }

    /// Takes the place of a read, cut at the end of the file. The outcome is this rank's own.
    fn prepare_read(&self, count: u64) -> Result<Placed> {
        let (store, start) = (&self.file.store, self.start(count)?);
        if self.together && self.file.split.load(Ordering::SeqCst) {
            return Err(split_pending(store));
        }
        let view = self.file.view();
        let there = view.count_before(store.count()?).saturating_sub(start);
        Ok(Placed { view, start, count: count.min(there) })
    }

    /// Reads objects of constant size as they lie in the file.
    fn read_bytes(&self, placed: &Placed, bytes: &mut [u8]) -> Result<Count> {
        let place = self.place(placed.start);
        let count = if self.together {
            place.all().read(&mut *bytes).map_err(Error::together)?
        } else {
            place.read(&mut *bytes)?
        };
        self.file.check_read(placed, self.together, count, bytes.len() as u64)
    }

    /// Reads objects that are not in the file as they are in memory.
    fn load(&self, placed: &Placed) -> Result<Vec<T>> {
        let store = &self.file.store;
        let Some(size) = store.size() else {
            let read = self.file.gather(placed);
            return store.outcome(self.together, "read", read);
        };
        let mut bytes = vec![0; (placed.count * size) as usize];
        self.read_bytes(placed, &mut bytes)?;
        let number = placed.view.number(placed.start).unwrap_or(0);
        let loaded = self.file.loaded(&mut bytes, placed.count as usize, number, number.saturating_mul(size));
        store.outcome(self.together, "read", loaded)
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
        T::SIZE.is_none() && self.store.order == ByteOrder::Little && objects.iter().any(&mut is_much)
    }

    /// Compares checksums of what was read, and whether it is all there.
    pub(crate) fn check_read(
        &self,
        placed: &Placed,
        together: bool,
        count: Count,
        wanted: u64,
    ) -> Result<Count> {
        let store = &self.store;
        let hull = placed.hull(store.size().unwrap_or(1)).unwrap_or(0..0);
        let verified = if together { store.verify_together(hull) } else { store.verify(hull) };
        verified?;
        if count.bytes() == wanted {
            return Ok(count);
        }
        let detail =
            format!("the data ended after {} of {wanted} bytes; it was cut while it was read", count.bytes());
        Err(store.error(Kind::Damaged, "read", detail))
    }
}
