//! Messages to the user with `AQUEDUCT_VERBOSE=1`: a banner and error texts. The engine adds the strategies of
//! accesses and a summary per file.

use std::io::Write;
use std::sync::Once;

use aqueduct_comm::Comm;
use aqueduct_report::{Report, ReportSource, is_enabled};

use crate::host::Mpi;
use crate::host::MpiError;

/// Prints a line.
pub(crate) fn print_line(text: &str) {
    Report::new(ReportSource::Mpiio).warn(&text);
}

/// The text of an error: the program gets only an error class.
pub(crate) fn print_error(call: &str, fault: &MpiError) {
    if is_enabled() {
        print_line(&format!("{call}: {fault}"));
    }
}

/// Prints at the first file which MPI is used and how, and records it for `aqueduct exec`.
pub(crate) fn print_banner(mpi: &Mpi, comm: &Comm) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let version = mpi.version();
        append_handshake(&format!("opened {version}"));
        if !is_enabled() || comm.rank() != 0 {
            return;
        }
        let (ranks, nodes) = (comm.size(), comm.node_count());
        let exchange = if nodes == 1 { "shared memory" } else { "shared memory and messages" };
        let progress = if comm.allows_background_collectives() { "threads of this library" } else { "calls of the program" };
        let level = comm.thread_level().map_or_else(String::new, |level| format!("{level:?}").to_lowercase());
        print_line(&format!(
            "version {} serves MPI_File_* under {version} ({}), {ranks} ranks on {nodes} nodes; ranks exchange through {exchange}; \
             requests advance by {progress} (thread level {level})",
            env!("CARGO_PKG_VERSION"),
            mpi.host().path().display(),
        ));
    });
}

/// Appends a line to the file that `aqueduct exec` reads afterwards.
pub(crate) fn append_handshake(text: &str) {
    let Some(path) = std::env::var_os("AQUEDUCT_NOTES").filter(|path| !path.is_empty()) else { return };
    // Errors are ignored: the program does not depend on it.
    if let Ok(mut notes) = std::fs::File::options().append(true).open(path) {
        let _ = notes.write_all(format!("{text}\n").as_bytes());
    }
}
