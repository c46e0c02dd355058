//! The way `together`: one collective write of all particles into one object file, and the read on any number of ranks.

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::object::{ObjectFile, ObjectView};

use crate::record::StoredParticle;

// [lines of code: write]
/// Writes the records of all ranks. Collective.
pub fn write<R: StoredParticle>(world: &Comm, name: &str, records: &Vec<R>) -> Result<()> {
    let file = ObjectFile::replace(world, name)?;
    let view = ObjectView::contiguous(world, records.len() as u64)?;
    file.set_view(&view)?;
    file.at_pointer().all().write(records)?;
    Ok(file.close()?)
}
// [end]

// [lines of code: read]
/// Reads a share of the records. Collective.
pub fn read<R: StoredParticle>(world: &Comm, name: &str) -> Result<Vec<R>> {
    let file = ObjectFile::open(world, name)?;
    file.set_view(&ObjectView::block(world, file.count()?)?)?;
    let records = file.at_pointer().all().read_vec(file.count_in_view()?)?;
    file.close()?;
    Ok(records)
}
// [end]
