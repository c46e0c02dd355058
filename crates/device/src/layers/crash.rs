//! Simulation of power cuts: unsynced data is lost, kept or torn.

mod image;
mod mapped_image;
mod state;
mod unsynced;

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use image::CrashImage;

use self::state::{CrashFile, CrashState};
use super::parameters::LayerParameters;
use crate::{
    Capabilities, Device, DeviceOpenOptions, Error, Handle, Kind, LockGuard, LockKind, LockScope,
    MappedAccess, Mapping, Operation, RangeLocks, Result, Segment, SegmentMut, Strip, SyncScope, segment,
    strip,
};

const GRAMMAR: &str = "crash=after=N,seed=N with one, both or none of them, such as crash=after=17,seed=3";

/// A device whose power can be cut.
///
/// Unsynced changes are kept in this wrapper and every handle sees them; [`sync`](Handle::sync) writes them to the inner device, which
/// therefore has only durable data. A power cut leaves of each file with unsynced changes
///
/// * the length as it was at some moment since the last sync, and
/// * each sector (512 bytes) as it was at some moment since the last sync, independently of other sectors; if the file was truncated since
///   and the new length survived, without the truncated part,
///
/// as a disk without barriers may. So an unsynced write is lost, whole or torn, and later ones may survive earlier ones.
/// A file created and never synced with [`SyncScope::Entry`] may be missing. Deleting is durable at once.
///
/// After the cut everything fails with [`Kind::PowerLost`] on earlier handles; a file opened again has the surviving data.
///
/// By name: `crash=after=17,seed=3:ufs:f` cuts the power once, in the middle of the operation after the 17th of those that change
/// something (write, also through mapped pages, set length, preallocate, sync); `crash:ufs:f` just never syncs by itself.
///
/// Two limits: a file has to be opened under one name (not `a` and `./a`), and writing needs permission to read as well.
///
/// ```
/// use std::sync::Arc;
/// use aqueduct_device::layers::CrashDevice;
/// use aqueduct_device::{Device, HandleExt, Handle, Kind, MemFs, DeviceOpenOptions, SyncScope};
///
/// let crash = CrashDevice::new(Arc::new(MemFs::new()));
/// let file = crash.open("a".as_ref(), &DeviceOpenOptions::read_write().create(true))?;
/// file.write_at(0, b"durable")?;
/// file.sync(SyncScope::Entry)?;
/// file.write_at(0, b"DURABLE")?;
/// crash.cut(3)?;
/// assert_eq!(file.len().unwrap_err().kind(), Kind::PowerLost);
///
/// let mut bytes = [0; 7];
/// crash.open("a".as_ref(), &DeviceOpenOptions::read_only())?.read_at(0, &mut bytes)?;
/// assert!(bytes == *b"durable" || bytes == *b"DURABLE");
/// # Ok::<_, aqueduct_device::Error>(())
/// ```
pub struct CrashDevice {
    shared: Arc<CrashShared>,
}

/// The state shared by the device and its handles, under one lock: order matters more than speed.
struct CrashShared {
    inner: Arc<dyn Device>,
    state: Mutex<CrashState>,
}

impl CrashDevice {
    /// Keeps unsynced data from `inner`. The power is on until [`cut`](Self::cut).
    pub fn new(inner: Arc<dyn Device>) -> Self {
        Self { shared: Arc::new(CrashShared { inner, state: Mutex::default() }) }
    }

    /// Schedules one power cut: in the operation after the next `operations` that change something.
    /// That operation fails, and its data is treated like other unsynced data.
    #[must_use]
    pub fn after(self, operations: u64, seed: u64) -> Self {
        let mut world = self.shared.state();
        let at = world.operations.saturating_add(operations);
        world.failure = Some((at, seed));
        drop(world);
        self
    }

    /// The wrapper that the parameters of a name describe.
    pub(crate) fn from_parameters(text: &str, inner: Arc<dyn Device>) -> Result<Arc<dyn Device>> {
        let parameters = LayerParameters { prefix: "crash", text, grammar: GRAMMAR };
        let (mut after, mut seed) = (None, 0);
        for pair in parameters.pairs() {
            match pair? {
                ("after", value) => after = Some(parameters.value("after", value)?),
                ("seed", value) => seed = parameters.value("seed", value)?,
                (key, _) => return Err(parameters.refuse(format_args!("{key:?} is not a setting"))),
            }
        }
        let crash = Self::new(inner);
        Ok(Arc::new(match after {
            Some(after) => crash.after(after, seed),
            None => crash,
        }))
    }

