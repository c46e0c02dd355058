//! Programs that are legal and unusual, at every thread level, on one node and on several simulated nodes, with both MPIs: they do not hang,
//! they lose nothing, and they get their own errors. One that hangs fails within half a minute.
//!
//! A missing MPI is said and skipped; `AQUEDUCT_REQUIRE_MPI=1` makes that a failure.

mod launch;

use std::path::Path;

use launch::{Job, MPICH, Mpi, OPEN_MPI, Output, compile, is_missing, launcher};

/// Longer than any of these takes, in seconds.
const LONGEST: u32 = 40;

fn run(mpi: Mpi, ranks: usize, program: &Path, words: &[&str], variables: &[(&str, &str)]) -> Output {
    let words = [&[program.to_str().expect("UTF-8")], words].concat();
    Job { mpi, ranks, preloaded: true, variables }.run_within(LONGEST, &words)
}

/// Runs a program that checks itself.
fn check(mpi: Mpi, ranks: usize, program: &Path, variables: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    // One scenario gives up its privileges.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("permissions");
    let path = folder.path().join("out");
    let output = run(mpi, ranks, program, &[path.to_str().expect("UTF-8")], variables);
    assert!(output.success, "{} with {ranks} ranks, {variables:?}: {}", mpi.name, output.text());
    output
}

#[test]
fn unusual_programs_work_at_every_thread_level_and_between_nodes() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "unusual.c", &["-ldl"]) else { return };
        for level in ["0", "1", "2", "3"] {
            for nodes in ["1", "8"] {
                let variables = [("THREAD_LEVEL", level), ("AQUEDUCT_NODE_RANKS", nodes)];
                check(mpi, 3, &program.path, &variables);
            }
        }
        check(mpi, 4, &program.path, &[("THREAD_LEVEL", "1"), ("AQUEDUCT_NODE_RANKS", "2")]);
        let output = check(mpi, 1, &program.path, &[("THREAD_LEVEL", "0"), ("AQUEDUCT_VERBOSE", "1")]);
        for text in ["has the negative displacement -", "displacements must not decrease"] {
            assert!(output.said.contains(text), "{text}: {}", output.text());
        }
    }
}

#[test]
fn unusual_programs_work_with_newer_implementations() {
    let newer = [
        launch::wheel(MPICH, "AQUEDUCT_TEST_MPICH5", "mpi_abi"),
        launch::wheel(MPICH, "AQUEDUCT_TEST_MPICH5", "mpi"),
        launch::wheel(OPEN_MPI, "AQUEDUCT_TEST_OPENMPI5", "mpi"),
    ];
    for mpi in newer.into_iter().flatten() {
        let Some(program) = compile(mpi, "unusual.c", &["-ldl"]) else { return };
        check(mpi, 3, &program.path, &[("THREAD_LEVEL", "0"), ("AQUEDUCT_NODE_RANKS", "1")]);
    }
}

/// What a program of `endings.c` writes.
fn expected(ranks: usize) -> Vec<u8> {
    const BLOCK: usize = 1 << 20;
    let blocks = (0..8).flat_map(|block| (0..ranks).map(move |rank| b'a' + ((block * 3 + rank) % 26) as u8));
    blocks.flat_map(|byte| std::iter::repeat_n(byte, BLOCK)).collect()
}

