//! Opening and deleting files.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::Arc;

use aqueduct_comm::agreement::{agree_with_flags, differing_argument, first_differing_ranks, hash_of};
use aqueduct_comm::{Comm, PooledComm};
use aqueduct_device::{
    self as device, Capabilities, DeviceOpenOptions, Handle, HandleExt, OpenedBy, PrefixKind, Registry,
};

use super::file::File;
use super::hint_exchange;
use crate::context::AgreedCapabilities;
use crate::context::mode::{self, Mode};
use crate::engine::{FileResources, OpenFile};
use crate::error::{Error, Kind, Result};
use crate::hints::{BufferOptions, Hints, Info};
use crate::replan::describe_capabilities;
use crate::trace::{self, FileTrace, RecordedHandle, measure_offset};

/// How to open a file, in the style of [`std::fs::OpenOptions`]. The same on all ranks, except hints: where they differ, those of rank 0 are
/// used.
///
/// [`File::open`] and [`File::create`] are short forms for the common cases.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_file::OpenOptions;
///
/// Launch::threads(2).run(|world| {
///     let options = OpenOptions::new().read(true).write(true).create(true).hint("cb_nodes", "1");
///     options.open(world, "memfs:open")?.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    mode: Mode,
    truncate: bool,
    info: Info,
}

impl From<Mode> for OpenOptions {
    /// Options of an access mode as MPI has it, without truncation and without hints.
    fn from(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }
}

impl OpenOptions {
    /// No access, no hints: set at least [`read`](Self::read) or [`write`](Self::write).
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows reading.
    #[must_use]
    #[doc(alias = "MPI_MODE_RDONLY")]
    pub fn read(self, yes: bool) -> Self {
        self.with_flag(mode::READ, yes)
    }

    /// Allows writing.
    #[must_use]
    #[doc(alias = "MPI_MODE_WRONLY")]
    #[doc(alias = "MPI_MODE_RDWR")]
    pub fn write(self, yes: bool) -> Self {
        self.with_flag(mode::WRITE, yes)
    }

    /// Creates the file if it does not exist. Needs [`write`](Self::write).
    #[must_use]
    #[doc(alias = "MPI_MODE_CREATE")]
    pub fn create(self, yes: bool) -> Self {
        self.with_flag(mode::CREATE, yes)
    }

    /// Creates the file and fails with [`Kind::FileExists`] if it exists, as `create_new` of the standard library. It implies
    /// [`create`](Self::create).
    #[must_use]
    #[doc(alias = "MPI_MODE_EXCL")]
    #[doc(alias = "create_new")]
    pub fn exclusive(self, yes: bool) -> Self {
        self.with_flag(if yes { mode::CREATE | mode::EXCLUSIVE } else { mode::EXCLUSIVE }, yes)
    }

    /// Cuts the file to length 0. Needs [`write`](Self::write).
    #[must_use]
    pub fn truncate(mut self, yes: bool) -> Self {
        self.truncate = yes;
        self
    }

    /// All file pointers start at the end of the file.
    #[must_use]
    #[doc(alias = "MPI_MODE_APPEND")]
    pub fn append(self, yes: bool) -> Self {
        self.with_flag(mode::APPEND, yes)
    }

    /// Deletes the file when it is closed.
    #[must_use]
    #[doc(alias = "MPI_MODE_DELETE_ON_CLOSE")]
    pub fn delete_on_close(self, yes: bool) -> Self {
        self.with_flag(mode::DELETE_ON_CLOSE, yes)
    }

    /// Promises that the file is not open elsewhere.
    #[must_use]
    #[doc(alias = "MPI_MODE_UNIQUE_OPEN")]
    pub fn unique_open(self, yes: bool) -> Self {
        self.with_flag(mode::UNIQUE_OPEN, yes)
    }

    /// Allows only accesses at the shared file pointer, which does not seek.
    #[must_use]
    #[doc(alias = "MPI_MODE_SEQUENTIAL")]
    pub fn sequential(self, yes: bool) -> Self {
        self.with_flag(mode::SEQUENTIAL, yes)
    }

