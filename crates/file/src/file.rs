//! An open file: its view, pointers and size; what it does to bytes is in [`access`](crate::access).

use std::ffi::OsString;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aqueduct_comm::{Comm, Op};
use aqueduct_device::{LockKind, LockScope};

use crate::buffer::{Drainer, Reach};
use crate::core::{Core, agree_flags};
use crate::counters::Counters;
use crate::error::{Error, Kind, Result};
use crate::hints::Info;
use crate::layout::Layout;
use crate::mode::Mode;
use crate::open;
use crate::queue::Queue;
use crate::two_phase::Cache;
use crate::verbose;
use crate::view::View;

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
/// Made by [`Open`](crate::Open). Its methods say whether they are *collective*: called by all ranks, in the same order. Dropping it without
/// [`close`](File::close) finishes what is under way on this rank and lets the file go; it is then not deleted on close.
#[doc(alias = "MPI_File")]
pub struct File {
    pub(crate) core: Arc<Core>,
    /// What it was opened on; the file's own talk goes over a copy.
    comm: Comm,
    path: OsString,
    state: Mutex<State>,
    pub(crate) independent: Queue,
    pub(crate) collective: Queue,
    pub(crate) split: Arc<AtomicBool>,
    /// Goes last: the threads above hand over to it.
    pub(crate) drainer: Option<Drainer>,
}

struct State {
    view: Arc<View>,
    /// The individual pointer, in etypes.
    pointer: u64,
}

impl std::fmt::Debug for File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, mode) = (&self.core.name, self.core.mode);
        f.debug_struct("File").field("name", name).field("mode", &mode).finish_non_exhaustive()
    }
}

impl File {
    pub(crate) fn new(core: Arc<Core>, path: OsString, comm: Comm) -> Self {
        let state = State { view: Arc::new(View::default()), pointer: core.start };
        Self {
            core,
            comm,
            path,
            state: Mutex::new(state),
            independent: Queue::default(),
            collective: Queue::default(),
            split: Arc::default(),
            drainer: None,
        }
    }

    /// Closes the file, after everything under way on it is done. Collective: when it returns, no rank has the file open. What closing
    /// reports on any rank (a quota, a full disk or a failed medium, where the file system tells that only then) fails on all ranks.
    #[doc(alias = "MPI_File_close")]
    pub fn close(self) -> Result<()> {
        self.settle();
        let written = self.finish();
        let (core, path, beside) = (Arc::clone(&self.core), self.path.clone(), self.comm.clone());
        drop(self);
        let (name, delete, mut words) =
            (Arc::clone(&core.name), core.mode.is_delete_on_close(), core.counters().words());
        let talk = |error: aqueduct_comm::Error| Error::talk("close", &name, &error);
        let comm = core.comm.clone();
        // Devices refuse to delete what is open: every rank lets go of its handle before any goes on.
        let (desk, closed) = Arc::into_inner(core).map(Core::into_desk).unzip();
        let outcome = written.and(closed.unwrap_or(Ok(())));
        words.push(u64::from(outcome.is_err()));
        let all = comm.allreduce(Op::Sum, &words).map_err(talk)?;
        let failures = all.last().copied().unwrap_or(0);
        let outcome = if failures > 0 { crate::core::agree(&comm, "close", &name, outcome) } else { outcome };
        if verbose::is_on() && comm.rank() == 0 {
            let all = Counters::from_words(&all);
            eprintln!("{}", verbose::Report { file: &name, ranks: comm.size(), all });
        }
        if delete {
            let deleted = if comm.rank() == 0 { open::delete(&path) } else { Ok(()) };
            crate::core::agree(&comm, "close", &name, deleted)?;
        }
        if let Some(desk) = desk {
            desk.leave(&beside);
        }
        outcome
    }

    /// The ranks that have it open: the communicator it was opened on.
    #[doc(alias = "MPI_File_get_group")]
    pub fn comm(&self) -> &Comm {
        &self.comm
    }

