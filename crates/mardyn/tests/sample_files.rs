//! Files written by `MarDyn`, in the folder `AQUEDUCT_MARDYN_DATA` or in one beside the repository. They are not part of the repository;
//! without them the test prints a notice and is skipped.

#[path = "../../checkpoint/tests/fixture/mod.rs"]
mod fixture;

use std::path::{Path, PathBuf};

use aqueduct_comm::Launch;
use aqueduct_mardyn::{
    Error, Molecule, MoleculeFormat, PhaseSpace, PhaseSpaceFiles, PhaseSpaceFormat, SpatialRegion, convert,
};
use fixture::{by_id, same};

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mardyn");
    let folder = std::env::var_os("AQUEDUCT_MARDYN_DATA").map_or(beside, PathBuf::from);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: the folder {} with phase spaces does not exist", folder.display());
    None
}

fn read(format: PhaseSpaceFormat, files: &PhaseSpaceFiles, ranks: usize) -> (PhaseSpace, Vec<Molecule>) {
    let mut all = Launch::threads(ranks)
        .run(|world| {
            let input = format.open(world, files)?;
            let everything =
                if world.rank() == 0 { SpatialRegion::EVERYWHERE } else { SpatialRegion::of([0.0; 3]) };
            Ok::<_, Error>((input.space().clone(), input.read(&everything)?))
        })
        .unwrap();
    let (space, molecules) = all.swap_remove(0);
    (space, by_id(molecules))
}

/// Reads a file on several numbers of ranks, converts it to all formats, and compares the molecules.
fn check(format: PhaseSpaceFormat, files: &PhaseSpaceFiles, tag: &str) -> (PhaseSpace, Vec<Molecule>) {
    let (space, molecules) = read(format, files, 1);
    assert_eq!(molecules.len() as u64, space.molecules, "{tag}");
    for ranks in [2, 3, 7] {
        let (other, again) = read(format, files, ranks);
        assert!(other == space && same(&again, &molecules), "{tag} on {ranks} ranks");
    }
    for to in PhaseSpaceFormat::ALL {
        let made = to.files(&format!("memfs:field-{tag}-{}", to.name()).to_lowercase());
        Launch::threads(2).run(|world| convert(world, (format, files), (to, &made))).unwrap();
        assert!(same(&read(to, &made, 2).1, &molecules), "{tag} as {to:?}");
    }
    (space, molecules)
}

#[test]
fn files_of_mardyn_are_read_and_converted() {
    let Some(folder) = folder() else { return };
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    let old = |name: &str| {
        check(PhaseSpaceFormat::OldStyle, &PhaseSpaceFiles::one(path(&format!("{name}.inp"))), name)
    };
    let (space, molecules) = old("water");
    assert_eq!(
        (space.molecules, space.molecule_format, space.components[0].charges.len()),
        (250, MoleculeFormat::Icrvqd, 3)
    );
    let last = molecules.iter().find(|molecule| molecule.id == 629).unwrap();
    assert_eq!(last.orientation[0].to_bits(), 0.934_132_226_238_817_f64.to_bits());
    let (space, molecules) = old("charges");
    assert_eq!((space.components[0].charges[0].charge, molecules[2].position), (1.0, [7.75, 7.5, 7.5]));
    let (space, molecules) = old("irv-checkpoint");
    assert_eq!((space.molecule_format, molecules[9].velocity), (MoleculeFormat::Irv, [0.0, -1.1, -1.0]));
    assert_eq!((space.components[0].lennard_jones[0].cutoff, space.epsilon_rf), (0.0, 1e10));
    let (space, _) = old("simple-lj-tiny");
    assert_eq!((space.molecules, space.components[0].lennard_jones[0].mass), (64, 10_000.0));
    let (space, _) = old("2clj-regular");
    assert_eq!((space.molecules, space.components[0].lennard_jones.len()), (20, 2));
    for (name, count) in [("2clj-vapour", 4), ("co2-vapour", 118)] {
        let files = PhaseSpaceFiles::two(
            path(&format!("{name}.restart.header.xml")),
            path(&format!("{name}.restart.dat")),
        );
        let (space, molecules) = check(PhaseSpaceFormat::Binary, &files, name);
        assert_eq!(space.molecules, count);
        let norm = |molecule: &Molecule| molecule.orientation.iter().map(|q| q * q).sum::<f64>();
        assert!(
            molecules.iter().all(|molecule| (norm(molecule) - 1.0).abs() < 1e-6),
            "orientations are unit quaternions"
        );
    }
}
