//! Every format, from any number of ranks to any other, for both decompositions: bitwise the same molecules.

use std::path::{Path, PathBuf};

use crate::liquid::{gather, on};
use anyhow::Result;
use aqueduct::checkpoint::Molecule;
use aqueduct::comm::Comm;
use aqueduct::mardyn::{LennardJones, MoleculeComponent, PhaseSpace, PhaseSpaceFormat};
use aqueduct_md::decomposition::DecompositionMethod;
use aqueduct_md::input::config::Config;
use aqueduct_md::input::initial_state;
use aqueduct_md::input::units::SimulationUnits;
use aqueduct_md::output::{phase_space, xyz};
use aqueduct_md::run;
use aqueduct_md::simulation::Simulation;

/// Argon, another component, and a molecule of two centres that does not move.
fn space() -> PhaseSpace {
    let site = |x: f64| LennardJones {
        position: [x, 0.0, 0.0],
        mass: 0.5,
        epsilon: 1.1,
        sigma: 0.9,
        cutoff: 0.0,
        shift: 0.0,
    };
    let pair =
        MoleculeComponent { lennard_jones: vec![site(-0.3), site(0.3)], ..MoleculeComponent::default() };
    let components =
        vec![MoleculeComponent::single(1.0, 1.0, 1.0), MoleculeComponent::single(2.0, 0.7, 1.1), pair];
    let mut space = PhaseSpace::new([11.0, 9.5, 13.0], components);
    space.mixing = vec![[0.95, 1.0], [1.0, 1.0], [0.9, 1.02]];
    space.molecules = COUNT;
    space
}

const COUNT: u64 = 297;

/// Molecules on a grid, some on the borders of cells, with values that need all digits of a double.
fn molecules(length: [f64; 3]) -> Vec<Molecule> {
    let molecule = |id: u64| {
        let place = [id % 11, id / 11 % 3 * 3, id / 33];
        let position = std::array::from_fn(|axis| place[axis] as f64 / [11.0, 9.0, 9.0][axis] * length[axis]);
        let fraction = |by: u64| ((id + 1) as f64 / by as f64).sin();
        Molecule {
            component: id % 3,
            orientation: [0.5, fraction(3), fraction(5), fraction(7)],
            angular_momentum: [fraction(11), 0.0, -fraction(13)],
            ..Molecule::new(3 * id + 1, position, [fraction(17), 1e-300, -fraction(19)])
        }
    };
    (0..COUNT).map(molecule).collect()
}

fn config(format: PhaseSpaceFormat, folder: &Path, prefix: &str, method: DecompositionMethod) -> Config {
    let files = format.files(prefix);
    let decomposition =
        if method == DecompositionMethod::Kd { "KDDecomposition" } else { "DomainDecomposition" };
    let text = format!(
        "MDProjectConfig\ntimestepLength 1e-9\ncutoffRadius 1.5\nphaseSpaceFile {} {} {}\nparallelization {decomposition}\n\
         components {}/components.inp\n",
        format.name(),
        files.header,
        files.data,
        folder.display()
    );
    Config::parse("test", &text).unwrap()
}

fn bytes(molecules: &[Molecule]) -> &[u8] {
    bytemuck::cast_slice(molecules)
}

/// The molecules of all ranks in the initial state of a configuration.
fn read(world: &Comm, config: &Config) -> Result<Vec<Molecule>> {
    let initial_state::InitialState { space, molecules } = initial_state::begin(world, config)?;
    let simulation = Simulation::new(world, run::model(config, &space)?, molecules, 0, space.time)?;
    gather(world, simulation.molecules())
}

