//! The unchanged example configuration of the thesis, with all of its writers.

use std::fs;
use std::path::Path;
use std::process::Command;

use aqueduct_testkit::external_tools;

fn md(folder: &Path, ranks: &str, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_md"));
    command.current_dir(folder).args(arguments).args(["--rows", "0"]);
    let output = command.env("AQUEDUCT_MPI", "none").env("AQUEDUCT_RANKS", ranks).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Writes the input file of the example, with fewer molecules than the original.
fn start(folder: &Path) {
    let text = "MDProjectConfig\ntimestepLength 0.004\ncutoffRadius 2.5\nphaseSpaceFile Generator fcc 1000 0.7 1.1\n\
                output CheckpointWriter 1 start\n";
    fs::write(folder.join("start.cfg"), text).unwrap();
    md(folder, "1", &["start.cfg", "--steps", "0"]);
    fs::rename(folder.join("start-0.restart.inp"), folder.join("lj40000.inp")).unwrap();
}

#[test]
fn the_example_of_the_thesis_runs_with_all_its_writers() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/lj40000.cfg").display().to_string();
    let folders = [1, 3].map(|ranks: usize| {
        let folder = tempfile::tempdir().unwrap();
        start(folder.path());
        md(folder.path(), &ranks.to_string(), &[&config, "--steps", "20"]);
        folder
    });
    let text = |folder: usize, name: &str| fs::read_to_string(folders[folder].path().join(name)).unwrap();
    for name in ["lj40000.res", "lj40000.vis", "lj40000-20.xyz", "lj40000-0.pov", "lj40000-20.pov"] {
        assert!(text(0, name) == text(1, name), "{name} depends on the number of ranks");
    }
    assert!(folders[0].path().join("lj40000-20.restart.inp").exists());
    check_vis_frames(&text(0, "lj40000.vis"), &text(0, "lj40000-20.xyz"));
    let scene = text(0, "lj40000-20.pov");
    assert_eq!(scene.matches("object { T0 matrix <").count(), 1000);
    assert_eq!(scene.matches('{').count(), scene.matches('}').count());
    check_pov_ray(&folders[0].path().join("lj40000-20.pov"));
}

/// Checks three frames of all molecules; the positions of the last one are those of the XYZ file, to three digits.
fn check_vis_frames(vis: &str, xyz: &str) {
    let (head, rows) = vis.split_once('\n').unwrap();
    assert_eq!(
        head.split_whitespace().collect::<Vec<_>>(),
        ["id", "t", "x", "y", "z", "q0", "q1", "q2", "q3", "c"]
    );
    let frames: Vec<&str> = rows.split("#\n").collect();
    assert_eq!(frames.iter().map(|frame| frame.lines().count()).collect::<Vec<_>>(), [1000; 3]);
    let places = |line: &str, from: usize| -> Vec<f64> {
        line.split_whitespace().skip(from).take(3).map(|word| word.parse().unwrap()).collect()
    };
    for (row, atom) in frames[2].lines().zip(xyz.lines().skip(2)) {
        assert_eq!(row.split_whitespace().count(), 10, "{row}");
        let near = places(row, 2).iter().zip(places(atom, 1)).all(|(a, b)| (a - b).abs() <= 0.000_501);
        assert!(near, "{row} {atom}");
    }
}

fn check_pov_ray(scene: &Path) {
    let Some(povray) = external_tools::command("povray") else { return };
    let picture = scene.with_extension("png");
    let mut command = Command::new(povray);
    command.arg(format!("+I{}", scene.display())).arg(format!("+O{}", picture.display()));
    let output = command.args(["+W64", "+H48", "-D", "-GA"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Molecules are red on white: an empty picture would be far smaller.
    assert!(fs::metadata(&picture).unwrap().len() > 1000, "the picture is not empty");
}
