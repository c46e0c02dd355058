//! `aqueduct bench`: the commands of the guide, their outputs, and MPI-IO of real MPI libraries.
//!
//! Without MPI a test prints a notice and is skipped; with `AQUEDUCT_REQUIRE_MPI=1` it fails.

mod test_folder;

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use test_folder::TestFolder;

/// The commands of a guide that begin with `aqueduct bench`, with their words. Those that name programs of their own, and those of mpirun, are
/// not among them.
fn commands_of_the_guide() -> Vec<Vec<String>> {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/bench.md");
    let text = std::fs::read_to_string(guide).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("aqueduct bench") && !line.contains('\\'));
    lines.map(|line| line.split_whitespace().skip(1).map(str::to_owned).collect()).collect()
}

/// The header block and the figures that a benchmark has written as JSON.
fn figures(folder: &TestFolder) -> (Value, Vec<Value>) {
    let text = std::fs::read_to_string(folder.path("out.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    (value["system"].clone(), value["figures"].as_array().unwrap().clone())
}

#[test]
fn the_commands_of_the_guide_work_and_write_all_outputs() {
    let all = commands_of_the_guide();
    assert_eq!(all.len(), 6, "{all:?}");
    for words in all {
        let folder = TestFolder::new();
        let outputs = ["--csv", "out.csv", "--json", "out.json", "--svg", "out", "--html", "out.html"];
        let words: Vec<&str> = words.iter().map(String::as_str).chain(outputs).collect();
        let text = folder.succeed(&words);
        for part in ["kernel  ", "file system", "hints", "Linux"] {
            assert!(text.contains(part), "{words:?}: {part} is not in {text}");
        }
        let (system, figures) = figures(&folder);
        assert!(system["kernel"].as_str().unwrap().starts_with("Linux"), "{system}");
        assert!(figures.len() >= 4, "{words:?}: {figures:?}");
        let csv = std::fs::read_to_string(folder.path("out.csv")).unwrap();
        assert_eq!(csv.lines().count(), figures.len() + 1, "{words:?}");
        let page = std::fs::read_to_string(folder.path("out.html")).unwrap();
        assert!(page.contains("<table>") && !page.contains("src="), "{words:?}");
        let left: Vec<PathBuf> =
            std::fs::read_dir(folder.path(".")).unwrap().map(|entry| entry.unwrap().path()).collect();
        let plots = left.iter().filter(|path| path.extension().is_some_and(|suffix| suffix == "svg")).count();
        let is_recorder = words.contains(&"--recorder");
        assert_eq!(plots > 0, !is_recorder, "{words:?}");
        assert_eq!(left.len(), plots + 3, "the files of the benchmark are deleted: {left:?}");
    }
}

#[test]
fn patterns_run_on_any_device_and_refuse_existing_files() {
    let folder = TestFolder::new();
    let words =
        ["bench", "patterns", "-n", "3", "--sizes", "4KiB,64KiB", "--rounds", "1", "--json", "out.json"];
    let text = folder.succeed(&[&words[..], &["--file", "memfs:patterns"]].concat());
    assert!(text.contains("not a file system of this machine"), "{text}");
    let (_, figures) = figures(&folder);
    let patterns: std::collections::BTreeSet<&str> =
        figures.iter().map(|figure| figure["pattern"].as_str().unwrap()).collect();
    assert!(
        patterns.len() >= 16 && patterns.contains("nested") && patterns.contains("objects"),
        "{patterns:?}"
    );
    for figure in &figures {
        assert!(figure["aqueduct µs"].as_f64().unwrap() > 0.0, "{figure}");
        assert_eq!(figure["aqueduct MB/s"].is_null(), figure["pattern"] == "open", "{figure}");
    }
    for (benchmark, name) in [
        ("patterns", "mine.cached"),
        ("sweep", "mine.limit"),
        ("sweep", "mine.sweep-1"),
        ("b_eff_io", "mine.type-3"),
        ("b_eff_io", "mine.type-2-0"),
        ("overhead", "mine.shared"),
        ("mardyn", "mine-Binary.restart.dat"),
    ] {
        let folder = TestFolder::new();
        std::fs::write(folder.path(name), "kept").unwrap();
        let message = folder.exit_2(&["bench", benchmark, "-n", "1", "--file", "mine"]);
        assert!(message.contains("--overwrite"), "{message}");
        assert_eq!(std::fs::read(folder.path(name)).unwrap(), b"kept", "{benchmark}");
    }
    let message = folder.exit_2(&["bench", "patterns", "--only", "zigzag"]);
    assert!(message.contains("there is no pattern zigzag"), "{message}");
    let message = folder.exit_2(&["bench", "patterns", "-n", "2", "--through", "mpi", "--only", "tiles"]);
    assert!(message.contains("mpirun"), "{message}");
}

/// Runs a benchmark under an MPI launcher; none if it is not installed.
fn under_mpi(folder: &TestFolder, launcher: &str, words: &[&str]) -> Option<String> {
    let is_installed =
        Command::new(launcher).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_installed {
        assert!(std::env::var_os("AQUEDUCT_REQUIRE_MPI").is_none(), "{launcher} is missing");
        println!("skipped: {launcher} is missing");
        return None;
    }
    let mut command = Command::new("timeout");
    command.args(["200", launcher]);
    if launcher.contains("openmpi") {
        command.arg("--oversubscribe");
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    }
    command.args(["-n", "2", env!("CARGO_BIN_EXE_aqueduct"), "bench"]).args(words);
    let output = command.current_dir(folder.path(".")).output().unwrap();
    let message = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{launcher} {words:?}: {message}");
    Some(message.into_owned())
}

#[test]
fn the_same_patterns_run_through_the_mpi_library() {
    for launcher in ["mpirun.openmpi", "mpirun.mpich"] {
        let folder = TestFolder::new();
        let only = "contiguous,round-robin-64,tiles,blocks,nested,ordered,open,explicit-4096";
        let words = [
            "patterns",
            "--through",
            "mpi",
            "--rounds",
            "1",
            "--sizes",
            "64KiB",
            "--only",
            only,
            "--json",
            "out.json",
        ];
        let Some(text) = under_mpi(&folder, launcher, &words) else { continue };
        let (system, figures) = figures(&folder);
        assert!(system["mpi through"].as_str().unwrap().contains("libmp"), "{system}");
        assert!(!text.contains("n/a"), "{launcher}: {text}");
        for figure in &figures {
            assert!(figure["mpi µs"].as_f64().unwrap() > 0.0, "{launcher}: {figure}");
            let (ours, theirs) =
                (figure["aqueduct µs"].as_f64().unwrap(), figure["mpi µs"].as_f64().unwrap());
            let ratio = figure["aqueduct/mpi"].as_f64().unwrap();
            assert!((ratio - theirs / ours).abs() < 1e-6 * ratio, "{figure}");
        }
        let words = ["sweep", "--through", "mpi", "--from", "1KiB", "--to", "4KiB", "--json", "out.json"];
        under_mpi(&folder, launcher, &words);
        let words =
            ["b_eff_io", "--through", "mpi", "--time", "1s", "--memory", "1MiB", "--json", "out.json"];
        let text = under_mpi(&folder, launcher, &words).unwrap();
        assert!(text.contains("b_eff_io of mpi = ") && text.contains("not valid for comparison"), "{text}");
        assert!(!text.contains("numbers were not read"), "{text}");
    }
}

#[test]
fn the_effective_bandwidth_has_43_patterns_and_its_time() {
    let folder = TestFolder::new();
    let start = std::time::Instant::now();
    let words = [
        "bench",
        "b_eff_io",
        "-n",
        "3",
        "--time",
        "3s",
        "--memory",
        "1MiB",
        "--rewrite",
        "--json",
        "out.json",
    ];
    let text = folder.succeed(&words);
    // Types 3 and 4 repeat what types 0 to 2 have done, so that the whole takes about the scheduled time, on a busy machine more.
    assert!(start.elapsed().as_secs() < 100, "{:?}", start.elapsed());
    let (_, figures) = figures(&folder);
    for ranks in [3, 2, 1] {
        for method in ["write", "rewrite", "read"] {
            let found: Vec<&Value> = figures
                .iter()
                .filter(|figure| figure["ranks"] == ranks && figure["method"] == method)
                .collect();
            assert_eq!(found.len(), 43, "{ranks} ranks, {method}");
            assert!(found.iter().all(|figure| figure["errors"] == 0));
        }
        let of_pattern = |method: &str, number: u64| {
            let is_it = |figure: &&Value| {
                figure["ranks"] == ranks && figure["method"] == method && figure["pattern"] == number
            };
            figures.iter().find(is_it).unwrap()["bytes"].as_u64().unwrap()
        };
        for number in 0..43 {
            assert_eq!(of_pattern("write", number), of_pattern("read", number), "the same is read");
        }
        // The segments of types 3 and 4 are whole MiB.
        for numbers in [25..34, 34..43] {
            let bytes: u64 = numbers.map(|number| of_pattern("write", number)).sum();
            assert!(bytes.is_multiple_of(ranks << 20), "{bytes}");
        }
    }
    assert!(text.contains("b_eff_io of aqueduct = ") && text.contains("not valid for comparison"), "{text}");
}
