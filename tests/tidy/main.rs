//! Rules for every file of the repository: sizes, documentation, layering, names, metadata. Limits and counts go down, never up.

mod folders;
mod manifests;
mod module_cycles;
mod sources;
mod type_names;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};

use sources::{assert_none, is_rust, root, sources};

const LONGEST_FILE: usize = 500;
const LONGEST_FUNCTION: usize = 70;
const WIDEST_LINE: usize = 160;

/// Which of our crates each crate may use: downwards only. `comm` and `device` do not know each other; both print through `report`. Test
/// kits may use everything that they test; `xtask` uses none.
const MAY_USE: &[(&str, &[&str])] = &[
    ("crates/report", &[]),
    ("crates/comm", &["aqueduct-report"]),
    ("crates/device", &["aqueduct-report"]),
    ("crates/tunnel", &["aqueduct-device"]),
    ("crates/file", &["aqueduct-comm", "aqueduct-device", "aqueduct-report", "aqueduct-tunnel"]),
    ("crates/derive", &[]),
    ("crates/object", &["aqueduct-comm", "aqueduct-derive", "aqueduct-file"]),
    ("crates/formats", &["aqueduct-comm", "aqueduct-file", "aqueduct-object"]),
    (
        "crates/stream",
        &["aqueduct-comm", "aqueduct-file", "aqueduct-formats", "aqueduct-object", "aqueduct-report"],
    ),
    ("crates/checkpoint", &["aqueduct-comm", "aqueduct-file", "aqueduct-object", "aqueduct-report"]),
    ("crates/mardyn", &["aqueduct-checkpoint", "aqueduct-comm", "aqueduct-file", "aqueduct-formats"]),
    ("crates/mpiio", &["aqueduct-comm", "aqueduct-file", "aqueduct-report"]),
    ("crates/testkit", &["aqueduct-comm", "aqueduct-device", "aqueduct-file"]),
    (
        ".",
        &[
            "aqueduct-checkpoint",
            "aqueduct-comm",
            "aqueduct-derive",
            "aqueduct-device",
            "aqueduct-file",
            "aqueduct-formats",
            "aqueduct-mardyn",
            "aqueduct-object",
            "aqueduct-stream",
            "aqueduct-tunnel",
        ],
    ),
    ("crates/patterns", &["aqueduct"]),
    ("crates/cli", &["aqueduct", "aqueduct-patterns"]),
    ("crates/bench", &["aqueduct", "aqueduct-fmm", "aqueduct-patterns", "aqueduct-sph", "aqueduct-wave"]),
    ("crates/python", &["aqueduct"]),
    ("apps/fmm", &["aqueduct"]),
    ("crates/decomposition", &[]),
    ("apps/md", &["aqueduct", "aqueduct-decomposition"]),
    ("apps/sph", &["aqueduct", "aqueduct-decomposition"]),
    ("apps/motif", &["aqueduct"]),
    ("apps/wave", &["aqueduct"]),
    (
        "crates/fuzz-targets",
        &[
            "aqueduct-checkpoint",
            "aqueduct-comm",
            "aqueduct-device",
            "aqueduct-file",
            "aqueduct-formats",
            "aqueduct-mardyn",
            "aqueduct-object",
            "aqueduct-stream",
            "aqueduct-testkit",
            "aqueduct-tunnel",
        ],
    ),
    ("crates/model-checks", &[]),
    ("fuzz", &["aqueduct-fuzz-targets"]),
    ("xtask", &[]),
];

