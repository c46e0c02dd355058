//! Launchers of MPI programs: a test starts its program under each installed one.

pub mod kills;

use std::env;
use std::fs;
use std::io::Read;
use std::iter::successors;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::hosts::TestHosts;

const PATIENCE: Duration = Duration::from_secs(300);
/// How often the launcher is looked at, and every how many times its ranks are; counts, so that time in which nothing runs does not matter.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS_PER_LIFE: u32 = 50;
/// So many times in a row there was no rank: none comes any more, and none is left.
const LONELY: u32 = 60;

/// Another program of the workspace, which is built into the same folder as this one. One that is missing is said to be skipped: a test of this package
/// alone does not build it.
pub fn program_beside(program: &Path, name: &str) -> Option<PathBuf> {
    let path = program.with_file_name(name);
    let found = path.is_file().then_some(path);
    if found.is_none() {
        eprintln!("skipped: {name} is not built; `cargo build` of the whole workspace builds it");
    }
    found
}

/// A way to start an MPI program.
#[derive(Debug)]
pub struct TestLauncher {
    name: &'static str,
    program: PathBuf,
    command: PathBuf,
    arguments: Vec<String>,
    variables: Vec<(&'static str, PathBuf)>,
    /// Where its ranks run, unless it is this machine.
    hosts: Option<Arc<TestHosts>>,
    /// The library that programs started by it load.
    pub library: PathBuf,
}

/// What a job did.
#[derive(Debug)]
pub struct JobOutput {
    /// Whether every rank ended well.
    pub success: bool,
    /// What the ranks said.
    pub output: String,
    /// What they complained of.
    pub errors: String,
}

impl TestLauncher {
    /// The launcher of this name, for one program: `openmpi` and `mpich` as Debian has them, `openmpi5`, `mpich5` and `standard` where
    /// `AQUEDUCT_TEST_OPENMPI5` and `AQUEDUCT_TEST_MPICH5` say they are. One that is missing is said to be skipped, or is a failure
    /// under `AQUEDUCT_REQUIRE_MPI=1`. With `AQUEDUCT_TEST_HOSTS=2` the ranks of the first two are distributed over two [hosts](crate::hosts):
    /// round-robin, or as many as `AQUEDUCT_NODE_RANKS` says on each.
    pub fn find(name: &str, program: &Path) -> Option<Self> {
        let found = known(name, program.to_owned());
        if found.is_none() {
            let required = env::var_os("AQUEDUCT_REQUIRE_MPI").is_some();
            assert!(!required, "{name} is required but not there: `cargo xtask test` installs it");
            eprintln!("skipped: {name} is not there");
        }
        found
    }

    /// The same on these hosts.
    #[must_use]
    pub fn on_hosts(self, hosts: &Arc<TestHosts>) -> Self {
        Self { hosts: Some(Arc::clone(hosts)), ..self }
    }

    /// Starts the program on so many ranks and waits for its end; one that hangs is ended, and a failure.
    pub fn job(&self, ranks: usize, arguments: &[&str], variables: &[(&str, &str)]) -> JobOutput {
        self.run(ranks, arguments, variables, false)
    }

    /// The same for a job whose ranks the test kills: one that is killed while it starts may leave Open MPI's launcher waiting when nobody is left,
    /// which is none of the program's.
    pub fn killed_job(&self, ranks: usize, arguments: &[&str]) -> JobOutput {
        self.run(ranks, arguments, &[], true)
    }

    /// The command that starts the program on so many ranks.
    pub fn command(&self, ranks: usize, arguments: &[&str], variables: &[(&str, &str)]) -> Command {
        let mut command = match &self.hosts {
            Some(hosts) => hosts.launch_command(&self.command),
            None => Command::new(&self.command),
        };
        let (mut variables, mut per_host) = (variables.to_vec(), None);
        if let Some(hosts) = &self.hosts {
            // Real hosts in place of simulated nodes.
            variables.retain(|(name, value)| {
                let is_per_host = *name == "AQUEDUCT_NODE_RANKS";
                per_host = if is_per_host { value.parse().ok() } else { per_host };
                !is_per_host
            });
            command.args(hosts.launcher_words(self.name, per_host)).args(self.exported(&variables));
        }
        command.args(&self.arguments).args(["-n", &ranks.to_string()]);
        command.arg(&self.program).args(arguments);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs(variables);
        // Containers and CI run as root, which Open MPI refuses unless two variables are set.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
        command
    }

