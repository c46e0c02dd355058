//! Molecules as records, and files of molecules: cell files, and the phase spaces of `MarDyn`.

use std::ffi::{OsStr, OsString};

use anyhow::{Result, anyhow, bail, ensure};
use aqueduct::checkpoint::{CellGrid, Molecule, particle_cells};
use aqueduct::comm::{Comm, Op};
use aqueduct::file::File;
use aqueduct::mardyn::{PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat};

use super::{
    Array, ArrayFileContent, ArrayPart, ArrayWriter, AttributeValue, ElementType, NamedAttribute, NumberType,
};

/// The approximate number of molecules in a cell of a new file.
const PER_CELL: u64 = 1 << 16;
/// Size of the record in bytes.
pub(super) const ROW: u64 = 120;
/// The attribute with the edges of the box.
pub(super) const LENGTH: &str = "length";

/// The element type of molecules in cell files.
pub(super) fn element() -> ElementType {
    let fields = [
        ("id", NumberType::U64, 1),
        ("component", NumberType::U64, 1),
        ("position", NumberType::F64, 3),
        ("velocity", NumberType::F64, 3),
        ("orientation", NumberType::F64, 4),
        ("angular_momentum", NumberType::F64, 3),
    ];
    ElementType::record("molecule", &fields)
}

pub(super) fn numbers(name: &str, values: &[f64]) -> NamedAttribute {
    let shape = if values.len() == 1 { Vec::new() } else { vec![values.len() as u64] };
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    NamedAttribute::new(name, AttributeValue::Numbers(NumberType::F64, shape, bytes))
}

/// The record of a molecule.
pub(super) fn encode(molecule: &Molecule, bytes: &mut Vec<u8>) {
    bytes.extend(molecule.id.to_le_bytes());
    bytes.extend(molecule.component.to_le_bytes());
    let Molecule { position, velocity, orientation, angular_momentum, .. } = molecule;
    for list in [&position[..], velocity, orientation, angular_momentum] {
        bytes.extend(list.iter().flat_map(|value| value.to_le_bytes()));
    }
}

fn decode(record: &[u8]) -> Molecule {
    let word = |at: usize| u64::from_le_bytes(record[8 * at..].first_chunk().copied().unwrap_or_default());
    let number = |at: usize| f64::from_bits(word(at));
    Molecule {
        id: word(0),
        component: word(1),
        position: std::array::from_fn(|at| number(2 + at)),
        velocity: std::array::from_fn(|at| number(5 + at)),
        orientation: std::array::from_fn(|at| number(8 + at)),
        angular_momentum: std::array::from_fn(|at| number(12 + at)),
    }
}

/// The kind of the new file.
enum MoleculeTarget {
    Cells(String),
    Mardyn(PhaseSpaceFormat, PhaseSpaceFiles),
}

impl MoleculeTarget {
    /// The kind that the extension of a name selects.
    fn of_name(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        let ends = [
            (PhaseSpaceFormat::OldStyle, ".restart.inp"),
            (PhaseSpaceFormat::Binary, ".restart.header.xml"),
            (PhaseSpaceFormat::MpiIo, ".restart.mpi"),
        ];
        let known = ends.into_iter().find_map(|(format, end)| Some((format, name.strip_suffix(end)?)));
        match known {
            Some((format, prefix)) => Some(Self::Mardyn(format, format.files(prefix))),
            None => name.strip_suffix(".cells").map(|_| Self::Cells(name.to_owned())),
        }
    }

    fn names(&self) -> Vec<OsString> {
        match self {
            Self::Cells(name) => vec![name.into()],
            Self::Mardyn(_, files) => [&files.header, &files.data]
                .into_iter()
                .filter(|name| !name.is_empty())
                .map(Into::into)
                .collect(),
        }
    }
}

/// The files of `MarDyn` that a name selects.
pub(super) fn mardyn_files(name: &OsStr) -> Option<(PhaseSpaceFormat, PhaseSpaceFiles)> {
    match MoleculeTarget::of_name(name)? {
        MoleculeTarget::Mardyn(format, files) => Some((format, files)),
        MoleculeTarget::Cells(_) => None,
    }
}

