//! The end of the program: buffered data is written when MPI is finalized, at the latest when the process exits.
//!
//! When MPI is finalized, open files are finished and closed, and no thread of this library calls MPI afterwards. A process that exits
//! without finalizing MPI finishes its own part without calling MPI; since launchers kill the other processes as soon as one has exited
//! so, the processes of a machine wait for each other. A failure is printed, and the exit status is not 0.
//!
//! `unsafe` here: a destructor function that the loader calls, and `_exit`.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::file::handle_table;
use crate::file::{MpiFile, SplitOperation};
use crate::host::Mpi;
use crate::shutdown_table::{self, ShutdownState, ShutdownTable};
use crate::{diagnostics, request};

/// Time limit for all collective operations in progress when MPI is finalized: all ranks reach that point.
const AT_FINALIZE: Duration = Duration::from_secs(60);
/// Time limit at process exit without `MPI_Finalize`: other ranks may have exited.
const AT_EXIT: Duration = Duration::from_secs(2);

/// Times that a finished process waits for others that are finishing, and for others that have not reached their exit.
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

/// True if accepted data is lost.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// The process that opened files; none before the first. A forked child has the handles, but not the I/O threads.
static OPENED_BY: AtomicU32 = AtomicU32::new(0);

#[used]
#[unsafe(link_section = ".fini_array")]
static LAST: extern "C" fn() = at_exit;

/// Records that this process has opened files.
pub(crate) fn note_open() {
    OPENED_BY.store(std::process::id(), Ordering::Release);
}

/// Finishes requests and open files before MPI is finalized. Collective over the processes of each file. Operations that need
/// other ranks are waited for until one deadline, then writes to the medium without a limit.
pub(crate) fn at_finalize(mpi: &Mpi) {
    let deadline = Instant::now() + AT_FINALIZE;
    request::finish_all(mpi, deadline, report);
    let mut files = handle_table::take_all();
    // In the order of opening, which is the same on all ranks.
    files.sort_by_key(|open| open.opened);
    files.iter().for_each(|open| end_split(open, deadline));
    for open in &files {
        reported("MPI_Finalize", open.file.finish_alone(deadline));
    }
    for open in files {
        // Other ranks may still need the shared-pointer thread of this one.
        reported("MPI_Finalize", open.file.wait_for_users(deadline));
        // Another thread of the program still uses the file.
        if let Some(open) = Arc::into_inner(open) {
            reported("MPI_Finalize", open.into_file().close_alone());
        }
    }
    shutdown_table::all().iter().for_each(|table| table.publish(ShutdownState::Done));
}

/// Ends a split collective operation that the program has not ended.
fn end_split(open: &MpiFile, deadline: Instant) {
    let begun = open.split().take();
    if let Some(SplitOperation { call, split }) = begun {
        // Incomplete operations are reported by their files. The buffer may hold MPI objects, and MPI is not called at exit.
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
        // SAFETY: output of the program is flushed first; the rest of the exit would overwrite the status.
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
