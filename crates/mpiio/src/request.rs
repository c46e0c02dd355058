//! Requests: operations under way as MPI's generalized requests, so that the program waits for them as for any other.
//!
//! The engine's own threads do the work and never call MPI. That a request is done is told to MPI by the thread that waits: from the poll
//! and wait functions that MPICH has for it, from the progress hook of Open MPI. So it is right at every thread level.
//!
//! `unsafe` here: callbacks get addresses that were handed to MPI.
#![allow(unsafe_code)]

pub(crate) mod progress;
pub(crate) mod request_errors;
pub(crate) mod ucx_progress;

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use aqueduct_file::{Count, Request};

use crate::buffer::AccessBuffer;
use crate::diagnostics;
use crate::file::FileErrorContext;
use crate::host::status;
use crate::host::{Mpi, mpi};
use crate::host::{MpiError, Outcome};

/// How long a waiter sleeps before it lets MPI move what else is under way.
const NAP: Duration = Duration::from_micros(500);

/// An operation under way.
pub(crate) struct PendingRequest {
    error_context: Arc<FileErrorContext>,
    call: &'static str,
    /// The request, once MPI has made it.
    handle: AtomicUsize,
    /// Has no lock of ours around it: whoever waits for it runs MPI's progress, which looks at it again.
    request: Request<AccessBuffer>,
    /// What became of it: bytes moved. MPI may ask more than once.
    outcome: OnceLock<Outcome<u64>>,
    /// MPI has been told that it is done.
    is_reported: AtomicBool,
    /// The program has got its status, and with it an error.
    queried: AtomicBool,
}

impl PendingRequest {
    pub(crate) fn new(
        owner: &Arc<FileErrorContext>,
        call: &'static str,
        request: Request<AccessBuffer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            error_context: Arc::clone(owner),
            call,
            handle: AtomicUsize::new(0),
            request,
            outcome: OnceLock::new(),
            is_reported: AtomicBool::new(false),
            queried: AtomicBool::new(false),
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
            live_requests().insert(handle, self);
            return Ok(handle);
        }
        // SAFETY: as above, with the standard's types.
        let made = unsafe { (mpi.functions.grequest_start)(query, free, cancel, extra, &raw mut handle) };
        mpi.check("MPI_Grequest_start", made)?;
        self.handle.store(handle, Ordering::Release);
        live_requests().insert(handle, Arc::clone(&self));
        if !progress::watch(mpi, &self) {
            // Nothing would ever tell MPI: done at once, slower, but right.
            while !self.wait_at_most(NAP) {}
            self.report_completion(mpi);
        }
        Ok(handle)
    }

    /// Whether the work is done.
    pub(crate) fn is_done(&self) -> bool {
        self.request.is_done()
    }

    /// Waits for the work, but no longer than this; whether it is done.
    fn wait_at_most(&self, longest: Duration) -> bool {
        self.request.wait_timeout(longest)
    }

    /// Tells MPI once that the work is done.
    pub(crate) fn report_completion(&self, mpi: &Mpi) {
        let handle = self.handle.load(Ordering::Acquire);
        if handle != 0 && !self.is_reported.swap(true, Ordering::AcqRel) {
            // SAFETY: a generalized request that is not yet complete.
            unsafe { (mpi.functions.grequest_complete)(handle) };
        }
    }

    fn outcome(&self, mpi: &Mpi) -> &Outcome<u64> {
        self.outcome.get_or_init(|| self.waited(mpi))
    }

    /// Says that it has failed, if the program has freed it and so never got the error.
    fn report_unasked(&self) {
        if let (Some(Err(fault)), false) = (self.outcome.get(), self.queried.load(Ordering::Acquire)) {
            diagnostics::print_line(&format!("{}, whose request was freed, failed: {fault}", self.call));
        }
    }

    fn waited(&self, mpi: &Mpi) -> Outcome<u64> {
        let waited: Result<(AccessBuffer, Count), _> = loop {
            match self.request.take_result() {
                Some(waited) => break waited,
                None => self.wait_at_most(NAP),
            };
        };
        let (mut buffer, count) = waited.map_err(|error| MpiError::of(mpi, &error))?;
        buffer.finish(mpi, count.bytes())
    }
}

/// Requests that the program has, by their handles.
fn live_requests() -> MutexGuard<'static, HashMap<usize, Arc<PendingRequest>>> {
    static LIVING: OnceLock<Mutex<HashMap<usize, Arc<PendingRequest>>>> = OnceLock::new();
    LIVING.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Requests that the program has freed before they were done: the operations take place all the same, and nobody else would tell that one failed.
static FREED: Mutex<Vec<Arc<PendingRequest>>> = Mutex::new(Vec::new());

fn freed() -> MutexGuard<'static, Vec<Arc<PendingRequest>>> {
    FREED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says which freed requests have failed meanwhile.