/// The modules that may hold `unsafe`, and why.
const UNSAFE: &[(&str, &str)] = &[
    ("crates/comm/src/scheduling/background_thread.rs", "system calls that rustix lacks"),
    ("crates/comm/src/launch/comm_attribute.rs", "attributes of the host's MPI"),
    ("crates/comm/src/launch/host_comm.rs", "a handle of the host program"),
    ("crates/comm/src/node/node_exchange.rs", "shared memory of a node"),
    ("crates/comm/src/node/shared_region.rs", "shared memory of a node"),
    ("crates/comm/src/transport/mpi/functions.rs", "calls into MPI"),
    ("crates/comm/src/transport/mpi/in_flight.rs", "buffers lent to MPI"),
    ("crates/comm/src/transport/mpi/library.rs", "loading a library"),
    ("crates/comm/src/transport/mpi/loaded_libraries.rs", "the loader's lists"),
    ("crates/comm/src/transport/mpi/mpi_transport.rs", "buffers lent to MPI"),
    ("crates/device/src/mapping.rs", "mapped files"),
    ("crates/device/src/mapping/bus_error.rs", "a signal handler for pages of mapped files"),
    ("crates/device/src/ufs/close.rs", "a close that gives its result"),
    ("crates/device/src/ufs/ofd_lock.rs", "a system call that rustix lacks"),
    ("crates/device/src/ufs/writeback.rs", "a system call that rustix lacks"),
    ("crates/device/src/uring/ring.rs", "buffers lent to the kernel"),
    ("crates/file/src/collective/aggregation_buffers.rs", "buffers that ranks fill at the same time"),
    ("crates/file/src/handle/scope.rs", "jobs that borrow"),
    ("crates/file/src/independent/mapped_io.rs", "pages of mapped files"),
    ("crates/file/src/memory/window.rs", "memory that ranks access at the same time"),
    ("crates/formats/src/netcdf/byteswap.rs", "code for registers that the processor says it has"),
    ("crates/fuzz-targets/tests/smoke.rs", "an allocator that counts"),
    ("crates/python/src/comm.rs", "communicators of mpi4py"),
    ("crates/python/src/memory.rs", "buffers of Python"),
    ("crates/mpiio/src/buffer/borrowed_buffer.rs", "buffers that C lends"),
    ("crates/mpiio/src/buffer/datarep.rs", "functions of the program"),
    ("crates/mpiio/src/communicator.rs", "communicators of the host program"),
    ("crates/mpiio/src/datatype.rs", "attributes of the host's MPI"),
    ("crates/mpiio/src/datatype/committed.rs", "calls into MPI"),
    ("crates/mpiio/src/datatype/contents.rs", "calls into MPI"),
    ("crates/mpiio/src/datatype/decode.rs", "calls into MPI"),
    ("crates/mpiio/src/file.rs", "handles of the host's MPI"),
    ("crates/mpiio/src/file/error_handler.rs", "functions of the program"),
    ("crates/mpiio/src/host.rs", "calls into MPI"),
    ("crates/mpiio/src/host/functions.rs", "functions found by name"),
    ("crates/mpiio/src/host/status.rs", "calls into MPI"),
    ("crates/mpiio/src/info.rs", "calls into MPI"),
    ("crates/mpiio/src/preload_check.rs", "the loader"),
    ("crates/mpiio/src/request.rs", "callbacks of the host's MPI"),
    ("crates/mpiio/src/request/progress.rs", "a hook in the host's MPI"),
    ("crates/mpiio/src/request/request_errors.rs", "callbacks of the host's MPI"),
    ("crates/mpiio/src/request/ucx_progress.rs", "the loader and a function of UCX"),
    ("crates/mpiio/src/shutdown.rs", "the end of the process"),
    ("crates/mpiio/src/symbols.rs", "the C interface"),
    ("crates/mpiio/src/symbols/access.rs", "the C interface"),
    ("crates/mpiio/src/symbols/completion.rs", "the C interface"),
    ("crates/mpiio/src/symbols/errhandlers.rs", "the C interface"),
    ("crates/mpiio/src/symbols/fortran.rs", "the binding's own functions"),
    ("crates/mpiio/src/symbols/initialize.rs", "the C interface"),
    ("crates/mpiio/src/symbols/manage.rs", "the C interface"),
    ("crates/mpiio/src/symbols/position.rs", "the C interface"),
    ("crates/mpiio/src/symbols/requests.rs", "the C interface"),
    ("crates/mpiio/src/symbols/split.rs", "the C interface"),
    ("crates/mpiio/src/symbols/view.rs", "the C interface"),
    ("crates/object/src/object/cast.rs", "trivial objects as bytes"),
    ("crates/file/tests/short_path.rs", "an allocator that counts"),
    ("crates/object/src/object/compound.rs", "implementations of the unsafe trait `Object`"),
    ("crates/object/src/object/container.rs", "implementations of the unsafe trait `Object`"),
    ("crates/object/src/object.rs", "the unsafe trait `Object`"),
    ("crates/object/src/object/primitive.rs", "implementations of the unsafe trait `Object`"),
    ("crates/object/tests/schemas.rs", "implementations of the unsafe trait `Object`"),
    ("crates/patterns/src/mpi_file.rs", "calls into MPI"),
    ("crates/patterns/src/mpi_functions.rs", "functions found by name"),
    ("crates/stream/src/server/shared_slots.rs", "buffers that clients fill and servers fetch"),
    ("crates/stream/src/pack/step_checksum.rs", "instructions that were looked for"),
    ("crates/testkit/src/bin/conformance.rs", "plays a host program"),
];