#[test]
fn everything_accepted_is_written_when_the_program_ends_without_closing() {
    let buffered = [("AQUEDUCT_BUFFER", "64MiB"), ("AQUEDUCT_DEVICE", "throttle=100MB/s")];
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "endings.c", &[]) else { return };
        for (how, nodes, level) in [
            ("finalize", "8", "0"),
            ("finalize", "1", "0"),
            ("finalize", "1", "1"),
            ("finalize", "1", "2"),
            ("finalize", "1", "3"),
            ("exit", "8", "0"),
            ("return", "8", "3"),
        ] {
            // Unbuffered, what counts is the thread that serves the shared pointer and the request nobody waits for.
            let unbuffered = (how, nodes) == ("finalize", "1") || how == "exit";
            for variables in [Some(&buffered[..]), unbuffered.then_some(&[][..])].into_iter().flatten() {
                let own =
                    [("AQUEDUCT_BUFFER_NODES", "1"), ("AQUEDUCT_NODE_RANKS", nodes), ("THREAD_LEVEL", level)];
                let variables = [&own[..], variables].concat();
                let folder = tempfile::tempdir().expect("a folder");
                let path = folder.path().join("out");
                let output = run(mpi, 3, &program.path, &[path.to_str().expect("UTF-8"), how], &variables);
                let case = format!("{} {how} {variables:?}: {}", mpi.name, output.text());
                // Launchers call an end without MPI_Finalize a failure themselves.
                assert!(output.success || how != "finalize", "{case}");
                assert!(!case.contains("Segmentation"), "{case}");
                assert!(std::fs::read(&path).expect("the file") == expected(3), "{case}");
                let shared = std::fs::metadata(folder.path().join("out-shared")).expect("the file").len();
                assert_eq!(shared, 300, "{case}");
                let split = std::fs::read(folder.path().join("out-split")).expect("the file");
                let (blocks, rest) = split.as_chunks::<{ 1 << 20 }>();
                assert!(blocks.len() == 3 && rest.is_empty(), "{case}");
                let is_filled = |(rank, block): (usize, &[u8; 1 << 20])| {
                    block.iter().all(|byte| *byte == b'a' + (rank * 4) as u8)
                };
                assert!(blocks.iter().enumerate().all(is_filled), "{case}");
            }
        }
    }
}

#[test]
fn a_failure_at_the_end_is_printed_and_changes_the_exit_status() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "endings.c", &[]) else { return };
        for variables in [
            &[
                ("AQUEDUCT_DEVICE", "fault=rank=1,write=nospace@#3+:throttle=100MB/s"),
                ("AQUEDUCT_BUFFER", "64MiB"),
            ][..],
            // The last write, which nobody waits for.
            &[("AQUEDUCT_DEVICE", "fault=rank=1,write=nospace@#6+")],
        ] {
            for how in ["finalize", "exit"] {
                let folder = tempfile::tempdir().expect("a folder");
                let path = folder.path().join("out");
                let output = run(mpi, 2, &program.path, &[path.to_str().expect("UTF-8"), how], variables);
                let case = format!("{} {how} {variables:?}: {}", mpi.name, output.text());
                // MPICH's launcher does not tell the status of a process that exits without MPI_Finalize.
                assert!(!output.success || how == "exit", "{case}");
                assert!(
                    output.said.contains("aqueduct: ") && output.said.contains("no space left"),
                    "{case}"
                );
            }
        }
    }
}

#[test]
fn errors_of_close_are_reported_for_files_left_open() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "endings.c", &[]) else { return };
        for (how, buffer) in [("finalize", "0"), ("exit", "0"), ("finalize", "64MiB")] {
            let variables =
                [("AQUEDUCT_DEVICE", "fault=rank=1,close=quota@#1+"), ("AQUEDUCT_BUFFER", buffer)];
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("out");
            let output = run(mpi, 2, &program.path, &[path.to_str().expect("UTF-8"), how], &variables);
            let case = format!("{} {how} {variables:?}: {}", mpi.name, output.text());
            assert!(!output.success || how == "exit", "{case}");
            // One report for each of the three files.
            assert_eq!(output.said.matches("quota exceeded").count(), 3, "{case}");
        }
    }
}

#[test]
fn other_libraries_write_to_their_files_while_mpi_ends() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "finalizers.c", &[]) else { return };
        for (level, nodes) in [("0", "8"), ("0", "1"), ("3", "1")] {
            let variables = [("THREAD_LEVEL", level), ("AQUEDUCT_NODE_RANKS", nodes)];
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("out");
            let output = run(mpi, 2, &program.path, &[path.to_str().expect("UTF-8")], &variables);
            assert!(output.success, "{} {variables:?}: {}", mpi.name, output.text());
            assert_eq!(std::fs::read(&path).expect("the file"), b"rank 0\nrank 1\n");
        }
    }
}

