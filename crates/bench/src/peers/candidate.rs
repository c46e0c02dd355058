//! The candidates: a program, its launcher and its environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::tools::{compile, openmpi, preload_library, succeeds};

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
    /// Our program on threads, in an environment.
    pub(super) fn threads(name: &'static str, environment: Vec<(&'static str, String)>) -> Result<Self> {
        let program = std::env::current_exe()?;
        Ok(Self { name, ours: true, launcher: LaunchMethod::Threads, program, environment })
    }

    /// The same program of an earlier build, and this one, by each way of starting it that this machine has.
    pub(super) fn with_baseline(baseline: &Path) -> Result<Vec<[Self; 2]>> {
        let this_program = std::env::current_exe()?;
        let has = |launcher: &str| succeeds(Command::new(launcher).arg("--version"));
        let launchers = [
            (["baseline/threads", "now/threads"], LaunchMethod::Threads, true),
            (["baseline/openmpi", "now/openmpi"], LaunchMethod::OpenMpi { io: None }, has("mpirun.openmpi")),
            (["baseline/mpich", "now/mpich"], LaunchMethod::Mpich, has("mpirun.mpich")),
        ];
        let pair = |(names, launcher, _): ([&'static str; 2], LaunchMethod, bool)| {
            let of = |name, program: &Path| Self {
                name,
                ours: true,
                launcher,
                program: program.to_owned(),
                environment: Vec::new(),
            };
            [of(names[0], baseline), of(names[1], &this_program)]
        };
        Ok(launchers.into_iter().filter(|(_, _, available)| *available).map(pair).collect())
    }

    /// Whether each rank is a process.
    pub(super) fn has_processes(&self) -> bool {
        self.launcher != LaunchMethod::Threads
    }

    /// The command that runs the program with these arguments on so many ranks.
    pub(super) fn command(&self, ranks: usize, words: &[String]) -> Command {
        let count = ranks.to_string();
        let mut command = match self.launcher {
            LaunchMethod::Threads => {
                let mut command = Command::new(&self.program);
                command.env("AQUEDUCT_MPI", "none").env("AQUEDUCT_RANKS", &count);
                command.envs(self.environment.iter().map(|(name, value)| (name, value)));
                command
            }
            LaunchMethod::OpenMpi { io } => {
                let mut command = openmpi(ranks, None);
                command.args(io.iter().flat_map(|io| ["--mca", "io", io]));
                for (name, value) in &self.environment {
                    command.arg("-x").arg(format!("{name}={value}"));
                }
                command.arg(&self.program);
                command
            }
            LaunchMethod::Mpich => {
                let mut command = Command::new("mpirun.mpich");
                command.args(["-n", &count]);
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

/// Compiles the programs; all candidates that this machine can run.
pub(super) fn all(folder: &Path, preload: bool) -> Result<Vec<Candidate>> {
    let this_program = std::env::current_exe()?;
    let ours = |name, launcher| Candidate {
        name,
        ours: true,
        launcher,
        program: this_program.clone(),
        environment: Vec::new(),
    };
    let mut candidates = vec![ours("ours/threads", LaunchMethod::Threads)];
    // O_DIRECT for the peers; without it those cases are not available.
    let direct = compile("cc", &["-shared", "-fPIC"], "direct.c", &folder.join("direct.so"), &["-ldl"]);
    let direct: Vec<_> =
        direct.map(|library| ("LD_PRELOAD", library.to_string_lossy().into_owned())).into_iter().collect();
    let theirs = |name, launcher, program: &Path| Candidate {
        name,
        ours: false,
        launcher,
        program: program.to_owned(),
        environment: direct.clone(),
    };
    let peer = |compiler: &str| {
        let program = folder.join(format!("peer.{}", compiler.trim_start_matches("mpicc.")));
        compile(compiler, &["-Wall", "-Wextra", "-Werror"], "peer.c", &program, &["-lm"])
    };
    let preloaded = |name, launcher, program: &Path| {
        let environment = vec![("LD_PRELOAD", preload_library().to_string_lossy().into_owned())];
        preload.then(|| Candidate { ours: true, environment, ..theirs(name, launcher, program) })
    };
    if let Some(program) = peer("mpicc.openmpi") {
        candidates.push(ours("ours/openmpi", LaunchMethod::OpenMpi { io: None }));
        candidates.extend(preloaded("preload/openmpi", LaunchMethod::OpenMpi { io: None }, &program));
        for (name, io) in [("ompio", "ompio"), ("romio", "romio321")] {
            candidates.push(theirs(name, LaunchMethod::OpenMpi { io: Some(io) }, &program));
        }
    }
    if let Some(program) = peer("mpicc.mpich") {
        candidates.push(ours("ours/mpich", LaunchMethod::Mpich));
        candidates.extend(preloaded("preload/mpich", LaunchMethod::Mpich, &program));
        candidates.push(theirs("mpich", LaunchMethod::Mpich, &program));
    }
    Ok(candidates)
}
