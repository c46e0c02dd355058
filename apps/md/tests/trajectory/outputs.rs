//! Outputs of a run: independent of the number of ranks, and readable by ASE and `MDAnalysis`.

use std::path::Path;

use crate::liquid::{gather, on};
use aqueduct::checkpoint::Molecule;
use aqueduct::mardyn::PhaseSpaceFormat;
use aqueduct_md::input::config::Config;
use aqueduct_md::run::{self, RunSettings};
use aqueduct_testkit::external_tools;

/// Argon in Ångström and picoseconds.
const UNITS: [f64; 2] = [3.405, 2.156];

/// Runs four steps with an output of each kind every second step.
fn go(ranks: usize, prefix: &str, units: &str) {
    let h5md = if cfg!(feature = "hdf5") { "H5MD" } else { "XyzWriter" };
    let writers = ["ResultWriter", "XyzWriter", h5md]
        .into_iter()
        .chain(PhaseSpaceFormat::ALL.map(PhaseSpaceFormat::writer));
    let lines: Vec<String> = writers.map(|writer| format!("output {writer} 2 {prefix}{writer}\n")).collect();
    let text = format!(
        "MDProjectConfig\ntimestepLength 4e-3\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1\n\
         parallelization KDDecomposition 2\n{units}{}",
        lines.concat()
    );
    let config = Config::parse("test", &text).unwrap();
    let job = RunSettings::new(config, 4);
    on(ranks, |world| run::run(world, &job));
}

fn prefix(folder: &Path, ranks: usize) -> String {
    folder.join(format!("{ranks}")).display().to_string()
}

/// The molecules of a checkpoint after step 4.
fn molecules(prefix: &str, format: PhaseSpaceFormat) -> Vec<Molecule> {
    let files = format.files(&format!("{prefix}{}-4", format.writer()));
    on(1, |world| gather(world, &format.open(world, &files)?.read_share()?))
}

#[test]
fn outputs_do_not_depend_on_the_number_of_ranks() {
    let folder = tempfile::tempdir().unwrap();
    let ranks = [1, 3, 5, 7];
    ranks.iter().for_each(|ranks| go(*ranks, &prefix(folder.path(), *ranks), ""));
    let [one, odd @ ..] = ranks.map(|ranks| prefix(folder.path(), ranks));
    let expected = molecules(&one, PhaseSpaceFormat::Binary);
    assert_eq!(expected.len(), 500);
    for other in &odd {
        for name in ["ResultWriter.res", "XyzWriter-0.xyz", "XyzWriter-4.xyz"] {
            let [expected, found] =
                [&one, other].map(|prefix| std::fs::read_to_string(format!("{prefix}{name}")).unwrap());
            assert_eq!(found, expected, "{other}{name}");
        }
        for format in PhaseSpaceFormat::ALL {
            let found = molecules(other, format);
            assert!(
                bytemuck::cast_slice::<_, u8>(&found) == bytemuck::cast_slice::<_, u8>(&expected),
                "{other} {format:?}"
            );
        }
        #[cfg(feature = "hdf5")]
        {
            let [expected, found] =
                [&one, other].map(|prefix| std::fs::read(format!("{prefix}H5MD-0.h5md")).unwrap());
            assert!(found == expected, "{other}: the output depends on the number of ranks");
        }
    }
}

/// Compares a file as an external program reads it: a line for box and time, then a line of numbers for each molecule.
fn read(module: &str, what: &str, file: &str, expected: &[Vec<f64>], exact: bool) {
    let Some(text) = external_tools::run_with(module, "readers.py", &[what, file]) else { return };
    let found: Vec<Vec<f64>> =
        text.lines().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= if exact { 0.0 } else { 1e-6 * (1.0 + b.abs()) };
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(near),
            "{found:?} {expected:?}"
        );
    }
}

