//! One process's end of the MPI transport.
//!
//! `unsafe` here: a blocking send lends its caller's buffer to MPI and waits until MPI is done with it.
#![allow(unsafe_code)]

mod closing;

use std::collections::HashMap;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

use super::ThreadLevel;
use super::abi::{Abi, Flavour};
use super::functions::Functions;
use super::handover::{HandedCall, Handover, PassedCall};
use super::host::is_in_the_background;
use super::traffic::Traffic;
use super::window::Window;
use crate::background::{self, is_handing_over};
use crate::block::{Block, MemfdTicket};
use crate::counter::Places;
use crate::hub;
use crate::mailbox::Mailbox;
use crate::packet::{Body, Header};
use crate::rendezvous::Nap;
use crate::run_end::RunEnd;
use crate::wire::{Change, Ticket, Wire};
use crate::{Error, Kind, Result};

/// So many fruitless looks only yield; then sleeps grow from the first to the second length.
const YIELDS: u32 = 16;
const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_micros(500);

/// Tells the number of a send that was handed over from that of one passed to MPI directly.
const HANDED: u64 = 1 << 63;

/// Whose program this is: who decides which threads call MPI.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ruler {
    /// The program was started by [`run`](crate::run).
    Us,
    /// A host program calls us, from threads that it lets call MPI; ours are not among them.
    Host,
}

pub(crate) struct MpiWire<A: Abi> {
    mpi: Arc<Functions<A>>,
    level: ThreadLevel,
    ruler: Ruler,
    /// The thread that may call MPI at the lower levels.
    main: ThreadId,
    rank: usize,
    size: usize,
    comm: A::Handle,
    mailbox: Mailbox,
    traffic: Mutex<Traffic<A>>,
    /// What background threads may not pass to MPI themselves.
    handover: Handover,
    /// Where counters lie, once the first is made; none if MPI could not make it.
    window: OnceLock<Option<Window<A>>>,
    /// Descriptors of blocks that others still attach to.
    offers: Mutex<HashMap<i32, OwnedFd>>,
    /// Looks since something last moved.
    quiet: AtomicU32,
    /// The hubs that this rank belongs to.
    watched: Mutex<Vec<Weak<Block>>>,
    /// The others know that this rank sends nothing more.
    left: AtomicBool,
    /// Whether this rank knows of one that is gone.
    lost: AtomicBool,
    run_end: RunEnd,
    /// MPI is gone: handles that outlive it must not call it.
    closed: AtomicBool,
    /// What MPI said when it failed.
    broken: OnceLock<String>,
}

impl<A: Abi> MpiWire<A> {
    /// A wire over a copy of `comm`. Collective in MPI's sense.
    pub(crate) fn new(
        mpi: Arc<Functions<A>>,
        level: ThreadLevel,
        comm: A::Handle,
        ruler: Ruler,
    ) -> Result<Self> {
        let comm = mpi.duplicate(comm)?;
        let (rank, size) = mpi.rank_and_size(comm)?;
        Ok(Self {
            level,
            ruler,
            main: thread::current().id(),
            rank,
            size,
            comm,
            mailbox: Mailbox::default(),
            traffic: Mutex::new(Traffic::new(comm)),
            handover: Handover::default(),
            window: OnceLock::new(),
            offers: Mutex::default(),
            quiet: AtomicU32::new(0),
            watched: Mutex::default(),
            left: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            run_end: RunEnd::default(),
            closed: AtomicBool::new(false),
            broken: OnceLock::new(),
            mpi,
        })
    }

    /// Ends the whole job, with a message.
    pub(crate) fn abort(&self, message: &str) {
        // In one piece: other ranks may be writing, too.
        let _ = std::io::stderr().write_all(format!("aqueduct: {message}\n").as_bytes());
        self.mpi.abort(self.comm, 1);
    }

    /// This thread may call MPI.
    fn may_call(&self) -> bool {
        let thread = match self.ruler {
            Ruler::Us => self.level >= ThreadLevel::Serialized || thread::current().id() == self.main,
            Ruler::Host => self.level >= ThreadLevel::Multiple || !is_in_the_background(),
        };
        thread && !self.closed.load(Ordering::Relaxed)
    }

    fn check_call(&self, call: &'static str) -> Result<()> {
        if self.may_call() {
            return Ok(());
        }
        if self.closed.load(Ordering::Relaxed) {
            return Err(Error::new(
                Kind::Mpi,
                call,
                "the program has ended: `run` has returned and MPI with it",
            ));
        }
        let detail = format!(
            "MPI granted thread level {:?}: only the thread that started the program may do this; \
             ask the MPI library for a higher level, or communicate from that thread",
            self.level
        );
        Err(Error::new(Kind::ThreadLevel, call, detail))
    }

