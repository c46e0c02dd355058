//! The context of an open file: what every layer needs to access it, without policy and without caches.

pub(crate) mod counters;
pub(crate) mod mode;
pub(crate) mod report;

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aqueduct_comm::{PooledComm, Traffic, agreement};
use aqueduct_device::{Capabilities, Handle, LockGuard, LockKind, LockScope};
use aqueduct_report::{Report, ReportSource, is_enabled};

use crate::error::{Error, Kind, Result};
use crate::hints::{Hints, Strategy, TransferDirection};
use crate::trace::{self, CallPhase, CallTimer, FileTrace, TracedOperation};
use counters::{CounterCells, Counters, OpTimer};
use mode::Mode;

/// The remedy if accesses have to take locks and the file system has none.
const NEEDS_LOCKS: &str = "the file system is not known to be coherent between nodes, so each access is locked: mount it with locks (for NFS \
                           start the lock service, or use version 4), or set the hint aqueduct_coherent=true if all nodes see the same bytes";

/// Whether an access is a part of a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessScope {
    /// A call of one rank.
    Independent,
    /// A collective call, even if each rank then accesses its own bytes.
    Collective,
}

/// Properties of the file system that hold on all ranks of an open file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AgreedCapabilities {
    /// All ranks have the file in one machine's page cache.
    pub(crate) one_page_cache: bool,
    /// Synced data survives a restart of the machine.
    pub(crate) persistent: bool,
    /// All nodes see the same bytes, or there is only one node.
    pub(crate) coherent: bool,
}

/// What every layer needs of an open file.
pub(crate) struct FileContext {
    pub(crate) name: Arc<str>,
    /// For the collective calls of this file only.
    pub(crate) comm: PooledComm,
    pub(crate) handle: Arc<dyn Handle>,
    pub(crate) capabilities: Capabilities,
    /// All ranks have the file in one machine's page cache.
    pub(crate) one_page_cache: bool,
    /// True if synced data survives a restart of the machine, on all ranks.
    pub(crate) persistent: bool,
    pub(crate) mode: Mode,
    atomic: AtomicBool,
    /// A sync has failed: data written before it may be lost, and the device would not report that again.
    poisoned: AtomicBool,
    hints: Mutex<Hints>,
    pub(crate) counters: CounterCells,
    /// The trace of this file, if there is one.
    pub(crate) trace: Option<Arc<FileTrace>>,
    /// Traffic of the communicator before the file was opened: an earlier file may have used it.
    initial_traffic: Traffic,
    /// The strategy that was reported last, by scope and direction.
    last_reported: Mutex<[[Option<Strategy>; 2]; 2]>,
}

impl FileContext {
    pub(crate) fn new(
        name: Arc<str>,
        comm: PooledComm,
        handle: Arc<dyn Handle>,
        agreed: AgreedCapabilities,
        mode: Mode,
        hints: Hints,
        trace: Option<Arc<FileTrace>>,
    ) -> Self {
        let mut capabilities = handle.capabilities();
        capabilities.coherent = agreed.coherent;
        capabilities.maps &= agreed.coherent;
        Self {
            name,
            initial_traffic: comm.traffic(),
            comm,
            handle,
            capabilities,
            one_page_cache: agreed.one_page_cache,
            persistent: agreed.persistent,
            mode,
            atomic: AtomicBool::new(false),
            poisoned: AtomicBool::new(false),
            hints: Mutex::new(hints),
            counters: CounterCells::default(),
            trace,
            last_reported: Mutex::default(),
        }
    }

