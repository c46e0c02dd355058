//! Compiles and runs programs under the MPI libraries of this machine, natively or with the interposition library.
#![allow(dead_code, reason = "not every test needs all of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use aqueduct_testkit::hosts::TestHosts;

/// An MPI of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mpi {
    /// As Debian's commands end.
    pub(crate) name: &'static str,
    /// A part of what it calls itself.
    pub(crate) version: &'static str,
    /// How its launcher gives a variable to all ranks, and whether name and value are one word.
    variable: (&'static str, bool),
    /// More words for its launcher.
    words: &'static [&'static str],
    /// Where it lies, and its library, if it is not one of the machine's.
    wheel: Option<(&'static str, &'static str)>,
}

pub(crate) const OPEN_MPI: Mpi = Mpi {
    name: "openmpi",
    version: "Open MPI",
    variable: ("-x", true),
    words: &["--oversubscribe", "--allow-run-as-root"],
    wheel: None,
};
pub(crate) const MPICH: Mpi =
    Mpi { name: "mpich", version: "MPICH", variable: ("-genv", false), words: &[], wheel: None };

/// An MPI from the Python registry at the path in a variable; none if it is missing.
pub(crate) fn wheel(like: Mpi, variable: &str, library: &'static str) -> Option<Mpi> {
    let prefix = std::env::var(variable).ok();
    if is_missing(variable, prefix.is_some()) {
        return None;
    }
    // Few, and for the life of the test.
    let prefix: &'static str = Box::leak(prefix?.into_boxed_str());
    Some(Mpi { wheel: Some((prefix, library)), ..like })
}

/// A compiled program, gone with its folder.
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    _folder: tempfile::TempDir,
}

/// What a run printed and said.
pub(crate) struct Output {
    pub(crate) success: bool,
    pub(crate) printed: String,
    pub(crate) said: String,
}

impl Output {
    pub(crate) fn text(&self) -> String {
        format!("{}\n{}", self.printed, self.said)
    }
}

/// Whether something is not there: said, and a failure where it is required.
pub(crate) fn is_missing(what: &str, there: bool) -> bool {
    if !there {
        assert!(std::env::var_os("AQUEDUCT_REQUIRE_MPI").is_none(), "{what} is required but not there");
        eprintln!("skipped: {what} is not there");
    }
    !there
}

/// A command in the path.
fn command(name: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&paths).map(|folder| folder.join(name)).find(|path| path.is_file());
    if is_missing(name, found.is_some()) { None } else { found }
}

pub(crate) fn launcher(mpi: Mpi) -> Option<PathBuf> {
    if let Some((prefix, _)) = mpi.wheel {
        return Some(Path::new(prefix).join("bin/mpirun"));
    }
    command(&format!("mpirun.{}", mpi.name))
}

/// Compiles a program of this folder's neighbour; none where the MPI is missing.
pub(crate) fn compile(mpi: Mpi, source: &str, libraries: &[&str]) -> Option<Program> {
    compile_with(mpi, source, libraries, &[])
}

/// The same, with words for the compiler behind the libraries.
pub(crate) fn compile_with(mpi: Mpi, source: &str, libraries: &[&str], behind: &[&str]) -> Option<Program> {
    launcher(mpi)?;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("program");
    let mut compiler = match mpi.wheel {
        Some((prefix, library)) => plain_compiler(prefix, library, folder.path()),
        None => Command::new(wrapper(mpi, source)?),
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    // Libraries follow what needs them.
    let (flags, linked): (Vec<_>, Vec<_>) = compiler
        .get_args()
        .map(ToOwned::to_owned)
        .partition(|word| !word.to_string_lossy().starts_with("-l"));
    compiler = Command::new(compiler.get_program());
    // Fortran leaves its modules where it is called.
    compiler
        .current_dir(folder.path())
        .args(flags)
        .arg("-O1")
        .arg(&source)
        .arg("-o")
        .arg(&path)
        .args(linked)
        .args(libraries)
        .args(behind);
    let compiled = compiler.output().expect("the compiler starts");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(Program { path, _folder: folder })
}

/// The compiler wrapper of an MPI for the language of a source.
fn wrapper(mpi: Mpi, source: &str) -> Option<PathBuf> {
    let extension = Path::new(source).extension().and_then(|extension| extension.to_str());
    let wrapper = match extension {
        Some("f90") => "mpif90",
        Some("f") => "mpif77",
        Some("cpp") => "mpicxx",
        _ => "mpicc",
    };
    command(&format!("{wrapper}.{}", mpi.name))
}

/// The C compiler with what it needs for an MPI that lies at `prefix`. The standard interface has a header of its own name.
fn plain_compiler(prefix: &str, library: &str, folder: &Path) -> Command {
    let mut compiler = Command::new("cc");
    if library == "mpi_abi" {
        std::fs::write(folder.join("mpi.h"), "#include <mpi_abi.h>\n").expect("a header");
        compiler.arg(format!("-I{}", folder.display()));
    }
    compiler.args([
        format!("-I{prefix}/include"),
        format!("-L{prefix}/lib"),
        format!("-Wl,-rpath,{prefix}/lib"),
    ]);
    // Their libraries find their own dependencies by their run path, which the linker does not follow.
    compiler.args(["-Wl,--allow-shlib-undefined".to_owned(), format!("-l{library}")]);
    compiler
}

/// The library that is tested: built by cargo beside this test.
pub(crate) fn preload_library() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let folder = test.parent().expect("and a folder");
    let path = folder.join("libaqueduct_mpiio.so");
    assert!(path.exists(), "{} is built with its tests", path.display());
    path
}

/// A run of a program.
pub(crate) struct Job<'a> {
    pub(crate) mpi: Mpi,
    pub(crate) ranks: usize,
    pub(crate) preloaded: bool,
    pub(crate) variables: &'a [(&'a str, &'a str)],
}

impl Job<'_> {
    /// Runs it; a run that takes minutes hangs, and fails.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.run_within(170, words)
    }

    /// The same on the first hosts of these.
    pub(crate) fn run_on(&self, hosts: &TestHosts, count: usize, words: &[&str]) -> Output {
        let launcher = launcher(self.mpi).expect("asked for before");
        let mut command = hosts.launch_command("timeout");
        command.args(["--kill-after=5", "170"]).arg(launcher);
        command.args(hosts.launcher_words_for(self.mpi.name, count, None));
        self.finish(command, words)
    }

    /// The same for a run that hangs if it takes longer than so many seconds.
    pub(crate) fn run_within(&self, seconds: u32, words: &[&str]) -> Output {
        let launcher = launcher(self.mpi).expect("asked for before");
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", &seconds.to_string()]).arg(launcher);
        self.finish(command, words)
    }

    /// Runs the launcher with the words of the job.
    fn finish(&self, mut command: Command, words: &[&str]) -> Output {
        command.args(self.mpi.words).arg("-n").arg(self.ranks.to_string());
        let path = preload_library();
        let preload = [("LD_PRELOAD", path.to_str().expect("UTF-8"))];
        let preload = if self.preloaded { &preload[..] } else { &[] };
        for (name, value) in preload.iter().chain(self.variables) {
            match self.mpi.variable {
                (option, true) => command.arg(option).arg(format!("{name}={value}")),
                (option, false) => command.args([option, name, value]),
            };
        }
        let output = command.args(words).output().expect("the launcher starts");
        Output {
            success: output.status.success(),
            printed: String::from_utf8_lossy(&output.stdout).into_owned(),
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
