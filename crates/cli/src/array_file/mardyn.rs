//! Phase spaces of `MarDyn`: text, binary, cells.

use std::ffi::OsString;

use anyhow::Result;
use aqueduct::checkpoint::Molecule;
use aqueduct::comm::Comm;
use aqueduct::mardyn::{self, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};

use super::{Array, ArrayFile, ArrayPart, AttributeValue, Finding, NamedAttribute, molecule};

/// A phase space whose molecules were all read. This detects damage, since the formats have no checksums.
pub(crate) struct MardynArrayFile {
    format: PhaseSpaceFormat,
    space: PhaseSpace,
    molecules: Vec<Molecule>,
    arrays: [Array; 1],
}

impl MardynArrayFile {
    pub(crate) fn open(world: &Comm, format: PhaseSpaceFormat, files: &PhaseSpaceFiles) -> Result<Self> {
        let input = format.open(world, files)?;
        let molecules = input.read_share()?;
        let array = Array::new("molecules", molecule::element(), vec![molecules.len() as u64]);
        Ok(Self { format, space: input.space().clone(), molecules, arrays: [array] })
    }
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

    fn read(&self, _: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let range = part.elements();
        let mut bytes = Vec::with_capacity((part.count * molecule::ROW) as usize);
        for one in &self.molecules[range.start as usize..range.end as usize] {
            molecule::encode(one, &mut bytes);
        }
        Ok(bytes)
    }

    fn findings(&self) -> Result<Vec<Finding>> {
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
