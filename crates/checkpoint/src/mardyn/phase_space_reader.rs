//! An open phase space.

use aqueduct_comm::Comm;
use aqueduct_file::File;

use super::phase_space::PhaseSpace;
use super::{
    PhaseSpaceFiles, PhaseSpaceFormat, binary, mpi_cells, old_style, pnetcdf, text_header,
    word_scanner::LineError, xml_header,
};
use crate::error::{Error, Kind, Result, on_root};
use crate::molecule::Molecule;
use crate::region::SpatialRegion;

/// Heads are not longer than this, whatever a file says.
const LONGEST_HEAD: u64 = 16 << 20;

/// A phase space that was opened: its head is known, its molecules can be read.
#[derive(Debug)]
pub struct PhaseSpaceReader {
    format: PhaseSpaceFormat,
    comm: Comm,
    files: PhaseSpaceFiles,
    space: PhaseSpace,
    /// Where the molecules begin in a file that has both, and in which line.
    body: (u64, u64),
}

impl PhaseSpaceReader {
    pub(super) fn open(format: PhaseSpaceFormat, comm: &Comm, files: &PhaseSpaceFiles) -> Result<Self> {
        let name = &files.header;
        let bytes =
            on_root(comm, "open", name, || load_head(comm, name, format == PhaseSpaceFormat::OldStyle))?;
        // All ranks parse the same bytes, and so come to the same end.
        let (space, body) = if is_xml(&bytes) {
            (xml_header::read(&bytes).map_err(|flaw| damaged_error("open", name, &flaw))?, (0, 0))
        } else {
            let head = text_header::read(&bytes).map_err(|flaw| damaged_error("open", name, &flaw))?;
            (head.space, (head.end as u64, head.line))
        };
        Ok(Self { format, comm: comm.clone(), files: files.clone(), space, body })
    }

    /// What the file says about all of its molecules.
    pub fn space(&self) -> &PhaseSpace {
        &self.space
    }

    /// The molecules in this rank's region. Collective; the regions of the ranks may be any. Cell formats touch only the cells that the region overlaps.
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

fn is_xml(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'<')
}

/// The bytes of a head: of a file that has molecules too, only as far as the head goes.
fn load_head(comm: &Comm, name: &str, has_molecules: bool) -> Result<Vec<u8>> {
    let file = File::open(&comm.comm_self(), name)?;
    let size = file.size()?;
    if !has_molecules && size > LONGEST_HEAD {
        let detail = format!("{size} bytes are no header of a phase space; is this the data file?");
        return Err(Error::new(Kind::Damaged, "open", name, detail));
    }
    let mut len = if has_molecules { 64 << 10 } else { size };
    loop {
        let mut bytes = vec![0; size.min(len).min(LONGEST_HEAD) as usize];
        let read = file.at(0).read(&mut bytes)?.bytes();
        bytes.truncate(read as usize);
        if !has_molecules {
            return Ok(bytes);
        }
        match text_header::read(&bytes) {
            // What ends well before the bytes do, and what may follow it, was not cut off by their end.
            Ok(head) if head.end + 4096 < bytes.len() || read == size => {
                bytes.truncate(head.end);
                return Ok(bytes);
            }
            Err(flaw) if read == size || len >= LONGEST_HEAD => {
                return Err(damaged_error("open", name, &flaw));
            }
            _ if len >= LONGEST_HEAD => {
                return Err(Error::new(
                    Kind::Damaged,
                    "open",
                    name,
                    format!("the head is longer than {LONGEST_HEAD} bytes"),
                ));
            }
            _ => len *= 8,
        }
    }
}

pub(super) fn damaged_error(operation: &'static str, name: &str, flaw: &LineError) -> Error {
    Error::new(Kind::Damaged, operation, name, format!("line {}: {}", flaw.line, flaw.what))
}
