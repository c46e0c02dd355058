//! Repair of damaged files.

use std::ffi::OsStr;

use anyhow::{Result, bail};
use aqueduct::comm::Comm;
use aqueduct::object::repair_described;

use crate::array_file::{FileKind, detect};

/// Repairs an object file that is damaged; what was done, if anything. Collective.
pub(super) fn repair(world: &Comm, name: &OsStr) -> Result<Option<String>> {
    match detect(world, name, false)? {
        FileKind::Objects(data) => {
            let is_whole = aqueduct::object::ObjectOpenOptions::open_dyn(world, &data)
                .and_then(|file| file.verify())
                .is_ok();
            Ok(if is_whole { None } else { Some(repair_described(world, &data)?.to_string()) })
        }
        FileKind::Stream(_) | FileKind::Store(_) | FileKind::Generation { .. } => bail!(
            "{}: only object files are repaired; the complete steps of streams and the whole generations of checkpoint stores can be read as they \
             are, and `convert` writes them to another file",
            name.display()
        ),
        _ => bail!(
            "{}: only object files are repaired: a file of this format has no second record of what is lost; `convert --array` writes the arrays that \
             can be read to another file",
            name.display()
        ),
    }
}
