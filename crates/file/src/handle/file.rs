//! A file handle: its pointers, its size, sync and close. Its views are in `file_view`, its access methods in [`access`](crate::access).

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::agreement::{self, agree_same, hash_of};
use aqueduct_comm::{Comm, Op};
use aqueduct_device::{LockKind, LockScope};
use aqueduct_report::is_enabled;

use super::open_options::{self, OpenOptions};
use super::prefetched_read::{ReadKind, prefetcher_for};
use super::prefetcher::Prefetcher;
use crate::context::counters::Counters;
use crate::context::mode::Mode;
use crate::context::report::CounterReport;
use crate::context::{AccessScope, FileContext};
use crate::engine::{FileResources, OpenFile};
use crate::error::{Error, Kind, Result};
use crate::hints::Info;
use crate::trace::{self, CallPhase, TracedOperation};
use crate::view::View;
use crate::write_behind::BackgroundQueue;
use crate::write_buffer::DrainThread;

/// Where a seek counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start of the view.
    #[doc(alias = "MPI_SEEK_SET")]
    Start,
    /// Where the pointer is.
    #[doc(alias = "MPI_SEEK_CUR")]
    Current,
    /// The end of the file, seen through the view.
    #[doc(alias = "MPI_SEEK_END")]
    End,
}

/// A file that all ranks of a communicator have open.
///
/// Made by [`File::create`], [`File::open`] or [`OpenOptions`]. Its methods say whether they are
/// *collective*: called by all ranks, in the same order. Dropping it without [`close`](File::close)
/// finishes the operations of this rank and closes its handle; the file is then not deleted on
/// close.
#[doc(alias = "MPI_File")]
pub struct File {
    pub(crate) engine: Arc<OpenFile>,
    path: OsString,
    state: Mutex<ViewState>,
    pub(crate) independent_thread: BackgroundQueue,
    pub(crate) collective_thread: BackgroundQueue,
    pub(crate) split: Arc<AtomicBool>,
    /// Reads ahead, if the file is opened for that.
    pub(super) prefetcher: Option<Box<Mutex<Prefetcher<ReadKind>>>>,
    /// Dropped last: the threads above write to its buffer.
    pub(crate) drain_thread: Option<DrainThread>,
}

/// The view and the individual file pointer.
pub(super) struct ViewState {
    pub(super) view: Arc<View>,
    /// The individual file pointer, in etypes.
    pub(super) pointer: u64,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, mode) = (&self.cx().name, self.cx().mode);
        f.debug_struct("File").field("name", name).field("mode", &mode).finish_non_exhaustive()
    }
}

impl File {
    /// Opens a file for reading. Collective.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_file::File;
    /// # Launch::threads(2).run(|world| {
    /// let file = File::create(world, "memfs:steps")?;
    /// file.at(8 * world.rank() as u64).all().write(&[1.5])?;
    /// file.close()?;
    ///
    /// let file = File::open(world, "memfs:steps")?;
    /// let mut all = vec![0.0; world.size()];
    /// file.at(0).all().read(&mut all)?;
    /// assert_eq!(all, [1.5, 1.5]);
    /// file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    #[doc(alias = "MPI_File_open")]
    pub fn open(comm: &Comm, path: impl AsRef<OsStr>) -> Result<Self> {
        OpenOptions::new().read(true).open(comm, path)
    }

    /// Creates a file, or cuts an existing one to length 0, and opens it for reading and writing. Collective.
    ///
    /// [`std::fs::File::create`] opens for writing only. Here reading is allowed too: data sieving reads before it writes, and programs verify
    /// their data. To keep the contents of an existing file, or to refuse it, use [`OpenOptions`].
    pub fn create(comm: &Comm, path: impl AsRef<OsStr>) -> Result<Self> {
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(comm, path)
    }

    /// Options for opening a file: [`OpenOptions::new`].
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// With its individual pointer at `start`.
    pub(crate) fn new(open_file: Arc<OpenFile>, path: OsString, start: u64) -> Self {
        let state = ViewState { view: Arc::new(View::default()), pointer: start };
        open_file.set_plain_view(&state.view);
        Self {
            prefetcher: prefetcher_for(&open_file.context),
            engine: open_file,
            path,
            state: Mutex::new(state),
            independent_thread: BackgroundQueue::new("aqueduct i/o"),
            collective_thread: BackgroundQueue::new("aqueduct i/o"),
            split: Arc::default(),
            drain_thread: None,
        }
    }

    pub(crate) fn cx(&self) -> &FileContext {
        &self.engine.context
    }