#[test]
fn parallel_hdf5_flushes_its_files_while_mpi_ends() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/left_open.py");
    let parallel = "/usr/lib/python3/dist-packages/h5py/_debian_h5py_mpi";
    if is_missing("python3-h5py-mpi", Path::new(parallel).exists()) || launcher(OPEN_MPI).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.h5").to_string_lossy().into_owned();
    let words = ["/usr/bin/python3", script.to_str().expect("UTF-8"), &path];
    let output = Job { mpi: OPEN_MPI, ranks: 2, preloaded: true, variables: &[] }.run_within(LONGEST, &words);
    assert!(output.success, "{}", output.text());
    let read = "import h5py, sys; f = h5py.File(sys.argv[1]); \
                sys.exit(not (f['data'][()].ravel() == range(2000)).all())";
    let read = std::process::Command::new("/usr/bin/python3").args(["-c", read, &path]).output();
    let read = read.expect("python starts");
    assert!(read.status.success(), "{}{}", output.text(), String::from_utf8_lossy(&read.stderr));
}

#[test]
fn a_process_that_exits_inside_mpi_ends() {
    let Some(program) = compile(OPEN_MPI, "exit_inside.c", &["-ldl"]) else { return };
    let start = std::time::Instant::now();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let variables = [("THREAD_LEVEL", "0"), ("AQUEDUCT_NODE_RANKS", "1")];
    let output = run(OPEN_MPI, 2, &program.path, &[path.to_str().expect("UTF-8")], &variables);
    assert!(!output.success && start.elapsed().as_secs() < 20, "{:?}: {}", start.elapsed(), output.text());
}

#[test]
fn a_freed_read_is_over_when_its_file_is_closed() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "freed.c", &[]) else { return };
        check(mpi, 1, &program.path, &[("AQUEDUCT_DEVICE", "throttle=1MB/s")]);
    }
}

#[test]
fn errors_of_several_threads_reach_the_handlers_they_belong_to() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "threads.c", &["-lpthread"]) else { return };
        check(mpi, 2, &program.path, &[("THREAD_LEVEL", "3"), ("AQUEDUCT_DEVICE", "fault=write=#1+")]);
    }
}

#[test]
fn each_rank_records_to_the_trace_folder_that_it_finds() {
    let Some(program) = compile(OPEN_MPI, "elsewhere.c", &[]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let words = [path.to_str().expect("UTF-8"), folder.path().to_str().expect("UTF-8")];
    // The ranks have different working directories, and are nodes of their own.
    let traces = folder.path().join("traces").display().to_string();
    for (name, said) in [(traces.as_str(), 0), ("/proc/no/folder", 2)] {
        let variables = [("AQUEDUCT_TRACE", name), ("AQUEDUCT_NODE_RANKS", "1")];
        let output = run(OPEN_MPI, 2, &program.path, &words, &variables);
        assert!(output.success, "{}", output.text());
        assert_eq!(std::fs::read(&path).expect("the file"), b"xx");
        assert_eq!(output.said.matches("AQUEDUCT_TRACE").count(), said, "{}", output.text());
    }
    let trace = aqueduct_file::trace::TraceFolder::read(&traces).expect("a trace");
    assert_eq!(trace.ranks.iter().map(|rank| rank.rank).collect::<Vec<_>>(), [0, 1]);
    // The clock of one machine.
    assert!(trace.ranks.iter().all(|rank| rank.clock_offset.abs() < 1_000_000_000));
}

#[test]
fn a_device_of_the_environment_is_used() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "endings.c", &[]) else { return };
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let variables = [("AQUEDUCT_DEVICE", "uring"), ("AQUEDUCT_URING", "maybe")];
        let output = run(mpi, 2, &program.path, &[path.to_str().expect("UTF-8"), "finalize"], &variables);
        assert!(output.success, "{} {}", mpi.name, output.text());
        assert!(std::fs::read(&path).expect("the file") == expected(2), "{}", output.text());
        // Each process says what the setting takes, once.
        assert_eq!(output.said.matches("AQUEDUCT_URING=maybe has no effect").count(), 2, "{}", output.text());
        let names = std::fs::read_dir(folder.path()).expect("a folder").map(|entry| entry.expect("an entry"));
        assert!(names.into_iter().all(|entry| !entry.file_name().to_string_lossy().contains(':')));
    }
}