    /// How many operations that change something there were so far.
    pub fn operations(&self) -> u64 {
        self.shared.state().operations
    }

    /// A state that a power cut now might leave; the seed selects it. Nothing is changed.
    pub fn crash_image(&self, seed: u64) -> CrashImage {
        self.shared.state().crash_image(seed)
    }

    /// Infinitely many states that a power cut now might leave: those of this seed, the next, and so on.
    pub fn crash_images(&self, seed: u64) -> impl Iterator<Item = CrashImage> {
        (0..).map(move |step| self.crash_image(seed.wrapping_add(step)))
    }

    /// Cuts the power now and leaves [`crash_image(seed)`](Self::crash_image).
    pub fn cut(&self, seed: u64) -> Result<()> {
        self.shared.state().cut(&*self.shared.inner, seed)
    }
}

impl CrashShared {
    fn state(&self) -> MutexGuard<'_, CrashState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device for CrashDevice {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        options.check(name)?;
        let mut world = self.shared.state();
        let (inner, created) = open_inner(&*self.shared.inner, name, options)?;
        let capabilities = Capabilities {
            // Synced data survives the power cuts of this device, on any inner device.
            persistent: true,
            shared: false,
            preallocate: false,
            locks: LockScope::Process,
            alignment: 1,
            ..inner.capabilities()
        };
        let (file, id, locks) = world.enter(name, inner, options, created)?;
        drop(world);
        Ok(Arc::new(CrashHandle {
            shared: Arc::clone(&self.shared),
            name: name.to_owned(),
            options: options.clone(),
            capabilities,
            locks,
            file,
            id,
        }))
    }

    fn delete(&self, name: &OsStr) -> Result<()> {
        self.shared.state().delete(&*self.shared.inner, name)
    }
}

/// Opens a file of the inner device for reading and, if `options` allow it, writing, without changing it; true if it is new.
fn open_inner(
    device: &dyn Device,
    name: &OsStr,
    options: &DeviceOpenOptions,
) -> Result<(Arc<dyn Handle>, bool)> {
    let access =
        if options.is_write() { DeviceOpenOptions::read_write() } else { DeviceOpenOptions::read_only() };
    let access =
        access.direct(options.is_direct()).permissions(options.get_permissions()).rank(options.get_rank());
    let create = access.clone().create(true).exclusive(true);
    if options.is_exclusive() {
        return Ok((device.open(name, &create)?, true));
    }
    loop {
        match device.open(name, &access) {
            Err(error) if error.kind() == Kind::NotFound && options.is_create() => {}
            outcome => return outcome.map(|inner| (inner, false)),
        }
        match device.open(name, &create) {
            // It was created concurrently.
            Err(error) if error.kind() == Kind::AlreadyExists => {}
            outcome => return outcome.map(|inner| (inner, true)),
        }
    }
}

struct CrashHandle {
    shared: Arc<CrashShared>,
    name: OsString,
    options: DeviceOpenOptions,
    capabilities: Capabilities,
    locks: Arc<RangeLocks>,
    /// The numbers of the file and of this handle in the state.
    file: u64,
    id: u64,
}

impl CrashHandle {
    fn error(&self, kind: Kind, operation: Operation) -> Error {
        Error::new(kind, operation, &self.name)
    }

    fn allow(&self, allowed: bool, operation: Operation) -> Result<()> {
        if allowed { Ok(()) } else { Err(self.error(Kind::PermissionDenied, operation)) }
    }

    fn power_lost(&self, operation: Operation) -> Error {
        self.error(Kind::PowerLost, operation)
    }

    /// Calls `work` on the file while the power is on.
    fn with_file<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut CrashFile, &dyn Handle) -> Result<T>,
    ) -> Result<T> {
        let mut world = self.shared.state();
        let (file, inner) = world.find(self.file, self.id).ok_or_else(|| self.power_lost(operation))?;
        work(file, &*inner)
    }

    /// As [`look`](Self::look), for operations that change something: the power may fail in them.
    fn change_file<T>(
        &self,
        operation: Operation,
        work: impl FnOnce(&mut CrashFile, &dyn Handle) -> Result<T>,
    ) -> Result<T> {
        let mut world = self.shared.state();
        world.find(self.file, self.id).ok_or_else(|| self.power_lost(operation))?;
        let failure = world.count();
        let (file, inner) = world.find(self.file, self.id).ok_or_else(|| self.power_lost(operation))?;
        let Some(seed) = failure else { return work(file, &*inner) };
        // A power cut during a sync acts as one before it, a power cut during a change as one after it.
        if operation != Operation::Sync {
            work(file, &*inner)?;
        }
        drop(inner);
        world.cut(&*self.shared.inner, seed)?;
        Err(self.power_lost(operation))
    }

    fn check_len(&self, len: u64, operation: Operation) -> Result<()> {
        self.allow(self.options.is_write(), operation)?;
        if len > i64::MAX as u64 { Err(self.error(Kind::InvalidArgument, operation).at(len)) } else { Ok(()) }
    }
}