    /// The name it was opened by.
    pub fn name(&self) -> &str {
        &self.core.name
    }

    /// The mode it was opened in.
    #[doc(alias = "MPI_File_get_amode")]
    pub fn mode(&self) -> Mode {
        self.core.mode
    }

    /// Whether what was synced outlives the process and a restart of the machine. Where it does not (`memfs:`, tmpfs), nothing is durable,
    /// although [`sync`](File::sync) succeeds. Agreed when the file was opened: the same on all ranks.
    pub fn is_persistent(&self) -> bool {
        self.core.persistent
    }

    /// What this rank has done to the file since it was opened.
    pub fn counters(&self) -> Counters {
        self.core.counters()
    }

    /// The hints in force.
    #[doc(alias = "MPI_File_get_info")]
    pub fn info(&self) -> Info {
        self.core.hints().info()
    }

    /// The length in bytes.
    #[doc(alias = "MPI_File_get_size")]
    pub fn size(&self) -> Result<u64> {
        self.core.settle(&Reach::EVERYTHING)?;
        self.core.len("size")
    }

    /// Cuts or extends the file to `size` bytes. Collective, with the same size on all ranks.
    #[doc(alias = "MPI_File_set_size")]
    pub fn set_size(&self, size: u64) -> Result<()> {
        self.resize("set_size", size, |core| core.device("set_size", core.handle.set_len(size)))
    }

    /// Reserves space for the first `size` bytes; the file is at least that long afterwards. Collective, with the same size on all
    /// ranks.
    #[doc(alias = "MPI_File_preallocate")]
    pub fn preallocate(&self, size: u64) -> Result<()> {
        self.resize("preallocate", size, |core| core.device("preallocate", core.handle.preallocate(size)))
    }

    fn resize(
        &self,
        operation: &'static str,
        size: u64,
        work: impl FnOnce(&Core) -> Result<()>,
    ) -> Result<()> {
        self.settle();
        let same = self.same_on_all(operation, &size.to_ne_bytes());
        let allowed = same.and_then(|()| self.core.sound(operation)).and_then(|()| self.may_write(operation));
        // What all ranks have accepted before is in the file before it changes its size.
        let allowed = allowed.and_then(|()| self.core.flush());
        self.core.agree(operation, allowed)?;
        // What was cut off is extended anew, and has no pages any more.
        self.core.forget_pages(size);
        let outcome = if self.core.comm.rank() == 0 { work(&self.core) } else { Ok(()) };
        self.core.agree(operation, outcome)
    }

    /// Makes everything that all ranks have written durable, and visible to whoever opens the file. Collective.
    #[doc(alias = "MPI_File_sync")]
    pub fn sync(&self) -> Result<()> {
        self.settle();
        let outcome = self.core.sound("sync").and_then(|()| self.durable("sync"));
        self.core.agree("sync", outcome).inspect_err(|_| self.core.poison())
    }

    /// Sets what this rank sees of the file; pointers go to its start. Collective: each rank has its own view, etypes of equal extent, the same
    /// representation.
    #[doc(alias = "MPI_File_set_view")]
    pub fn set_view(&self, view: &View) -> Result<()> {
        self.set_view_and_info(view, &Info::new())
    }

    /// As [`set_view`](File::set_view), and changes hints as [`set_info`](File::set_info) does, if any rank gives some.
    pub fn set_view_and_info(&self, view: &View, info: &Info) -> Result<()> {
        self.settle();
        let key = [view.etype().extent() as u64, digest(view.representation().name())];
        let (same, has_info) = self.compare("set_view", Some(bytemuck::bytes_of(&key)), info.iter().count());
        let allowed = same.and_then(|()| self.check_view(view));
        self.change_view(allowed.map(|()| view))?;
        if has_info { self.adopt_info("set_view", info) } else { Ok(()) }
    }

