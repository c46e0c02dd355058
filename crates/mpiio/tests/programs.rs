//! Programs in C, C++, Fortran and Python, run natively and with the interposition library: they print the same and
//! leave the same bytes. Where an implementation is known to be wrong, the line and the reason stand in `KNOWN`.
//!
//! A missing MPI or library is said and skipped; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

mod launch;

use std::collections::BTreeMap;
use std::path::Path;

use launch::{Job, MPICH, Mpi, OPEN_MPI, compile, is_missing};

/// Lines that an implementation prints differently, and why it is the one that is wrong.
const KNOWN: [(&str, &str, &str); 9] = [
    ("openmpi", "last at", "OMPIO counts the displacement of the view as data"),
    ("openmpi", "set no hints:", "OMPIO refuses MPI_INFO_NULL"),
    ("openmpi", "seek before:", "OMPIO has MPI_ERR_OTHER for a negative position"),
    ("openmpi", "seek MPI", "the same"),
    ("openmpi", "handler: MPI_ERR", "the same, as its handler sees it"),
    ("openmpi", "negative offset:", "OMPIO writes there, and reports success"),
    ("openmpi", "write_at_all read-only:", "OMPIO reports success where nothing was written"),
    ("openmpi", "set_size read-only:", "OMPIO has MPI_ERR_OTHER"),
    ("mpich", "nothing: memory write", "ROMIO leaves the status of an empty datatype as it was"),
];

/// Statuses that an implementation leaves unset are garbage in its log; ours must say that nothing was cancelled.
fn comparable(log: &str, mpi: Mpi) -> Vec<String> {
    let known = |line: &&str| !KNOWN.iter().any(|(name, part, _)| *name == mpi.name && line.contains(part));
    log.lines()
        .filter(known)
        .map(|line| line.split(", cancelled").next().unwrap_or(line).to_owned())
        .collect()
}

/// The files that a run has left, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(folder).expect("the folder is there");
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).unwrap_or_default())
    };
    entries.map(|entry| read(entry.expect("an entry"))).collect()
}

/// Runs a program natively, with the library and with a buffer, and compares its output and its files.
fn compare(mpi: Mpi, ranks: usize, command: &[&str], more: &[&str]) {
    let run = |preloaded: bool, variables: &[(&str, &str)]| {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out").to_string_lossy().into_owned();
        let words = [command, &[path.as_str()], more].concat();
        let output = Job { mpi, ranks, preloaded, variables }.run(&words);
        let way = format!("{} with {ranks} ranks, preloaded {preloaded}, {variables:?}", mpi.name);
        assert!(output.success, "{way}: {}", output.text());
        if preloaded {
            assert!(!output.printed.contains("cancelled 1"), "{}", output.printed);
        }
        (comparable(&output.printed, mpi), files(folder.path()), way)
    };
    let native = run(false, &[]);
    assert!(!native.0.is_empty(), "a program that prints nothing shows nothing");
    for variables in [&[][..], &[("AQUEDUCT_BUFFER", "64KiB")]] {
        let ours = run(true, variables);
        for (native, line) in native.0.iter().zip(&ours.0) {
            assert_eq!(native, line, "{}", ours.2);
        }
        assert_eq!(native.0.len(), ours.0.len());
        let names: Vec<_> = native.1.keys().collect();
        assert_eq!(names, ours.1.keys().collect::<Vec<_>>(), "the files left behind");
        assert!(native.1 == ours.1, "{}: the bytes differ in one of {names:?}", ours.2);
    }
}

/// Runs a program that checks itself, with the library only.
fn check(mpi: Mpi, ranks: usize, program: &Path, variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out").to_string_lossy().into_owned();
    let output = Job { mpi, ranks, preloaded: true, variables }
        .run(&[program.to_str().expect("UTF-8"), path.as_str()]);
    assert!(output.success, "{} with {ranks} ranks, {variables:?}: {}", mpi.name, output.text());
    let left: Vec<String> = files(folder.path()).into_keys().filter(|name| name != "out").collect();
    assert!(left.is_empty(), "files are left behind: {left:?}");
    output.printed
}

fn compiled_and_compared(mpi: Mpi, source: &str, libraries: &[&str], ranks: &[usize], more: &[&str]) {
    let Some(program) = compile(mpi, source, libraries) else { return };
    for ranks in ranks {
        compare(mpi, *ranks, &[program.path.to_str().expect("UTF-8")], more);
    }
}

#[test]
fn all_functions() {
    for mpi in [OPEN_MPI, MPICH] {
        compiled_and_compared(mpi, "walk.c", &[], &[1, 3], &[]);
    }
}

