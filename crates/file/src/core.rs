//! What an open file is made of: everything that outlives a single access and that I/O threads need too.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use aqueduct_comm::{Comm, Op, Traffic};
use aqueduct_device::{AlignedBuffer, Capabilities, Handle, LockGuard, LockKind, LockScope, Mapping};

use crate::buffer::{Buffer, Reach};
use crate::counters::{Counters, Tally};
use crate::desk::Desk;
use crate::error::{Error, Kind, Result};
use crate::hints::Hints;
use crate::mode::Mode;
use crate::plan::{Direction, Domains, Experience, Strategy};
use crate::repeats::Repeats;
use crate::shared_pointer::SharedPointer;
use crate::staging::Staging;
use crate::streak::Streak;
use crate::transfer::Company;
use crate::two_phase::{Between, Cache};
use crate::view::View;

/// Of fewer bytes a device is not told before they are written: what is reserved for them takes longer to be taken back than is won.
const WORTH_EXPECTING: u64 = 4 << 20;

/// What to do where accesses have to be locked and cannot be.
const NEEDS_LOCKS: &str = "the file system is not known to be coherent between nodes, so each access is locked: mount it with locks (for NFS \
                           start the lock service, or use version 4), or set the hint aqueduct_coherent=true if all nodes see the same bytes";

/// What holds on all ranks of an open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// All ranks have the file in one machine's page cache.
    pub(crate) plain: bool,
    /// What was synced outlives a restart of the machine.
    pub(crate) persistent: bool,
    /// All nodes see the same bytes, or there is only one.
    pub(crate) coherent: bool,
}

/// An open file, without its pointers and view.
pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    /// For the collective operations of this file alone.
    pub(crate) comm: Comm,
    pub(crate) handle: Arc<dyn Handle>,
    pub(crate) can: Capabilities,
    /// What all ranks found when the file was opened.
    pub(crate) persistent: bool,
    pub(crate) mode: Mode,
    pub(crate) atomic: AtomicBool,
    /// Whether a sync has failed: what was written before may be lost, and the device would not say so again.
    poisoned: AtomicBool,
    /// Whether the file's entry in its folder is durable; it stays so.
    pub(crate) entered: AtomicBool,
    pub(crate) shared: SharedPointer,
    /// Where pointers begin: at the end of the file as it was before anyone wrote, in append mode.
    pub(crate) start: u64,
    hints: Mutex<Hints>,
    /// The aggregation buffers, made when they are first needed.
    staging: Mutex<Option<Staging>>,
    /// The same between nodes.
    between: Mutex<Option<Between>>,
    /// The buffer that was sieved through last.
    spare: Mutex<Option<AlignedBuffer>>,
    /// Plans of collective accesses, for others like them.
    plans: Mutex<Cache>,
    /// Whether the views of all ranks show everything, on one machine's page cache: then each works for itself, and nobody has to ask.
    pub(crate) plain: AtomicBool,
    /// What of the file lies in memory, if something does.
    mapped: Mutex<Option<Arc<Mapping>>>,
    /// A place of the file that was found to be no hole.
    pub(crate) solid: AtomicU64,
    /// Up to where the device has heard that this rank writes a file that is new.
    expected: AtomicU64,
    /// As long as this the file is with nobody still extending it.
    pub(crate) settled: AtomicU64,
    /// What accesses have cost so far: those of this rank alone, and those in company, which share the machine with the others'.
    experience: [Mutex<Experience>; 2],
    /// What of the file is accessed again and again, by direction.
    repeats: [Mutex<Repeats>; 2],
    /// Small accesses that follow one another, by direction.
    streaks: [Mutex<Streak>; 2],
    /// What this rank has done.
    pub(crate) tally: Tally,
    /// What had been sent when the file was opened: the talk may have been another file's before.
    traffic: Traffic,
    /// How accesses were done the last time it was told, by company and direction.
    pub(crate) told: Mutex<[[Option<Strategy>; 2]; 2]>,
    /// What is accepted and not yet written, if the file is buffered.
    pub(crate) buffer: OnceLock<Buffer>,
}

