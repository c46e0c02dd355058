//! Requests: operations under way as MPI's generalized requests, so that the program waits for them as for any other.
//!
//! The engine's own threads do the work and never call MPI. That a request is done is told to MPI by the thread that waits: from the poll
//! and wait functions that MPICH has for it, from the progress hook of Open MPI. So it is right at every thread level.
//!
//! `unsafe` here: callbacks get addresses that were handed to MPI.
#![allow(unsafe_code)]

pub(crate) mod raised;

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use aqueduct_file::{Count, Request};

use crate::buffer::Buffer;
use crate::errors::{Fault, Outcome};
use crate::mpi::{Mpi, mpi};
use crate::open_file::Owner;
use crate::{progress, status, verbose};

/// How long a waiter sleeps before it lets MPI move what else is under way.
const NAP: Duration = Duration::from_micros(500);

/// An operation under way.
pub(crate) struct Pending {
    owner: Arc<Owner>,
    call: &'static str,
    /// The request, once MPI has made it.
    handle: AtomicUsize,
    request: Mutex<Option<Request<Buffer>>>,
    /// What became of it: bytes moved. MPI may ask more than once.
    outcome: OnceLock<Outcome<u64>>,
    /// MPI has been told that it is done.
    told: AtomicBool,
}

impl Pending {
    pub(crate) fn new(owner: &Arc<Owner>, call: &'static str, request: Request<Buffer>) -> Arc<Self> {
        Arc::new(Self {
            owner: Arc::clone(owner),
            call,
            handle: AtomicUsize::new(0),
            request: Mutex::new(Some(request)),
            outcome: OnceLock::new(),
            told: AtomicBool::new(false),
        })
    }

    /// Makes the request that the program gets.
    pub(crate) fn start(self: Arc<Self>, mpi: &Mpi) -> Outcome<usize> {
        let extra = Arc::into_raw(Arc::clone(&self)).cast_mut().cast();
        let mut handle = 0;
        if let Some(start) = mpi.functions.grequest_start_polled {
            // SAFETY: callbacks of the types that MPICH prescribes; the address is given back by `free`.
            let made = unsafe { start(query, free, cancel, poll, wait_all, extra, &raw mut handle) };
            mpi.check("MPIX_Grequest_start", made)?;
            self.handle.store(handle, Ordering::Release);
            living().insert(handle, self);
            return Ok(handle);
        }
        // SAFETY: as above, with the standard's types.
        let made = unsafe { (mpi.functions.grequest_start)(query, free, cancel, extra, &raw mut handle) };
        mpi.check("MPI_Grequest_start", made)?;
        self.handle.store(handle, Ordering::Release);
        living().insert(handle, Arc::clone(&self));
        if !progress::watch(mpi, &self) {
            // Nothing would ever tell MPI: done at once, slower, but right.
            while !self.settle(NAP) {}
            self.tell(mpi);
        }
        Ok(handle)
    }

    /// Whether the work is done.
    pub(crate) fn is_done(&self) -> bool {
        self.lock().as_ref().is_none_or(Request::is_done)
    }

    /// Waits for the work, but no longer than this; whether it is done.
    fn settle(&self, longest: Duration) -> bool {
        self.lock().as_ref().is_none_or(|request| request.settle(longest))
    }

    /// Tells MPI once that the work is done.
    pub(crate) fn tell(&self, mpi: &Mpi) {
        let handle = self.handle.load(Ordering::Acquire);
        if handle != 0 && !self.told.swap(true, Ordering::AcqRel) {
            // SAFETY: a generalized request that is not yet complete.
            unsafe { (mpi.functions.grequest_complete)(handle) };
        }
    }

    fn outcome(&self, mpi: &Mpi) -> &Outcome<u64> {
        self.outcome.get_or_init(|| self.waited(mpi))
    }