fn check_all_numbers_of_ranks(format: PhaseSpaceFormat) {
    let folder = tempfile::tempdir().unwrap();
    let (space, all) = (space(), molecules(space().length));
    let path = folder.path().join("components").display().to_string();
    on(1, |world| {
        let grid = aqueduct::checkpoint::CellGrid::whole(space.length).expect("a box has a volume");
        let files = aqueduct::mardyn::PhaseSpaceFiles::one(format!("{path}.inp"));
        Ok(PhaseSpaceFormat::OldStyle.write(world, &files, &space, &grid, &[])?)
    });
    for (writers, method) in (1..=7)
        .flat_map(|writers| [(writers, DecompositionMethod::Regular), (writers, DecompositionMethod::Kd)])
    {
        let prefix = folder.path().join(format!("{writers}{method:?}")).display().to_string();
        let config = config(format, folder.path(), &prefix, method);
        on(writers, |world| {
            let mine = all.iter().filter(|molecule| molecule.id as usize % writers == world.rank());
            let model = run::model(&config, &space)?;
            let simulation = Simulation::new(world, model, mine.copied().collect(), 0, 0.25)?;
            phase_space::write(&simulation, &space, format, &prefix)
        });
        for readers in 1..=7 {
            let back = on(readers, |world| read(world, &config));
            assert!(bytes(&back) == bytes(&all), "{format:?}: {writers} ranks, {method:?}, to {readers}");
        }
    }
}

#[test]
fn old_style() {
    check_all_numbers_of_ranks(PhaseSpaceFormat::OldStyle);
}

#[test]
fn binary() {
    check_all_numbers_of_ranks(PhaseSpaceFormat::Binary);
}

#[test]
fn pnetcdf() {
    check_all_numbers_of_ranks(PhaseSpaceFormat::PnetCdf);
}

#[test]
fn mpi_io() {
    check_all_numbers_of_ranks(PhaseSpaceFormat::MpiIo);
}

#[test]
fn a_file_of_mardyn_is_simulated() {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mardyn");
    let file =
        std::env::var_os("AQUEDUCT_MARDYN_DATA").map_or(beside, PathBuf::from).join("simple-lj-tiny.inp");
    if !file.exists() {
        eprintln!("skipped: {} does not exist", file.display());
        return;
    }
    let text = format!(
        "MDProjectConfig\ntimestepLength 0.01\ncutoffRadius 5.\nphaseSpaceFile OldStyle {}\nparallelization KDDecomposition\n",
        file.display()
    );
    let config = Config::parse("real", &text).unwrap();
    on(3, |world| {
        let job = run::RunSettings::new(config.clone(), 10);
        let row = run::run(world, &job)?.row;
        assert!(row.step == 10 && row.potential < 0.0 && row.kinetic > 0.0, "{row:?}");
        Ok(())
    });
}

#[test]
fn xyz_frames_do_not_depend_on_the_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let (space, all) = (space(), molecules(space().length));
    let config = config(PhaseSpaceFormat::OldStyle, folder.path(), "unused", DecompositionMethod::Kd);
    let frame = |ranks: usize| {
        let name = folder.path().join(format!("{ranks}.xyz")).display().to_string();
        on(ranks, |world| {
            let mine = all.iter().filter(|molecule| molecule.id as usize % ranks == world.rank());
            let simulation =
                Simulation::new(world, run::model(&config, &space)?, mine.copied().collect(), 7, 0.25)?;
            // Twice: a longer frame of the same name is replaced completely.
            if world.rank() == 0 {
                std::fs::write(&name, "x".repeat(1 << 20))?;
            }
            world.barrier()?;
            xyz::write(&simulation, SimulationUnits::BARE, &name)
        });
        std::fs::read_to_string(name).unwrap()
    };
    let one = frame(1);
    let lines: Vec<&str> = one.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2 + COUNT as usize, "297"));
    assert!(
        lines[1].contains("Lattice=\"11 0 0 0 9.5 0 0 0 13\"") && lines[1].contains("=0.25"),
        "{}",
        lines[1]
    );
    for (line, molecule) in lines[2..].iter().zip(&all) {
        let words: Vec<&str> = line.split(' ').collect();
        let numbers: Vec<f64> = words[1..].iter().map(|word| word.parse().unwrap()).collect();
        assert_eq!(words[0], ["Ar", "Kr", "Xe"][molecule.component as usize]);
        assert_eq!(numbers, [molecule.position, molecule.velocity].concat());
    }
    (2..=7).for_each(|ranks| assert_eq!(frame(ranks), one, "{ranks} ranks"));
}