/// The expected lines: box and time, then `row` of each molecule after step 4.
fn expected(prefix: &str, units: [f64; 2], row: impl Fn(&Molecule) -> Vec<f64>) -> Vec<Vec<f64>> {
    let edge = (500_f64 / 0.7).cbrt() * units[0];
    let head = vec![edge, edge, edge, 4.0 * 4e-3 * units[1]];
    std::iter::once(head).chain(molecules(prefix, PhaseSpaceFormat::Binary).iter().map(row)).collect()
}

#[test]
fn ase_reads_the_xyz_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, units, line) in [("bare", [1.0, 1.0], ""), ("argon", UNITS, "units 3.405 2.156\n")] {
        let prefix = folder.path().join(name).display().to_string();
        go(3, &prefix, line);
        let [length, time] = units;
        let row = |molecule: &Molecule| {
            let places = molecule.position.iter().map(|x| x * length);
            places.chain(molecule.velocity.iter().map(|v| v * length / time)).collect()
        };
        let mut expected = expected(&prefix, units, row);
        // Edges and times are rounded differently.
        let file = format!("{prefix}XyzWriter-4.xyz");
        let head = std::fs::read_to_string(&file).unwrap().lines().nth(1).unwrap().to_owned();
        assert!(head.contains("velo:R:3"), "{head}");
        let number =
            |key: &str| head.split(key).nth(1).unwrap().split([' ', '"']).next().unwrap().parse::<f64>();
        let (edge, time) = (number("Lattice=\"").unwrap(), number("Time=").unwrap());
        assert!((edge - expected[0][0]).abs() < 1e-9 && (time - expected[0][3]).abs() < 1e-9, "{head}");
        expected[0] = vec![edge, edge, edge, time];
        read("ase", "xyz", &file, &expected, true);
    }
}

#[test]
#[cfg(feature = "hdf5")]
fn mdanalysis_reads_the_h5md_file() {
    let folder = tempfile::tempdir().unwrap();
    for (name, units, line) in [("bare", [1.0, 1.0], ""), ("argon", UNITS, "units 3.405 2.156\n")] {
        let prefix = folder.path().join(name).display().to_string();
        go(3, &prefix, line);
        let row = |molecule: &Molecule| molecule.position.iter().map(|x| x * units[0]).collect();
        let what = if line.is_empty() { "h5md-bare" } else { "h5md" };
        read("MDAnalysis", what, &format!("{prefix}H5MD-0.h5md"), &expected(&prefix, units, row), false);
    }
}

#[test]
#[cfg(feature = "hdf5")]
fn h5md_has_every_frame_in_the_order_of_ids() {
    use aqueduct::formats::Selection;
    use aqueduct::formats::hdf5::Hdf5OpenOptions;

    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("run").display().to_string();
    let text = format!(
        "MDProjectConfig\ntimestepLength 1e-3\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 500 0.7 1\n\
         output H5MD 2 {prefix}\noutput CheckpointWriter 4 {prefix}\n"
    );
    let config = Config::parse("test", &text).unwrap();
    let job = run::RunSettings::new(config, 5);
    on(3, |world| run::run(world, &job));
    let last = PhaseSpaceFormat::OldStyle.files(&format!("{prefix}-4"));
    let molecules =
        on(1, |world| gather(world, &PhaseSpaceFormat::OldStyle.open(world, &last)?.read_share()?));
    on(2, |world| {
        let file = Hdf5OpenOptions::new().open(world, format!("{prefix}-0.h5md"))?;
        assert_eq!(file.is_complete(), Some(true));
        let steps: Vec<i64> =
            file.at(file.dataset("/particles/trajectory/position/step")?, 0..3).all().read_vec()?;
        assert_eq!(steps, [0, 2, 4]);
        let positions = file.dataset("/particles/trajectory/position/value")?;
        let third: Vec<f64> = file.at(positions, Selection::record(2)).all().read_vec()?;
        let expected: Vec<f64> = molecules.iter().flat_map(|molecule| molecule.position).collect();
        assert_eq!(third, expected);
        Ok(file.close()?)
    });
}