#[test]
fn files_are_short_and_documented() {
    assert_none(sources(&[".rs"]).iter().flat_map(|source| {
        let lines = source.text.lines().count();
        let long = (lines > LONGEST_FILE)
            .then(|| format!("{}: {lines} lines, more than {LONGEST_FILE}; split it", source.path));
        let undocumented =
            (!source.text.starts_with("//! ")).then(|| format!("{}: no module documentation", source.path));
        long.into_iter().chain(undocumented)
    }));
}

#[test]
fn lines_are_narrow_and_clean() {
    assert_none(sources(&[".rs", ".md", ".toml", ".yml"]).iter().flat_map(|source| {
        let wide = |line: &str| {
            line.chars().count() > WIDEST_LINE
                && !line.trim_start_matches("//! ").starts_with('|')
                && !line.contains("http")
        };
        let bad = |line: &&str| (is_rust(source) && wide(line)) || line.ends_with(' ') || line.contains('\t');
        let lines = source.text.lines().enumerate().filter(move |(_, line)| bad(line));
        let path = &source.path;
        lines
            .map(move |(at, _)| format!("{path}:{}: too wide, a tab, or a space at the end", at + 1))
            .collect::<Vec<_>>()
    }));
}

#[test]
fn functions_are_short() {
    assert_none(sources(&[".rs"]).iter().flat_map(|source| {
        let long = functions(&source.text).into_iter().filter(|(_, _, lines)| *lines > LONGEST_FUNCTION);
        let path = source.path.clone();
        long.map(move |(at, name, lines)| format!("{path}:{at}: {name} has {lines} lines"))
            .collect::<Vec<_>>()
    }));
}

/// Line, name and length of each function: from its `fn` to the closing brace at the same depth of indentation.
fn functions(text: &str) -> Vec<(usize, String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim_start();
        let Some((before, after)) = code.split_once("fn ") else { continue };
        let is_item = before.split_whitespace().all(|word| {
            ["pub", "pub(crate)", "pub(super)", "const", "unsafe", "extern", "\"C\"", "async"].contains(&word)
        });
        if !is_item || code.ends_with(';') {
            continue;
        }
        let indent = &line[..line.len() - code.len()];
        let end = lines[at..].iter().position(|later| {
            later
                .strip_prefix(indent)
                .is_some_and(|rest| rest == "}" || (rest.ends_with(" }") && *later == *line))
        });
        let name = after.split(['(', '<']).next().unwrap_or_default().to_owned();
        found.push((at + 1, name, end.map_or(1, |end| end + 1)));
    }
    found
}

