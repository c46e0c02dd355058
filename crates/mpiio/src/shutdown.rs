//! The end of the program: what was accepted and is not yet in the file is written when MPI ends, and at the latest when the process does.
//!
//! When MPI ends, files that were left open are finished and let go, and no thread of ours calls MPI afterwards. A process that exits
//! without ending MPI finishes its own part, without a call into MPI; since launchers kill the other processes as soon as one has exited
//! so, the processes of a machine wait for each other. A failure is printed, and the exit status is not 0.
//!
//! `unsafe` here: the loader runs a function of ours at the end, and the process is ended.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, SharedRegion};

use crate::mpi::Mpi;
use crate::mpi_file::{MpiFile, SplitOperation};
use crate::{handle, request, verbose};

/// How long collective operations that are still under way are waited for when MPI ends, all together: all ranks come there.
const AT_FINALIZE: Duration = Duration::from_secs(60);
/// The same when the process ends without that: the other ranks may be gone.
const AT_EXIT: Duration = Duration::from_secs(2);

/// How long a process that has finished its part waits for others that have not, and for others that have not come to their end at all.
const FOR_THE_LAST: Duration = Duration::from_secs(60);
const FOR_LATE_ONES: Duration = Duration::from_secs(1);

/// How far a process is.
const RUNS: u64 = 0;
const FINISHES: u64 = 1;
const IS_DONE: u64 = 2;

/// What the processes of a communicator that share a machine know of each other's end: a word each.
pub(crate) struct ShutdownTable {
    region: SharedRegion,
    rank: usize,
    others: Vec<usize>,
}

static SHUTDOWN_TABLES: Mutex<Vec<Weak<ShutdownTable>>> = Mutex::new(Vec::new());

impl ShutdownTable {
    /// Collective.
    pub(crate) fn new(comm: &Comm) -> aqueduct_comm::Result<Arc<Self>> {
        let region = comm.shared_region(comm.size() * size_of::<u64>())?;
        let (rank, node) = (comm.rank(), comm.ranks_of_node(comm.node_of(comm.rank())));
        let others = node.iter().copied().filter(|other| *other != rank).collect();
        let board = Arc::new(Self { region, rank, others });
        let mut boards = SHUTDOWN_TABLES.lock().unwrap_or_else(PoisonError::into_inner);
        boards.retain(|board| board.strong_count() > 0);
        boards.push(Arc::downgrade(&board));
        Ok(board)
    }

    fn word(&self, rank: usize) -> Option<&AtomicU64> {
        self.region.atomic(rank * size_of::<u64>()).ok()
    }

    fn publish(&self, state: u64) {
        self.word(self.rank).into_iter().for_each(|word| word.store(state, Ordering::SeqCst));
    }

    fn is_any_other(&self, state: u64) -> bool {
        self.others
            .iter()
            .filter_map(|other| self.word(*other))
            .any(|word| word.load(Ordering::SeqCst) == state)
    }
}

fn shutdown_tables() -> Vec<Arc<ShutdownTable>> {
    SHUTDOWN_TABLES.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade).collect()
}

/// Waits until the other processes of this machine have finished their parts, too.
fn wait_for_others(boards: &[Arc<ShutdownTable>]) {
    let start = Instant::now();
    let waits =
        |state, longest| start.elapsed() < longest && boards.iter().any(|board| board.is_any_other(state));
    while waits(FINISHES, FOR_THE_LAST) || waits(RUNS, FOR_LATE_ONES) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Something that was accepted is lost.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// The process that opened files; none before the first. A child of it has their handles, but not the threads that work for them.
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

#[used]
#[unsafe(link_section = ".fini_array")]
static LAST: extern "C" fn() = at_exit;

/// A file is open from now on: the end of this process matters.
pub(crate) fn note_open() {
    OPENED_BY.store(std::process::id(), Ordering::Release);
}

/// MPI is about to end, and still works: finishes requests and files that the program has left. The processes of a file come here together. What needs
/// other ranks is waited for until one deadline: first all of it, then the media, which take as long as they take.
pub(crate) fn at_finalize(mpi: &Mpi) {
    let deadline = Instant::now() + AT_FINALIZE;
    request::finish_all(mpi, deadline, report);
    let mut files = handle::take_all();
    // In the order they were opened in, which is the same on all ranks.
    files.sort_by_key(|open| open.opened);
    files.iter().for_each(|open| end_split(open, deadline));
    for open in &files {
        reported("MPI_Finalize", open.file.finish_alone(deadline));
    }
    for open in files {
        // Other ranks may still need what a thread of this one does for them.
        reported("MPI_Finalize", open.file.wait_for_users(deadline));
        // A thread of the program's that still uses the file keeps it.
        if let Some(open) = Arc::into_inner(open) {
            reported("MPI_Finalize", open.into_file().close_alone());
        }
    }
    shutdown_tables().iter().for_each(|board| board.publish(IS_DONE));
}

/// Ends a split operation that the program has begun and not ended.
fn end_split(open: &MpiFile, deadline: Instant) {
    let begun = open.split().take();
    if let Some(SplitOperation { call, split }) = begun {
        // What is not done by then its file reports. The buffer may hold things of MPI, which is not called at exit.
        let ended = split.end_within(deadline.saturating_duration_since(Instant::now()));
        reported(call, ended.map_or(Ok(()), |ended| ended.map(std::mem::forget)));
    }
}

extern "C" fn at_exit() {
    if OPENED_BY.load(Ordering::Acquire) != std::process::id() {
        return;
    }
    let (files, boards) = (handle::take_all(), shutdown_tables());
    aqueduct_comm::abandon_mpi();
    if !files.is_empty() {
        boards.iter().for_each(|board| board.publish(FINISHES));
    }
    let (call, had_files, deadline) =
        ("exit without MPI_File_close", !files.is_empty(), Instant::now() + AT_EXIT);
    files.iter().for_each(|open| end_split(open, deadline));
    for open in files {
        reported(call, open.file.finish_alone(deadline));
        match Arc::try_unwrap(open) {
            Ok(open) => reported(call, open.into_file_at_exit().close_at_exit()),
            // Another thread still uses it.
            Err(open) => std::mem::forget(open),
        }
    }
    request::report_failures(report);
    boards.iter().for_each(|board| board.publish(IS_DONE));
    if had_files {
        wait_for_others(&boards);
    }
    if HAS_FAILED.load(Ordering::Acquire) {
        // SAFETY: what the program has printed is written first; the rest of the exit would only change the status back.
        unsafe {
            libc::fflush(std::ptr::null_mut());
            libc::_exit(1);
        }
    }
}

fn reported(call: &str, outcome: aqueduct_file::Result<()>) {
    if let Err(error) = outcome {
        report(call, &error.to_string());
    }
}

fn report(call: &str, text: &str) {
    HAS_FAILED.store(true, Ordering::Release);
    verbose::print_line(&format!("{call}: {text}"));
}