#[test]
fn all_constructors() {
    compiled_and_compared(OPEN_MPI, "combiners.c", &[], &[1, 3], &[]);
    // ROMIO aborts on datatypes with a hole inside a pair; without them.
    compiled_and_compared(MPICH, "combiners.c", &[], &[1, 3], &["without-pairs"]);
    // With the library both implementations print the same.
    let logs = [OPEN_MPI, MPICH]
        .map(|mpi| compile(mpi, "combiners.c", &[]).map(|program| check(mpi, 3, &program.path, &[])));
    if let [Some(first), Some(second)] = &logs {
        assert_eq!(first, second);
    }
}

#[test]
fn errors_and_handlers() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "errors.c", &[]) else { return };
        for ranks in [1, 2, 5] {
            check(mpi, ranks, &program.path, &[]);
        }
        check(mpi, 2, &program.path, &[("THREAD_LEVEL", "3")]);
    }
}

/// At every thread level, among requests of MPI's own.
#[test]
fn requests_of_both_kinds() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "mixed.c", &[]) else { return };
        for (ranks, level) in [(1, "0"), (3, "0"), (2, "1"), (2, "2"), (1, "3"), (3, "3")] {
            check(mpi, ranks, &program.path, &[("THREAD_LEVEL", level)]);
        }
    }
}

/// After what public test families look at.
#[test]
fn shapes_of_data() {
    compiled_and_compared(OPEN_MPI, "shapes.c", &[], &[1, 2, 3], &[]);
    compiled_and_compared(MPICH, "shapes.c", &[], &[1, 2], &[]);
}

#[test]
fn access_functions_in_all_forms() {
    // OMPIO breaks off at the end of a file and takes no lock in atomic mode; ROMIO breaks off in external32.
    compiled_and_compared(OPEN_MPI, "manners.c", &[], &[1, 3], &["posnxi"]);
    compiled_and_compared(MPICH, "manners.c", &[], &[1, 3], &["eposnai"]);
    let logs = [OPEN_MPI, MPICH]
        .map(|mpi| compile(mpi, "manners.c", &[]).map(|program| check(mpi, 4, &program.path, &[])));
    if let [Some(first), Some(second)] = &logs {
        assert_eq!(first, second);
        assert!(first.contains("big-endian 1") && !first.contains("big-endian 0"), "{first}");
        let torn: Vec<&str> = first.lines().filter(|line| line.contains("torn ")).collect();
        assert!(torn.len() == 4 && torn.iter().all(|line| line.ends_with("torn 0")), "{torn:?}");
    }
}

#[test]
fn more_than_two_gibibytes() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "big.c", &["-ldl"]) else { return };
        for ranks in [1, 3] {
            check(mpi, ranks, &program.path, &[]);
        }
    }
}

#[test]
fn non_blocking_operations_do_not_block() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "apart.c", &[]) else { return };
        check(mpi, 3, &program.path, &[]);
        check(mpi, 2, &program.path, &[("AQUEDUCT_DEVICE", "throttle=50MB/s")]);
    }
}

#[test]
fn in_rank_order_at_every_thread_level() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "ordered.c", &[]) else { return };
        for level in ["0", "3"] {
            check(mpi, 3, &program.path, &[("THREAD_LEVEL", level)]);
            check(mpi, 3, &program.path, &[("THREAD_LEVEL", level), ("AQUEDUCT_NODE_RANKS", "1")]);
            check(mpi, 4, &program.path, &[("THREAD_LEVEL", level), ("AQUEDUCT_NODE_RANKS", "2")]);
        }
    }
}

/// Between nodes, and as MPI itself goes between nodes: without shortcuts through the memory of this one.
#[test]
fn by_the_shared_pointer_at_every_thread_level() {
    let apart = [("OMPI_MCA_osc", "^sm"), ("MPIR_CVAR_NOLOCAL", "1")];
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "shared.c", &[]) else { return };
        for (level, ranks) in [("0", 5), ("1", 3), ("2", 2), ("3", 3)] {
            check(mpi, ranks, &program.path, &[("THREAD_LEVEL", level), ("AQUEDUCT_NODE_RANKS", "1")]);
        }
        for level in ["0", "2"] {
            let variables = [("THREAD_LEVEL", level), ("AQUEDUCT_NODE_RANKS", "1"), apart[0], apart[1]];
            check(mpi, 3, &program.path, &variables);
        }
        check(mpi, 2, &program.path, &[("THREAD_LEVEL", "0")]);
        check(mpi, 5, &program.path, &[("THREAD_LEVEL", "0"), ("AQUEDUCT_NODE_RANKS", "2")]);
    }
}

