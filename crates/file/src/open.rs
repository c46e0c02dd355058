//! Opening and deleting files, collectively.

use std::cell::Cell;
use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use aqueduct_comm::Comm;
use aqueduct_device::{self as device, Capabilities, Handle, OpenOptions};

use crate::buffer::Buffered;
use crate::core::{Agreed, Core, agree_flags};
use crate::desk::Desk;
use crate::error::{Error, Kind, Result};
use crate::file::File;
use crate::hints::{Hints, Info};
use crate::mode::Mode;
use crate::shared_hints;

/// How to open a file; the same on all ranks, but for hints: where they differ, those of rank 0 hold.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_file::{Mode, Open};
///
/// Launch::threads(2).run(|world| {
///     let file = Open::new(Mode::read_write().create()).hint("cb_nodes", "1").open(world, "memfs:open")?;
///     file.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Open {
    mode: Mode,
    info: Info,
}

impl Open {
    /// Opens with this access mode.
    pub fn new(mode: Mode) -> Self {
        Self { mode, info: Info::new() }
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
    pub fn buffered(self, settings: &Buffered) -> Self {
        let open = self.hint("aqueduct_buffer", settings.memory.to_string());
        let Some(folder) = &settings.spill else { return open };
        let open = open.hint("aqueduct_spill", folder.to_string_lossy());
        settings.spill_size.map_or(open.clone(), |bytes| open.hint("aqueduct_spill_size", bytes.to_string()))
    }

    /// Opens `name` on all ranks of `comm`. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "MPI_File_open")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<File> {
        let name = name.as_ref();
        let shown: Arc<str> = name.to_string_lossy().into();
        let mut hints = Hints::parse(&self.info.over(&Info::from_env()));
        // Other opens of a buffered file see less of it, so that only the program asks for it, not the site.
        hints.buffered = Hints::parse(&self.info).buffered;
        if comm.rank() == 0 {
            Hints::report_objections(&shown, &self.info.over(&Info::from_env()));
        }
        let desk = self.meet(comm, name, &shown, &mut hints)?;
        let buffered = hints.buffered.clone();
        match self.open_together(&desk, name, &shown, &mut hints) {
            Ok((handle, start, agreed)) => {
                let core = Core::new(shown, desk, handle, start, agreed, self.mode, hints);
                let file = File::new(Arc::new(core), name.to_owned(), comm.clone());
                match buffered {
                    Some(settings) => file.buffered(&settings),
                    None => Ok(file),
                }
            }
            Err(error) => {
                desk.leave(comm);
                Err(error)
            }
        }
    }

    /// Makes sure that all ranks want the same, and finds them a desk. Hints may differ: those of rank 0 hold.
    fn meet(&self, comm: &Comm, name: &OsStr, shown: &Arc<str>, hints: &mut Hints) -> Result<Desk> {
        let talk = |error: aqueduct_comm::Error| Error::talk("open", shown, &error);
        let left = Desk::left(comm);
        let [number, buffers] = left.as_ref().map_or([0; 2], Desk::number);
        let mine = [u64::from(self.mode.bits()), digest(name), digest(&hints.info_text()), number, buffers];
        let least_and_most = mine.map(|word| [word, word]);
        let all = comm.allreduce_with(&least_and_most, |[least, most], [other_least, other_most]| {
            *least = (*least).min(*other_least);
            *most = (*most).max(*other_most);
        });
        let differs: Vec<bool> = all.map_err(talk)?.iter().map(|[least, most]| least != most).collect();
        let which = ["access modes", "names"].into_iter().zip(&differs).find(|(_, differs)| **differs);
        if let Some((which, _)) = which {
            left.into_iter().for_each(|desk| desk.leave(comm));
            let detail = format!("the ranks gave different {which}; give the same on all ranks");
            return Err(Error::new(Kind::NotSame, "open", shown, detail));
        }
        if differs[2] {
            *hints = Hints::parse(&shared_hints::of_first_rank(comm, shown, &hints.info()).map_err(talk)?);
        }
        match left {
            // What one rank has, and another has not, is for a later file.
            Some(desk) if differs[3] || differs[4] => desk.leave(comm),
            Some(desk) => return Ok(desk),
            None => {}
        }
        Desk::new(comm).map_err(talk)
    }

