//! Opening and deleting files, collectively.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use aqueduct_comm::Comm;
use aqueduct_device::{self as device, Handle, OpenOptions};

use crate::core::{Core, agree};
use crate::error::{Error, Kind, Result};
use crate::file::File;
use crate::hints::{Hints, Info};
use crate::mode::Mode;

/// How to open a file; the same on all ranks.
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

    /// Opens `name` on all ranks of `comm`. Collective: it succeeds on all ranks or on none.
    #[doc(alias = "MPI_File_open")]
    pub fn open(&self, comm: &Comm, name: impl AsRef<OsStr>) -> Result<File> {
        let name = name.as_ref();
        let shown: Arc<str> = name.to_string_lossy().into();
        let own = comm.dup().map_err(|error| Error::talk("open", &shown, &error))?;
        let info = self.info.over(&Info::from_env());
        let hints = Hints::parse(&info);
        let opened = self.first(&own, name, &shown, &hints)?;
        let core = Core::new(shown, own, opened, self.mode, hints)?;
        Ok(File::new(Arc::new(core), name.to_owned(), comm.clone()))
    }

    /// Rank 0 opens and, where wanted, creates; then the others do.
    fn first(&self, comm: &Comm, name: &OsStr, shown: &Arc<str>, hints: &Hints) -> Result<Arc<dyn Handle>> {
        let talk = |error: aqueduct_comm::Error| Error::talk("open", shown, &error);
        let first =
            (comm.rank() == 0).then(|| self.open_device(comm, name, shown, hints, self.mode.is_create()));
        // What rank 0 opened, and how: one message tells all.
        let mut told = [u64::from(self.mode.bits()), digest(name), digest(&hints.info_text()), 0];
        told[3] = u64::from(matches!(&first, Some(Err(_))));
        let mine = told;
        comm.broadcast(0, &mut told).map_err(talk)?;
        let outcome = match first {
            Some(outcome) => outcome.map(Some),
            // The error is rank 0's to tell.
            None if told[3] != 0 => Ok(None),
            None if told[..3] != mine[..3] => Err(different(shown, &told, &mine)),
            None => self.open_device(comm, name, shown, hints, false).map(Some),
        };
        let missing = || Error::new(Kind::Communication, "open", shown, "rank 0 could not open it");
        agree(comm, "open", shown, outcome)?.ok_or_else(missing)
    }

    fn open_device(
        &self,
        comm: &Comm,
        name: &OsStr,
        shown: &Arc<str>,
        hints: &Hints,
        create: bool,
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
        let options = options.permissions(hints.permissions);
        let handle = device::open(name, &options).map_err(|error| Error::device("open", shown, &error))?;
        if comm.size() > 1 && !comm.is_one_process() && !handle.capabilities().shared {
            let detail =
                "this device lives in one process; ranks that are processes need a shared one, such as ufs:";
            return Err(Error::new(Kind::Unsupported, "open", shown, detail));
        }
        Ok(handle)
    }
}

fn different(shown: &Arc<str>, told: &[u64; 4], mine: &[u64; 4]) -> Error {
    let names = ["access modes", "names", "hints"];
    let which = (0..3).find(|at| told[*at] != mine[*at]).map_or("arguments", |at| names[at]);
    let detail = format!("this rank and rank 0 gave different {which}; give the same on all ranks");
    Error::new(Kind::NotSame, "open", shown, detail)
}

fn digest(value: &(impl Hash + ?Sized)) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// Deletes the file of this name. Not collective: one rank does it.
#[doc(alias = "MPI_File_delete")]
pub fn delete(name: impl AsRef<OsStr>) -> Result<()> {
    let name: OsString = name.as_ref().to_owned();
    let shown: Arc<str> = name.to_string_lossy().into();
    device::delete(&name).map_err(|error| Error::device("delete", &shown, &error))
}