/// Where MPI makes no window either, accesses in rank order go on, and the others fail at once.
#[test]
fn without_a_window_no_rank_hangs() {
    let variables = [("THREAD_LEVEL", "0"), ("AQUEDUCT_NODE_RANKS", "1"), ("OMPI_MCA_osc", "monitoring")];
    let Some(ordered) = compile(OPEN_MPI, "ordered.c", &[]) else { return };
    check(OPEN_MPI, 3, &ordered.path, &variables);
    let Some(shared) = compile(OPEN_MPI, "shared.c", &[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let words = [&shared.path, &out].map(|path| path.to_str().expect("UTF-8"));
    let output = Job { mpi: OPEN_MPI, ranks: 3, preloaded: true, variables: &variables }.run(&words);
    assert!(!output.success && output.printed.contains("MPI_File_write_shared"), "{}", output.text());
    assert!(output.said.contains("cannot use a remote counter: MPI_Win_allocate"), "{}", output.said);
}

#[test]
fn a_failing_device_fails_on_all_ranks_without_a_hang() {
    let plans = [
        ("fault=write=#2", "failed some"),
        ("fault=rank=1,write=0.5,seed=3", "failed some"),
        ("fault=read=#1,rank=0", "failed some"),
        ("fault=write=nospace@#3+", "failed some"),
        ("fault=sync=#2,rank=2", "failed some"),
        ("fault=rank=1,open=permission@#1", "MPI_ERR_ACCESS"),
        ("fault=any=0,seed=1", "failed none"),
        ("fault=any=0,seed=1", "close ok"),
        ("fault=rank=1,close=quota@#1", "close MPI_ERR_QUOTA"),
        ("fault=rank=2,close=nospace@#1", "close MPI_ERR_NO_SPACE"),
    ];
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "faults.c", &[]) else { return };
        for (plan, expected) in plans {
            let printed = check(mpi, 3, &program.path, &[("AQUEDUCT_DEVICE", plan)]);
            assert!(printed.contains(expected), "{} {plan}: {printed}", mpi.name);
        }
        // Buffered, a failed write is reported later, at the latest when the file is closed.
        for (plan, expected) in &plans[3..] {
            let variables = [("AQUEDUCT_DEVICE", *plan), ("AQUEDUCT_BUFFER", "1MiB")];
            let printed = check(mpi, 3, &program.path, &variables);
            assert!(printed.contains(expected), "{} {plan}, buffered: {printed}", mpi.name);
        }
        let nodes = [("AQUEDUCT_DEVICE", plans[1].0), ("AQUEDUCT_NODE_RANKS", "2")];
        assert!(check(mpi, 4, &program.path, &nodes).contains("failed some"));
    }
}

#[test]
fn newer_implementations_and_the_standard_interface() {
    let newer = [
        launch::wheel(MPICH, "AQUEDUCT_TEST_MPICH5", "mpi_abi"),
        launch::wheel(MPICH, "AQUEDUCT_TEST_MPICH5", "mpi"),
        launch::wheel(OPEN_MPI, "AQUEDUCT_TEST_OPENMPI5", "mpi"),
    ];
    let mut logs = Vec::new();
    for mpi in newer.into_iter().flatten() {
        for source in ["errors.c", "mixed.c", "apart.c"] {
            let Some(program) = compile(mpi, source, &[]) else { return };
            check(mpi, 3, &program.path, &[]);
            check(mpi, 2, &program.path, &[("THREAD_LEVEL", "3")]);
        }
        for source in ["walk.c", "combiners.c"] {
            let Some(program) = compile(mpi, source, &[]) else { return };
            logs.push((source, check(mpi, 2, &program.path, &[])));
        }
        let Some(program) = compile(mpi, "shared.c", &[]) else { return };
        for level in ["0", "2"] {
            check(mpi, 3, &program.path, &[("THREAD_LEVEL", level), ("AQUEDUCT_NODE_RANKS", "1")]);
        }
    }
    // All of them see the same.
    for (source, log) in &logs {
        let first = logs.iter().find(|(other, _)| other == source).map(|(_, log)| log);
        assert_eq!(Some(log), first, "{source}");
    }
}

#[test]
fn fortran_and_cpp() {
    compiled_and_compared(OPEN_MPI, "view.f90", &[], &[1, 3], &[]);
    // MPICH hands its own handles to error handlers of Fortran: what the program finds out, it stops at.
    if let Some(program) = compile(MPICH, "view.f90", &[]) {
        for ranks in [1, 3] {
            assert_eq!(check(MPICH, ranks, &program.path, &[]).lines().count(), 1);
        }
    }
    for mpi in [OPEN_MPI, MPICH] {
        compiled_and_compared(mpi, "modern.f90", &[], &[1, 3], &[]);
        compiled_and_compared(mpi, "plain.f", &[], &[2], &[]);
        compiled_and_compared(mpi, "tiles.cpp", &[], &[3], &[]);
    }
}