    /// Closes the file, after all operations on it are done. Collective: when it returns, no rank has the file open. An error that
    /// closing reports on any rank (a quota, a full disk or a failed medium, which some file systems report only then) fails on all ranks.
    #[doc(alias = "MPI_File_close")]
    pub fn close(self) -> Result<()> {
        self.wait_idle();
        let trace = self.cx().trace.clone();
        let call = trace.as_ref().and_then(|trace| trace.start(TracedOperation::Close, true));
        let written = self.finish_buffer();
        let (open_file, path) = (Arc::clone(&self.engine), self.path.clone());
        drop(self);
        let cx = &open_file.context;
        let (name, delete, mut words) =
            (Arc::clone(&cx.name), cx.mode.is_delete_on_close(), cx.read_counters().words());
        let failed = |error: aqueduct_comm::Error| Error::from_comm("close", &name, &error);
        let comm = cx.comm.clone();
        // Devices do not delete open files: every rank closes its handle before any continues.
        let (resources, closed) = Arc::into_inner(open_file).map_or((None, Ok(())), OpenFile::into_resources);
        let outcome = written.and(closed);
        words.push(u64::from(outcome.is_err()));
        let phase = trace::enter(CallPhase::Wait);
        let all = comm.allreduce(Op::Sum, &words).map_err(failed)?;
        drop(phase);
        call.iter().for_each(|call| call.finish(0));
        drop(call);
        trace.iter().for_each(|trace| trace.flush());
        let failures = all.last().copied().unwrap_or(0);
        let agree = |outcome| agreement::agree(&comm, "close", &name, outcome);
        let outcome = if failures > 0 { agree(outcome) } else { outcome };
        if is_enabled() && comm.rank() == 0 {
            CounterReport { ranks: comm.size(), all: Counters::from_words(&all) }.emit(&name);
        }
        if delete {
            let deleted = if comm.rank() == 0 { open_options::delete(&path) } else { Ok(()) };
            agree(deleted)?;
        }
        resources.into_iter().for_each(FileResources::release);
        outcome
    }

    /// The ranks that have it open: the communicator it was opened on.
    #[doc(alias = "MPI_File_get_group")]
    pub fn comm(&self) -> &Comm {
        self.cx().comm.parent()
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.cx().name
    }

    /// The mode it was opened in.
    #[doc(alias = "MPI_File_get_amode")]
    pub fn mode(&self) -> Mode {
        self.cx().mode
    }

    /// Whether what was synced outlives the process and a restart of the machine. Where it does not (`memfs:`, tmpfs), nothing is durable,
    /// although [`sync`](File::sync) succeeds. Agreed when the file was opened: the same on all ranks.
    pub fn is_persistent(&self) -> bool {
        self.cx().persistent
    }

    /// What this rank has done to the file since it was opened.
    pub fn counters(&self) -> Counters {
        self.cx().read_counters()
    }

    /// The hints in force.
    #[doc(alias = "MPI_File_get_info")]
    pub fn info(&self) -> Info {
        self.cx().hints().info()
    }

    /// The length in bytes.
    #[doc(alias = "MPI_File_get_size")]
    pub fn size(&self) -> Result<u64> {
        self.engine.length()
    }

    /// Cuts or extends the file to `size` bytes. Collective, with the same size on all ranks.
    #[doc(alias = "MPI_File_set_size")]
    pub fn set_size(&self, size: u64) -> Result<()> {
        self.resize("set_size", size, |cx| cx.device_result("set_size", cx.handle.set_len(size)))
    }

    /// Reserves space for the first `size` bytes; the file is at least that long afterwards. Collective, with the same size on all
    /// ranks.
    #[doc(alias = "MPI_File_preallocate")]
    pub fn preallocate(&self, size: u64) -> Result<()> {
        self.resize("preallocate", size, |cx| cx.device_result("preallocate", cx.handle.preallocate(size)))
    }

    fn resize(
        &self,
        operation: &'static str,
        size: u64,
        work: impl FnOnce(&FileContext) -> Result<()>,
    ) -> Result<()> {
        let call = self.cx().start_call(TracedOperation::Resize, AccessScope::Collective);
        let outcome = self.resize_untraced(operation, size, work);
        call.iter().filter(|_| outcome.is_ok()).for_each(|call| call.finish(0));
        outcome
    }

    /// Truncates the file as a part of opening it. Collective.
    pub(crate) fn truncate_on_open(&self) -> Result<()> {
        self.resize_untraced("open", 0, |cx| cx.device_result("open", cx.handle.set_len(0)))
    }