/// Writes molecules; it keeps them in memory until all have been added.
pub(crate) struct MoleculeWriter {
    world: Comm,
    target: MoleculeTarget,
    length: [f64; 3],
    molecules: Vec<Molecule>,
    begun: bool,
}

impl MoleculeWriter {
    /// A writer, if the name is that of a file of molecules. No file is created yet.
    pub(crate) fn of_name(world: &Comm, name: &OsStr) -> Result<Option<Self>> {
        let Some(target) = MoleculeTarget::of_name(name) else { return Ok(None) };
        refuse_existing(world, &target.names())?;
        let (length, molecules) = ([0.0; 3], Vec::new());
        Ok(Some(Self { world: world.clone(), target, length, molecules, begun: false }))
    }
}

/// Checks that no existing file is overwritten.
pub(super) fn refuse_existing(world: &Comm, names: &[OsString]) -> Result<()> {
    for name in names {
        match File::open(world, name) {
            Ok(_) => bail!("{}: the file exists; choose another name, or delete it", name.display()),
            Err(error) if error.kind() == aqueduct::file::Kind::NoSuchFile => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl ArrayWriter for MoleculeWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        let fits = array.element.parts == element().parts && array.shape.len() == 1;
        (!fits).then(|| {
            format!("its elements are {}, but the file can only store molecules", array.element.name)
        })
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let [array] = &content.arrays[..] else {
            bail!(
                "the file can store one list of molecules, not {}; select one with --array",
                content.arrays.len()
            );
        };
        let whole = content.attributes.iter().flat_map(|(_, attributes)| attributes);
        let mut all = whole.chain(&array.attributes);
        let length = all.clone().find(|attribute| attribute.name == LENGTH);
        let Some(AttributeValue::Numbers(NumberType::F64, _, bytes)) =
            length.map(|attribute| &attribute.value)
        else {
            bail!("{}: the attribute {LENGTH:?} with the edges of the box is missing", array.name);
        };
        let edges: Vec<f64> =
            bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        self.length =
            edges.try_into().map_err(|_| anyhow!("the attribute {LENGTH:?} must have three numbers"))?;
        let lost = all.find(|attribute| attribute.name != LENGTH).map(|_| {
            "a file of molecules has no attributes: all except the edges of the box are omitted".to_owned()
        });
        Ok(lost.into_iter().collect())
    }

    fn writers(&self) -> usize {
        1
    }

    fn write(&mut self, _: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        self.begun = true;
        let Some((part, bytes)) = part else { return Ok(()) };
        ensure!(part.first == self.molecules.len() as u64, "parts of molecules are written in order");
        self.molecules.extend(bytes.chunks_exact(ROW as usize).map(decode));
        Ok(())
    }

    fn created_files(&self) -> Vec<OsString> {
        if self.begun { self.target.names() } else { Vec::new() }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let count = self.world.allreduce_one(Op::Sum, self.molecules.len() as u64)?;
        let slabs = count.div_ceil(PER_CELL).clamp(1, 4096);
        let grid = CellGrid::new(self.length, [slabs, 1, 1]);
        let grid = grid.ok_or_else(|| anyhow!("a box of {:?} cannot be divided into cells", self.length))?;
        match &self.target {
            MoleculeTarget::Cells(name) => particle_cells::write(&self.world, name, &grid, &self.molecules)?,
            MoleculeTarget::Mardyn(format, files) => {
                self.molecules.sort_by_key(|molecule| molecule.id);
                let space = PhaseSpace::new(self.length, Vec::new());
                format.write(&self.world, files, &space, &grid, &self.molecules)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_and_molecules_convert_both_ways() {
        let mut molecule = Molecule::new(7, [0.5, 1.5, 2.5], [3.0, 4.0, 5.0]);
        (molecule.component, molecule.angular_momentum) = (3, [6.0, 7.0, 8.0]);
        let mut bytes = Vec::new();
        encode(&molecule, &mut bytes);
        assert_eq!(bytes.len() as u64, ROW);
        assert_eq!(element().size, ROW);
        assert_eq!(decode(&bytes), molecule);
    }
}
