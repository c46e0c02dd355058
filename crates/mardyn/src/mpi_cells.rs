//! `MPI-IO`: a header, and the cell file of older versions of `MarDyn`.

use aqueduct_checkpoint::particle_cells::cell_offsets::{
    OccupiedCell, assign_offsets, block_view, blocks, order_particles,
};
use aqueduct_checkpoint::{CellGrid, ExistingFile, Molecule, SpatialRegion};
use aqueduct_comm::Comm;
use aqueduct_comm::agreement::{agree, from_root};
use aqueduct_file::{Error, File, Kind, Mode, Result};

use crate::cell_counts::MoleculeCellCounts;
use crate::header_file::write_header;
use crate::molecule_values::{molecule, values};
use crate::phase_space::{MoleculeFormat, PhaseSpace};
use crate::phase_space_format::PhaseSpaceFiles;
use crate::text_header;

/// Size of a molecule in bytes.
const ROW: u64 = 116;

/// Offset of the counts.
const FIXED: u64 = 40;

pub(super) fn write(
    comm: &Comm,
    files: &PhaseSpaceFiles,
    space: &PhaseSpace,
    grid: &CellGrid,
    molecules: &[Molecule],
    existing: ExistingFile,
) -> Result<()> {
    let name = &files.data;
    existing.clear(comm, &files.header)?;
    let order = order_particles(comm, name, grid, molecules)?;
    let placed = assign_offsets(comm, name, grid, &order.runs)?;
    let head = if comm.rank() == 0 { head(name, grid, &placed.cells, placed.total) } else { Ok(Vec::new()) };
    let head = agree(comm, "write", name, head)?;
    let start = FIXED + 4 * grid.count();
    let file = existing.create_options(Mode::write_only()).open(comm, name)?;
    file.set_size(0)?;
    file.set_size(start + ROW * placed.total)?;
    let mut bytes = Vec::with_capacity(molecules.len() * ROW as usize);
    order.pick(molecules).for_each(|molecule| put(&mut bytes, molecule));
    let places = placed.first.iter().zip(&order.runs).map(|(first, run)| (*first, run.count));
    let view = block_view(name, start, &blocks(places, ROW))?;
    file.with_view(&view).all().write(&bytes)?;
    let first = if comm.rank() == 0 { file.at(0).write(&head).map(|_| ()) } else { Ok(()) };
    agree(comm, "write", name, first)?;
    file.sync()?;
    file.close()?;
    write_header(
        comm,
        &files.header,
        &text_header::encode(space, placed.total, MoleculeFormat::Icrvqd),
        existing,
    )
}

fn head(name: &str, grid: &CellGrid, cells: &[OccupiedCell], total: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity((FIXED + 4 * grid.count()) as usize);
    bytes.extend_from_slice(&grid.count().to_le_bytes());
    bytes.extend_from_slice(&total.to_le_bytes());
    grid.edge().iter().for_each(|edge| bytes.extend_from_slice(&edge.to_le_bytes()));
    bytes.resize(bytes.capacity(), 0);
    for entry in cells {
        let Ok(count) = i32::try_from(entry.count) else {
            let detail = format!(
                "cell {} has {} molecules, but this format stores at most 2^31 - 1 per cell; use smaller cells",
                entry.cell, entry.count
            );
            return Err(Error::new(Kind::NotRepresentable, "write", name, detail));
        };
        let place = (FIXED + 4 * entry.cell) as usize;
        bytes[place..place + 4].copy_from_slice(&count.to_le_bytes());
    }
    Ok(bytes)
}

/// A row in the order of the original's MPI datatype: id, component, 13 doubles.
fn put(bytes: &mut Vec<u8>, molecule: &Molecule) {
    bytes.extend_from_slice(&molecule.id.to_le_bytes());
    bytes.extend_from_slice(&(molecule.component as u32).to_le_bytes());
    values(molecule).iter().for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
}