    /// The access mode as MPI has it; it does not say whether the file is truncated.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// True if the file is cut to length 0.
    pub fn is_truncate(&self) -> bool {
        self.truncate
    }

    /// The hints.
    pub fn info(&self) -> &Info {
        &self.info
    }

    fn with_flag(mut self, flag: u32, yes: bool) -> Self {
        self.mode = self.mode.with(flag, yes);
        self
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.info.set(key, value);
        self
    }

    /// Adds hints.
    #[must_use]
    pub fn hints(mut self, info: &Info) -> Self {
        self.info = info.over(&self.info);
        self
    }

    /// Buffers the file; see [`File::buffered`].
    #[must_use]
    pub fn buffered(self, settings: &BufferOptions) -> Self {
        let open = self.hint("aqueduct_buffer", settings.memory.to_string());
        let Some(folder) = &settings.spill else { return open };
        let open = open.hint("aqueduct_spill", folder.to_string_lossy());
        settings.spill_size.map_or(open.clone(), |bytes| open.hint("aqueduct_spill_size", bytes.to_string()))
    }

    /// Opens `name` on all ranks of `comm`. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "MPI_File_open")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<File> {
        let began = trace::is_on().then(trace::now);
        let name = name.as_ref();
        let shown: Arc<str> = name.to_string_lossy().into();
        let mut hints = Hints::parse(&self.info.over(&Info::from_env()));
        // Other handles of a buffered file do not see pending writes, so that only the program can ask for it, not the site.
        hints.buffered = Hints::parse(&self.info).buffered;
        if comm.rank() == 0 {
            hint_exchange::report_objections(&shown, &self.info.over(&Info::from_env()));
        }
        let (own_comm, all_trace) = self.compare(comm, name, &shown, &mut hints)?;
        let buffered = hints.buffered.clone();
        match self.open_on_all(&own_comm, name, &shown, &mut hints) {
            Ok((handle, start, agreed)) => {
                let trace = self.start_trace(&own_comm, &shown, &*handle, &hints, all_trace)?;
                let handle: Arc<dyn Handle> = match &trace {
                    Some(trace) => Arc::new(RecordedHandle::new(handle, Arc::clone(trace))),
                    None => handle,
                };
                let open_file = OpenFile::new(shown, own_comm, handle, agreed, self.mode, hints, trace);
                let file = File::new(Arc::new(open_file), name.to_owned(), start);
                if self.truncate {
                    file.truncate_on_open()?;
                }
                let file = match buffered {
                    Some(settings) => file.buffered(&settings)?,
                    None => file,
                };
                if let (Some(trace), Some(began)) = (&file.cx().trace, began) {
                    trace.record_open(began);
                }
                Ok(file)
            }
            Err(error) => {
                FileResources::release(own_comm);
                Err(error)
            }
        }
    }

    /// Begins to record the file, if traces are on. Collective.
    fn start_trace(
        &self,
        comm: &Comm,
        shown: &Arc<str>,
        handle: &dyn Handle,
        hints: &Hints,
        all_trace: bool,
    ) -> Result<Option<Arc<FileTrace>>> {
        if !trace::is_on() {
            return Ok(None);
        }
        let listed = if comm.rank() == 0 { comm.size() } else { 0 };
        let ranks = (0..listed).map(|rank| comm.world_rank_of(rank).to_string());
        let facts = [
            ("mode", format!("{:?}", self.mode)),
            ("ranks", comm.size().to_string()),
            ("world_ranks", ranks.collect::<Vec<_>>().join(",")),
            ("rank", comm.rank().to_string()),
            ("node", comm.node_of(comm.rank()).to_string()),
            ("nodes", comm.node_count().to_string()),
            ("capabilities", describe_capabilities(&handle.capabilities())),
            ("hints", hints.info_text()),
        ];
        let trace = FileTrace::new(comm, shown, &facts);
        if all_trace {
            let measured = measure_offset(comm, trace.as_deref());
            measured.map_err(|error| Error::from_comm("open", shown, &error))?;
        }
        Ok(trace)
    }

    /// Checks that all ranks give the same arguments, and finds a communicator for the file; true if all ranks record a trace. If hints
    /// differ, those of rank 0 are used.
    fn compare(
        &self,
        comm: &Comm,
        name: &OsStr,
        shown: &Arc<str>,
        hints: &mut Hints,
    ) -> Result<(PooledComm<FileResources>, bool)> {
        let failed = |error: aqueduct_comm::Error| Error::from_comm("open", shown, &error);
        let idle = PooledComm::<FileResources>::take_idle(comm);
        let [id, shape] = idle.as_ref().map_or([0; 2], |idle| [idle.context_id(), idle.attached.shape()]);
        let access = u64::from(self.mode.bits()) | u64::from(self.truncate) << 32;
        let values = [access, hash_of(name), hash_of(&hints.info_text()), id, shape, trace::is_on().into()];
        let values = values.map(Some);
        let [access, name, other_hints, id, shape, trace] =
            first_differing_ranks(comm, values).map_err(failed)?;
        let all_trace = trace::is_on() && trace.is_none();
        let arguments = [("access mode", access), ("name", name)];
        if let Some((what, rank)) = arguments.into_iter().find_map(|(what, rank)| Some((what, rank?))) {
            idle.into_iter().for_each(FileResources::release);
            return Err(differing_argument("open", shown, what, rank));
        }
        if other_hints.is_some() {
            *hints = Hints::parse(&hint_exchange::of_first_rank(comm, shown, &hints.info()).map_err(failed)?);
        }
        match idle {
            // A communicator that some rank does not have is left to a later file.
            Some(idle) if id.or(shape).is_some() => FileResources::release(idle),
            Some(idle) => return Ok((idle, all_trace)),
            None => {}
        }
        PooledComm::create(comm, FileResources::new).map(|made| (made, all_trace)).map_err(failed)
    }

    /// Opens the file on all ranks; the handle, the start of file pointers, and what holds on all ranks.
    fn open_on_all(
        &self,
        comm: &PooledComm<FileResources>,
        name: &OsStr,
        shown: &Arc<str>,
        hints: &mut Hints,
    ) -> Result<(Arc<dyn Handle>, u64, AgreedCapabilities)> {
        // An exclusive create is done by one rank. Creates of many nodes at once would only wait for one another.
        let first = self.mode.is_create() && (self.mode.is_exclusive() || comm.node_count() > 1);
        let (asked, unreadable) = (&*hints, Cell::new(false));
        let open = |create: bool| {
            let handle = self.open_device(comm, name, shown, asked, create, &unreadable)?;
            let start = if self.mode.is_append() { length(comm, asked, &*handle) } else { Ok(0) };
            let start = start.map_err(|error| Error::device("open", shown, error))?;
            Ok((handle, start))
        };
        let mine =
            if first { open_after_first(comm, shown, open)? } else { open(self.mode.is_create()).map(Some) };
        if let (0, Ok(Some((_, start)))) = (comm.rank(), &mine) {
            comm.attached.pointer.set(*start).map_err(|error| Error::from_comm("open", shown, &error))?;
        }
        let missing = || Error::new(Kind::Communication, "open", shown, "rank 0 could not open it");
        let capabilities =
            mine.as_ref().ok().and_then(Option::as_ref).map(|(handle, _)| handle.capabilities());
        let one_page_cache =
            comm.node_count() == 1 && capabilities.is_some_and(|capabilities| capabilities.maps);
        let persistent = capabilities.is_some_and(|capabilities| capabilities.persistent);
        let coherent = is_coherent(comm, asked, capabilities);
        let flags = [one_page_cache, persistent, coherent, !unreadable.get()];
        let (opened, [one_page_cache, persistent, coherent, readable]) =
            agree_with_flags(comm, "open", shown, mine, flags)?;
        if !readable {
            hints.disable_reads();
        }
        let agreed = AgreedCapabilities { one_page_cache, persistent, coherent };
        opened.map(|(handle, start)| (handle, start, agreed)).ok_or_else(missing)
    }

    /// Why the options contradict one another, if they do.
    fn contradiction(&self) -> Option<&'static str> {
        match self.truncate {
            true if !self.mode.is_write() => Some("a file opened for reading only cannot be truncated"),
            true if self.mode.is_append() => Some("truncate and append exclude one another"),
            _ => self.mode.contradiction(),
        }
    }

    fn open_device(
        &self,
        comm: &Comm,
        name: &OsStr,
        shown: &Arc<str>,
        hints: &Hints,
        create: bool,
        unreadable: &Cell<bool>,
    ) -> Result<Arc<dyn Handle>> {
        if let Some(contradiction) = self.contradiction() {
            return Err(Error::new(Kind::BadMode, "open", shown, contradiction));
        }
        let options = match (self.mode.is_read(), self.mode.is_write()) {
            (true, false) => DeviceOpenOptions::read_only(),
            // Data sieving reads before it writes.
            _ => DeviceOpenOptions::read_write(),
        };
        let exclusive = create && self.mode.is_exclusive();
        let options = options.create(create).exclusive(exclusive).direct(hints.direct).rank(comm.rank());
        let options = options.permissions(hints.permissions).write_behind(hints.write_behind);
        let options = options.opened_by(processes_of(comm));
        let opened = registry().open(name, &options).or_else(|error| {
            // A file that this user may write and not read.
            if self.mode.is_read() || error.kind() != device::Kind::PermissionDenied {
                return Err(error);
            }
            unreadable.set(true);
            registry().open(name, &options.clone().for_writing_only())
        });
        let handle = opened.map_err(|error| Error::device("open", shown, error))?;
        if comm.size() > 1 && !comm.is_one_process() && !handle.capabilities().shared {
            let detail =
                "this device lives in one process; ranks that are processes need a shared one, such as ufs:";
            return Err(Error::new(Kind::Unsupported, "open", shown, detail));
        }
        Ok(handle)
    }
}

