//! Phase spaces of `MarDyn`: text, binary, cells.

use std::ffi::OsString;
use std::ops::Range;

use anyhow::{Context, Result};
use aqueduct::comm::{Comm, Op};
use aqueduct::mardyn::{self, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};

use super::{Array, ArrayFile, ArrayPart, AttributeValue, Finding, NamedAttribute, VerifyDepth, molecule};

/// A phase space whose molecules were all read, a share on each rank. This detects damage, since the formats have no checksums.
pub(crate) struct MardynArrayFile {
    format: PhaseSpaceFormat,
    space: PhaseSpace,
    /// All molecules as records, on rank 0.
    records: Vec<u8>,
    arrays: [Array; 1],
}

impl MardynArrayFile {
    pub(crate) fn open(world: &Comm, format: PhaseSpaceFormat, files: &PhaseSpaceFiles) -> Result<Self> {
        let input = format.open(world, files)?;
        let molecules = input.read_share()?;
        let mut mine = Vec::with_capacity(molecules.len() * molecule::ROW as usize);
        molecules.iter().for_each(|one| molecule::encode(one, &mut mine));
        let count = world.allreduce_one(Op::Sum, molecules.len() as u64)?;
        drop(molecules);
        let records = if world.size() == 1 { mine } else { gather_records(world, &mine)? };
        let array = Array::new("molecules", molecule::element(), vec![count]);
        Ok(Self { format, space: input.space().clone(), records, arrays: [array] })
    }
}

/// The records of all ranks, on rank 0.
fn gather_records(world: &Comm, mine: &[u8]) -> Result<Vec<u8>> {
    Ok(world.gather_varied(0, mine)?.map_or_else(Vec::new, |all| all.concat()))
}

impl ArrayFile for MardynArrayFile {
    fn names_arrays(&self) -> bool {
        false
    }

    fn format(&self) -> String {
        let (format, rows) = (self.format.name(), self.space.molecule_format.name());
        format!("phase space of MarDyn, {format}, rows {rows}, version {}", self.space.version)
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn attributes(&self) -> Vec<(String, Vec<NamedAttribute>)> {
        let space = &self.space;
        let mut all = vec![
            molecule::numbers(molecule::LENGTH, &space.length),
            molecule::numbers("time", &[space.time]),
        ];
        all.extend(space.temperature.map(|temperature| molecule::numbers("temperature", &[temperature])));
        if !space.components.is_empty() {
            let count = space.components.len() as f64;
            all.push(molecule::numbers("components", &[count]));
        }
        all.push(NamedAttribute::new("rows", AttributeValue::Text(space.molecule_format.name().to_owned())));
        vec![(String::new(), all)]
    }

    fn readers(&self) -> usize {
        1
    }

    fn read(&self, _: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let Range { start, end } = part.elements();
        let bytes = (start * molecule::ROW) as usize..(end * molecule::ROW) as usize;
        Ok(self.records.get(bytes).context("the records are on rank 0")?.to_vec())
    }

    fn findings(&self, _: VerifyDepth) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}

/// Converts between two formats of phase spaces, with the whole header; returns whether both files are phase spaces.
pub(crate) fn convert(
    world: &Comm,
    from: (PhaseSpaceFormat, &PhaseSpaceFiles),
    to: &std::ffi::OsStr,
) -> Result<bool> {
    let Some((format, files)) = molecule::mardyn_files(to) else { return Ok(false) };
    let names = [&files.header, &files.data].into_iter().filter(|name| !name.is_empty()).map(OsString::from);
    let names: Vec<OsString> = names.collect();
    molecule::refuse_existing(world, &names)?;
    mardyn::convert(world, from, (format, &files)).inspect_err(|error| {
        // An incomplete file is deleted; a file that another program created meanwhile is not.
        if error.kind() != aqueduct::file::Kind::FileExists {
            names.iter().for_each(|name| drop(aqueduct::file::delete(name)));
        }
    })?;
    Ok(true)
}
