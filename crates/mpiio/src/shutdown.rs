//! The end of the program: what was accepted and is not yet in the file is written when MPI ends, and at the latest when the process does.
//!
//! When MPI ends, files that were left open are finished and let go, and no thread of ours calls MPI afterwards. A process that exits
//! without ending MPI finishes its own part, without a call into MPI; since launchers kill the other processes as soon as one has exited
//! so, the processes of a machine wait for each other. A failure is printed, and the exit status is not 0.
//!
//! `unsafe` here: the loader runs a function of ours at the end, and the process is ended.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::file::handle_table;
use crate::file::{MpiFile, SplitOperation};
use crate::host::Mpi;
use crate::shutdown_table::{self, ShutdownState, ShutdownTable};
use crate::{diagnostics, request};

/// How long collective operations that are still under way are waited for when MPI ends, all together: all ranks come there.
const AT_FINALIZE: Duration = Duration::from_secs(60);
/// The same when the process ends without that: the other ranks may be gone.
const AT_EXIT: Duration = Duration::from_secs(2);

/// How long a process that has finished its part waits for others that have not, and for others that have not come to their end at all.
const FOR_WRITING: Duration = Duration::from_secs(60);
const FOR_RUNNING: Duration = Duration::from_secs(1);

/// Waits until the other processes of this machine have finished their parts, too.
fn wait_for_others(tables: &[Arc<ShutdownTable>]) {
    let start = Instant::now();
    let waits =
        |state, longest| start.elapsed() < longest && tables.iter().any(|table| table.has_other_in(state));
    while waits(ShutdownState::Writing, FOR_WRITING) || waits(ShutdownState::Running, FOR_RUNNING) {
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
    let mut files = handle_table::take_all();
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
    shutdown_table::all().iter().for_each(|table| table.publish(ShutdownState::Done));
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
    let (files, tables) = (handle_table::take_all(), shutdown_table::all());
    aqueduct_comm::abandon_mpi();
    if !files.is_empty() {
        tables.iter().for_each(|table| table.publish(ShutdownState::Writing));
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
    tables.iter().for_each(|table| table.publish(ShutdownState::Done));
    if had_files {
        wait_for_others(&tables);
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
    diagnostics::print_line(&format!("{call}: {text}"));
}
