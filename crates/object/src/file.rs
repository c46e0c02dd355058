//! A file of objects, open on all ranks.

mod access;
mod borrow_scope;
mod checksums;
mod commit;
mod compact;
mod field_access;
mod field_index;
mod gather;
mod index;
mod index_list;
mod manage;
mod meta_file;
mod open_file;
mod open_options;
mod repair;
mod request;
mod scope;
mod view;
mod view_patterns;

use std::ffi::OsStr;
use std::marker::PhantomData;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use aqueduct_comm::Comm;
use aqueduct_file::{Counters, Mode, Whence};

use crate::Object;
use crate::error::{Error, Kind, Result};
use crate::into_objects::EncodedBatch;
use crate::schema::{ByteOrder, Migration, Schema, swap};
use crate::schema_decoder::decode_migrated;

pub use access::{CollectiveObjectAccess, ObjectAccess};
pub use borrow_scope::{BorrowScope, BorrowedWrite};
pub use compact::{CompactionReport, compact};
pub use field_access::{CollectiveFieldAccess, FieldAccess};
pub use field_index::FieldIndex;
pub use manage::delete;
pub(crate) use meta_file::IndexEntry;
pub(crate) use open_file::{OpenObjectFile, WrittenObjects};
pub use open_options::ObjectOpenOptions;
pub use repair::{RepairReport, repair, repair_described};
pub use request::{ObjectSplitRequest, ReadRequest, WriteRequest};
pub use scope::{Collective, Independent};
pub use view::ObjectView;

/// The detail of errors for positions that no file can have.
const BEYOND_LIMIT: &str = "the position exceeds the maximum file size (2^63-1 bytes)";

/// A file of objects, open on all ranks of a communicator: the data, and `<name>.meta` with the schema, the index and checksums.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_object::{Object, ObjectFile, ObjectView};
///
/// #[derive(Object, Clone, Debug, PartialEq)]
/// struct Particle { id: u64, path: Vec<[f64; 3]> }
///
/// Launch::threads(3).run(|world| {
///     let mine: Vec<Particle> = (0..4).map(|at| Particle { id: at * 3 + world.rank() as u64, path: vec![[0.5; 3]; at as usize] }).collect();
///     let file = ObjectFile::create(world, "memfs:particles")?;
///     file.set_view(&ObjectView::round_robin(world))?;
///     file.at_pointer().all().write(&mine)?;
///     file.close()
/// })?;
/// // Another program, on another number of ranks.
/// Launch::threads(2).run(|world| {
///     let file = ObjectFile::<Particle>::open(world, "memfs:particles")?;
///     let half = file.at(6 * world.rank() as u64).all().read_vec(6)?;
///     assert!(half.iter().zip(6 * world.rank() as u64..).all(|(particle, id)| particle.id == id));
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
///
/// # Guarantees
/// * Offsets, counts and views count objects, whatever their size.
/// * [`commit`](ObjectFile::commit), and [`close`](ObjectFile::close), which commits, make everything that was written durable
///   and visible to readers at once. After a crash a reader finds the last committed state, or gets the error that the file is incomplete.
/// * Objects of constant size become visible to other ranks like the bytes of a plain file, those of variable size by the commit.
/// * One program at a time writes a file: another one that opens it for writing gets the error [`InUse`](aqueduct_file::Kind::InUse). The lock ends with
///   the process.
/// * In a file opened for reading, the checksum of a block is compared when the block is first read.
///
/// Dropping it without `close` commits nothing.
pub struct ObjectFile<T> {
    pub(crate) open_file: Arc<OpenObjectFile>,
    pub(crate) migration: Option<Migration>,
    /// True if the stored bytes of objects are their bytes in memory.
    pub(crate) is_plain: bool,
    position: Mutex<ViewPosition>,
    pub(crate) split: Arc<AtomicBool>,
    objects: PhantomData<fn() -> T>,
}

/// The view and the individual file pointer of a rank.
struct ViewPosition {
    view: Arc<ObjectView>,
    pointer: u64,
}

impl<T> std::fmt::Debug for ObjectFile<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectFile").field("name", &self.open_file.name).finish_non_exhaustive()
    }
}

impl<T: Object> ObjectFile<T> {
    /// Creates a file. One that exists is refused: [`ObjectOpenOptions::replace`] replaces it. Collective.
    pub fn create(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        ObjectOpenOptions::new(Mode::read_write().exclusive()).open(comm, name)
    }