    /// Opens the file on all ranks; their handles, where pointers begin, and what holds on all of them.
    fn open_together(
        &self,
        desk: &Desk,
        name: &OsStr,
        shown: &Arc<str>,
        hints: &mut Hints,
    ) -> Result<(Arc<dyn Handle>, u64, Agreed)> {
        let comm = &desk.comm;
        // Who creates a file that must not be there is one alone. Many nodes at once would only be in each other's way.
        let first = self.mode.is_create() && (self.mode.is_exclusive() || comm.node_count() > 1);
        let (asked, unreadable) = (&*hints, Cell::new(false));
        let open = |create: bool| {
            let handle = self.open_device(comm, name, shown, asked, create, &unreadable)?;
            let start = if self.mode.is_append() { length(comm, asked, &*handle) } else { Ok(0) };
            let start = start.map_err(|error| Error::device("open", shown, &error))?;
            Ok((handle, start))
        };
        let mine =
            if first { open_after_first(comm, shown, open)? } else { open(self.mode.is_create()).map(Some) };
        if let (0, Ok(Some((_, start)))) = (comm.rank(), &mine) {
            desk.pointer.set(*start).map_err(|error| Error::talk("open", shown, &error))?;
        }
        let missing = || Error::new(Kind::Communication, "open", shown, "rank 0 could not open it");
        let can = mine.as_ref().ok().and_then(Option::as_ref).map(|(handle, _)| handle.capabilities());
        let plain = comm.node_count() == 1 && can.is_some_and(|can| can.maps);
        let persistent = can.is_some_and(|can| can.persistent);
        let coherent = is_coherent(comm, asked, can);
        let flags = [plain, persistent, coherent, !unreadable.get()];
        let (opened, [plain, persistent, coherent, readable]) =
            agree_flags(comm, "open", shown, mine, flags)?;
        if !readable {
            hints.forgo_reading();
        }
        let agreed = Agreed { plain, persistent, coherent };
        opened.map(|(handle, start)| (handle, start, agreed)).ok_or_else(missing)
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
        if let Some(contradiction) = self.mode.contradiction() {
            return Err(Error::new(Kind::BadMode, "open", shown, contradiction));
        }
        let options = match (self.mode.is_read(), self.mode.is_write()) {
            (true, false) => OpenOptions::read_only(),
            // Sieving reads what it writes back.
            _ => OpenOptions::read_write(),
        };
        let exclusive = create && self.mode.is_exclusive();
        let options = options.create(create).exclusive(exclusive).direct(hints.direct).rank(comm.rank());
        let options = options.permissions(hints.permissions).write_behind(hints.write_behind);
        let opened = device::open(name, &options).or_else(|error| {
            // A file that this user may write and not read.
            if self.mode.is_read() || error.kind() != device::Kind::PermissionDenied {
                return Err(error);
            }
            unreadable.set(true);
            device::open(name, &options.clone().for_writing_only())
        });
        let handle = opened.map_err(|error| Error::device("open", shown, &error))?;
        if comm.size() > 1 && !comm.is_one_process() && !handle.capabilities().shared {
            let detail =
                "this device lives in one process; ranks that are processes need a shared one, such as ufs:";
            return Err(Error::new(Kind::Unsupported, "open", shown, detail));
        }
        Ok(handle)
    }
}

/// Rank 0 opens and creates; if it could, the others open what is then there.
#[expect(clippy::type_complexity, reason = "an outcome within an outcome: of the talk, and of this rank")]
fn open_after_first(
    comm: &Comm,
    shown: &Arc<str>,
    open: impl Fn(bool) -> Result<(Arc<dyn Handle>, u64)>,
) -> Result<Result<Option<(Arc<dyn Handle>, u64)>>> {
    let first = (comm.rank() == 0).then(|| open(true));
    let mut failed = [u8::from(matches!(&first, Some(Err(_))))];
    comm.broadcast(0, &mut failed).map_err(|error| Error::talk("open", shown, &error))?;
    Ok(match first {
        Some(outcome) => outcome.map(Some),
        // The error is rank 0's to tell.
        None if failed != [0] => Ok(None),
        None => open(false).map(Some),
    })
}

/// Whether all ranks see the same bytes of a file: there is one node, or the hint or the device says so.
fn is_coherent(comm: &Comm, hints: &Hints, can: Option<Capabilities>) -> bool {
    comm.node_count() == 1 || hints.coherent.unwrap_or_else(|| can.is_some_and(|can| can.coherent))
}

/// The length of a file, whatever this node has cached of it.
fn length(comm: &Comm, hints: &Hints, handle: &dyn Handle) -> device::Result<u64> {
    if !is_coherent(comm, hints, Some(handle.capabilities())) {
        handle.revalidate(0..0)?;
    }
    handle.len()
}

fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Whether a name can be opened as far as its wrappers and its device go; nothing is opened.
pub fn check_name(name: impl AsRef<OsStr>) -> Result<()> {
    let shown: Arc<str> = name.as_ref().to_string_lossy().into();
    let resolved = device::registry().resolve(name.as_ref());
    resolved.map(|_| ()).map_err(|error| Error::device("open", &shown, &error))
}

/// Deletes the file of this name. Not collective: one rank does it.
#[doc(alias = "MPI_File_delete")]
pub fn delete(name: impl AsRef<OsStr>) -> Result<()> {
    let name: OsString = name.as_ref().to_owned();
    let shown: Arc<str> = name.to_string_lossy().into();
    device::delete(&name).map_err(|error| Error::device("delete", &shown, &error))
}

/// Deletes the file of this name to make room for another: its name is free at once, its bytes may be taken back while the program goes on. Not
/// collective: one rank does it.
pub fn discard(name: impl AsRef<OsStr>) -> Result<()> {
    let name: OsString = name.as_ref().to_owned();
    let shown: Arc<str> = name.to_string_lossy().into();
    device::discard(&name).map_err(|error| Error::device("delete", &shown, &error))
}

/// Claims the file of this name for one writer, until the claim is dropped or the program ends: [`Kind::InUse`](crate::Kind::InUse) if somebody else has
/// claimed it. Whoever does not ask, all readers for example, is not kept out. None for a name with a wrapper, of a device without paths, and
/// on file systems without locks. Not collective: one rank does it for all.
pub fn claim(name: impl AsRef<OsStr>) -> Result<Option<device::Claim>> {
    let Some(path) = path(name.as_ref()) else { return Ok(None) };
    let shown: Arc<str> = name.as_ref().to_string_lossy().into();
    device::claim(&path).map_err(|error| Error::device("open", &shown, &error))
}

/// Fails with [`Kind::InUse`](crate::Kind::InUse) if the file of this name is [claimed](claim), without claiming it. Not collective: one rank does it.
pub fn check_unclaimed(name: impl AsRef<OsStr>) -> Result<()> {
    let Some(path) = path(name.as_ref()) else { return Ok(()) };
    let shown: Arc<str> = name.as_ref().to_string_lossy().into();
    device::check_unclaimed(&path).map_err(|error| Error::device("open", &shown, &error))
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
    let name = device::name::Name::parse(name.as_ref(), |_| false).ok()?;
    ["ufs", "uring"].contains(&name.device.prefix.as_str()).then(|| name.path.into())
}