impl Core {
    pub(crate) fn new(
        name: Arc<str>,
        desk: Desk,
        handle: Arc<dyn Handle>,
        start: u64,
        agreed: Agreed,
        mode: Mode,
        hints: Hints,
    ) -> Self {
        let Desk { comm, pointer: shared, staging } = desk;
        let mut can = handle.capabilities();
        can.coherent = agreed.coherent;
        can.maps &= agreed.coherent;
        Self {
            plain: AtomicBool::new(agreed.plain),
            persistent: agreed.persistent,
            traffic: comm.traffic(),
            name,
            comm,
            handle,
            can,
            mode,
            atomic: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            entered: AtomicBool::new(false),
            shared,
            start,
            hints: Mutex::new(hints),
            staging: Mutex::new(staging),
            between: Mutex::new(None),
            spare: Mutex::new(None),
            plans: Mutex::default(),
            mapped: Mutex::new(None),
            solid: AtomicU64::new(u64::MAX),
            expected: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            experience: Default::default(),
            repeats: Default::default(),
            streaks: Default::default(),
            tally: Tally::default(),
            told: Mutex::default(),
            buffer: OnceLock::new(),
        }
    }

    /// Tells the device what is about to be written, if that is much, and if the file is new: this rank has written nothing behind what it wrote.
    pub(crate) fn expect(&self, range: &Range<u64>) {
        let new = self.mode.is_create() && self.mode.is_exclusive();
        if new && range.end - range.start >= WORTH_EXPECTING {
            let before = self.expected.fetch_max(range.end, Ordering::Relaxed);
            if range.end > before {
                self.handle.expect(range.start.max(before)..range.end);
            }
        }
    }