    /// Creates a file in place of the one of this name, if there is one and no program is writing it. Collective.
    pub fn replace(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        ObjectOpenOptions::new(Mode::read_write().exclusive()).replace().open(comm, name)
    }

    /// Opens a file for reading. Collective. The type in the file must be `T`, or one that `T` can be migrated from by its attributes.
    pub fn open(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        ObjectOpenOptions::new(Mode::read_only()).open(comm, name)
    }

    pub(crate) fn new(store: OpenObjectFile, migration: Option<Migration>, straight: bool) -> Result<Self> {
        let (appends, count) = (store.mode.is_append(), store.changes().slot.count);
        let pointer = if appends { count } else { 0 };
        let place = Mutex::new(ViewPosition { view: Arc::default(), pointer });
        let store = Arc::new(store);
        let file = Self {
            open_file: store,
            migration,
            is_plain: straight,
            position: place,
            split: Arc::default(),
            objects: PhantomData,
        };
        file.apply_view(&ObjectView::all())?;
        if appends {
            file.seek_shared(count)?;
        }
        Ok(file)
    }

    /// Sets the view of the data file, if objects have constant size.
    fn apply_view(&self, view: &ObjectView) -> Result<()> {
        let Some(size) = self.open_file.size() else { return Ok(()) };
        match view.bytes(size, 0, size) {
            Ok(bytes) => self.open_file.data.set_view(&bytes),
            Err(error) => {
                // The other ranks fail when they set their views.
                let _ = self.open_file.data.refuse_view(error.clone());
                Err(error)
            }
        }
    }

    /// Sets the view of this rank and moves the pointers to the start. Collective; each rank passes its own view.
    pub fn set_view(&self, view: &ObjectView) -> Result<()> {
        self.apply_view(view)?;
        // Setting a view moves the shared pointer of the data to the start.
        if let Some(numbers) = &self.open_file.count_pointer {
            numbers.seek_shared(0, Whence::Start)?;
        }
        *self.lock() = ViewPosition { view: Arc::new(view.clone()), pointer: 0 };
        Ok(())
    }

    /// The view of this rank.
    pub fn view(&self) -> Arc<ObjectView> {
        Arc::clone(&self.lock().view)
    }

    /// The number of objects; in a file that is being written, as far as this rank knows.
    pub fn count(&self) -> Result<u64> {
        self.open_file.count()
    }

    /// The number of objects in the view of this rank.
    pub fn count_in_view(&self) -> Result<u64> {
        Ok(self.view().count_before(self.count()?))
    }