/// Which processes open the files of a communicator.
fn processes_of(comm: &Comm) -> OpenedBy {
    match comm.node_count() {
        _ if comm.is_one_process() => OpenedBy::Process,
        1 => OpenedBy::Node,
        _ => OpenedBy::Cluster,
    }
}

/// Rank 0 opens and creates; if it could, the others open what is then there.
#[expect(
    clippy::type_complexity,
    reason = "a result within a result: of the communication, and of this rank"
)]
fn open_after_first(
    comm: &Comm,
    shown: &Arc<str>,
    open: impl Fn(bool) -> Result<(Arc<dyn Handle>, u64)>,
) -> Result<Result<Option<(Arc<dyn Handle>, u64)>>> {
    let first = (comm.rank() == 0).then(|| open(true));
    let mut failed = [u8::from(matches!(&first, Some(Err(_))))];
    comm.broadcast(0, &mut failed).map_err(|error| Error::from_comm("open", shown, &error))?;
    Ok(match first {
        Some(outcome) => outcome.map(Some),
        // Rank 0 reports the error.
        None if failed != [0] => Ok(None),
        None => open(false).map(Some),
    })
}

/// True if all ranks see the same bytes of the file: there is one node, or the hint or the device says so.
fn is_coherent(comm: &Comm, hints: &Hints, capabilities: Option<Capabilities>) -> bool {
    comm.node_count() == 1
        || hints.coherent.unwrap_or_else(|| capabilities.is_some_and(|capabilities| capabilities.coherent))
}