    fn run(&self, ranks: usize, arguments: &[&str], variables: &[(&str, &str)], kills: bool) -> JobOutput {
        let mut command = self.command(ranks, arguments, variables);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the launcher starts");
        let (output, errors) = (drain(child.stdout.take()), drain(child.stderr.take()));
        let (started, mut looks, mut lonely) = (Instant::now(), 0, 0);
        let status = loop {
            if let Some(status) = child.try_wait().expect("the launcher can be waited for") {
                break status;
            }
            looks += 1;
            if kills && looks % LOOKS_PER_LIFE == 0 {
                lonely = if self.has_ranks(child.id()) { 0 } else { lonely + 1 };
            }
            let over = started.elapsed() > PATIENCE;
            if over || lonely > LONELY {
                let _ = child.kill();
                let status = child.wait().expect("the launcher can be waited for");
                if lonely > LONELY {
                    eprintln!("the launcher waited for nobody");
                    break status;
                }
                panic!("{arguments:?} at {ranks} ranks hangs: {}", errors.join().unwrap_or_default());
            }
            std::thread::sleep(LOOK);
        };
        let text = |thread: std::thread::JoinHandle<String>| thread.join().unwrap_or_default();
        JobOutput { success: status.success(), output: text(output), errors: text(errors) }
    }

    /// The words that give variables to ranks on other hosts; Open MPI needs them.
    fn exported(&self, variables: &[(&str, &str)]) -> Vec<String> {
        if self.name != "openmpi" {
            return Vec::new();
        }
        let own = self.variables.iter().map(|(name, _)| *name);
        let names = own.chain(variables.iter().map(|(name, _)| *name)).map(str::to_owned);
        let inherited = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let inherited = inherited.filter(|name| name.starts_with("AQUEDUCT_") || name == "LD_LIBRARY_PATH");
        names.chain(inherited).flat_map(|name| ["-x".to_owned(), name]).collect()
    }

    /// Whether any process that a launcher has started still runs the program.
    fn has_ranks(&self, launcher: u32) -> bool {
        let program = self.program.canonicalize().unwrap_or_else(|_| self.program.clone());
        let runs_it = |id: u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe == program);
        let parent = |id: &u32| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // The name before it may hold anything, a parenthesis too.
            stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
        };
        let from_here =
            |id: u32| successors(Some(id), parent).take_while(|id| *id > 1).any(|id| id == launcher);
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        all.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .any(|id| runs_it(id) && from_here(id))
    }

    /// The same for a job that has to end well; what it said.
    pub fn succeeds(&self, ranks: usize, arguments: &[&str], variables: &[(&str, &str)]) -> String {
        let job = self.job(ranks, arguments, variables);
        assert!(job.success, "{arguments:?} at {ranks} ranks with {variables:?}: {}", job.errors);
        job.output
    }
}

/// The launcher of this name, if it is on this machine.
fn known(name: &str, program: PathBuf) -> Option<TestLauncher> {
    let root = |variable: &str| env::var_os(variable).map(PathBuf::from);
    let oversubscribe = || vec!["--oversubscribe".to_owned()];
    match name {
        "openmpi" => which("mpirun.openmpi").map(|command| TestLauncher {
            name: "openmpi",
            program,
            command,
            arguments: oversubscribe(),
            variables: Vec::new(),
            hosts: TestHosts::of_environment(),
            library: "libmpi.so.40".into(),
        }),
        "mpich" => which("mpirun.mpich").map(|command| TestLauncher {
            name: "mpich",
            program,
            command,
            arguments: Vec::new(),
            variables: Vec::new(),
            hosts: TestHosts::of_environment(),
            library: "libmpich.so.12".into(),
        }),
        "openmpi5" => root("AQUEDUCT_TEST_OPENMPI5").map(|prefix| TestLauncher {
            name: "openmpi5",
            program,
            command: prefix.join("bin/mpirun"),
            arguments: oversubscribe(),
            hosts: None,
            variables: vec![
                ("OPAL_PREFIX", prefix.clone()),
                ("AQUEDUCT_MPI", prefix.join("lib/libmpi.so.40")),
            ],
            library: prefix.join("lib/libmpi.so.40"),
        }),
        "mpich5" => root("AQUEDUCT_TEST_MPICH5").map(|prefix| TestLauncher {
            name: "mpich5",
            program,
            command: prefix.join("bin/mpiexec"),
            arguments: Vec::new(),
            hosts: None,
            variables: vec![("AQUEDUCT_MPI", prefix.join("lib/libmpi.so.12"))],
            library: prefix.join("lib/libmpi.so.12"),
        }),
        "standard" => root("AQUEDUCT_TEST_MPICH5").map(|prefix| TestLauncher {
            name: "standard",
            program,
            command: prefix.join("bin/mpiexec"),
            arguments: Vec::new(),
            hosts: None,
            variables: vec![("AQUEDUCT_MPI", prefix.join("lib/libmpi_abi.so.1"))],
            library: prefix.join("lib/libmpi_abi.so.1"),
        }),
        _ => None,
    }
}

/// A program that can be started by its name.
pub(crate) fn which(command: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).map(|folder| folder.join(command)).find(|path| path.is_file())
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
