//! The five ways of output store the same particles.

use std::fs;

use aqueduct_sph::fluid::Fluid;
use aqueduct_sph::output::OutputWay;
use aqueduct_sph::quantity::{scalar, vector};

use crate::{JET, files, stored, succeeds};

/// What the way `gather` stores of a particle: the numbers as bits.
fn text_rows(text: &str) -> Vec<(u64, String, Vec<u64>)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let mut rows: Vec<_> = lines
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            let numbers = words[2..].iter().map(|word| word.parse::<f64>().unwrap().to_bits()).collect();
            (words[0].parse().unwrap(), words[1].to_owned(), numbers)
        })
        .collect();
    rows.sort_unstable();
    rows
}

/// The same of the words of a particle.
fn selected(row: &[u64], scalars: usize) -> (u64, String, Vec<u64>) {
    let value = |number: usize| f64::from_bits(row[2 + number]);
    let vector = |number: usize| {
        let at = 2 + scalars + 3 * number;
        [row[at], row[at + 1], row[at + 2]].map(f64::from_bits)
    };
    let momentum = vector(vector::VELOCITY).map(|v| value(scalar::MASS) * v);
    let rest = [scalar::MASS, scalar::DENSITY, scalar::PRESSURE].map(value);
    let numbers = vector(vector::POSITION).into_iter().chain(momentum).chain(rest);
    let fluid = Fluid::from_code(row[1] as u8).unwrap().name().to_owned();
    (row[0], fluid, numbers.map(f64::to_bits).collect())
}

#[test]
fn five_ways_and_both_forms_store_the_same_particles() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = None;
    for record in ["lists", "arrays"] {
        for way in OutputWay::ALL {
            let files = files(folder.path(), &format!("{}-{record}", way.name()));
            let options = [
                "--steps",
                "14",
                "--every",
                "7",
                "--output",
                way.name(),
                "--record",
                record,
                "--prefix",
                &files.prefix,
            ];
            succeeds(3, &[&JET[..], &options].concat());
            assert_eq!(files.steps(), [0, 7, 14], "{way:?}");
            let header = files.read_header(14).unwrap();
            assert_eq!((header.ranks, header.state.layers > 0), (3, true), "diesel has entered");
            if way == OutputWay::Gather {
                let text = fs::read_to_string(files.text(14)).unwrap();
                let rows: &Vec<Vec<u64>> = expected.get_or_insert_with(|| {
                    let other = crate::files(folder.path(), "first");
                    let options = ["--steps", "14", "--output", "together", "--prefix", &other.prefix];
                    succeeds(1, &[&JET[..], &options].concat());
                    stored(&other, 14, 1)
                });
                let scalars = header.quantities.scalars.len();
                let wanted: Vec<_> = rows.iter().map(|row| selected(row, scalars)).collect();
                assert!(text_rows(&text) == wanted, "the text of {record}");
            } else {
                let found = stored(&files, 14, 2);
                assert_eq!(found.len() as u64, header.particles);
                assert!(Some(&found) == expected.as_ref(), "{way:?} with {record}");
            }
        }
    }
}

#[test]
fn times_are_a_line_of_json() {
    let folder = tempfile::tempdir().unwrap();
    let times = folder.path().join("times.json").display().to_string();
    for way in OutputWay::ALL {
        let files = files(folder.path(), way.name());
        let options = ["--steps", "2", "--output", way.name(), "--prefix", &files.prefix, "--times", &times];
        succeeds(2, &[&JET[..], &options].concat());
    }
    let text = fs::read_to_string(&times).unwrap();
    for (line, way) in text.lines().zip(OutputWay::ALL) {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&line["program"], &line["ranks"], &line["output"]),
            (&"sph".into(), &2.into(), &way.name().into())
        );
        let number = |key: &str| line[key].as_f64().unwrap();
        assert!(
            number("total") > 0.0 && number("compute") <= number("total") && number("io") > 0.0,
            "{line}"
        );
        // A record of leapfrog with integrated densities: 15 scalars and 11 vectors.
        let particles = files(folder.path(), way.name()).read_header(2).unwrap().particles;
        let bytes = 3 * particles * (8 + 15 * 8 + 8 + 11 * 24 + 12);
        assert!(way == OutputWay::Gather || line["bytes"] == bytes, "{line}, {bytes} bytes");
    }
    assert_eq!(text.lines().count(), 5);
}

#[test]
fn a_run_does_not_overwrite_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), "jet");
    let options = ["--steps", "1", "--output", "together", "--prefix", &files.prefix];
    let arguments = [&JET[..], &options].concat();
    succeeds(2, &arguments);
    let refused = crate::sph(2, &arguments);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && errors.contains("--start-over"), "{errors}");
    succeeds(1, &[&arguments[..], &["--start-over"]].concat());
    let wrong = crate::sph(1, &["--set", "kernel square"]);
    let errors = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && errors.contains("it is one of cubic"), "{errors}");
}