/// Each rank reads the cells that its region overlaps, or an even share of them.
pub(super) fn read(
    comm: &Comm,
    name: &str,
    space: &PhaseSpace,
    region: Option<&SpatialRegion>,
) -> Result<Vec<Molecule>> {
    let damaged = |detail| Error::new(Kind::Damaged, "read", name, detail);
    let loaded = if comm.rank() == 0 { load(comm, name, space) } else { Ok(Vec::new()) };
    let head = from_root(comm, "read", name, loaded)?;
    let stored = decode(&head, space).map_err(damaged)?;
    let cells = stored.wanted(comm, region);
    let blocks = blocks(cells.iter().map(|cell| (stored.firsts[*cell], stored.counts[*cell])), ROW);
    let start = head.len() as u64;
    let file = File::open(comm, name)?;
    let view = block_view(name, start, &blocks)?;
    let mut bytes = vec![0; blocks.iter().map(|(length, _)| *length as usize).sum()];
    let read = file.with_view(&view).all().read(&mut bytes)?.bytes();
    let taken = if read == bytes.len() as u64 {
        take_all(&bytes, &blocks, start, space).map_err(damaged)
    } else {
        Err(damaged("the file ends before its last cell".into()))
    };
    let molecules = agree(comm, "read", name, taken)?;
    file.close()?;
    stored.finish(comm, name, space, molecules, region)
}

/// Reads the bytes before the molecules, and checks them against the length of the file.
fn load(comm: &Comm, name: &str, space: &PhaseSpace) -> Result<Vec<u8>> {
    let damaged = |detail| Error::new(Kind::Damaged, "read", name, detail);
    let file = File::open(&comm.comm_self(), name)?;
    let length = file.size()?;
    let mut head = vec![0; FIXED as usize];
    if file.at(0).read(&mut head)?.bytes() < FIXED {
        return Err(damaged(format!("byte {length}: the file ends inside its header")));
    }
    let (cells, molecules) = (word(&head, 0), word(&head, 8));
    let start = cells.checked_mul(4).and_then(|size| size.checked_add(FIXED));
    let end = start.and_then(|start| molecules.checked_mul(ROW)?.checked_add(start));
    let Some(start) = start.filter(|_| end == Some(length)) else {
        let detail = format!(
            "byte 0: {cells} cells and {molecules} molecules do not match the {length} bytes of the file"
        );
        return Err(damaged(detail));
    };
    head.resize(start as usize, 0);
    file.at(FIXED).read(&mut head[FIXED as usize..])?;
    decode(&head, space).map_err(damaged)?;
    Ok(head)
}

/// Decodes the cells and the number of molecules in each.
fn decode(head: &[u8], space: &PhaseSpace) -> std::result::Result<MoleculeCellCounts, String> {
    let (cells, molecules) = (word(head, 0), word(head, 8));
    if molecules != space.molecules {
        return Err(format!("byte 8: {molecules} molecules, but the header says {}", space.molecules));
    }
    let edge = [16, 24, 32].map(|at| f64::from_bits(word(head, at)));
    let grid = CellGrid::with_edge(space.length, edge).filter(|grid| grid.count() == cells);
    let grid = grid.ok_or_else(|| {
        format!(
            "byte 16: cells with the edges {edge:?} do not divide a box of {:?} into {cells} cells",
            space.length
        )
    })?;
    let mut counts = Vec::with_capacity(cells as usize);
    for (bytes, place) in head[FIXED as usize..].chunks_exact(4).zip((FIXED..).step_by(4)) {
        let count = i32::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default());
        counts.push(u64::try_from(count).map_err(|_| format!("byte {place}: a cell has {count} molecules"))?);
    }
    let sum: u64 = counts.iter().sum();
    if sum == molecules {
        return Ok(MoleculeCellCounts::new(grid, edge, counts));
    }
    Err(format!("byte {FIXED}: the cells hold {sum} molecules, not {molecules}"))
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default())
}

fn take_all(
    bytes: &[u8],
    blocks: &[(u64, i64)],
    start: u64,
    space: &PhaseSpace,
) -> std::result::Result<Vec<Molecule>, String> {
    let mut molecules = Vec::with_capacity(bytes.len() / ROW as usize);
    let places = blocks
        .iter()
        .flat_map(|(length, place)| (0..*length).step_by(ROW as usize).map(move |at| *place as u64 + at));
    for (row, place) in bytes.chunks_exact(ROW as usize).zip(places) {
        let component = u32::from_le_bytes(row[8..].first_chunk().copied().unwrap_or_default());
        let numbers = std::array::from_fn(|index| f64::from_bits(word(row, 12 + 8 * index)));
        let molecule = molecule(word(row, 0), u64::from(component), &numbers);
        let wrong = (component > i32::MAX as u32)
            .then(|| format!("molecule {} is of component {}", molecule.id, component as i32));
        if let Some(what) = wrong.or_else(|| space.find_defect(&molecule)) {
            return Err(format!("byte {}: {what}", start + place));
        }
        molecules.push(molecule);
    }
    Ok(molecules)
}