    fn resize_untraced(
        &self,
        operation: &'static str,
        size: u64,
        work: impl FnOnce(&FileContext) -> Result<()>,
    ) -> Result<()> {
        self.wait_idle();
        let allowed = self.cx().check_not_poisoned(operation).and_then(|()| self.check_writable(operation));
        // All buffered writes are in the file before it changes its size.
        let allowed = allowed.and_then(|()| self.engine.flush());
        self.agree_same(operation, allowed, "size", size)?;
        // Truncated parts are extended again, and have no pages any more.
        self.engine.independent.forget_pages(size);
        let outcome = if self.cx().comm.rank() == 0 { work(self.cx()) } else { Ok(()) };
        self.cx().agree(operation, outcome)
    }

    /// Makes everything that all ranks have written durable, and visible to all that open the file. Collective.
    #[doc(alias = "MPI_File_sync")]
    pub fn sync(&self) -> Result<()> {
        // The wait for operations in progress and for the other ranks is a part of the call.
        let call = self.cx().start_call(TracedOperation::Sync, AccessScope::Collective);
        self.wait_idle();
        let outcome = self.cx().check_not_poisoned("sync").and_then(|()| self.engine.make_durable("sync"));
        let outcome = self.cx().agree("sync", outcome).inspect_err(|_| self.cx().poison());
        call.iter().filter(|_| outcome.is_ok()).for_each(|call| call.finish(0));
        outcome
    }

    /// For layers that combine a sync with collective calls of their own. Waits until the writes of this rank have reached the device, and fails if a sync
    /// has failed before. True if a [sync of one rank](Self::sync_alone) then makes durable what all ranks have written, once all have called this:
    /// they have the file in one machine's page cache. Not collective.
    pub fn finish_writes(&self) -> Result<bool> {
        self.wait_idle();
        self.cx().check_not_poisoned("sync")?;
        Ok(self.cx().one_page_cache && self.engine.buffer_status().is_none())
    }

    /// Makes durable what this rank has written, and what all have if [`finish_writes`](Self::finish_writes) says so. Not collective.
    pub fn sync_alone(&self) -> Result<()> {
        let call = self.cx().start_call(TracedOperation::Sync, AccessScope::Independent);
        self.wait_idle();
        let outcome = self.cx().check_not_poisoned("sync").and_then(|()| self.engine.make_durable("sync"));
        call.iter().filter(|_| outcome.is_ok()).for_each(|call| call.finish(0));
        outcome.inspect_err(|_| self.cx().poison())
    }

    /// Moves the individual pointer; where it then is.
    #[doc(alias = "MPI_File_seek")]
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<u64> {
        self.check_not_sequential("seek")?;
        let mut state = self.view_state();
        let to = self.seek_target("seek", &state.view, offset, whence, state.pointer)?;
        state.pointer = to;
        Ok(to)
    }

    /// Where the individual pointer is, in etypes.
    #[doc(alias = "MPI_File_get_position")]
    pub fn position(&self) -> Result<u64> {
        self.check_not_sequential("position")?;
        Ok(self.view_state().pointer)
    }

    /// Moves the shared pointer; where it then is. Collective, with the same arguments on all ranks.
    #[doc(alias = "MPI_File_seek_shared")]
    pub fn seek_shared(&self, offset: i64, whence: Whence) -> Result<u64> {
        self.wait_idle();
        let view = self.view();
        let allowed = self.check_not_sequential("seek_shared");
        let allowed = allowed.and_then(|()| if whence == Whence::End { self.engine.flush() } else { Ok(()) });
        let target = hash_of(&(offset, whence as u8));
        self.agree_same("seek_shared", allowed, "target of the seek", target)?;
        let here = self.engine.shared_pointer.advance_ordered(self.cx(), "seek_shared", 0)?;
        let to = self.seek_target("seek_shared", &view, offset, whence, here);
        let to = self.cx().agree("seek_shared", to)?;
        if self.cx().comm.rank() == 0 {
            self.cx().comm_result("seek_shared", self.engine.shared_pointer.set(to))?;
        }
        self.cx().comm_result("seek_shared", self.cx().comm.barrier())?;
        Ok(to)
    }

    /// Where the shared pointer is, in etypes.
    #[doc(alias = "MPI_File_get_position_shared")]
    pub fn position_shared(&self) -> Result<u64> {
        self.engine.shared_pointer.advance(self.cx(), "position_shared", 0)
    }

    /// Takes `etypes` from the shared pointer without accessing the file; where they begin.
    pub fn reserve_shared(&self, etypes: u64) -> Result<u64> {
        self.engine.shared_pointer.advance(self.cx(), "reserve_shared", etypes)
    }

    /// Takes each rank's `etypes` from the shared pointer in rank order, without accessing the file; where this rank's begin. Collective.
    pub fn reserve_ordered(&self, etypes: u64) -> Result<u64> {
        self.wait_idle();
        self.engine.shared_pointer.advance_ordered(self.cx(), "reserve_ordered", etypes)
    }

