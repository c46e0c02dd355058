//! Who takes part: a program, how it is launched, and its environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::mpiio;
use crate::shell::{cargo, command, root, run, succeeds};

/// A program in an environment.
pub(super) struct Candidate {
    pub(super) name: &'static str,
    /// Ours, or a peer.
    pub(super) ours: bool,
    launcher: LaunchMethod,
    program: PathBuf,
    environment: Vec<(&'static str, String)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LaunchMethod {
    Threads,
    OpenMpi { io: Option<&'static str> },
    Mpich,
}

impl Candidate {
    /// Whether each rank has memory of its own.
    pub(super) fn has_processes(&self) -> bool {
        self.launcher != LaunchMethod::Threads
    }

    /// The command that does `words` on so many ranks.
    pub(super) fn command(&self, ranks: usize, words: &[String]) -> Command {
        let count = ranks.to_string();
        let mut command = match self.launcher {
            LaunchMethod::Threads => {
                let mut command = command(&self.program.to_string_lossy(), &[]);
                command.env("AQUEDUCT_MPI", "none").env("AQUEDUCT_RANKS", &count);
                command.envs(self.environment.iter().map(|(name, value)| (name, value)));
                command
            }
            LaunchMethod::OpenMpi { io } => {
                let mut command =
                    command("mpirun.openmpi", &["--oversubscribe", "--bind-to", "none", "-n", &count]);
                // Containers and CI run as root, which Open MPI refuses unless told twice.
                command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                command.args(io.iter().flat_map(|io| ["--mca", "io", io]));
                for (name, value) in &self.environment {
                    command.arg("-x").arg(format!("{name}={value}"));
                }
                command.arg(&self.program);
                command
            }
            LaunchMethod::Mpich => {
                let mut command = command("mpirun.mpich", &["-n", &count]);
                for (name, value) in &self.environment {
                    command.arg("-genv").arg(name).arg(value);
                }
                command.arg(&self.program);
                command
            }
        };
        command.args(words);
        command
    }
}

/// Builds the programs; who can take part on this machine.
pub(super) fn all(folder: &Path, door: bool) -> Result<Vec<Candidate>> {
    run(&mut cargo(&["build", "--release", "--package", "aqueduct-bench"]))?;
    let ours = |name, launcher| Candidate {
        name,
        ours: true,
        launcher,
        program: root().join("target/release/aqueduct-bench"),
        environment: Vec::new(),
    };
    let mut contenders = vec![ours("ours/threads", LaunchMethod::Threads)];
    // O_DIRECT for peers; without it those cells are not available.
    let shim = folder.join("direct.so");
    let source = root().join("crates/bench/peer/direct.c");
    let built = compile("cc", &["-shared", "-fPIC"], &source, &shim, &["-ldl"]);
    let preload: Vec<_> =
        built.then(|| ("LD_PRELOAD", shim.to_string_lossy().into_owned())).into_iter().collect();
    let theirs = |name, launcher, program: &Path| Candidate {
        name,
        ours: false,
        launcher,
        program: program.to_owned(),
        environment: preload.clone(),
    };
    let peer = |compiler: &str| {
        let program = folder.join(format!("peer.{}", compiler.trim_start_matches("mpicc.")));
        let source = root().join("crates/bench/peer/peer.c");
        compile(compiler, &["-Wall", "-Wextra", "-Werror"], &source, &program, &["-lm"]).then_some(program)
    };
    let library = root().join("target/release/libaqueduct_mpiio.so").to_string_lossy().into_owned();
    if door {
        mpiio::build()?;
    }
    let through_the_door = |name, launcher, program: &Path| {
        let environment = vec![("LD_PRELOAD", library.clone())];
        door.then(|| Candidate { ours: true, environment, ..theirs(name, launcher, program) })
    };
    if let Some(program) = peer("mpicc.openmpi") {
        contenders.push(ours("ours/openmpi", LaunchMethod::OpenMpi { io: None }));
        contenders.extend(through_the_door("door/openmpi", LaunchMethod::OpenMpi { io: None }, &program));
        for (name, io) in [("ompio", "ompio"), ("romio", "romio321")] {
            contenders.push(theirs(name, LaunchMethod::OpenMpi { io: Some(io) }, &program));
        }
    }
    if let Some(program) = peer("mpicc.mpich") {
        contenders.push(ours("ours/mpich", LaunchMethod::Mpich));
        contenders.extend(through_the_door("door/mpich", LaunchMethod::Mpich, &program));
        contenders.push(theirs("mpich", LaunchMethod::Mpich, &program));
    }
    Ok(contenders)
}

/// Compiles a C program; whether that was possible.
fn compile(compiler: &str, before: &[&str], source: &Path, target: &Path, after: &[&str]) -> bool {
    let mut command = command(compiler, &["-O2"]);
    command.args(before).arg("-o").arg(target).arg(source).args(after);
    let done = succeeds(&mut command);
    if !done {
        eprintln!("{compiler} does not compile {}; what needs it is n/a", source.display());
    }
    done
}