    fn waited(&self, mpi: &Mpi) -> Outcome<u64> {
        let Some(request) = self.lock().take() else { return Ok(0) };
        let waited: Result<(Buffer, Count), _> = request.wait();
        let (mut buffer, count) = waited.map_err(|error| Fault::of(mpi, &error))?;
        buffer.finish(mpi, count.bytes())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Request<Buffer>>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Requests that the program has, by their handles.
fn living() -> MutexGuard<'static, HashMap<usize, Arc<Pending>>> {
    static LIVING: OnceLock<Mutex<HashMap<usize, Arc<Pending>>>> = OnceLock::new();
    LIVING.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests that the program has freed before they were done: the operations take place all the same, and nobody else would tell that one failed.
static FREED: Mutex<Vec<Arc<Pending>>> = Mutex::new(Vec::new());

fn freed() -> MutexGuard<'static, Vec<Arc<Pending>>> {
    FREED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says which freed requests have failed meanwhile.
pub(crate) fn look_at_freed(mpi: &Mpi) {
    if HAS_FREED.load(Ordering::Acquire) {
        let done: Vec<Arc<Pending>> = {
            let mut freed = freed();
            let done = freed.extract_if(.., |pending| pending.is_done()).collect();
            HAS_FREED.store(!freed.is_empty(), Ordering::Release);
            done
        };
        for pending in done {
            if let Err(fault) = pending.outcome(mpi) {
                verbose::say(&format!("{}, whose request was freed, failed: {fault}", pending.call));
            }
        }
    }
}

static HAS_FREED: AtomicBool = AtomicBool::new(false);

/// MPI ends: waits for what is still under way, no longer than this for each, and reports what has failed and was never asked for.
pub(crate) fn finish_all(mpi: &Mpi, longest: Duration, report: impl Fn(&str, &str)) {
    let mut left: Vec<Arc<Pending>> = living().drain().map(|(_, pending)| pending).collect();
    left.extend(freed().drain(..));
    for pending in left.iter().filter(|pending| pending.outcome.get().is_none()) {
        if !pending.settle(longest) {
            report(pending.call, "it was not done when the program ended MPI; wait for requests before");
        } else if let Err(fault) = pending.outcome(mpi) {
            report(pending.call, &fault.text);
        }
    }
}

/// The process ends, without MPI: reports what has failed and was never asked for.
pub(crate) fn report_failures(report: impl Fn(&str, &str)) {
    let left: Vec<Arc<Pending>> = living().values().cloned().chain(freed().drain(..)).collect();
    for pending in left.iter().filter(|pending| pending.outcome.get().is_none()) {
        // What is not done then, its file has reported.
        let outcome = pending.lock().as_mut().map(Request::test);
        if let Some(Err(error)) = outcome {
            report(pending.call, &error.to_string());
        }
    }
}

/// The program is about to look at a request, by the one function in which MPICH does not poll: without this it would look forever.
pub(crate) fn looked_at(mpi: &Mpi, handle: usize) {
    let pending = living().get(&handle).cloned();
    if let Some(pending) = pending
        && pending.is_done()
    {
        pending.tell(mpi);
    }
}

/// Fills the status of a request that is complete.
unsafe extern "C" fn query(extra: *mut c_void, told: *mut c_void) -> c_int {
    // SAFETY: the address that was handed to MPI, before `free`.
    let pending = unsafe { &*extra.cast::<Pending>() };
    let Ok(mpi) = mpi() else { return 0 };
    match pending.outcome(mpi) {
        Ok(bytes) => {
            status::set(mpi, told, *bytes);
            0
        }
        Err(fault) => {
            status::set(mpi, told, fault.transferred);
            raised::arm(mpi, &pending.owner, pending.call, fault)
        }
    }
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: the address that was handed to MPI, given back once.
    let pending = unsafe { Arc::from_raw(extra.cast::<Pending>()) };
    living().remove(&pending.handle.load(Ordering::Acquire));
    if pending.outcome.get().is_none() {
        freed().push(pending);
        HAS_FREED.store(true, Ordering::Release);
    }
    0
}

/// Operations on files are not cancelled: they take place, and their status says so.
unsafe extern "C" fn cancel(_extra: *mut c_void, _complete: c_int) -> c_int {
    0
}

unsafe extern "C" fn poll(extra: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the address that was handed to MPI, before `free`.
    let pending = unsafe { &*extra.cast::<Pending>() };
    if let Ok(mpi) = mpi()
        && pending.is_done()
    {
        pending.tell(mpi);
    }
    0
}

unsafe extern "C" fn wait_all(
    count: c_int,
    extras: *mut *mut c_void,
    _timeout: f64,
    _status: *mut c_void,
) -> c_int {
    let Ok(mpi) = mpi() else { return 0 };
    for place in 0..count.max(0) as usize {
        // SAFETY: MPI passes as many addresses as it says, each of a request that is not freed.
        let pending = unsafe { &**extras.add(place).cast::<*mut Pending>() };
        while !pending.settle(NAP) {
            progress::poke(mpi);
        }
        pending.tell(mpi);
    }
    0
}
