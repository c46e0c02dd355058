//! `Binary`: a header, and rows of bytes.

use aqueduct_checkpoint::{ExistingFile, Molecule, SpatialRegion};
use aqueduct_comm::agreement::agree;
use aqueduct_comm::{Comm, Op};
use aqueduct_file::{Error, File, Kind, Mode, Result};

use crate::header_file::write_header;
use crate::molecule_values::{default_values, molecule, values};
use crate::phase_space::{MoleculeFormat, PhaseSpace};
use crate::phase_space_format::PhaseSpaceFiles;
use crate::redistribution::distribute_rows;
use crate::{text_header, xml_header};

/// Buffer size for rows, in bytes.
const PIECE: usize = 4 << 20;

/// Writes the rows in rank order, and the header after they are durable: XML if its name ends in `.xml`, else text.
pub(super) fn write(
    comm: &Comm,
    files: &PhaseSpaceFiles,
    space: &PhaseSpace,
    molecules: &[Molecule],
    existing: ExistingFile,
) -> Result<()> {
    let comm_error = |error| Error::from_comm("write", &files.data, &error);
    existing.clear(comm, &files.header)?;
    let count = molecules.len() as u64;
    let before = comm.exclusive_scan_one(Op::Sum, count).map_err(comm_error)?.unwrap_or(0);
    let total = comm.allreduce_one(Op::Sum, count).map_err(comm_error)?;
    let size = space.molecule_format.size();
    let file = existing.create_options(Mode::write_only()).open(comm, &files.data)?;
    // A replaced file may have been longer.
    file.set_size(total * size as u64)?;
    let mut place = before * size as u64;
    let mut piece = Vec::with_capacity(PIECE + size);
    let mut outcome = Ok(());
    for some in molecules.chunks(PIECE / size) {
        piece.clear();
        some.iter().for_each(|molecule| put(&mut piece, molecule, space.molecule_format));
        outcome = file.at(place).write(&piece).map(|_| ());
        if outcome.is_err() {
            break;
        }
        place += piece.len() as u64;
    }
    agree(comm, "write", &files.data, outcome)?;
    file.sync()?;
    file.close()?;
    let xml = std::path::Path::new(&files.header)
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("xml"));
    let head = if xml {
        xml_header::encode(space, total)
    } else {
        text_header::encode(space, total, space.molecule_format)
    };
    write_header(comm, &files.header, &head, existing)
}

fn put(piece: &mut Vec<u8>, molecule: &Molecule, rows: MoleculeFormat) {
    piece.extend_from_slice(&molecule.id.to_le_bytes());
    if rows != MoleculeFormat::Irv {
        piece.extend_from_slice(&(molecule.component as u32 + 1).to_le_bytes());
    }
    for value in &values(molecule)[..rows.numbers()] {
        piece.extend_from_slice(&value.to_le_bytes());
    }
}

/// Each rank reads an even share of the rows.
pub(super) fn read(
    comm: &Comm,
    name: &str,
    space: &PhaseSpace,
    region: Option<&SpatialRegion>,
) -> Result<Vec<Molecule>> {
    let file = File::open(comm, name)?;
    let (size, length) = (space.molecule_format.size(), file.size()?);
    if u128::from(space.molecules) * size as u128 != u128::from(length) {
        let detail = format!(
            "{} molecules of {size} bytes ({}) do not match the {length} bytes of the file; truncate it if its end belongs to an older file",
            space.molecules,
            space.molecule_format.name()
        );
        return Err(Error::new(Kind::Damaged, "read", name, detail));
    }
    let part = |rank: usize| (u128::from(space.molecules) * rank as u128 / comm.size() as u128) as u64;
    let (mut row, end) = (part(comm.rank()), part(comm.rank() + 1));
    let mut molecules = Vec::with_capacity((end - row) as usize);
    let mut outcome = Ok(());
    let mut piece = vec![0; (PIECE / size).min((end - row) as usize) * size];
    while row < end && outcome.is_ok() {
        let count = ((end - row) as usize).min(PIECE / size);
        outcome = load(&file, row, &mut piece[..count * size], space, &mut molecules);
        row += count as u64;
    }
    agree(comm, "read", name, outcome)?;
    file.close()?;
    distribute_rows(comm, name, space, molecules, region)
}

fn load(
    file: &File,
    row: u64,
    bytes: &mut [u8],
    space: &PhaseSpace,
    molecules: &mut Vec<Molecule>,
) -> Result<()> {
    let size = space.molecule_format.size();
    let start = row * size as u64;
    let damaged = |place: u64, what: String| {
        Error::new(Kind::Damaged, "read", file.name(), format!("byte {place}: {what}"))
    };
    let read = file.at(start).read(&mut *bytes)?.bytes();
    if read < bytes.len() as u64 {
        return Err(damaged(start + read, "the file ends here".into()));
    }
    for (bytes, index) in bytes.chunks_exact(size).zip(0..) {
        let place = start + index * size as u64;
        let molecule = take(bytes, space.molecule_format).map_err(|what| damaged(place, what))?;
        if let Some(what) = space.find_defect(&molecule) {
            return Err(damaged(place, what));
        }
        molecules.push(molecule);
    }
    Ok(())
}

fn take(bytes: &[u8], rows: MoleculeFormat) -> std::result::Result<Molecule, String> {
    let word = |at: usize| bytes[at..].first_chunk::<8>().copied().unwrap_or_default();
    let id = u64::from_le_bytes(word(0));
    let (component, first) = if rows == MoleculeFormat::Irv {
        (1, 8)
    } else {
        (u32::from_le_bytes(bytes[8..].first_chunk().copied().unwrap_or_default()), 12)
    };
    if component == 0 {
        return Err(format!("molecule {id} is of component 0, but components are counted from 1"));
    }
    let mut numbers = default_values();
    for (index, number) in numbers[..rows.numbers()].iter_mut().enumerate() {
        *number = f64::from_le_bytes(word(first + 8 * index));
    }
    Ok(molecule(id, u64::from(component) - 1, &numbers))
}