/// The length of a file, whatever this node has cached of it.
fn length(comm: &Comm, hints: &Hints, handle: &dyn Handle) -> device::Result<u64> {
    if !is_coherent(comm, hints, Some(handle.capabilities())) {
        handle.revalidate(0..0)?;
    }
    handle.len()
}

/// Whether a name can be opened as far as its wrappers and its device go; nothing is opened.
pub fn check_name(name: impl AsRef<OsStr>) -> Result<()> {
    let shown: Arc<str> = name.as_ref().to_string_lossy().into();
    let resolved = registry().resolve(name.as_ref());
    resolved.map(|_| ()).map_err(|error| Error::device("open", &shown, error))
}

/// The devices of the process, with remote memory.
fn registry() -> &'static Registry {
    aqueduct_tunnel::register();
    device::registry()
}

/// What a prefix of a name means; none if it is unknown.
pub fn prefix_kind(prefix: &str) -> Option<PrefixKind> {
    registry().prefix_kind(prefix)
}

/// Deletes the file of this name. Not collective: one rank does it.
#[doc(alias = "MPI_File_delete")]
pub fn delete(name: impl AsRef<OsStr>) -> Result<()> {
    let name: OsString = name.as_ref().to_owned();
    let shown: Arc<str> = name.to_string_lossy().into();
    registry().delete(&name).map_err(|error| Error::device("delete", &shown, error))
}

