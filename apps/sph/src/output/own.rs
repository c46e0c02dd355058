//! The way `own`: each rank writes its own object file, without messages.

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::object::ObjectFile;

use crate::record::StoredParticle;

/// Writes the records of this rank.
pub(super) fn write<R: StoredParticle>(world: &Comm, name: &str, records: &Vec<R>) -> Result<()> {
    let file = ObjectFile::replace(&world.comm_self(), name)?;
    file.at_pointer().write(records)?;
    Ok(file.close()?)
}
