//! Requests: operations in progress as MPI generalized requests, which the program waits for like any others.
//!
//! The engine's threads do the work and never call MPI. The waiting thread marks requests as complete: in the poll
//! and wait functions of MPICH, and in the progress hook of Open MPI. This is valid at every thread level.
//!
//! `unsafe` here: callbacks get addresses that were passed to MPI.
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

/// Time a waiting thread sleeps before it lets MPI make progress.
const NAP: Duration = Duration::from_micros(500);

/// An operation in progress.
pub(crate) struct PendingRequest {
    error_context: Arc<FileErrorContext>,
    call: &'static str,
    /// The request, once MPI has made it.
    handle: AtomicUsize,
    /// Not locked during waits: a waiting thread runs MPI's progress, which reads it again.
    request: Request<AccessBuffer>,
    /// The outcome: bytes transferred. MPI may query it more than once.
    outcome: OnceLock<Outcome<u64>>,
    /// The request is marked as complete in MPI.
    is_reported: AtomicBool,
    /// The program has got its status, and its error if there is one.
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
            // SAFETY: callbacks of the types that MPICH prescribes; the address is freed by `free`.
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
            // Without a progress hook the request would never complete: the operation is done here.
            while !self.wait_at_most(NAP) {}
            self.report_completion(mpi);
        }
        Ok(handle)
    }

    /// Whether the work is done.
    pub(crate) fn is_done(&self) -> bool {
        self.request.is_done()
    }

    /// Waits for the work for at most this time; true if it is done.
    fn wait_at_most(&self, longest: Duration) -> bool {
        self.request.wait_timeout(longest)
    }

    /// Marks the request as complete in MPI, once.
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

    /// Reports a failure of a request that the program has freed.
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

/// Requests that the program freed before they were complete: the operations continue, and failures are reported here.
static FREED: Mutex<Vec<Arc<PendingRequest>>> = Mutex::new(Vec::new());

fn freed() -> MutexGuard<'static, Vec<Arc<PendingRequest>>> {
    FREED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reports failures of freed requests.
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

/// Completes reads of freed requests before a file is closed: afterwards the program's buffers may be freed.
pub(crate) fn finish_all_of(mpi: &Mpi, owner: &Arc<FileErrorContext>) {
    // Open MPI keeps a freed request until it is complete.
    let mut left: Vec<Arc<PendingRequest>> = live_requests().values().cloned().collect();
    left.extend(freed().iter().cloned());
    for pending in left.iter().filter(|pending| Arc::ptr_eq(&pending.error_context, owner)) {
        while !pending.wait_at_most(NAP) {}
        // A later wait returns the error; errors of freed requests are reported below.
        let _ = pending.outcome(mpi);
    }
    report_freed_failures(mpi);
}

static HAS_FREED: AtomicBool = AtomicBool::new(false);

/// Before MPI is finalized: waits for operations in progress until the deadline, and reports failures that the program did not query.
pub(crate) fn finish_all(mpi: &Mpi, deadline: Instant, report: impl Fn(&str, &str)) {
    let mut left: Vec<Arc<PendingRequest>> = live_requests().drain().map(|(_, pending)| pending).collect();
    left.extend(freed().drain(..));
    for pending in left.iter().filter(|pending| pending.outcome.get().is_none()) {
        if !pending.wait_at_most(deadline.saturating_duration_since(Instant::now())) {
            report(
                pending.call,
                "it was not complete when the program finalized MPI; wait for requests before",
            );
        } else if let Err(fault) = pending.outcome(mpi) {
            report(pending.call, &fault.text);
        }
    }
}

/// At process exit, without MPI: reports failures that the program did not query.
pub(crate) fn report_failures(report: impl Fn(&str, &str)) {
    let left: Vec<Arc<PendingRequest>> = live_requests().values().cloned().chain(freed().drain(..)).collect();
    for pending in left.iter().filter(|pending| pending.outcome.get().is_none()) {
        // Incomplete operations are reported by their files.
        match pending.request.take_result() {
            Some(Err(error)) => report(pending.call, &error.to_string()),
            // It may hold MPI objects, and MPI must not be called.
            taken => std::mem::forget(taken),
        }
    }
}

/// Completes a request before `MPI_Request_get_status`, in which MPICH does not poll.
pub(crate) fn poll_before_status(mpi: &Mpi, handle: usize) {
    let pending = live_requests().get(&handle).cloned();
    if let Some(pending) = pending
        && pending.is_done()
    {
        pending.report_completion(mpi);
    }
}

/// Fills the status of a request that is complete.
unsafe extern "C" fn query(extra: *mut c_void, status_out: *mut c_void) -> c_int {
    // SAFETY: the address that was passed to MPI, before `free`.
    let pending = unsafe { &*extra.cast::<PendingRequest>() };
    let Ok(mpi) = mpi() else { return 0 };
    pending.queried.store(true, Ordering::Release);
    match pending.outcome(mpi) {
        Ok(bytes) => {
            status::set(mpi, status_out, *bytes);
            0
        }
        Err(fault) => {
            status::set(mpi, status_out, fault.transferred);
            request_errors::arm(mpi, &pending.error_context, pending.call, fault)
        }
    }
}

unsafe extern "C" fn free(extra: *mut c_void) -> c_int {
    // SAFETY: the address that was passed to MPI, freed once.
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

/// Operations on files are not cancelled: they complete, and their status is not cancelled.
unsafe extern "C" fn cancel(_extra: *mut c_void, _complete: c_int) -> c_int {
    0
}

unsafe extern "C" fn poll(extra: *mut c_void, _status: *mut c_void) -> c_int {
    // SAFETY: the address that was passed to MPI, before `free`.
    let pending = unsafe { &*extra.cast::<PendingRequest>() };
    if pending.is_done() {
        if let Ok(mpi) = mpi() {
            pending.report_completion(mpi);
        }
    } else {
        // MPICH polls without a pause: yield the core to the thread that does the work, or to another rank.
        aqueduct_comm::pause_between_polls();
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
