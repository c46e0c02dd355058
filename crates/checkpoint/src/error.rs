//! Errors of this layer: the error type of the file layer, with constructors for folders.

use std::io;
use std::path::Path;

use aqueduct_comm::Comm;
pub(crate) use aqueduct_comm::agreement::agree;
use aqueduct_comm::agreement::from_root;
pub use aqueduct_file::{Error, Kind, Result};

/// An error of the operating system on a folder or file that is accessed without the file layer.
pub(crate) fn system(operation: &'static str, path: &Path, error: io::Error) -> Error {
    let remedy = match error.kind() {
        io::ErrorKind::NotFound => "; check the path: the file or folder was moved or removed",
        io::ErrorKind::PermissionDenied => "; make it accessible to this program, or name another folder",
        io::ErrorKind::ReadOnlyFilesystem => "; name a folder on a medium that can be written",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space, or name a folder on another medium"
        }
        _ => "",
    };
    let detail = format!("{error}{remedy}");
    Error::from_io(operation, path, error, detail)
}

/// Runs `work` on rank 0 and returns its bytes, or its error, on every rank.
pub(crate) fn on_root(
    comm: &Comm,
    operation: &'static str,
    name: &str,
    work: impl FnOnce() -> Result<Vec<u8>>,
) -> Result<Vec<u8>> {
    from_root(comm, operation, name, if comm.rank() == 0 { work() } else { Ok(Vec::new()) })
}