    /// The aggregation buffers of a plan: those there are, or new ones. Collective.
    pub(crate) fn staging(&self, domains: &Domains) -> Result<Staging> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let (windows, size) = (domains.aggregators().len(), domains.buffer() as usize);
        if let Some(staging) = staging.as_ref().filter(|staging| staging.fits(windows, size)) {
            return Ok(staging.clone());
        }
        self.tally.buffer(2 * windows * size / self.comm.size());
        let made = self.talk("buffers", Staging::new(&self.comm, 2, windows, size))?;
        Ok(staging.insert(made).clone())
    }

    /// The same for a plan between nodes. Collective.
    pub(crate) fn between(&self, domains: &Domains) -> Result<Between> {
        let mut between = self.between.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(between) = between.as_ref().filter(|between| between.fits(self, domains)) {
            return Ok(between.clone());
        }
        Ok(between.insert(Between::new(self, domains)?).clone())
    }

    /// The buffer that was sieved through last.
    pub(crate) fn spare(&self) -> MutexGuard<'_, Option<AlignedBuffer>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans of collective accesses, for others like them.
    pub(crate) fn plans(&self) -> MutexGuard<'_, Cache> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the handle and lets everything go but what the next file can use.
    pub(crate) fn into_desk(self) -> (Desk, Result<()>) {
        let staging = self.staging.into_inner().unwrap_or_else(PoisonError::into_inner);
        drop(self.mapped);
        let closed = self.handle.close();
        let closed = closed.map_err(|error| Error::device("close", &self.name, &error));
        (Desk { comm: self.comm, pointer: self.shared, staging }, closed)
    }

    /// What this rank has done.
    pub(crate) fn counters(&self) -> Counters {
        let traffic = self.comm.traffic();
        let (messages, sent) = (traffic.messages - self.traffic.messages, traffic.bytes - self.traffic.bytes);
        Counters { messages, sent, ..self.tally.read() }
    }

    /// Whether this rank needs nobody to access what a view shows: it shows everything, and one machine's page cache holds it.
    pub(crate) fn is_plain(&self, view: &View) -> bool {
        self.can.maps && self.comm.node_count() == 1 && view.pattern().is_contiguous()
    }

    pub(crate) fn mapped(&self) -> MutexGuard<'_, Option<Arc<Mapping>>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn repeats(&self, direction: Direction) -> MutexGuard<'_, Repeats> {
        self.repeats[direction as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn streak(&self, direction: Direction) -> MutexGuard<'_, Streak> {
        self.streaks[direction as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn experience(&self, company: Company) -> MutexGuard<'_, Experience> {
        self.experience[company as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Relaxed)
    }

    /// Whether each access is locked: in atomic mode, and between nodes where the file system is not coherent. To lock makes a client of a
    /// network file system look at the server again, to unlock makes it write what was changed, and while a range is locked it writes no
    /// byte beside it back (as ROMIO does on NFS).
    pub(crate) fn locks_accesses(&self) -> bool {
        self.is_atomic() || self.locks_for_coherence()
    }

    pub(crate) fn locks_for_coherence(&self) -> bool {
        !self.can.coherent && self.can.locks == LockScope::System
    }

    /// The buffer that takes writes. Atomic ones are seen by all at once, so that none takes them.
    pub(crate) fn accepting(&self) -> Option<&Buffer> {
        self.buffer.get().filter(|_| !self.is_atomic())
    }

    /// Waits until what is buffered and may lie in these bytes is in the file.
    pub(crate) fn settle(&self, reach: &Reach) -> Result<()> {
        self.buffer.get().map_or(Ok(()), |buffer| buffer.settle(reach))
    }

    /// Waits until everything that this rank has buffered is in the file.
    pub(crate) fn flush(&self) -> Result<()> {
        self.buffer.get().map_or(Ok(()), Buffer::flush)
    }

    pub(crate) fn poison(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
    }

    /// Refuses to go on after a failed sync.
    pub(crate) fn sound(&self, operation: &'static str) -> Result<()> {
        if !self.poisoned.load(Ordering::Relaxed) {
            return Ok(());
        }
        let detail = "a sync of this file has failed, and data written before it may be lost; \
                      close the file, open it anew and write again what matters";
        Err(self.error(Kind::Closed, operation, detail))
    }

    pub(crate) fn error(&self, kind: Kind, operation: &'static str, detail: impl Into<String>) -> Error {
        Error::new(kind, operation, &self.name, detail)
    }

    /// A device's outcome as this layer's.
    pub(crate) fn device<T>(
        &self,
        operation: &'static str,
        outcome: aqueduct_device::Result<T>,
    ) -> Result<T> {
        outcome.map_err(|error| Error::device(operation, &self.name, &error))
    }

    /// The outcome of ranks talking as this layer's.
    pub(crate) fn talk<T>(&self, operation: &'static str, outcome: aqueduct_comm::Result<T>) -> Result<T> {
        outcome.map_err(|error| Error::talk(operation, &self.name, &error))
    }

    /// The shared pointer before it was advanced by so many etypes.
    pub(crate) fn advance_shared(&self, operation: &'static str, by: u64) -> Result<u64> {
        let before = self.talk(operation, self.shared.advance(by))?;
        before.ok_or_else(|| self.nobody_serves(operation))
    }

    /// Where this rank's `etypes` lie if all ranks take theirs from the shared pointer in rank order. Collective; a rank that cannot take
    /// part takes none.
    pub(crate) fn advance_ordered(&self, operation: &'static str, etypes: u64) -> Result<u64> {
        // Two meetings: other operations that are under way may move the pointer at any moment, so that only one step may read and move it.
        let counts = self.talk(operation, self.comm.allgather(&[etypes]))?;
        let mut start = [0, 0];
        if self.comm.rank() == 0 {
            let total = counts.iter().fold(0u64, |total, count| total.wrapping_add(*count));
            start = self.shared.advance_for_all(total).map_or([0, 1], |start| [start, 0]);
        }
        self.talk(operation, self.comm.broadcast(0, &mut start))?;
        if start[1] != 0 {
            let detail = "rank 0, which keeps the shared pointer, cannot reach it";
            return Err(self.error(Kind::Communication, operation, detail));
        }
        Ok(counts[..self.comm.rank()].iter().fold(start[0], |at, count| at.wrapping_add(*count)))
    }

    pub(crate) fn nobody_serves(&self, operation: &'static str) -> Error {
        let detail = "between nodes the shared pointer needs a thread on rank 0 that may call MPI, or a window of MPI's over all \
                      processes of its communicator; ask for thread level multiple, for more threads where they are limited, \
                      or open the file on all processes";
        self.error(Kind::Unsupported, operation, detail)
    }

    /// Locks a range of the file against other ranks.
    pub(crate) fn lock(
        &self,
        operation: &'static str,
        range: Range<u64>,
        kind: LockKind,
    ) -> Result<Option<Box<dyn LockGuard + '_>>> {
        if range.is_empty() {
            return Ok(None);
        }
        self.tally.locks.add(1);
        let for_coherence = self.locks_for_coherence();
        let guard = self.handle.lock(range.clone(), kind).map_err(|error| match error.kind() {
            aqueduct_device::Kind::ResourceLimit | aqueduct_device::Kind::Unsupported if for_coherence => {
                error.advise(NEEDS_LOCKS)
            }
            _ => error,
        });
        let guard = self.device(operation, guard)?;
        if for_coherence {
            self.device(operation, self.handle.revalidate(range))?;
        }
        Ok(Some(guard))
    }

    /// The length of the file, whatever this node has cached of it.
    pub(crate) fn len(&self, operation: &'static str) -> Result<u64> {
        if !self.can.coherent {
            self.device(operation, self.handle.revalidate(0..0))?;
        }
        self.device(operation, self.handle.len())
    }

    /// The outcome of a collective operation, agreed; see [`agree`].
    pub(crate) fn agree<T>(&self, operation: &'static str, mine: Result<T>) -> Result<T> {
        agree(&self.comm, operation, &self.name, mine)
    }
}

