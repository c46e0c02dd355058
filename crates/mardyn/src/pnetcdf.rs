//! `PnetCDF`: a header, and a netCDF file with a variable per cell.

use aqueduct_checkpoint::particle_cells::cell_offsets::{assign_offsets, order_particles};
use aqueduct_checkpoint::{CellGrid, ExistingFile, Molecule, SpatialRegion};
use aqueduct_comm::Comm;
use aqueduct_comm::agreement::agree;
use aqueduct_file::{Error, Kind, Result};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions, NetcdfFile, NetcdfOpenOptions, Values};

use crate::cell_counts::MoleculeCellCounts;
use crate::header_file::write_header;
use crate::molecule_values::{VALUES, molecule, values};
use crate::phase_space::{MoleculeFormat, PhaseSpace};
use crate::phase_space_format::PhaseSpaceFiles;
use crate::text_header;

/// Doubles of a molecule: its values, its id, its component counted from 0.
const WIDTH: usize = 15;

/// Attributes of the file.
const EDGE: &str = "cell_length";
const CELLS: &str = "cells";
const MOLECULES: &str = "molecules";

/// The number of cells without molecules that is always accepted.
const MOST_EMPTY: u64 = 1 << 20;

/// The greatest whole number up to which all are exact as doubles.
const EXACT: u64 = 1 << 53;

/// Writes a variable per cell. A cell without molecules has none, since a dimension cannot have the length 0.
pub(super) fn write(
    comm: &Comm,
    files: &PhaseSpaceFiles,
    space: &PhaseSpace,
    grid: &CellGrid,
    molecules: &[Molecule],
    existing: ExistingFile,
) -> Result<()> {
    let name = &files.data;
    let comm_error = |error| Error::from_comm("write", name, &error);
    let large = molecules.iter().find(|molecule| molecule.id > EXACT);
    let held = large.map_or(Ok(()), |molecule| {
        let detail = format!("the id {} is not exact as a double; use another format", molecule.id);
        Err(Error::new(Kind::NotRepresentable, "write", name, detail))
    });
    agree(comm, "write", name, held)?;
    existing.clear(comm, &files.header)?;
    let order = order_particles(comm, name, grid, molecules)?;
    let placed = assign_offsets(comm, name, grid, &order.runs)?;
    let cells = comm.broadcast_vec(0, placed.cells).map_err(comm_error)?;
    if grid.count() > MOST_EMPTY + 64 * cells.len() as u64 {
        let detail = format!("too few of the {} cells have molecules; use larger cells", grid.count());
        return Err(Error::new(Kind::NotRepresentable, "write", name, detail));
    }
    let create = match existing {
        ExistingFile::Refuse => NetcdfCreateOptions::new(),
        ExistingFile::Replace => NetcdfCreateOptions::new().replace(),
    };
    let mut dataset = create.create(comm, name)?;
    let variables = dataset.define(|file| {
        file.attribute(EDGE, grid.edge().to_vec())?;
        file.attribute(CELLS, vec![grid.count()])?;
        file.attribute(MOLECULES, vec![placed.total])?;
        let mut variables = Vec::with_capacity(cells.len());
        for entry in &cells {
            let dimension = file.dimension(&format!("d{}", entry.cell), entry.count * WIDTH as u64)?;
            variables.push((
                entry.cell,
                file.variable(&format!("v{}", entry.cell), NcType::Double, &[dimension])?,
            ));
        }
        Ok(variables)
    })?;
    let values: Vec<f64> = order.pick(molecules).flat_map(packed).collect();
    let mut rest = &values[..];
    let mut queue = dataset.queue();
    for run in &order.runs {
        let (mine, others) = rest.split_at(run.count as usize * WIDTH);
        rest = others;
        if let Ok(index) = variables.binary_search_by_key(&run.cell, |(cell, _)| *cell) {
            queue.put(variables[index].1, 0..mine.len() as u64, mine);
        }
    }
    queue.run_all()?;
    dataset.commit()?;
    dataset.close()?;
    write_header(
        comm,
        &files.header,
        &text_header::encode(space, placed.total, MoleculeFormat::Icrvqd),
        existing,
    )
}

fn packed(molecule: &Molecule) -> [f64; WIDTH] {
    let mut packed = [0.0; WIDTH];
    packed[..VALUES].copy_from_slice(&values(molecule));
    packed[VALUES] = molecule.id as f64;
    packed[VALUES + 1] = molecule.component as f64;
    packed
}

