//! Cell files.

use std::cell::OnceCell;
use std::ffi::OsStr;

use anyhow::{Result, anyhow, ensure};
use aqueduct::checkpoint::particle_cells::{self, CellSummary};
use aqueduct::comm::Comm;
use aqueduct::file::{self, File};

use super::{
    Array, ArrayFile, ArrayPart, ChunkReferences, ElementType, Finding, NamedAttribute, VerifyDepth, molecule,
};
use crate::finding::FormatMismatch;

pub(crate) struct CellArrayFile {
    world: Comm,
    name: String,
    open: file::File,
    summary: CellSummary,
    arrays: [Array; 1],
    /// The result of the verification, once it was done.
    verified: OnceCell<Option<String>>,
}

impl CellArrayFile {
    pub(crate) fn open(world: &Comm, name: &OsStr) -> Result<Self> {
        let shown = name.display();
        let name = name.to_str().ok_or_else(|| anyhow!("{shown}: the name is not UTF-8"))?;
        let summary = particle_cells::summary(world, name)?;
        let open = File::open(world, name)?;
        let array = Array::new("particles", element(summary.row), vec![summary.particles]);
        let (world, name, verified) = (world.clone(), name.to_owned(), OnceCell::new());
        Ok(Self { world, name, open, summary, arrays: [array], verified })
    }
}

/// Rows of the size of a molecule are shown as molecules, others as bytes.
pub(super) fn element(row: u64) -> ElementType {
    if row == molecule::ROW {
        molecule::element()
    } else {
        ElementType::bytes(format!("particle of {row} bytes"), row)
    }
}

impl ArrayFile for CellArrayFile {
    fn format(&self) -> String {
        let [x, y, z] = self.summary.grid.cells();
        format!(
            "cell file, {x} × {y} × {z} cells, {} particles of {} bytes",
            self.summary.particles, self.summary.row
        )
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn attributes(&self) -> Vec<(String, Vec<NamedAttribute>)> {
        vec![(String::new(), vec![molecule::numbers(molecule::LENGTH, &self.summary.grid.length())])]
    }

    fn names_arrays(&self) -> bool {
        false
    }

    fn prepare(&self) -> Result<()> {
        // Values are returned only after the checksums were verified.
        let verify = || particle_cells::verify(&self.world, &self.name).err().map(|error| error.to_string());
        self.verified
            .get_or_init(verify)
            .as_ref()
            .map_or(Ok(()), |what| Err(FormatMismatch(what.clone()).into()))
    }

    fn read(&self, _: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let CellSummary { row, data, .. } = self.summary;
        let mut bytes = vec![0; (part.count * row) as usize];
        let read = self.open.at(data + part.first * row).read(&mut bytes)?.bytes();
        ensure!(read == bytes.len() as u64, "the file ends in particle {}", part.first + read / row.max(1));
        Ok(bytes)
    }

    fn references(&self, _: usize) -> Result<ChunkReferences> {
        Ok(ChunkReferences::adjacent(&self.arrays[0], OsStr::new(&self.name), self.summary.data))
    }

    fn has_checksums(&self) -> bool {
        true
    }

    fn findings(&self, depth: VerifyDepth) -> Result<Vec<Finding>> {
        if depth == VerifyDepth::Quick {
            let CellSummary { particles, row, data, .. } = self.summary;
            let (length, wanted) = (self.open.size()?, data.saturating_add(particles.saturating_mul(row)));
            let text = format!("the file has {length} bytes instead of {wanted}");
            return Ok((length < wanted).then(|| Finding::damage(text)).into_iter().collect());
        }
        let verified = particle_cells::verify(&self.world, &self.name).map_err(anyhow::Error::from);
        Ok(verified.err().iter().map(Finding::of).collect())
    }
}
