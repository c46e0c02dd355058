//! What an open file of any format is made of: its name, its ranks, its bytes. Creating and opening it.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use aqueduct_comm::agreement::{agree_same, from_root};
use aqueduct_comm::{Comm, PooledComm, Traffic};
use aqueduct_file::{self as file, Counters, File, Info, Mode, WriterLock};

use crate::error::{Error, Kind, Result, agree, agree_with_max};

/// Memory for reading ahead in files that are only read, unless a hint has another size.
const PREFETCH: (&str, &str) = ("aqueduct_prefetch", "64MiB");

/// How a file is created or opened, whatever its format.
#[derive(Clone, Debug)]
pub(crate) struct FormatOpenOptions {
    pub(crate) info: Info,
    /// Whether an existing file is replaced.
    pub(crate) replace: bool,
    pub(crate) writable: bool,
    pub(crate) durable: bool,
}

/// An open file.
pub(crate) struct FormatFile {
    pub(crate) name: Arc<str>,
    /// For the talk of this file alone.
    pub(crate) comm: PooledComm,
    /// What had been sent through it when the file was opened: the talk may have been another file's before.
    traffic_at_open: Traffic,
    pub(crate) file: File,
    /// How it is opened again.
    path: OsString,
    info: Info,
    /// The counters of the file up to when it was opened again.
    counters_before: Counters,
    pub(crate) writable: bool,
    /// That no other program writes the file; on rank 0.
    writer_lock: Option<WriterLock>,
    /// Whether committed data is durable.
    pub(crate) durable: bool,
}

impl FormatOpenOptions {
    pub(crate) fn new(writable: bool) -> Self {
        Self { info: Info::new(), replace: false, writable, durable: true }
    }

    /// A new file without a byte. Collective: it succeeds on all ranks or on none.
    pub(crate) fn create(&self, comm: &Comm, name: &OsStr) -> Result<FormatFile> {
        let line = acquire_comm("create", comm, name)?;
        // What cannot be deleted is in the way of the new file: only then do all ranks have to hear of it.
        let first = comm.rank() == 0;
        let deleted: Result<()> = match (self.replace && first).then(|| delete_replaced(name)) {
            Some(Err(error)) if error.kind() != file::Kind::NoSuchFile => Err(error),
            _ => Ok(()),
        };
        let open = file::OpenOptions::new().read(true).write(true).exclusive(true).hints(&self.info);
        match open.open(comm, name) {
            // Who could have claimed it since would have found it empty, and let it go.
            Ok(file) => {
                Ok(self.opened(line, name, file, first.then(|| file::claim(name).ok()).flatten().flatten()))
            }
            Err(error) => {
                let shown = name.to_string_lossy();
                let outcome = from_root(&line, "create", &shown, deleted.map(|()| Vec::new()));
                if outcome.is_ok() {
                    line.release();
                }
                outcome.and(Err(open_error(&error, &shown)))
            }
        }
    }

    /// A file that is there. Collective: it succeeds on all ranks or on none.
    pub(crate) fn open(&self, comm: &Comm, name: &OsStr) -> Result<FormatFile> {
        let line = acquire_comm("open", comm, name)?;
        let mode = if self.writable { Mode::read_write() } else { Mode::read_only() };
        let claim = if self.writable { acquire_writer_lock(&line, name) } else { Ok(None) };
        let claim = match claim {
            Ok(claim) => claim,
            Err(error) => {
                line.release();
                return Err(error);
            }
        };
        let info = if self.writable { self.info.clone() } else { info_of_reader(&self.info) };
        match file::OpenOptions::from(mode).hints(&info).open(comm, name) {
            Ok(file) => Ok(self.opened(line, name, file, claim)),
            Err(error) => {
                line.release();
                Err(error)
            }
        }
    }

    fn opened(&self, comm: PooledComm, path: &OsStr, file: File, claim: Option<WriterLock>) -> FormatFile {
        let (name, talked) = (file.name().into(), comm.traffic());
        FormatFile {
            name,
            comm,
            traffic_at_open: talked,
            file,
            path: path.to_owned(),
            info: self.info.clone(),
            counters_before: Counters::default(),
            writable: self.writable,
            writer_lock: claim,
            durable: self.durable,
        }
    }
}

/// The hints of a file that is only read: neither the program nor the site need say how much is read ahead.
fn info_of_reader(info: &Info) -> Info {
    let (key, size) = PREFETCH;
    let mut info = info.clone();
    if info.get(key).is_none() && Info::from_env().get(key).is_none() {
        info.set(key, size);
    }
    info
}

/// Deletes a file that is to be replaced, unless somebody writes it.
fn delete_replaced(name: &OsStr) -> file::Result<()> {
    match file::claim(name) {
        Err(error) if error.kind() == file::Kind::InUse => Err(error),
        // What else keeps it from being claimed keeps it from being deleted, or does not matter.
        _ => file::discard(name),
    }
}