    pub(crate) fn hints(&self) -> MutexGuard<'_, Hints> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts an access: everything that this thread does until the timer is dropped is counted, and recorded in the trace.
    pub(crate) fn start_access(&self, direction: TransferDirection, scope: AccessScope) -> OpTimer<'_> {
        let operation = match direction {
            TransferDirection::Read => TracedOperation::Read,
            TransferDirection::Write => TracedOperation::Write,
        };
        self.counters.start_operation(direction).traced(self.start_call(operation, scope))
    }

    /// Starts an access to one run of the file on the short path.
    pub(crate) fn start_run_access(&self, direction: TransferDirection, run: Range<u64>) -> OpTimer<'_> {
        let timer = self.counters.start_operation(direction);
        let Some(trace) = &self.trace else { return timer };
        let operation = match direction {
            TransferDirection::Read => TracedOperation::Read,
            TransferDirection::Write => TracedOperation::Write,
        };
        timer.traced(CallTimer::start_run(trace, operation, run))
    }

    /// Starts a call in the trace.
    pub(crate) fn start_call(&self, operation: TracedOperation, scope: AccessScope) -> Option<CallTimer<'_>> {
        self.trace.as_ref()?.start(operation, scope == AccessScope::Collective)
    }

    /// What this rank has done to the file.
    pub(crate) fn read_counters(&self) -> Counters {
        let (traffic, initial) = (self.comm.traffic(), self.initial_traffic);
        let (messages, sent) = (traffic.messages - initial.messages, traffic.bytes - initial.bytes);
        Counters { messages, sent, ..self.counters.read() }
    }

    pub(crate) fn is_atomic(&self) -> bool {
        self.atomic.load(Ordering::Relaxed)
    }

    pub(crate) fn set_atomic(&self, atomic: bool) {
        self.atomic.store(atomic, Ordering::Relaxed);
    }

    /// True if each access takes a lock: in atomic mode with several ranks, and between nodes if the file system is not coherent. A lock makes a client
    /// of a network file system validate its cache, an unlock makes it write its changes, and it writes no byte outside of the locked
    /// range back meanwhile (as ROMIO does on NFS).
    pub(crate) fn locks_accesses(&self) -> bool {
        (self.is_atomic() && self.comm.size() > 1) || self.locks_for_coherence()
    }

    pub(crate) fn locks_for_coherence(&self) -> bool {
        !self.capabilities.coherent && self.capabilities.locks == LockScope::System
    }

    /// True if writes may read, change and write back bytes of others, so that every write must take a lock.
    pub(crate) fn sieves_writes(&self) -> bool {
        self.hints().sieves_writes()
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
        self.counters.locks.add(1);
        let _phase = trace::enter(CallPhase::Wait);
        let for_coherence = self.locks_for_coherence();
        let guard = self.handle.lock(range.clone(), kind).map_err(|error| match error.kind() {
            aqueduct_device::Kind::ResourceLimit | aqueduct_device::Kind::Unsupported if for_coherence => {
                error.advise(NEEDS_LOCKS)
            }
            _ => error,
        });
        let guard = self.device_result(operation, guard)?;
        if for_coherence {
            self.device_result(operation, self.handle.revalidate(range))?;
        }
        Ok(Some(guard))
    }

    /// The length of the file, whatever this node has cached of it.
    pub(crate) fn file_length(&self, operation: &'static str) -> Result<u64> {
        if !self.capabilities.coherent {
            self.device_result(operation, self.handle.revalidate(0..0))?;
        }
        self.device_result(operation, self.handle.len())
    }

    pub(crate) fn poison(&self) {
        self.poisoned.store(true, Ordering::Relaxed);
    }

    /// Fails after a failed sync.
    pub(crate) fn check_not_poisoned(&self, operation: &'static str) -> Result<()> {
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

    /// An error about a message of another rank that cannot be decoded.
    pub(crate) fn malformed_message(&self, operation: &'static str, rank: usize) -> Error {
        let detail =
            format!("rank {rank} sent a malformed message; check that all ranks run the same program");
        self.error(Kind::Communication, operation, detail).on_rank(rank)
    }

    /// The result of a device call as a result of this layer.
    pub(crate) fn device_result<T>(
        &self,
        operation: &'static str,
        outcome: aqueduct_device::Result<T>,
    ) -> Result<T> {
        outcome.map_err(|error| Error::device(operation, &self.name, error))
    }

    /// The result of a call of the communicator as a result of this layer.
    pub(crate) fn comm_result<T>(
        &self,
        operation: &'static str,
        outcome: aqueduct_comm::Result<T>,
    ) -> Result<T> {
        outcome.map_err(|error| Error::from_comm(operation, &self.name, &error))
    }

    /// The outcome of a collective call, agreed; see [`agree`](agreement::agree).
    pub(crate) fn agree<T>(&self, operation: &'static str, mine: Result<T>) -> Result<T> {
        let _phase = trace::enter(CallPhase::Wait);
        agreement::agree(&self.comm, operation, &self.name, mine)
    }

    /// Waits for all ranks.
    pub(crate) fn barrier(&self, operation: &'static str) -> Result<()> {
        let _phase = trace::enter(CallPhase::Wait);
        self.comm_result(operation, self.comm.barrier())
    }

    /// Reports the strategy of an access, with its estimate in nanoseconds, to the user or a trace, if one of them is on and the strategy has changed.
    pub(crate) fn report_strategy<R: fmt::Display>(
        &self,
        scope: AccessScope,
        direction: TransferDirection,
        (strategy, estimate): (Strategy, f64),
        report: impl FnOnce() -> R,
    ) {
        let reports = is_enabled() && self.comm.rank() == 0;
        if !reports && !self.capabilities.keeps_annotations {
            return;
        }
        let mut last_reported = self.last_reported.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut last_reported[scope as usize][direction as usize];
        if *last != Some(strategy) {
            *last = Some(strategy);
            let report = report();
            if reports {
                let estimate = estimate.is_finite().then(|| Duration::from_nanos(estimate as u64));
                Report::new(ReportSource::File)
                    .file(&self.name)
                    .strategy(strategy.name(), estimate)
                    .emit(&report);
            }
            self.handle.annotate(&report);
        }
    }
}