/// Each rank reads the cells that its region overlaps, or an even share of them.
pub(super) fn read(
    comm: &Comm,
    name: &str,
    space: &PhaseSpace,
    region: Option<&SpatialRegion>,
) -> Result<Vec<Molecule>> {
    let damaged = |detail: String| Error::new(Kind::Damaged, "read", name, detail);
    let dataset = NetcdfOpenOptions::new().open(comm, name)?;
    let stored = describe(&dataset, space).map_err(damaged)?;
    let cells: Vec<usize> =
        stored.wanted(comm, region).into_iter().filter(|cell| stored.counts[*cell] > 0).collect();
    let mut values: Vec<Vec<f64>> =
        cells.iter().map(|cell| vec![0.0; stored.counts[*cell] as usize * WIDTH]).collect();
    let mut queue = dataset.queue();
    for (cell, values) in cells.iter().zip(&mut values) {
        let variable = dataset.variable(&format!("v{cell}"))?;
        queue.get(variable, 0..values.len() as u64, values);
    }
    queue.run_all().map_err(|error| match error.kind() {
        // The offsets of variables are from the file, so a bad one means that the file is damaged.
        Kind::BadArgument => damaged(error.detail().to_owned()),
        _ => error,
    })?;
    dataset.close()?;
    let mut molecules = Vec::with_capacity(values.iter().map(Vec::len).sum::<usize>() / WIDTH);
    let taken: Result<()> = cells.iter().zip(&values).try_for_each(|(cell, values)| {
        values.chunks_exact(WIDTH).zip(0..).try_for_each(|(row, index)| {
            let place = |what| damaged(format!("row {index} of v{cell}: {what}"));
            molecules.push(unpacked(row, space).map_err(place)?);
            Ok(())
        })
    });
    agree(comm, "read", name, taken)?;
    stored.finish(comm, name, space, molecules, region)
}

fn unpacked(row: &[f64], space: &PhaseSpace) -> std::result::Result<Molecule, String> {
    let whole = |value: f64, what: &str| {
        let sane = value >= 0.0 && value <= EXACT as f64 && value.fract() == 0.0;
        if sane { Ok(value as u64) } else { Err(format!("{value} is not a valid {what}")) }
    };
    let numbers = std::array::from_fn(|index| row[index]);
    let molecule = molecule(whole(row[13], "id")?, whole(row[14], "component")?, &numbers);
    if molecule.component > i32::MAX as u64 {
        return Err(format!("molecule {} is of component {}", molecule.id, molecule.component));
    }
    space.find_defect(&molecule).map_or(Ok(molecule), Err)
}

/// The cells of the file, from its attributes and dimensions.
fn describe(dataset: &NetcdfFile, space: &PhaseSpace) -> std::result::Result<MoleculeCellCounts, String> {
    let header = dataset.header();
    let numbers = |name: &str| {
        let values = header.attribute(name).and_then(Values::numbers);
        values.ok_or_else(|| format!("the attribute {name} is missing or not numeric"))
    };
    let (edge, cells) = (numbers(EDGE)?, numbers(CELLS)?);
    let (&[x, y, z], &[cells]) = (&edge[..], &cells[..]) else {
        return Err(format!("the attribute {EDGE} must have three values, the attribute {CELLS} one"));
    };
    // Empty cells have no variable. Their number is limited relative to the other cells, so that a damaged file cannot claim any number.
    let most = MOST_EMPTY + 64 * header.variables.len() as u64;
    let grid = CellGrid::with_edge(space.length, [x, y, z])
        .filter(|grid| grid.count() <= most && (grid.count() as f64).to_bits() == cells.to_bits());
    let grid = grid.ok_or_else(|| {
        format!("cells with the edges {edge:?} do not divide a box of {:?} into {cells} cells", space.length)
    })?;
    let mut counts = vec![0; grid.count() as usize];
    for variable in &header.variables {
        let Some(cell) = variable.name.strip_prefix('v').and_then(|number| number.parse::<usize>().ok())
        else {
            continue;
        };
        let id = header.find_variable(&variable.name).ok_or("a variable without a name")?;
        let shape = dataset.shape(id).map_err(|error| error.to_string())?;
        let (Some(count), &[length]) = (counts.get_mut(cell), &shape[..]) else {
            return Err(format!("the variable {} is not one of the {} cells", variable.name, grid.count()));
        };
        if variable.kind != NcType::Double || !length.is_multiple_of(WIDTH as u64) {
            return Err(format!("the variable {} does not have {WIDTH} doubles per molecule", variable.name));
        }
        *count = length / WIDTH as u64;
    }
    let total: u64 = counts.iter().sum();
    if total != space.molecules {
        return Err(format!("the cells hold {total} molecules, but the header says {}", space.molecules));
    }
    Ok(MoleculeCellCounts::new(grid, [x, y, z], counts))
}