pub(crate) fn report_freed_failures(mpi: &Mpi) {
    if HAS_FREED.load(Ordering::Acquire) {
        let done: Vec<Arc<PendingRequest>> = {
            let mut freed = freed();
            let done = freed.extract_if(.., |pending| pending.is_done()).collect();
            HAS_FREED.store(!freed.is_empty(), Ordering::Release);
            done
        };
        for pending in done {
            let _ = pending.outcome(mpi);
            pending.report_unasked();
        }
    }
}

/// A file is about to be closed: what it still reads for requests that nobody waits for goes into the program's buffers now. After the close these may be gone.
pub(crate) fn finish_all_of(mpi: &Mpi, owner: &Arc<FileErrorContext>) {
    // Open MPI keeps a request that was freed until it is done.
    let mut left: Vec<Arc<PendingRequest>> = live_requests().values().cloned().collect();
    left.extend(freed().iter().cloned());
    for pending in left.iter().filter(|pending| Arc::ptr_eq(&pending.error_context, owner)) {
        while !pending.wait_at_most(NAP) {}
        // Who waits for it later gets the error; who has freed it is told below.
        let _ = pending.outcome(mpi);
    }
    report_freed_failures(mpi);
}

static HAS_FREED: AtomicBool = AtomicBool::new(false);

/// MPI ends: waits for what is still under way, all of it no longer than until the deadline, and reports what has failed and was never asked for.
pub(crate) fn finish_all(mpi: &Mpi, deadline: Instant, report: impl Fn(&str, &str)) {
    let mut left: Vec<Arc<PendingRequest>> = live_requests().drain().map(|(_, pending)| pending).collect();
    left.extend(freed().drain(..));
    for pending in left.iter().filter(|pending| pending.outcome.get().is_none()) {
        if !pending.wait_at_most(deadline.saturating_duration_since(Instant::now())) {
            report(pending.call, "it was not done when the program ended MPI; wait for requests before");
        } else if let Err(fault) = pending.outcome(mpi) {
            report(pending.call, &fault.text);
        }
    }
}

/// The process ends, without MPI: reports what has failed and was never asked for.
pub(crate) fn report_failures(report: impl Fn(&str, &str)) {
    let left: Vec<Arc<PendingRequest>> = live_requests().values().cloned().chain(freed().drain(..)).collect();
    for pending in left.iter().filter(|pending| pending.outcome.get().is_none()) {
        // What is not done then, its file has reported.
        match pending.request.take_result() {
            Some(Err(error)) => report(pending.call, &error.to_string()),
            // It may hold things of MPI, which is not called.
            taken => std::mem::forget(taken),
        }
    }
}

/// The program is about to look at a request, by the one function in which MPICH does not poll: without this it would look forever.
pub(crate) fn poll_before_status(mpi: &Mpi, handle: usize) {
    let pending = live_requests().get(&handle).cloned();
    if let Some(pending) = pending
        && pending.is_done()
    {
        pending.report_completion(mpi);
    }
}

/// Fills the status of a request that is complete.
unsafe extern "C" fn query(extra: *mut c_void, told: *mut c_void) -> c_int {
    // SAFETY: the address that was handed to MPI, before `free`.
    let pending = unsafe { &*extra.cast::<PendingRequest>() };
    let Ok(mpi) = mpi() else { return 0 };
    pending.queried.store(true, Ordering::Release);
    match pending.outcome(mpi) {
        Ok(bytes) => {
            status::set(mpi, told, *bytes);
            0
        }
        Err(fault) => {
            status::set(mpi, told, fault.transferred);
            request_errors::arm(mpi, &pending.error_context, pending.call, fault)
        }
    }
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: the address that was handed to MPI, given back once.
    let pending = unsafe { Arc::from_raw(extra.cast::<PendingRequest>()) };
    live_requests().remove(&pending.handle.load(Ordering::Acquire));
    if pending.outcome.get().is_none() {
        freed().push(pending);
        HAS_FREED.store(true, Ordering::Release);
    } else {
        pending.report_unasked();
    }
    0
}

/// Operations on files are not cancelled: they take place, and their status says so.
unsafe extern "C" fn cancel(_extra: *mut c_void, _complete: c_int) -> c_int {
    0
}

unsafe extern "C" fn poll(extra: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the address that was handed to MPI, before `free`.
    let pending = unsafe { &*extra.cast::<PendingRequest>() };
    if let Ok(mpi) = mpi()
        && pending.is_done()
    {
        pending.report_completion(mpi);
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
        let pending = unsafe { &**extras.add(place).cast::<*mut PendingRequest>() };
        while !pending.wait_at_most(NAP) {
            progress::drive_mpi_progress(mpi);
        }
        pending.report_completion(mpi);
    }
    0
}
