//! Restart on any number of ranks.

use crate::{JET, files, sph, stored, succeeds};

const LAST: u64 = 16;

#[test]
fn a_restart_on_other_ranks_gives_the_same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let whole = files(folder.path(), "whole");
    let last = LAST.to_string();
    let tolerant = ["--set", "integrator cash-karp", "--set", "tolerance 1e-3 1e-3"];
    for integrator in [&[][..], &tolerant[..]] {
        let jet = [&JET[..], integrator].concat();
        let options = ["--steps", &last, "--output", "together", "--prefix", &whole.prefix, "--start-over"];
        succeeds(2, &[&jet[..], &options].concat());
        let expected = stored(&whole, LAST, 3);
        for (way, record, before, after) in [
            ("together", "lists", 3, 1),
            ("own", "arrays", 2, 5),
            ("buffered", "lists", 1, 4),
            ("stream", "arrays", 4, 3),
        ] {
            let name = format!("{way}-{}", integrator.len());
            let parts = files(folder.path(), &name);
            let first = ["--steps", "7", "--output", way, "--record", record, "--prefix", &parts.prefix];
            succeeds(before, &[&jet[..], &first].concat());
            // The configuration is in the stored step.
            let next = ["--steps", &last, "--output", way, "--record", record, "--prefix", &parts.prefix];
            let output = succeeds(after, &[&next[..], &["--restart", "latest"]].concat());
            assert!(output.contains("restart at step 7"), "{output}");
            assert_eq!(parts.steps(), (0..=LAST).collect::<Vec<_>>(), "every step is stored");
            assert!(stored(&parts, LAST, 2) == expected, "{name} from {before} to {after} ranks");
        }
    }
}

#[test]
fn a_damaged_step_is_skipped_and_an_earlier_one_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), "jet");
    let options = ["--output", "together", "--prefix", &files.prefix];
    succeeds(2, &[&JET[..], &options, &["--steps", "6"]].concat());
    let expected = stored(&files, 6, 1);
    std::fs::remove_file(format!("{}.meta", files.particles(6))).unwrap();
    let data = std::fs::read(files.particles(5)).unwrap();
    std::fs::write(files.particles(5), &data[..data.len() / 2]).unwrap();
    let output = succeeds(3, &[&options[..], &["--steps", "6", "--restart", "latest"]].concat());
    assert!(output.contains("step 6 is not complete") && output.contains("restart at step 4"), "{output}");
    assert!(stored(&files, 6, 1) == expected);
    let output = succeeds(2, &[&options[..], &["--steps", "6", "--restart", "2"]].concat());
    assert!(output.contains("restart at step 2"), "{output}");
    assert!(stored(&files, 6, 1) == expected);
}

#[test]
fn text_is_no_restart_and_nothing_is_no_restart() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), "jet");
    let options = ["--output", "gather", "--prefix", &files.prefix, "--steps", "1"];
    let message = |arguments: &[&str]| {
        let output = sph(2, arguments);
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = message(&[&options[..], &["--restart", "latest"]].concat());
    assert!(error.contains("there is no stored step"), "{error}");
    succeeds(2, &[&JET[..], &options, &["--restart", "auto"]].concat());
    let error = message(&[&options[..], &["--restart", "latest"]].concat());
    assert!(error.contains("was written as text"), "{error}");
}
