//! An open phase space.

use aqueduct_comm::Comm;
use aqueduct_file::{Mode, Open};

use super::phase_space::PhaseSpace;
use super::{Files, Format, binary, mpi_cells, old_style, pnetcdf, scan::Flaw, text, xml};
use crate::error::{Error, Kind, Result, from_first};
use crate::molecule::Molecule;
use crate::region::Region;

/// Heads are not longer than this, whatever a file says.
const LONGEST_HEAD: u64 = 16 << 20;

/// A phase space that was opened: its head is known, its molecules can be read.
#[derive(Debug)]
pub struct Input {
    format: Format,
    comm: Comm,
    files: Files,
    space: PhaseSpace,
    /// Where the molecules begin in a file that has both, and in which line.
    body: (u64, u64),
}

impl Input {
    pub(super) fn open(format: Format, comm: &Comm, files: &Files) -> Result<Self> {
        let name = &files.header;
        let bytes = from_first(comm, "open", name, || load_head(comm, name, format == Format::OldStyle))?;
        // All ranks parse the same bytes, and so come to the same end.
        let (space, body) = if is_xml(&bytes) {
            (xml::read(&bytes).map_err(|flaw| flawed("open", name, &flaw))?, (0, 0))
        } else {
            let head = text::read(&bytes).map_err(|flaw| flawed("open", name, &flaw))?;
            (head.space, (head.end as u64, head.line))
        };
        Ok(Self { format, comm: comm.clone(), files: files.clone(), space, body })
    }

    /// What the file says about all of its molecules.
    pub fn space(&self) -> &PhaseSpace {
        &self.space
    }

    /// The molecules in this rank's region. Collective; the regions of the ranks may be any. Cell formats touch only the cells that the region overlaps.
    pub fn read(&self, region: &Region) -> Result<Vec<Molecule>> {
        match self.format {
            Format::OldStyle => {
                old_style::read(&self.comm, &self.files.header, &self.space, self.body, Some(region))
            }
            Format::Binary => binary::read(&self.comm, &self.files.data, &self.space, Some(region)),
            Format::PnetCdf => pnetcdf::read(&self.comm, &self.files.data, &self.space, Some(region)),
            Format::MpiIo => mpi_cells::read(&self.comm, &self.files.data, &self.space, Some(region)),
        }
    }

    /// An even share of the molecules, in the order of the file. Collective.
    pub fn read_share(&self) -> Result<Vec<Molecule>> {
        match self.format {
            Format::OldStyle => old_style::read(&self.comm, &self.files.header, &self.space, self.body, None),
            Format::Binary => binary::read(&self.comm, &self.files.data, &self.space, None),
            Format::PnetCdf => pnetcdf::read(&self.comm, &self.files.data, &self.space, None),
            Format::MpiIo => mpi_cells::read(&self.comm, &self.files.data, &self.space, None),
        }
    }
}

fn is_xml(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'<')
}

/// The bytes of a head: of a file that has molecules too, only as far as the head goes.
fn load_head(comm: &Comm, name: &str, has_molecules: bool) -> Result<Vec<u8>> {
    let file = Open::new(Mode::read_only()).open(&comm.alone(), name)?;
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
        match text::read(&bytes) {
            // What ends well before the bytes do, and what may follow it, was not cut off by their end.
            Ok(head) if head.end + 4096 < bytes.len() || read == size => {
                bytes.truncate(head.end);
                return Ok(bytes);
            }
            Err(flaw) if read == size || len >= LONGEST_HEAD => return Err(flawed("open", name, &flaw)),
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

pub(super) fn flawed(operation: &'static str, name: &str, flaw: &Flaw) -> Error {
    Error::new(Kind::Damaged, operation, name, format!("line {}: {}", flaw.line, flaw.what))
}