    /// Changes the view of this rank, if all ranks can. Collective; all have come already.
    fn change_view(&self, view: Result<&View>) -> Result<()> {
        let shared = |to: u64| self.core.talk("set_view", self.core.shared.set(to));
        // Nobody moves the shared pointer any more, and nobody goes on before it is set.
        let before = if self.core.comm.rank() == 0 { shared(0).map(Some) } else { Ok(None) };
        let (before, view) = match before {
            Ok(before) => (before, view),
            Err(error) => (None, Err(error)),
        };
        let plain = view.as_ref().is_ok_and(|view| self.core.is_plain(view));
        match agree_flags(&self.core.comm, "set_view", &self.core.name, view, [plain]) {
            Ok((view, [plain])) => {
                self.core.plain.store(plain, Ordering::Release);
                *self.state() = State { view: Arc::new(view.clone()), pointer: 0 };
                *self.core.plans() = Cache::default();
                Ok(())
            }
            Err(error) => {
                let restored = before.map_or(Ok(0), shared);
                self.core.talk("set_view", self.core.comm.barrier())?;
                restored.and(Err(error))
            }
        }
    }

    /// As [`set_view`](File::set_view), from where the shared pointer is: for sequential files, which cannot seek. Collective.
    #[doc(alias = "MPI_DISPLACEMENT_CURRENT")]
    pub fn set_view_here(&self, etype: &Layout, filetype: &Layout) -> Result<()> {
        self.set_view_here_and_info(etype, filetype, &Info::new())
    }

    /// As [`set_view_here`](File::set_view_here), and changes hints as [`set_info`](File::set_info) does, if any rank gives some.
    pub fn set_view_here_and_info(&self, etype: &Layout, filetype: &Layout, info: &Info) -> Result<()> {
        self.settle();
        let sequential = if self.core.mode.is_sequential() { Ok(()) } else { Err(self.not_sequential()) };
        self.core.agree("set_view_here", sequential)?;
        let here = self.core.advance_ordered("set_view_here", 0)?;
        let start = self.view().byte_offset(here).unwrap_or(u64::MAX);
        let view = self.core.agree("set_view_here", View::new(start, etype, filetype))?;
        self.set_view_and_info(&view, info)
    }

    /// Takes part in [`set_view`](File::set_view) for a rank that has no view to set: all ranks fail. Collective with it.
    pub fn refuse_view(&self, error: Error) -> Result<()> {
        self.settle();
        let _ = self.compare("set_view", None, 0);
        self.change_view(Err(error))
    }

    /// As [`refuse_view`](File::refuse_view), for [`set_view_here`](File::set_view_here).
    pub fn refuse_view_here(&self, error: Error) -> Result<()> {
        self.settle();
        self.core.agree("set_view_here", Err(error))
    }

    fn not_sequential(&self) -> Error {
        let detail =
            "the displacement \"current\" is for files opened in sequential mode; give a displacement";
        self.core.error(Kind::Unsupported, "set_view_here", detail)
    }

    fn check_view(&self, view: &View) -> Result<()> {
        if let Some(objection) = view.objection() {
            return Err(self.core.error(Kind::Conversion, "set_view", objection));
        }
        if self.core.mode.is_write() && !view.is_writable() {
            let detail = "the filetype holds a byte twice, which is for reading only; open the file so";
            return Err(self.core.error(Kind::BadLayout, "set_view", detail));
        }
        Ok(())
    }