#[test]
fn parallel_netcdf() {
    if is_missing("PnetCDF", Path::new("/usr/include/pnetcdf.h").exists()) {
        return;
    }
    compiled_and_compared(OPEN_MPI, "variables.c", &["-lpnetcdf"], &[1, 3, 4], &[]);
}

#[test]
fn parallel_hdf5() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/datasets.py");
    let parallel = "/usr/lib/python3/dist-packages/h5py/_debian_h5py_mpi";
    if is_missing("python3-h5py-mpi", Path::new(parallel).exists()) || launch::launcher(OPEN_MPI).is_none() {
        return;
    }
    for ranks in [1, 3] {
        compare(OPEN_MPI, ranks, &["/usr/bin/python3", script.to_str().expect("UTF-8")], &[]);
    }
}

#[test]
fn the_verbose_report_names_mpi_and_operations() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "tiles.cpp", &[]) else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let trace = folder.path().join("traces");
        let (path, trace_path) = (folder.path().join("out"), trace.to_string_lossy().into_owned());
        let variables = [
            ("AQUEDUCT_VERBOSE", "1"),
            ("AQUEDUCT_TRACE", trace_path.as_str()),
            ("AQUEDUCT_BUFFER", "64KiB"),
        ];
        let words = [program.path.to_str().expect("UTF-8"), path.to_str().expect("UTF-8")];
        let output = Job { mpi, ranks: 2, preloaded: true, variables: &variables }.run(&words);
        assert!(output.success, "{}", output.text());
        assert!(output.said.contains("serves MPI_File_*"), "{}", output.said);
        assert!(output.said.contains(mpi.version), "{}", output.said);
        assert!(output.said.contains("2 ranks wrote"), "{}", output.said);
        assert!(output.said.contains("the first rank's buffer took"), "{}", output.said);
        let trace = aqueduct_file::trace::TraceFolder::read(&trace).expect("a trace");
        assert_eq!(trace.ranks.len(), 2);
        for rank in &trace.ranks {
            let written = rank.calls.iter().filter(|call| call.accepted > 0).count();
            assert!(written > 0 && rank.program[0].ends_with("/program"), "{rank:?}");
        }
    }
}

/// Where MPI's rule is all that is promised, the user has to say that it is enough.
#[test]
fn files_on_several_machines_are_buffered_on_request() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "tiles.cpp", &[]) else { return };
        for (everywhere, said) in [("0", "files are not buffered"), ("1", "the first rank's buffer took")] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("out");
            let variables = [
                ("AQUEDUCT_VERBOSE", "1"),
                ("AQUEDUCT_NODE_RANKS", "1"),
                ("AQUEDUCT_BUFFER", "1MiB"),
                ("AQUEDUCT_BUFFER_NODES", everywhere),
            ];
            let words = [program.path.to_str().expect("UTF-8"), path.to_str().expect("UTF-8")];
            let output = Job { mpi, ranks: 2, preloaded: true, variables: &variables }.run(&words);
            assert!(output.success && output.said.contains(said), "{}", output.text());
            assert_eq!(output.said.contains("buffer took"), everywhere == "1", "{}", output.said);
        }
    }
}

/// The cap of the environment is one for all files of a process.
#[test]
fn files_of_a_process_share_one_buffer() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "several.c", &[]) else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        // So slow that the program fills the buffer on a busy machine too.
        let variables =
            [("AQUEDUCT_VERBOSE", "1"), ("AQUEDUCT_BUFFER", "64KiB"), ("AQUEDUCT_DEVICE", "throttle=4MB/s")];
        let words = [program.path.to_str().expect("UTF-8"), path.to_str().expect("UTF-8")];
        let output = Job { mpi, ranks: 2, preloaded: true, variables: &variables }.run(&words);
        assert!(output.success, "{}", output.text());
        let words = |line: &str| {
            let (_, levels) = line.split_once("all its files took at most ")?;
            let mut numbers = levels.split(' ').filter_map(|word| word.parse::<u64>().ok());
            Some((numbers.next()?, numbers.next()?))
        };
        let totals: Vec<(u64, u64)> = output.said.lines().filter_map(words).collect();
        assert_eq!(totals.len(), 4, "two files of all ranks, and one of each: {}", output.said);
        assert!(
            totals.iter().all(|(most, cap)| most <= cap && *cap == 64 << 10 && *most > 40 << 10),
            "{totals:?}"
        );
    }
}
