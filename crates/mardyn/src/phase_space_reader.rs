//! Reading a phase space in any of the formats.

use aqueduct_checkpoint::{Molecule, SpatialRegion};
use aqueduct_comm::Comm;
use aqueduct_file::Result;

use crate::header_file::read_header;
use crate::phase_space::PhaseSpace;
use crate::phase_space_format::{PhaseSpaceFiles, PhaseSpaceFormat};
use crate::{binary, mpi_cells, old_style, pnetcdf};

/// An open phase space: its header is in memory, its molecules can be read.
#[derive(Debug)]
pub struct PhaseSpaceReader {
    format: PhaseSpaceFormat,
    comm: Comm,
    files: PhaseSpaceFiles,
    space: PhaseSpace,
    /// Offset and line of the first molecule in an `OldStyle` file.
    body: (u64, u64),
}

impl PhaseSpaceFormat {
    /// Opens the files of a phase space. Rank 0 reads the header for all ranks. Collective.
    pub fn open(self, comm: &Comm, files: &PhaseSpaceFiles) -> Result<PhaseSpaceReader> {
        let (space, body) = read_header(comm, &files.header, self == Self::OldStyle)?;
        Ok(PhaseSpaceReader { format: self, comm: comm.clone(), files: files.clone(), space, body })
    }
}

impl PhaseSpaceReader {
    /// The header.
    pub fn space(&self) -> &PhaseSpace {
        &self.space
    }

    /// The molecules in this rank's region. Any regions are possible. Of the formats with cells, only the cells that the region overlaps
    /// are read. Collective.
    pub fn read(&self, region: &SpatialRegion) -> Result<Vec<Molecule>> {
        match self.format {
            PhaseSpaceFormat::OldStyle => {
                old_style::read(&self.comm, &self.files.header, &self.space, self.body, Some(region))
            }
            PhaseSpaceFormat::Binary => binary::read(&self.comm, &self.files.data, &self.space, Some(region)),
            PhaseSpaceFormat::PnetCdf => {
                pnetcdf::read(&self.comm, &self.files.data, &self.space, Some(region))
            }
            PhaseSpaceFormat::MpiIo => {
                mpi_cells::read(&self.comm, &self.files.data, &self.space, Some(region))
            }
        }
    }

    /// An even share of the molecules, in the order of the file. Collective.
    pub fn read_share(&self) -> Result<Vec<Molecule>> {
        match self.format {
            PhaseSpaceFormat::OldStyle => {
                old_style::read(&self.comm, &self.files.header, &self.space, self.body, None)
            }
            PhaseSpaceFormat::Binary => binary::read(&self.comm, &self.files.data, &self.space, None),
            PhaseSpaceFormat::PnetCdf => pnetcdf::read(&self.comm, &self.files.data, &self.space, None),
            PhaseSpaceFormat::MpiIo => mpi_cells::read(&self.comm, &self.files.data, &self.space, None),
        }
    }
}