/// Claims a file that is to be written, on rank 0 for all. Collective.
fn acquire_writer_lock(line: &Comm, name: &OsStr) -> Result<Option<WriterLock>> {
    let mine = match (line.rank() == 0).then(|| file::claim(name)) {
        Some(Err(error)) if error.kind() == file::Kind::InUse => Err(error),
        // Other errors are reported by opening it.
        mine => Ok(mine.and_then(file::Result::ok).flatten()),
    };
    agree(line, "open", &name.to_string_lossy(), mine)
}

/// Talk for the file alone.
fn acquire_comm(operation: &'static str, comm: &Comm, name: &OsStr) -> Result<PooledComm> {
    PooledComm::acquire(comm).map_err(|error| Error::from_comm(operation, name.to_string_lossy(), &error))
}

fn open_error(error: &file::Error, shown: &str) -> Error {
    if error.kind() != file::Kind::FileExists {
        return error.clone();
    }
    let detail = "the file exists (exclusive create); create it with the option `replace`, or open it";
    Error::new(Kind::FileExists, "create", shown, detail)
}

impl FormatFile {
    /// Whether this is the rank that writes what one rank writes for all.
    pub(crate) fn is_root(&self) -> bool {
        self.comm.rank() == 0
    }

    /// Counters of this rank since the file was opened.
    pub(crate) fn counters(&self) -> Counters {
        let (mut counters, traffic) = (self.counters_before + self.file.counters(), self.comm.traffic());
        counters.messages += traffic.messages - self.traffic_at_open.messages;
        counters.sent += traffic.bytes - self.traffic_at_open.bytes;
        counters
    }

    /// Opens the file on this rank alone, for a look at what another program has written since it was opened.
    pub(crate) fn open_alone(&self) -> Result<File> {
        let options = file::OpenOptions::from(Mode::read_only()).hints(&self.info);
        options.open(&self.comm.comm_self(), &self.path)
    }

    /// Opens a file that is only read again, so that a file system with close-to-open consistency shows what was written before. Collective.
    pub(crate) fn reopen(&mut self) -> Result<()> {
        let options = file::OpenOptions::from(Mode::read_only()).hints(&info_of_reader(&self.info));
        let file = options.open(&self.comm, &self.path)?;
        self.counters_before = self.counters_before + self.file.counters();
        std::mem::replace(&mut self.file, file).close()
    }

    /// Lets the file go, and leaves its talk to the next one. Collective.
    pub(crate) fn close(self) -> Result<()> {
        // Before the ranks meet: after that any of them may open it again.
        drop(self.writer_lock);
        self.file.close()?;
        self.comm.release();
        Ok(())
    }

    /// Makes what was written durable, if that is wanted. Collective.
    pub(crate) fn sync(&self) -> Result<()> {
        if self.durable { Ok(self.file.sync()?) } else { Ok(()) }
    }

    pub(crate) fn error(&self, kind: Kind, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::new(kind, operation, &self.name, detail)
    }

    pub(crate) fn agree<T>(&self, operation: &'static str, mine: Result<T>) -> Result<T> {
        agree(&self.comm, operation, &self.name, mine)
    }

    /// An outcome agreed, with the greatest of each of the ranks' numbers.
    pub(crate) fn agree_with_max<T, const N: usize>(
        &self,
        operation: &'static str,
        mine: Result<T>,
        numbers: [u64; N],
    ) -> Result<(T, [u64; N])> {
        agree_with_max(&self.comm, operation, &self.name, mine, numbers)
    }

    /// As [`agree_with_max`](Self::agree_with_max); an error if `value` differs between ranks.
    pub(crate) fn agree_same<T, const N: usize>(
        &self,
        operation: &'static str,
        mine: Result<T>,
        what: &str,
        value: Option<u64>,
        numbers: [u64; N],
    ) -> Result<(T, [u64; N])> {
        agree_same(&self.comm, operation, &self.name, mine, what, value, numbers)
    }

    pub(crate) fn may_write(&self, operation: &'static str) -> Result<()> {
        if self.writable {
            return Ok(());
        }
        let detail = "the file was opened for reading only; open it with the option `writable`";
        Err(self.error(Kind::ReadOnly, operation, detail))
    }

    /// The error of a read beyond the end of the file.
    pub(crate) fn truncated_error(&self, wanted: u64, count: u64, why: &str) -> Error {
        let length = self.file.size().unwrap_or(0);
        let missing = wanted.saturating_sub(count);
        let detail = format!(
            "the file ends at byte {length}, {missing} of {wanted} bytes are beyond its end: it is cut off{why}"
        );
        self.error(Kind::Damaged, "read", detail)
    }
}