    /// What this rank sees of the file.
    #[doc(alias = "MPI_File_get_view")]
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.state().view)
    }

    /// The bytes from one `layout` to the next in this file.
    #[doc(alias = "MPI_File_get_type_extent")]
    pub fn type_extent(&self, layout: &Layout) -> i64 {
        self.view().representation().extent(layout)
    }

    /// The byte of the file at which etype `offset` of the view begins.
    #[doc(alias = "MPI_File_get_byte_offset")]
    pub fn byte_offset(&self, offset: u64) -> Result<u64> {
        let beyond = || {
            let detail = format!("etype {offset} of the view lies behind every file");
            self.core.error(Kind::BadArgument, "byte_offset", detail)
        };
        self.view().byte_offset(offset).ok_or_else(beyond)
    }

    /// Moves the individual pointer; where it then is.
    #[doc(alias = "MPI_File_seek")]
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<u64> {
        self.not_in_sequence("seek")?;
        let mut state = self.state();
        let to = self.target("seek", &state.view, offset, whence, state.pointer)?;
        state.pointer = to;
        Ok(to)
    }

    /// Where the individual pointer is, in etypes.
    #[doc(alias = "MPI_File_get_position")]
    pub fn position(&self) -> Result<u64> {
        self.not_in_sequence("position")?;
        Ok(self.state().pointer)
    }

    /// Moves the shared pointer; where it then is. Collective, with the same arguments on all ranks.
    #[doc(alias = "MPI_File_seek_shared")]
    pub fn seek_shared(&self, offset: i64, whence: Whence) -> Result<u64> {
        self.settle();
        let view = self.view();
        let mut key = offset.to_ne_bytes().to_vec();
        key.push(whence as u8);
        let same = self.same_on_all("seek_shared", &key).and_then(|()| self.not_in_sequence("seek_shared"));
        let same = same.and_then(|()| if whence == Whence::End { self.core.flush() } else { Ok(()) });
        self.core.agree("seek_shared", same)?;
        let here = self.core.advance_ordered("seek_shared", 0)?;
        let to = self.target("seek_shared", &view, offset, whence, here);
        let to = self.core.agree("seek_shared", to)?;
        if self.core.comm.rank() == 0 {
            self.core.talk("seek_shared", self.core.shared.set(to))?;
        }
        self.core.talk("seek_shared", self.core.comm.barrier())?;
        Ok(to)
    }

    /// Where the shared pointer is, in etypes.
    #[doc(alias = "MPI_File_get_position_shared")]
    pub fn position_shared(&self) -> Result<u64> {
        self.core.advance_shared("position_shared", 0)
    }

    /// Takes `etypes` from the shared pointer without accessing the file; where they begin.
    pub fn reserve_shared(&self, etypes: u64) -> Result<u64> {
        self.core.advance_shared("reserve_shared", etypes)
    }

    /// Takes each rank's `etypes` from the shared pointer in rank order, without accessing the file; where this rank's begin. Collective.
    pub fn reserve_ordered(&self, etypes: u64) -> Result<u64> {
        self.settle();
        self.core.advance_ordered("reserve_ordered", etypes)
    }

    fn target(&self, call: &'static str, view: &View, offset: i64, whence: Whence, here: u64) -> Result<u64> {
        let base = match whence {
            Whence::Start => 0,
            Whence::Current => here,
            Whence::End => view.etypes_before(self.size()?),
        };
        let refuse = || {
            let detail = format!("etype {base} {offset:+} lies before the start of the view");
            self.core.error(Kind::BadArgument, call, detail)
        };
        base.checked_add_signed(offset).ok_or_else(refuse)
    }

    /// In atomic mode, accesses that conflict look as if one came after the other, and what one rank has written, others
    /// read at once. Collective, with the same value on all ranks.
    #[doc(alias = "MPI_File_set_atomicity")]
    pub fn set_atomic(&self, atomic: bool) -> Result<()> {
        self.settle();
        let same = self.same_on_all("set_atomic", &[u8::from(atomic)]);
        let needed = if self.core.comm.is_one_process() { LockScope::Process } else { LockScope::System };
        let able = same.and_then(|()| {
            if atomic && self.core.comm.size() > 1 && self.core.can.locks < needed {
                let detail = "this device has no locks that reach all ranks; put the file on ufs:";
                return Err(self.core.error(Kind::Unsupported, "set_atomic", detail));
            }
            Ok(())
        });
        self.core.agree("set_atomic", able.and_then(|()| self.core.flush()))?;
        if atomic && self.core.comm.node_count() > 1 && self.core.mode.is_write() {
            self.probe_locks()?;
        }
        self.core.atomic.store(atomic, Ordering::Relaxed);
        Ok(())
    }

    /// Makes sure that locks reach all nodes: rank 0 holds a byte behind every file, and the first rank of each other node must not get it.
    /// Collective.
    fn probe_locks(&self) -> Result<()> {
        const PROBE: Range<u64> = i64::MAX as u64 - 2..i64::MAX as u64 - 1;
        let (core, comm) = (&self.core, &self.core.comm);
        let held =
            if comm.rank() == 0 { core.lock("set_atomic", PROBE, LockKind::Exclusive) } else { Ok(None) };
        let _held = core.agree("set_atomic", held)?;
        let node = comm.node_of(comm.rank());
        let tries = node != comm.node_of(0) && comm.ranks_of_node(node).first() == Some(&comm.rank());
        let got = if tries { core.handle.try_lock(PROBE, LockKind::Exclusive) } else { Ok(None) };
        let outcome = match got {
            Ok(None) => Ok(()),
            Ok(Some(_)) => {
                let detail = "locks of this node do not reach other nodes; mount the file system with locks that do \
                              (not -o nolock, -o local_lock or -o localflock), or do without atomic mode";
                Err(core.error(Kind::Unsupported, "set_atomic", detail))
            }
            // A device that cannot be asked is taken at its word.
            Err(error) if error.kind() == aqueduct_device::Kind::Unsupported => Ok(()),
            Err(error) => core.device("set_atomic", Err(error)),
        };
        core.agree("set_atomic", outcome)
    }

    /// Whether the file is in atomic mode.
    #[doc(alias = "MPI_File_get_atomicity")]
    pub fn is_atomic(&self) -> bool {
        self.core.is_atomic()
    }

    /// Takes `etypes` from the individual pointer; where they begin.
    pub(crate) fn take_pointer(&self, etypes: u64) -> Option<u64> {
        let mut state = self.state();
        let start = state.pointer;
        state.pointer = start.checked_add(etypes)?;
        Some(start)
    }

    /// Waits until everything under way on this rank is done.
    pub(crate) fn settle(&self) {
        self.independent.drain();
        self.collective.drain();
    }

    pub(crate) fn may_write(&self, operation: &'static str) -> Result<()> {
        if self.core.mode.is_write() {
            return Ok(());
        }
        Err(self.core.error(Kind::ReadOnly, operation, "the file was opened for reading only"))
    }

    fn not_in_sequence(&self, operation: &'static str) -> Result<()> {
        if !self.core.mode.is_sequential() {
            return Ok(());
        }
        let detail = "a file opened in sequential mode has only the shared pointer, and that does not seek";
        Err(self.core.error(Kind::Unsupported, operation, detail))
    }

    /// Fails on ranks whose value differs from that of rank 0. Collective.
    fn same_on_all(&self, operation: &'static str, value: &[u8]) -> Result<()> {
        self.compare(operation, Some(value), 0).0
    }

    /// Whether all ranks that give a value give the same, and whether any rank gives hints. Nobody goes on before all have come.
    fn compare(&self, operation: &'static str, value: Option<&[u8]>, hints: usize) -> (Result<()>, bool) {
        let least_and_most = value.map_or([u64::MAX, 0], |value| [digest(value); 2]);
        let words = [least_and_most, [0, hints as u64]];
        let all = self.core.comm.allreduce_with(&words, |[least, most], [other_least, other_most]| {
            *least = (*least).min(*other_least);
            *most = (*most).max(*other_most);
        });
        let words = match self.core.talk(operation, all) {
            Ok(words) => words,
            Err(error) => return (Err(error), false),
        };
        let ([least, most], has_hints) = (words[0], words[1][1] > 0);
        if least >= most {
            return (Ok(()), has_hints);
        }
        let detail = "the ranks gave different arguments; give the same on all ranks";
        (Err(self.core.error(Kind::NotSame, operation, detail)), has_hints)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest(value: &(impl std::hash::Hash + ?Sized)) -> u64 {
    use std::hash::{DefaultHasher, Hasher};
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