    /// Moves this rank's pointer; returns its new position, in objects of the view.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<u64> {
        let base = match whence {
            Whence::Start => 0,
            Whence::Current => self.position(),
            Whence::End => self.count_in_view()?,
        };
        let to = base.checked_add_signed(offset).ok_or_else(|| {
            let detail = format!("object {base} {offset:+} is before the start of the view");
            self.open_file.error(Kind::BadArgument, "seek", detail)
        })?;
        self.lock().pointer = to;
        Ok(to)
    }

    /// The position of this rank's pointer, in objects of the view.
    pub fn position(&self) -> u64 {
        self.lock().pointer
    }

    /// Moves the shared pointer. Collective, with the same arguments on all ranks.
    pub fn seek_shared(&self, to: u64) -> Result<()> {
        let numbers = self.open_file.count_pointer();
        let to = i64::try_from(to)
            .map_err(|_| self.open_file.error(Kind::BadArgument, "seek_shared", BEYOND_LIMIT));
        numbers.seek_shared(self.open_file.agree("seek_shared", to)?, Whence::Start)?;
        Ok(())
    }

    /// The position of the shared pointer.
    pub fn position_shared(&self) -> Result<u64> {
        self.open_file.count_pointer().position_shared()
    }

    /// The schema in the file.
    pub fn schema(&self) -> &Schema {
        &self.open_file.schema
    }

    /// The byte order of numbers in the file.
    pub fn byte_order(&self) -> ByteOrder {
        self.open_file.order
    }

    /// True if synced data survives the process and a restart of the machine: not on `memfs:` and tmpfs.
    pub fn is_persistent(&self) -> bool {
        self.open_file.data.is_persistent()
    }

    /// The name that it was opened with.
    pub fn name(&self) -> &str {
        &self.open_file.name
    }

    /// The counters of this rank since the file was opened, with all messages about this file.
    pub fn counters(&self) -> Counters {
        let (counters, talk, before) =
            (self.open_file.data.counters(), self.open_file.comm.traffic(), self.open_file.traffic_at_open);
        let (messages, sent) = (talk.messages - before.messages, talk.bytes - before.bytes);
        Counters { messages: counters.messages + messages, sent: counters.sent + sent, ..counters }
    }

    /// The communicator that it was opened on.
    pub fn comm(&self) -> &Comm {
        &self.open_file.comm
    }

    /// Truncates the file to its first `count` objects, or extends it with zeros. For objects of constant size. Collective, with the same count on all
    /// ranks.
    pub fn set_count(&self, count: u64) -> Result<()> {
        let store = &self.open_file;
        let Some(size) = store.size() else {
            let detail =
                "the number of objects of variable size cannot be set; write the objects to a new file";
            return store.agree("set_count", Err(store.error(Kind::Unsupported, "set_count", detail)));
        };
        let length =
            count.checked_mul(size).ok_or_else(|| store.error(Kind::BadArgument, "set_count", BEYOND_LIMIT));
        let length = store.agree("set_count", length)?;
        let old = store.raw_data.size()?;
        let overwrites = length < store.changes().slot.length;
        let touched = store.mark_dirty(length.min(old)..length.max(old).max(1), overwrites);
        store.agree("set_count", touched)?;
        store.data.set_size(length)?;
        if store.meta.is_some() {
            let mut changes = store.changes();
            changes.high = count;
            let range = |range: std::ops::Range<u64>| range.start.min(length)..range.end.min(length);
            changes.dirty = std::mem::take(&mut changes.dirty).into_iter().map(range).collect();
        }
        Ok(())
    }

    /// Makes everything that all ranks have written durable, and visible to readers at once. Collective.
    pub fn commit(&self) -> Result<()> {
        self.open_file.commit()
    }

    /// Compares all data with its checksums, the ranks share the work. Collective. Data written since the last commit has no checksums: commit first.
    pub fn verify(&self) -> Result<()> {
        self.open_file.verify_all()
    }

    /// Commits, if the file was opened for writing, and closes. Collective.
    pub fn close(self) -> Result<()> {
        let committed = if self.open_file.mode.is_write() { self.commit() } else { Ok(()) };
        let store = Arc::try_unwrap(self.open_file);
        let Ok(store) = store else { return committed };
        store.close(committed)
    }

    /// Advances the pointer by `count` objects; returns its position before.
    pub(crate) fn take_pointer(&self, count: u64) -> Result<u64> {
        let mut place = self.lock();
        let start = place.pointer;
        let end = start.checked_add(count);
        place.pointer = end.ok_or_else(|| self.open_file.error(Kind::BadArgument, "access", BEYOND_LIMIT))?;
        Ok(start)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ViewPosition> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Encoded objects in the byte order of the file.
    pub(crate) fn encode_stored<'a>(&self, mut packed: EncodedBatch<'a>) -> Result<EncodedBatch<'a>> {
        if self.open_file.order == ByteOrder::Big {
            let turned = swap(self.open_file.schema.root(), ByteOrder::Little, packed.bytes.to_mut());
            turned.map_err(|why| self.open_file.error(Kind::BadArgument, "write", why))?;
        }
        Ok(packed)
    }

    /// Decodes the stored bytes of objects. `number` and `offset` of the first are for error messages.
    pub(crate) fn decode_stored(
        &self,
        bytes: &mut [u8],
        count: usize,
        number: u64,
        offset: u64,
    ) -> Result<Vec<T>> {
        let broken = |error: &dyn std::fmt::Display| {
            let what = if count == 1 {
                format!("object {number}")
            } else {
                format!("objects {number} and following")
            };
            let place = format!("{what}, from byte {offset} of the data on");
            let detail =
                format!("{place}: {error}; the data is not of type {}", self.open_file.schema.name());
            self.open_file.error(Kind::Damaged, "read", detail)
        };
        if self.open_file.order == ByteOrder::Big {
            swap(self.open_file.schema.root(), ByteOrder::Big, bytes).map_err(|why| broken(&why))?;
        }
        decode_migrated(self.migration.as_ref(), bytes, count).map_err(|error| broken(&error))
    }
}

/// The error of a collective call between begin and end of a split one.
pub(crate) fn split_pending(store: &OpenObjectFile) -> Error {
    let detail = "a split operation is active on this file; end it before the next collective one";
    store.error(Kind::BadArgument, "collective access", detail)
}