#[test]
fn function_lengths_are_counted() {
    let body = "        work();\n".repeat(80);
    let text =
        format!("impl A {{\n    pub fn long(&self) {{\n{body}    }}\n\n    fn short() {{ work() }}\n}}\n");
    assert_eq!(functions(&text), [(2, "long".to_owned(), 82), (85, "short".to_owned(), 1)]);
}

#[test]
fn unsafe_code_is_in_named_modules() {
    assert_none(sources(&[".rs"]).iter().filter_map(|source| {
        let named = UNSAFE.iter().any(|(path, _)| *path == source.path);
        let opens = source.text.contains("allow(unsafe_code)");
        (named != opens).then(|| {
            format!(
                "{}: unsafe code is only allowed in the modules that UNSAFE of tests/tidy/main.rs lists",
                source.path
            )
        })
    }));
    assert_none(
        UNSAFE
            .iter()
            .filter(|(path, _)| !root().join(path).exists())
            .map(|(path, _)| format!("{path} does not exist")),
    );
}

#[test]
fn crates_depend_on_lower_layers_only() {
    let known: Vec<String> = MAY_USE.iter().map(|(folder, _)| (*folder).to_owned()).collect();
    assert_none(sources(&["Cargo.toml"]).iter().flat_map(|source| {
        let folder = match source.path.trim_end_matches("Cargo.toml").trim_end_matches('/') {
            "" => ".",
            folder => folder,
        };
        let allowed =
            MAY_USE.iter().find(|(known, _)| *known == folder).map_or(&[][..], |(_, allowed)| *allowed);
        let section =
            source.text.split("\n[").find(|section| section.starts_with("dependencies]")).unwrap_or("");
        let names = section.lines().filter_map(|line| line.split(['.', ' ', '=']).next());
        let ours = names.filter(|name| *name == "aqueduct" || name.starts_with("aqueduct-"));
        let upward = ours.filter(|name| !allowed.contains(name));
        let mut complaints: Vec<String> =
            upward.map(|name| format!("{folder} must not use {name}")).collect();
        if !known.contains(&folder.to_owned()) {
            complaints.push(format!("{folder} is missing in MAY_USE of tests/tidy/main.rs"));
        }
        complaints
    }));
}

#[test]
fn no_unfinished_code_is_left() {
    let words = ["todo!(", "unimplemented!(", "#[ignore", "dbg!(", "FIXME", "XXX"];
    assert_none(sources(&[".rs"]).iter().flat_map(|source| {
        let left = words.iter().filter(|word| source.text.contains(**word));
        left.map(|word| format!("{}: {word}", source.path)).collect::<Vec<_>>()
    }));
}

#[test]
fn no_absolute_path_of_a_machine_occurs() {
    let words = ["work", "root", "home"].map(|folder| format!("/{folder}/"));
    assert_none(sources(&[".rs", ".md", ".toml", ".c", ".py", "run"]).iter().flat_map(|source| {
        let named = words.iter().filter(|word| source.text.contains(word.as_str()));
        named.map(|word| format!("{}: {word}", source.path)).collect::<Vec<_>>()
    }));
}

#[test]
fn links_in_documents_have_targets() {
    assert_none(sources(&[".md"]).iter().flat_map(|source| {
        let folder: PathBuf = root().join(&source.path).parent().map(Path::to_path_buf).unwrap_or_default();
        let targets = source.text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
        let local = targets.filter(|target| !target.is_empty() && !target.contains("://"));
        let dead = local.filter(|target| !folder.join(target).exists());
        dead.map(|target| format!("{}: {target} does not exist", source.path)).collect::<Vec<_>>()
    }));
}

#[test]
fn architecture_mentions_every_crate() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    let missing = MAY_USE.iter().filter(|(folder, _)| *folder != "." && !architecture.contains(folder));
    assert_none(missing.map(|(folder, _)| format!("ARCHITECTURE.md does not mention {folder}")));
}