/// The outcome of a collective operation, agreed: if any rank failed, every rank fails with the error of the lowest rank that did; a
/// rank whose own error has the same class keeps its own.
pub(crate) fn agree<T>(comm: &Comm, operation: &'static str, file: &Arc<str>, mine: Result<T>) -> Result<T> {
    let first = comm.allreduce_one(Op::Min, failing_rank(comm, &mine));
    let first = first.map_err(|error| Error::talk(operation, file, &error))?;
    agree_after(comm, operation, file, mine, first)
}

/// As [`agree`], and for each flag whether it is set on all ranks.
pub(crate) fn agree_flags<T, const N: usize>(
    comm: &Comm,
    operation: &'static str,
    file: &Arc<str>,
    mine: Result<T>,
    flags: [bool; N],
) -> Result<(T, [bool; N])> {
    let mut words = vec![failing_rank(comm, &mine)];
    words.extend(flags.map(u64::from));
    let all = comm.allreduce(Op::Min, &words).map_err(|error| Error::talk(operation, file, &error))?;
    let mine = agree_after(comm, operation, file, mine, all[0])?;
    Ok((mine, std::array::from_fn(|flag| all[flag + 1] == 1)))
}

/// This rank if it has failed, else a number above all ranks.
fn failing_rank<T>(comm: &Comm, mine: &Result<T>) -> u64 {
    if mine.is_err() { comm.rank() as u64 } else { comm.size() as u64 }
}

/// Completes an agreement in which `first` is the lowest rank that failed, or the number of ranks if none did.
fn agree_after<T>(
    comm: &Comm,
    operation: &'static str,
    file: &Arc<str>,
    mine: Result<T>,
    first: u64,
) -> Result<T> {
    if first >= comm.size() as u64 {
        return mine;
    }
    let talk = |error: aqueduct_comm::Error| Error::talk(operation, file, &error);
    let told = mine.as_ref().err().map(encode).unwrap_or_default();
    let told = comm.broadcast_vec(first as usize, told).map_err(talk)?;
    let agreed = decode(operation, file, &told).on_rank(first as usize);
    if mine.is_ok() {
        comm.note_loss(Some(first as usize));
    }
    Err(match mine {
        Err(own) if own.class() == agreed.class() => own,
        Err(own) => agreed.after(own.transferred()),
        Ok(_) => agreed,
    })
}

fn encode(error: &Error) -> Vec<u8> {
    let mut bytes = vec![error.kind() as u8];
    bytes.extend_from_slice(error.detail().as_bytes());
    bytes
}

fn decode(operation: &'static str, file: &Arc<str>, told: &[u8]) -> Error {
    let (kind, text) = told.split_first().unwrap_or((&0, &[]));
    Error::new(Kind::from_code(*kind), operation, file, String::from_utf8_lossy(text))
}
