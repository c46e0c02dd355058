//! The phase-space files of `MarDyn`: headers as text and as XML, molecules as text, rows, netCDF variables and cells.

use aqueduct_mardyn::{
    AxialSite, CellGrid, Charge, Error, Kind, Molecule, MoleculeComponent, PhaseSpace, PhaseSpaceFiles,
    PhaseSpaceFormat, Result, SpatialRegion, Tersoff,
};

use crate::FuzzTarget;
use crate::input::{check_kind, join, load, remove_all, run_rank, split, store};

const WORDS: &[&str] = &[
    "N 9999999999999",
    "C 99999999",
    "nan",
    "1e999",
    "-1",
    "# ",
    "\n",
    "M IRV",
    "L 0 0 0",
    "18446744073709551615",
    "\0",
    "<!--",
    "<x>",
    "</length>",
    "<mardyn>",
    "<number>18446744073709551615</number>",
];

pub(crate) const ASCII: FuzzTarget = FuzzTarget {
    name: "mardyn_ascii",
    run: |input| run(PhaseSpaceFormat::OldStyle, input),
    seeds: || seeds(PhaseSpaceFormat::OldStyle),
    words: WORDS,
};
pub(crate) const BINARY: FuzzTarget = FuzzTarget {
    name: "mardyn_binary",
    run: |input| run(PhaseSpaceFormat::Binary, input),
    seeds: || seeds(PhaseSpaceFormat::Binary),
    words: WORDS,
};
pub(crate) const NETCDF: FuzzTarget = FuzzTarget {
    name: "mardyn_netcdf",
    run: |input| run(PhaseSpaceFormat::PnetCdf, input),
    seeds: || seeds(PhaseSpaceFormat::PnetCdf),
    words: WORDS,
};
pub(crate) const CELLS: FuzzTarget = FuzzTarget {
    name: "mardyn_cells",
    run: |input| run(PhaseSpaceFormat::MpiIo, input),
    seeds: || seeds(PhaseSpaceFormat::MpiIo),
    words: WORDS,
};

const PREFIX: &str = "memfs:fuzzed-space";
/// Kinds of errors of invalid files.
const REFUSALS: [Kind; 4] = [Kind::Damaged, Kind::Incomplete, Kind::WrongType, Kind::UnknownVersion];

fn files(format: PhaseSpaceFormat) -> PhaseSpaceFiles {
    format.files(&format!("{PREFIX}-{}", format.name()))
}

fn run(format: PhaseSpaceFormat, input: &[u8]) -> bool {
    let (_, header, data) = split(input);
    let files = files(format);
    run_rank(|world| {
        store(world, &files.header, header)?;
        if !files.data.is_empty() {
            store(world, &files.data, data)?;
        }
        let length = header.len() + data.len();
        let mut accepted = true;
        for everywhere in [true, false] {
            let found = format.open(world, &files).and_then(|space| {
                if everywhere { space.read(&SpatialRegion::EVERYWHERE) } else { space.read_share() }
            });
            if let Ok(molecules) = &found {
                assert!(molecules.len() <= length, "{} molecules in {length} bytes", molecules.len());
            }
            accepted &= check_kind(found, PREFIX, &REFUSALS);
        }
        Ok::<_, Error>(accepted)
    })
}

fn seeds(format: PhaseSpaceFormat) -> Vec<Vec<u8>> {
    let space = space();
    let molecule = |id: u64| Molecule {
        id: 3 * id + 1,
        component: id % 2,
        position: [0.5 * id as f64, 1.0 / 3.0 + id as f64, 1.5],
        velocity: [1e-3, -0.25, 0.0],
        orientation: [1.0, 0.0, 0.5, -0.5],
        angular_momentum: [0.1, 0.2, 1e9],
    };
    let molecules: Vec<Molecule> = (0..12).map(molecule).collect();
    let files = files(format);
    let [header, data] = run_rank(|world| -> Result<_> {
        remove_all(&[&files.header, &files.data]);
        let grid = CellGrid::new(space.length, [2, 2, 1]).expect("the box has a volume");
        format.write(world, &files, &space, &grid, &molecules)?;
        let data = if files.data.is_empty() { Vec::new() } else { load(world, &files.data)? };
        Ok([load(world, &files.header)?, data])
    });
    vec![join(0, &header, &data)]
}

/// A header with all optional parts.
fn space() -> PhaseSpace {
    let axial = |moment| AxialSite { position: [0.1, 0.2, 0.3], direction: [0.0, 0.0, 1.0], moment };
    let mut water = MoleculeComponent::single(0.016, 1e-4, 5.9);
    water.charges = vec![Charge { position: [0.0, -0.1, 0.0], mass: 0.0, charge: -1.04 }];
    let parameters = std::array::from_fn(|index| index as f64 + 0.1);
    let other = MoleculeComponent {
        dipoles: vec![axial(2.5)],
        quadrupoles: vec![axial(-3.5)],
        tersoff: vec![Tersoff { position: [0.5; 3], mass: 12.0, parameters }],
        ..MoleculeComponent::default()
    };
    let mut space = PhaseSpace::new([10.0, 20.0, 5.0], vec![water, other]);
    space.mixing = vec![[1.0, 0.9]];
    space.time = 91.25;
    space.temperature = Some(0.7);
    space.thermostats = vec![(1, 0.7)];
    space.component_thermostats = vec![(1, 1)];
    space.undirected = vec![1];
    space
}