#[test]
fn errors_of_other_calls_reach_the_handler_of_the_program() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "handlers.c", &[]) else { return };
        for level in ["0", "3"] {
            check(mpi, 2, &program.path, &[("THREAD_LEVEL", level), ("AQUEDUCT_DEVICE", "fault=write=#1+")]);
        }
    }
}

#[test]
fn reads_of_data_that_another_rank_lost_return_the_error() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "lost.c", &[]) else { return };
        let variables = [("AQUEDUCT_BUFFER", "1MiB"), ("AQUEDUCT_DEVICE", "fault=write=nospace@#1+,rank=0")];
        check(mpi, 3, &program.path, &variables);
    }
}

#[test]
fn wrong_settings_are_reported_with_the_valid_forms() {
    let wrong = [
        ("AQUEDUCT_BUFFER", "abc", "256MiB", true),
        ("AQUEDUCT_BUFFER_NODES", "yes", "1 to buffer between machines", true),
        ("AQUEDUCT_SPILL", "/no/such/folder", "the path of a folder", true),
        ("AQUEDUCT_SPILL_SIZE", "much", "1GiB", true),
        ("AQUEDUCT_TRACE", "/proc/no/folder", "cannot be created", true),
        ("AQUEDUCT_HINTS", "/no/such/file", "cannot be read", true),
        ("AQUEDUCT_URING", "maybe", "off", true),
        ("AQUEDUCT_NODE_RANKS", "many", "give 1 or more", false),
        ("AQUEDUCT_DEVICE", "bogus", "throttle=200MB/s", false),
        ("AQUEDUCT_DEVICE", "throttle=fast", "200MB/s", false),
    ];
    let Some(program) = compile(OPEN_MPI, "plain.c", &[]) else { return };
    for (variable, value, form, works) in wrong {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("out");
        let output = run(OPEN_MPI, 1, &program.path, &[path.to_str().expect("UTF-8")], &[(variable, value)]);
        let case = format!("{variable}={value}: {}", output.text());
        assert_eq!(output.success, works, "{case}");
        assert!(output.said.contains(variable) && output.said.contains(form), "{case}");
        assert_eq!(output.said.matches(variable).count(), 1, "{case}");
    }
}

#[test]
fn communicators_leave_no_memory_behind() {
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "communicators.c", &[]) else { return };
        for nodes in ["8", "1"] {
            check(mpi, 2, &program.path, &[("AQUEDUCT_NODE_RANKS", nodes)]);
        }
    }
}

/// Files on many communicators, and many requests: see `cargo xtask soak` for the long form.
#[test]
fn memory_descriptors_and_threads_stay_flat() {
    let rounds = std::env::var("AQUEDUCT_SOAK_SECONDS").unwrap_or_else(|_| "3".to_owned());
    let longest = LONGEST + rounds.parse::<u32>().expect("AQUEDUCT_SOAK_SECONDS is a number of seconds") * 2;
    for mpi in [OPEN_MPI, MPICH] {
        let Some(program) = compile(mpi, "soak.c", &[]) else { return };
        for nodes in ["8", "1"] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("out").to_string_lossy().into_owned();
            let variables = [("AQUEDUCT_NODE_RANKS", nodes)];
            let words = [program.path.to_str().expect("UTF-8"), path.as_str(), rounds.as_str()];
            let output =
                Job { mpi, ranks: 2, preloaded: true, variables: &variables }.run_within(longest, &words);
            assert!(output.success, "{} with {nodes} ranks on a node: {}", mpi.name, output.text());
            let is_complete = output.printed.contains("all counts reached");
            assert!(is_complete || output.printed.contains("ended by time"), "{}", output.printed);
            println!("{} {}", mpi.name, output.printed);
            let required = std::env::var_os("AQUEDUCT_SOAK_COUNTS").is_some();
            assert!(is_complete || !required, "the time was too short for the counts; give more minutes");
        }
    }
}