impl Drop for CrashHandle {
    fn drop(&mut self) {
        self.shared.state().leave(self.file, self.id);
    }
}

impl Handle for CrashHandle {
    fn read(&self, segments: &mut [SegmentMut<'_>]) -> Result<u64> {
        self.allow(self.options.is_read(), Operation::Read)?;
        segment::check(segments, Operation::Read, &self.name)?;
        self.with_file(Operation::Read, |file, inner| file.unsynced.read(segments, inner))
    }

    fn write(&self, segments: &[Segment<'_>]) -> Result<u64> {
        self.allow(self.options.is_write(), Operation::Write)?;
        segment::check(segments, Operation::Write, &self.name)?;
        self.change_file(Operation::Write, |file, inner| file.write(segments, inner))
    }

    /// One operation, whatever the number of runs.
    fn read_strips(&self, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
        strip::check(strips, bytes.len(), Operation::Read, &self.name)?;
        self.read(&mut strip::segments_mut(strips, bytes).collect::<Vec<_>>())
    }

    /// One operation, whatever the number of runs.
    fn write_strips(&self, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
        strip::check(strips, bytes.len(), Operation::Write, &self.name)?;
        self.write(&strip::segments(strips, bytes).collect::<Vec<_>>())
    }

    fn len(&self) -> Result<u64> {
        self.with_file(Operation::Len, |file, _| Ok(file.unsynced.len()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.check_len(len, Operation::SetLen)?;
        self.change_file(Operation::SetLen, |file, _| file.set_len(len))
    }

    fn sync(&self, scope: SyncScope) -> Result<()> {
        self.change_file(Operation::Sync, |file, inner| file.sync(inner, scope))
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        self.check_len(len, Operation::Preallocate)?;
        self.change_file(Operation::Preallocate, |file, _| {
            if file.unsynced.len() < len { file.set_len(len) } else { Ok(()) }
        })
    }

    fn is_hole(&self, place: u64) -> bool {
        self.with_file(Operation::Len, |file, inner| Ok(file.unsynced.is_hole(place, inner))).unwrap_or(false)
    }

    fn map(&self, range: Range<u64>) -> Option<Mapping> {
        // The copy is made only for mappings: it takes as much memory as the file.
        if !(self.capabilities.maps && self.options.is_read()) {
            return None;
        }
        let write = self.options.is_write();
        self.with_file(Operation::Read, |file, inner| Ok(file.map(range, write, inner))).ok().flatten()
    }

    /// Stores of `copy` are recorded as a write. The file is locked meanwhile.
    fn access_mapped(&self, access: &MappedAccess, copy: &mut dyn FnMut() -> bool) -> Result<bool> {
        if !access.write {
            return self.with_file(Operation::Read, |_, _| Ok(copy()));
        }
        self.allow(self.options.is_write(), Operation::Write)?;
        self.change_file(Operation::Write, |file, inner| {
            let done = copy();
            file.record_stores(&access.range, inner)?;
            Ok(done)
        })
    }

    fn close(self: Arc<Self>) -> Result<()> {
        let Some(handle) = Arc::into_inner(self) else { return Ok(()) };
        let inner = handle.shared.state().leave(handle.file, handle.id);
        drop(handle);
        inner.map_or(Ok(()), Handle::close)
    }

    fn try_lock(&self, range: Range<u64>, kind: LockKind) -> Result<Option<Box<dyn LockGuard + '_>>> {
        self.with_file(Operation::Lock, |_, _| Ok(()))?;
        let guard = self.locks.try_lock(range, kind);
        Ok(guard.map(|guard| -> Box<dyn LockGuard + '_> { Box::new(guard) }))
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> Result<Box<dyn LockGuard + '_>> {
        self.with_file(Operation::Lock, |_, _| Ok(()))?;
        Ok(Box::new(self.locks.lock(range, kind)))
    }
}
