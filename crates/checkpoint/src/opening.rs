//! How files are opened that are written as a whole.

use aqueduct_file::{Mode, Open};

/// A file that is synced as soon as all of it is written: its bytes may be on their way to the medium meanwhile.
pub(crate) fn to_be_synced(mode: Mode) -> Open {
    Open::new(mode.create()).hint("aqueduct_write_behind", "true")
}