    /// Passes on what background threads have handed over, and moves what can be moved; whether anything did.
    fn advance(&self) -> Result<bool> {
        if !self.may_call() {
            return Ok(false);
        }
        let Some(mut traffic) = self.traffic_from_inside() else { return Ok(false) };
        // MPI may have ended while this thread waited for the others.
        if self.closed.load(Ordering::SeqCst) {
            return Ok(false);
        }
        let passed = self.handover.pass_on(|call| self.pass(&mut traffic, call))?;
        let moved = traffic.advance(&self.mpi, &self.mailbox)? || passed;
        drop(traffic);
        let _ = self.quiet.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |quiet| {
            Some(if moved { 0 } else { quiet.saturating_add(1) })
        });
        Ok(moved)
    }

    /// Passes a call of a background thread to MPI.
    fn pass(&self, traffic: &mut Traffic<A>, call: HandedCall) -> Result<PassedCall> {
        match call {
            HandedCall::Send { to, header, body } => {
                traffic.post(&self.mpi, to, header, body).map(|_| PassedCall::Sent)
            }
            HandedCall::Count { place, change } => {
                let Some(Some(window)) = self.window.get() else {
                    return Ok(PassedCall::Counted(Err(super::window::missing())));
                };
                let counted = window.try_change(place, change);
                Ok(counted.map_or(PassedCall::Left(HandedCall::Count { place, change }), PassedCall::Counted))
            }
        }
    }

    /// The traffic; none where this thread has it already and MPI, called meanwhile, calls back.
    fn traffic_from_inside(&self) -> Option<MutexGuard<'_, Traffic<A>>> {
        if self.threads_may_send() {
            return Some(self.traffic());
        }
        match self.traffic.try_lock() {
            Ok(traffic) => Some(traffic),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Leaves a call to the threads of the program; its number.
    fn hand_over(&self, call: HandedCall) -> Result<u64> {
        self.handover_failure("send").map_or_else(|| Ok(self.handover.push(call)), Err)
    }

    /// Why nobody will pass on what is handed over.
    fn handover_failure(&self, call: &'static str) -> Option<Error> {
        if self.closed.load(Ordering::Relaxed) {
            let detail = "the program has ended MPI while an operation was under way; wait for requests and close files before";
            return Some(Error::new(Kind::Mpi, call, detail));
        }
        self.failure(call)
    }

    /// MPI has reported an error: everyone who waits here learns of it, and ranks of this node that meet with this one.
    fn break_down(&self, error: &Error) {
        let _ = self.broken.set(error.to_string());
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.iter().filter_map(Weak::upgrade).for_each(|block| hub::fail(&block, self));
        drop(watched);
        self.mailbox.fail();
    }

    /// How long nothing is likely to happen.
    fn rest(&self) -> Duration {
        let quiet = self.quiet.load(Ordering::Relaxed);
        if quiet < YIELDS {
            thread::yield_now();
            return Duration::ZERO;
        }
        let doublings = ((quiet - YIELDS) / 4).min(8);
        (SHORTEST_SLEEP * (1 << doublings)).min(LONGEST_SLEEP)
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic<A>> {
        self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offers(&self) -> MutexGuard<'_, HashMap<i32, OwnedFd>> {
        self.offers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Abi> Nap for MpiWire<A> {
    fn nap(&self) -> Option<Duration> {
        if !self.may_call() {
            return Some(LONGEST_SLEEP);
        }
        if let Err(error) = self.advance() {
            self.break_down(&error);
        }
        // Others may wait for what background threads of this rank do elsewhere.
        background::progress();
        Some(self.rest())
    }
}

impl<A: Abi> Wire for MpiWire<A> {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn describe(&self) -> String {
        let version = self.mpi.version();
        match A::FLAVOUR {
            Flavour::Standard => format!("MPI standard ABI, {version}"),
            Flavour::OpenMpi | Flavour::Mpich => version,
        }
    }

    fn thread_level(&self) -> Option<ThreadLevel> {
        Some(self.level)
    }

    fn threads_may_send(&self) -> bool {
        self.level >= if self.ruler == Ruler::Us { ThreadLevel::Serialized } else { ThreadLevel::Multiple }
    }

    fn machine(&self) -> u64 {
        super::machine::identity()
    }

    fn shares_addresses(&self) -> bool {
        false
    }

    fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    fn send(&self, to: usize, header: Header, bytes: &[u8]) -> Result<()> {
        if is_handing_over() {
            return self
                .hand_over(HandedCall::Send { to, header, body: Body::new(bytes.to_vec()) })
                .map(|_| ());
        }
        let mut traffic = self.traffic();
        self.check_call("send")?;
        // SAFETY: a large body is waited for below: this call does not return, on any path, before MPI is done with it.
        let (post, outcome) = unsafe { traffic.post_borrowed(&self.mpi, to, header, bytes) }?;
        drop(traffic);
        while !Traffic::<A>::is_copied(bytes) && !self.traffic().is_departed(post) {
            let rest = self.nap().unwrap_or_default();
            if let Some(text) = self.broken.get() {
                // MPI may still read the caller's buffer, and will never say that it has: there is no way back.
                self.abort(&format!("rank {}: {text}", self.rank));
            }
            if !rest.is_zero() {
                thread::sleep(rest);
            }
        }
        outcome
    }

    fn post(&self, to: usize, header: Header, body: Body) -> Result<Option<u64>> {
        if is_handing_over() {
            let number = self.hand_over(HandedCall::Send { to, header, body })?;
            return Ok(Some(HANDED | number));
        }
        let mut traffic = self.traffic();
        self.check_call("send")?;
        self.quiet.store(0, Ordering::Relaxed);
        traffic.post(&self.mpi, to, header, body).map(Some)
    }

    fn departed(&self, post: u64) -> Result<bool> {
        if post & HANDED != 0 {
            return Ok(self.handover.is_passed(post & !HANDED));
        }
        Ok(self.traffic().is_departed(post))
    }

    fn offer(&self, len: usize) -> Result<(Arc<Block>, Ticket)> {
        let detail = || format!("{len} bytes of shared memory");
        let (block, fd) =
            Block::for_processes(len).map_err(|source| Error::system("offer", detail(), source))?;
        let MemfdTicket { pid, fd: number } = Block::ticket(&fd);
        self.offers().insert(number, fd);
        Ok((Arc::new(block), [u64::from(pid), number as u64]))
    }

    fn attach(&self, ticket: Ticket, len: usize) -> Result<Arc<Block>> {
        let [pid, fd] = ticket;
        let detail = || format!("attaching to {len} bytes of shared memory of process {pid}");
        let block = Block::attach(MemfdTicket { pid: pid as u32, fd: fd as i32 }, len);
        block.map(Arc::new).map_err(|source| Error::system("attach", detail(), source))
    }

    fn retire(&self, ticket: Ticket) {
        self.offers().remove(&(ticket[1] as i32));
    }

    fn watch(&self, block: &Arc<Block>) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|known| known.strong_count() > 0);
        watched.push(Arc::downgrade(block));
    }

    fn leave(&self, last: Option<&Arc<Block>>) -> Result<()> {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let living = watched.iter().filter_map(Weak::upgrade);
        let over = living.filter(|block| last.is_none_or(|last| !Arc::ptr_eq(last, block)));
        over.for_each(|block| hub::fail(&block, self));
        if self.left.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        self.mailbox.gone(self.rank);
        let mut others = (0..self.size).filter(|rank| *rank != self.rank);
        others.try_for_each(|rank| self.post(rank, Header::FAREWELL, Body::new(Vec::<u8>::new())).map(drop))
    }

    fn failure(&self, call: &'static str) -> Option<Error> {
        // A process that fails ends the job: nobody is left to be told. What is left is MPI itself failing.
        self.broken.get().map(|text| Error::new(Kind::Mpi, call, text.as_str()))
    }

    fn run_end(&self) -> &RunEnd {
        &self.run_end
    }

    fn note_loss(&self, _of: Option<usize>) {
        self.lost.store(true, Ordering::Relaxed);
    }

    fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    fn check_wait(&self, call: &'static str) -> Result<()> {
        if is_handing_over() {
            return self.handover_failure(call).map_or(Ok(()), Err);
        }
        self.check_call(call)
    }

    fn may_count(&self) -> bool {
        // Where threads may send, one that waits inside MPI for all ranks could keep out the one that they wait for.
        !self.threads_may_send() && self.may_call()
    }

    fn places(&self) -> Option<&Places> {
        let make = || {
            let made = Window::new(&self.mpi, self.comm, self.rank);
            if let (Err(error), 0) = (&made, self.rank) {
                eprintln!("aqueduct: ranks on different nodes cannot count together: {error}");
            }
            made.ok()
        };
        self.window.get_or_init(make).as_ref().map(|window| &window.held)
    }

    fn count(&self, place: usize, change: Change) -> Result<u64> {
        if is_handing_over() {
            let number = self.hand_over(HandedCall::Count { place, change })?;
            self.handover.wait_passed(number, || self.handover_failure("counter"))?;
            return self.handover.take_answer(number).unwrap_or_else(|| Err(super::window::missing()));
        }
        self.check_call("counter")?;
        self.window.get().and_then(Option::as_ref).ok_or_else(super::window::missing)?.change(place, change)
    }

    fn release(&self) {
        if let Some(Some(window)) = self.window.get() {
            window.release();
        }
    }

    fn end(&self) {
        if self.may_call() {
            self.settle();
        }
        self.stop_calling();
    }

    fn abandon(&self) {
        self.stop_calling_at_exit();
    }

    fn progress(&self) -> bool {
        self.advance().unwrap_or_else(|error| {
            self.break_down(&error);
            false
        })
    }

    fn flush_handover(&self) -> Result<()> {
        self.handover.wait_all_passed(|| self.handover_failure("send"))
    }
}