/// Reads a whole file. Not collective: one rank does it.
///
/// ```
/// # aqueduct_comm::Launch::threads(1).run(|world| {
/// let file = aqueduct_file::File::create(world, "memfs:small")?;
/// file.at(0).write(&[1u8, 2, 3])?;
/// file.close()?;
/// assert_eq!(aqueduct_file::read("memfs:small")?, [1, 2, 3]);
/// # Ok::<(), aqueduct_file::Error>(())
/// # })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub fn read(name: impl AsRef<OsStr>) -> Result<Vec<u8>> {
    let shown: Arc<str> = name.as_ref().to_string_lossy().into();
    let read = || {
        let handle = registry().open(name.as_ref(), &DeviceOpenOptions::read_only())?;
        let mut bytes = vec![0; handle.len()? as usize];
        let length = handle.read_at(0, &mut bytes)?;
        bytes.truncate(length as usize);
        Ok(bytes)
    };
    read().map_err(|error| Error::device("read", &shown, error))
}

/// Deletes the file of this name to make room for another: its name is free at once, its bytes may be taken back while the program goes on. Not
/// collective: one rank does it.
pub fn discard(name: impl AsRef<OsStr>) -> Result<()> {
    let name: OsString = name.as_ref().to_owned();
    let shown: Arc<str> = name.to_string_lossy().into();
    registry().delete_in_background(&name).map_err(|error| Error::device("delete", &shown, error))
}

/// Claims the file of this name for one writer, until the claim is dropped or the program ends: [`Kind::InUse`](crate::Kind::InUse) if another
/// program has claimed it. It is advisory: a program that does not claim the file, a reader for example, is not excluded. None for a name with a
/// wrapper, of a device without paths, and on file systems without locks. Not collective: one rank does it for all.
pub fn claim(name: impl AsRef<OsStr>) -> Result<Option<device::WriterLock>> {
    let Some(path) = path(name.as_ref()) else { return Ok(None) };
    let shown: Arc<str> = name.as_ref().to_string_lossy().into();
    device::acquire_writer_lock(&path).map_err(|error| Error::device("open", &shown, error))
}

/// Fails with [`Kind::InUse`](crate::Kind::InUse) if the file of this name is [claimed](claim), without claiming it. Not collective: one rank does it.
pub fn check_unclaimed(name: impl AsRef<OsStr>) -> Result<()> {
    let Some(path) = path(name.as_ref()) else { return Ok(()) };
    let shown: Arc<str> = name.as_ref().to_string_lossy().into();
    device::check_unclaimed(&path).map_err(|error| Error::device("open", &shown, error))
}

/// The path of the operating system that a name means: for libraries that open files themselves. None for a name with a wrapper, or
/// of a device that has no such files.
///
/// ```
/// assert_eq!(aqueduct_file::path("uring:a/b"), Some("a/b".into()));
/// assert_eq!(aqueduct_file::path("memfs:a/b"), None);
/// ```
pub fn path(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    // Of a name with wrappers the first one is taken for the device, which then is none of these.
    let name = device::name::DeviceName::parse(name.as_ref(), |_| false).ok()?;
    ["ufs", "uring"].contains(&name.device.prefix.as_str()).then(|| name.path.into())
}
