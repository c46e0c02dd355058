//! Runs that are killed with SIGKILL and continued on another number of ranks have the same datasets and attributes, to the bit, as an undisturbed
//! run; with checkpoints of both kinds. Metadata may be at other places in the file. `AQUEDUCT_KILLS=100` sets the number of kills.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use aqueduct_testkit::external_tools::{output_of, python};
use aqueduct_testkit::launcher::kills::requested_kills;
use aqueduct_testkit::rng::SeededRng;

const STEPS: &str = "240";

fn wave(folder: &Path, output: &str, ranks: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wave"));
    command.args(["-i", "input.h5", "-o", output, "-t", &ranks.to_string(), "--verbose", "0", "-s", "3"]);
    command.args([
        "--p_raw",
        "--p_rms",
        "--p_max",
        "--u_min",
        "--p_max_all",
        "--p_final",
        "--u_raw",
        "--I_avg",
    ]);
    // Files state the same date and times.
    command.env("AQUEDUCT_MPI", "none").env("SOURCE_DATE_EPOCH", "1").current_dir(folder);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn make_input(folder: &Path, sensor: &str) {
    let made = Command::new(env!("CARGO_BIN_EXE_wave"))
        .args(["make", "tissue", "input.h5", "--grid", "28x26x24", "--steps", STEPS, "--sensor", sensor])
        .env("AQUEDUCT_MPI", "none")
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

fn finish(mut command: Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {errors}");
    errors
}

/// Kills a run after a random part of a second; whether it was still running.
fn kill(mut child: Child, rng: &mut SeededRng) -> bool {
    thread::sleep(Duration::from_millis(rng.below(400) as u64 + 20));
    let running = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        running || output.status.success() || output.status.code().is_none(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    running
}

/// Compares all datasets and attributes of two files.
const SAME_CONTENT: &str = r#"
import sys, h5py
def content(path):
    found = {}
    def add(name, item):
        values = item[...].tobytes() if isinstance(item, h5py.Dataset) else b""
        found[name] = values, str(getattr(item, "shape", "")), str(sorted(item.attrs.items()))
    with h5py.File(path) as file:
        add("/", file)
        file.visititems(add)
    return found
expected, output = map(content, sys.argv[1:])
names = sorted(name for name in set(expected) | set(output) if expected.get(name) != output.get(name))
sys.exit(f"these differ from an undisturbed run: {names}" if names else 0)
"#;

fn check(sensor: &str, options: &[&str]) {
    let Some(python) = python("h5py") else { return };
    let folder = tempfile::tempdir().unwrap();
    make_input(folder.path(), sensor);
    finish(wave(folder.path(), "expected.h5", 1));
    let mut rng = SeededRng::from_environment(2020);
    let mut killed = 0;
    while killed < requested_kills(4) {
        let _ = fs::remove_dir_all(folder.path().join("checkpoints"));
        for attempt in 0.. {
            let mut command = wave(folder.path(), "output.h5", rng.below(4) + 1);
            command.args(options);
            if attempt < 3 && kill(command.spawn().unwrap(), &mut rng) {
                killed += 1;
                continue;
            }
            // A run with a checkpoint file ends early, until the last step is made.
            let mut command = wave(folder.path(), "output.h5", rng.below(4) + 1);
            command.args(options);
            finish(command);
            if !folder.path().join("leg.h5").exists() {
                break;
            }
        }
        let mut command = Command::new(&python);
        command.args(["-c", SAME_CONTENT, "expected.h5", "output.h5"]).current_dir(folder.path());
        output_of(&mut command);
    }
}

#[test]
fn killed_runs_with_checkpoints_in_a_folder_continue_to_the_bit() {
    check("points:300", &["--checkpoints", "checkpoints", "--every", "20", "--restart", "auto"]);
}

#[test]
fn killed_runs_with_a_checkpoint_file_of_kwave_continue_to_the_bit() {
    check("boxes:5x6", &["--checkpoint_file", "leg.h5", "--checkpoint_timesteps", "50"]);
}