    fn seek_target(
        &self,
        call: &'static str,
        view: &View,
        offset: i64,
        whence: Whence,
        here: u64,
    ) -> Result<u64> {
        let base = match whence {
            Whence::Start => 0,
            Whence::Current => here,
            Whence::End => view.etypes_before(self.size()?),
        };
        let refuse = || {
            let detail = format!("etype {base} {offset:+} lies before the start of the view");
            self.cx().error(Kind::BadArgument, call, detail)
        };
        base.checked_add_signed(offset).ok_or_else(refuse)
    }

    /// In atomic mode, accesses that conflict look as if one came after the other, and what one rank has written, others
    /// read at once. Collective, with the same value on all ranks.
    #[doc(alias = "MPI_File_set_atomicity")]
    pub fn set_atomic(&self, atomic: bool) -> Result<()> {
        self.wait_idle();
        let needed = if self.cx().comm.is_one_process() { LockScope::Process } else { LockScope::System };
        let able = if atomic && self.cx().comm.size() > 1 && self.cx().capabilities.locks < needed {
            let detail = "this device has no locks that reach all ranks; put the file on ufs:";
            Err(self.cx().error(Kind::Unsupported, "set_atomic", detail))
        } else {
            self.engine.flush()
        };
        self.agree_same("set_atomic", able, "atomic mode", u64::from(atomic))?;
        if atomic && self.cx().comm.node_count() > 1 && self.cx().mode.is_write() {
            self.probe_locks()?;
        }
        self.cx().set_atomic(atomic);
        self.engine.set_plain_view(&self.view());
        Ok(())
    }

    /// Makes sure that locks reach all nodes: rank 0 locks a byte at the maximum file size, and the first rank of each other node must not get
    /// that lock.
    /// Collective.
    fn probe_locks(&self) -> Result<()> {
        const PROBE: Range<u64> = i64::MAX as u64 - 2..i64::MAX as u64 - 1;
        let (cx, comm) = (self.cx(), &self.cx().comm);
        let held =
            if comm.rank() == 0 { cx.lock("set_atomic", PROBE, LockKind::Exclusive) } else { Ok(None) };
        let _held = cx.agree("set_atomic", held)?;
        let node = comm.node_of(comm.rank());
        let tries = node != comm.node_of(0) && comm.ranks_of_node(node).first() == Some(&comm.rank());
        let got = if tries { cx.handle.try_lock(PROBE, LockKind::Exclusive) } else { Ok(None) };
        let outcome = match got {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                let detail = "locks of this node do not reach other nodes; mount the file system with locks that do \
                              (not -o nolock, -o local_lock or -o localflock), or do without atomic mode";
                Err(cx.error(Kind::Unsupported, "set_atomic", detail))
            }
            // A device without this query has the locks that its capabilities say.
            Err(error) if error.kind() == aqueduct_device::Kind::Unsupported => Ok(()),
            Err(error) => cx.device_result("set_atomic", Err(error)),
        };
        cx.agree("set_atomic", outcome)
    }

    /// Whether the file is in atomic mode.
    #[doc(alias = "MPI_File_get_atomicity")]
    pub fn is_atomic(&self) -> bool {
        self.cx().is_atomic()
    }

    /// Takes `etypes` from the individual pointer; where they begin.
    pub(crate) fn take_pointer(&self, etypes: u64) -> Option<u64> {
        let mut state = self.view_state();
        let start = state.pointer;
        state.pointer = start.checked_add(etypes)?;
        Some(start)
    }

    /// Waits until all non-blocking operations of this rank are done.
    pub(crate) fn wait_idle(&self) {
        self.drop_prefetched();
        self.independent_thread.drain();
        self.collective_thread.drain();
    }

    pub(crate) fn check_writable(&self, operation: &'static str) -> Result<()> {
        if self.cx().mode.is_write() {
            return Ok(());
        }
        Err(self.cx().error(Kind::ReadOnly, operation, "the file was opened for reading only"))
    }

    fn check_not_sequential(&self, operation: &'static str) -> Result<()> {
        if !self.cx().mode.is_sequential() {
            return Ok(());
        }
        let detail = "a file opened in sequential mode has only the shared pointer, and that does not seek";
        Err(self.cx().error(Kind::Unsupported, operation, detail))
    }

    /// The agreed outcome of a collective call; an error if `value` differs between ranks.
    fn agree_same(&self, operation: &'static str, mine: Result<()>, what: &str, value: u64) -> Result<()> {
        let cx = self.cx();
        agree_same(&cx.comm, operation, &cx.name, mine, what, Some(value), []).map(|((), [])| ())
    }

    pub(super) fn view_state(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
