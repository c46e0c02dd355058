//! The file of a header, as text or XML. Rank 0 reads it for all ranks, and writes it.

use aqueduct_checkpoint::ExistingFile;
use aqueduct_comm::Comm;
use aqueduct_comm::agreement::from_root;
use aqueduct_file::{Error, File, Kind, Mode, OpenOptions, Result};

use crate::phase_space::PhaseSpace;
use crate::{text_header, xml_header};

/// The longest header that is read, in bytes.
const LONGEST_HEADER: u64 = 16 << 20;

/// Writes the text of a header. Collective.
pub(super) fn write_header(comm: &Comm, name: &str, text: &str, existing: ExistingFile) -> Result<()> {
    let write = || {
        let file =
            OpenOptions::from(existing.create_mode(Mode::write_only())).open(&comm.comm_self(), name)?;
        file.set_size(0)?;
        file.at(0).write(text.as_bytes())?;
        file.sync()?;
        file.close()
    };
    let written = if comm.rank() == 0 { write() } else { Ok(()) };
    from_root(comm, "write", name, written.map(|()| Vec::new())).map(drop)
}

/// Reads a header. Returns also the offset and the line of the first molecule in an `OldStyle` file. Collective.
pub(super) fn read_header(comm: &Comm, name: &str, has_molecules: bool) -> Result<(PhaseSpace, (u64, u64))> {
    let loaded = if comm.rank() == 0 { load(comm, name, has_molecules) } else { Ok(Vec::new()) };
    let bytes = from_root(comm, "open", name, loaded)?;
    // All ranks parse the same bytes, so all have the same result.
    if is_xml(&bytes) {
        let space = xml_header::read(&bytes).map_err(|flaw| flaw.damaged("open", name))?;
        return Ok((space, (0, 0)));
    }
    let header = text_header::read(&bytes).map_err(|flaw| flaw.damaged("open", name))?;
    Ok((header.space, (header.end as u64, header.line)))
}

fn is_xml(bytes: &[u8]) -> bool {
    bytes.trim_ascii_start().first() == Some(&b'<')
}

/// The bytes of a header, without those of the molecules that may follow it.
fn load(comm: &Comm, name: &str, has_molecules: bool) -> Result<Vec<u8>> {
    let file = File::open(&comm.comm_self(), name)?;
    let size = file.size()?;
    if !has_molecules && size > LONGEST_HEADER {
        let detail = format!(
            "a header has at most {LONGEST_HEADER} bytes, this file has {size}; is it the data file?"
        );
        return Err(Error::new(Kind::Damaged, "open", name, detail));
    }
    let mut len = if has_molecules { 64 << 10 } else { size };
    loop {
        let mut bytes = vec![0; size.min(len).min(LONGEST_HEADER) as usize];
        let read = file.at(0).read(&mut bytes)?.bytes();
        bytes.truncate(read as usize);
        if !has_molecules {
            return Ok(bytes);
        }
        match text_header::read(&bytes) {
            // A header that ends well before the bytes do is complete, with the optional lines after it.
            Ok(header) if header.end + 4096 < bytes.len() || read == size => {
                bytes.truncate(header.end);
                return Ok(bytes);
            }
            Err(flaw) if read == size || len >= LONGEST_HEADER => {
                return Err(flaw.damaged("open", name));
            }
            _ if len >= LONGEST_HEADER => {
                return Err(Error::new(
                    Kind::Damaged,
                    "open",
                    name,
                    format!("the header is longer than {LONGEST_HEADER} bytes"),
                ));
            }
            _ => len *= 8,
        }
    }
}
