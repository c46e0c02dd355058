//! Several hosts on one machine, for tests of MPI jobs and servers over TCP: each host has a network, a name, processes and mounts of its own.
//!
//! A host is a set of namespaces (`network_namespaces(7)`) whose first process waits for the end of the test, and with it the host and all its
//! processes end. A further network namespace has the bridge that joins them; launchers run there, as on a login node. The addresses are
//! 10.77.0.1, 10.77.0.2 and so on; nothing of it is visible in the network of the machine. It needs root.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The variable for tests that do not belong into every run.
const LONG_TESTS: &str = "AQUEDUCT_LONG_TESTS";

/// The address of the place where launchers run.
const LAUNCH_ADDRESS: &str = "10.77.0.254";

/// The network of all hosts.
const NETWORK: &str = "10.77.0.0/24";

/// The variable that gives the number of hosts to tests that start launchers.
pub const HOSTS: &str = "AQUEDUCT_TEST_HOSTS";

/// How a launcher starts its daemons on a host, in place of `ssh`: `HOST COMMAND…`, after options that are ignored.
const AGENT: &str = r#"#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
host=$1
shift
pid=$(cat "$(dirname "$0")/$host") || exit 255
exec nsenter --target "$pid" --net --uts --ipc --pid --mount -- sh -c "cd '$PWD'; $*"
"#;

/// The first process: a host has its name and its shared memory, the network that joins them has neither.
const START: &str =
    "[ -z \"$1\" ] || { hostname \"$1\" && mount -t tmpfs tmpfs /dev/shm; } || exit; echo; exec cat";

/// Hosts that end with this value or with the process that has it.
#[derive(Debug)]
pub struct TestHosts {
    /// The network that joins them.
    hub: HostProcess,
    hosts: Vec<HostProcess>,
    folder: tempfile::TempDir,
}

/// The first process of some namespaces.
#[derive(Debug)]
struct HostProcess {
    child: Child,
    /// It ends when this is closed.
    input: Option<ChildStdin>,
    /// Its number in the namespace of the test.
    process: u32,
}

impl HostProcess {
    /// Starts `unshare` with these words and waits for the namespaces.
    fn start(words: &[&str], name: &str) -> io::Result<Self> {
        let forks = words.contains(&"--fork");
        let mut command = Command::new("unshare");
        command.args(words).args(["sh", "-c", START, "sh", name]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let mut first = [0];
        let read = child.stdout.as_mut().map_or(Ok(0), |output| io::Read::read(output, &mut first))?;
        if read == 0 {
            let mut why = String::new();
            let _ = child.stderr.as_mut().map(|errors| io::Read::read_to_string(errors, &mut why));
            let _ = child.wait();
            return Err(io::Error::other(format!("unshare: {why}")));
        }
        let id = child.id();
        let of_child = || {
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
            children.trim().parse().map_err(io::Error::other)
        };
        let process = if forks { of_child()? } else { id };
        Ok(Self { child, input, process })
    }

    /// A command in the namespaces.
    fn command(&self, namespaces: &[&str], program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.process.to_string()]).args(namespaces).arg("--").arg(program);
        command
    }

    fn kill(&self) {
        // It may have ended already.
        let _ =
            Command::new("kill").args(["-KILL", &self.process.to_string()]).stderr(Stdio::null()).status();
    }
}

impl Drop for HostProcess {
    fn drop(&mut self) {
        drop(self.input.take());
        self.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command that has to succeed.
fn run(command: &mut Command) -> io::Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))))
}

impl TestHosts {
    /// So many hosts; none, with a notice, where they are not allowed, or in a run of the other tests.
    ///
    /// `MPI_Finalize` of MPICH 4.0 with UCX over TCP waits forever in some runs, and that of Open MPI 4.1 for two minutes: a run that has to
    /// be green every time cannot contain these tests.
    pub fn start(count: usize) -> Option<Arc<Self>> {
        if [LONG_TESTS, HOSTS].iter().all(|name| std::env::var_os(name).is_none()) {
            eprintln!("skipped: `cargo xtask hosts` runs the tests on several hosts");
            return None;
        }
        Self::try_start(count)
            .inspect_err(|error| {
                eprintln!("skipped: hosts need root, unshare, nsenter and ip: {error}");
            })
            .ok()
            .map(Arc::new)
    }

    /// The hosts of this process, as many as `AQUEDUCT_TEST_HOSTS` says; none without it.
    pub(crate) fn of_environment() -> Option<Arc<Self>> {
        static HOSTS_OF_PROCESS: OnceLock<Option<Arc<TestHosts>>> = OnceLock::new();
        let count = || std::env::var(HOSTS).ok()?.parse().ok();
        HOSTS_OF_PROCESS.get_or_init(|| Self::start(count()?)).clone()
    }

    fn try_start(count: usize) -> io::Result<Self> {
        let hub = HostProcess::start(&["--net"], "")?;
        let ip = |words: &str| run(hub.command(&["--net"], "ip").args(words.split(' ')));
        ip("link set lo up")?;
        ip("link add hub type bridge")?;
        ip(&format!("address add {LAUNCH_ADDRESS}/24 dev hub"))?;
        ip("link set hub up")?;
        let folder = tempfile::tempdir()?;
        let mut hosts = Vec::new();
        for number in 1..=count {
            let words = ["--net", "--uts", "--ipc", "--pid", "--mount", "--fork", "--mount-proc"];
            let host = HostProcess::start(&words, &format!("host{number}"))?;
            ip(&format!("link add to{number} type veth peer name eth0 netns {}", host.process))?;
            ip(&format!("link set to{number} master hub"))?;
            ip(&format!("link set to{number} up"))?;
            let inside = |words: &str| run(host.command(&["--net"], "ip").args(words.split(' ')));
            inside("link set lo up")?;
            inside(&format!("address add {}/24 dev eth0", Self::address(number - 1)))?;
            inside("link set eth0 up")?;
            fs::write(folder.path().join(Self::address(number - 1)), host.process.to_string())?;
            hosts.push(host);
        }
        let agent = folder.path().join("agent");
        let mut file = fs::File::create(&agent)?;
        file.write_all(AGENT.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(0o755))?;
        Ok(Self { hub, hosts, folder })
    }

    /// The address of a host, from 0 on.
    pub fn address(host: usize) -> String {
        format!("10.77.0.{}", host + 1)
    }

    /// A command on a host, in the current folder.
    pub fn command(&self, host: usize, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.hosts[host].command(&["--net", "--uts", "--ipc", "--pid", "--mount"], "sh");
        let folder = std::env::current_dir().unwrap_or_default();
        command.args(["-c", "cd \"$0\" && exec \"$@\""]).arg(folder).arg(program);
        command
    }

    /// A command where launchers run, which sees all hosts and the processes and files of the machine.
    pub fn launch_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = self.hub.command(&["--net"], program);
        // The library below MPICH takes hosts with one kernel for one host and would use shared memory.
        command.env("UCX_TLS", "tcp,self");
        command
    }

    /// Limits what a host sends and receives, in the words of `tc`, such as `1gbit`.
    ///
    /// # Panics
    /// If `tc` fails.
    pub fn limit(&self, host: usize, rate: &str) {
        let limit = |mut command: Command, device: &str| {
            let words = ["qdisc", "replace", "dev", device, "root", "tbf", "rate", rate];
            command.args(words).args(["burst", "256kb", "latency", "100ms"]);
            run(&mut command).expect("a limit of a link");
        };
        limit(self.hub.command(&["--net"], "tc"), &format!("to{}", host + 1));
        limit(self.hosts[host].command(&["--net"], "tc"), "eth0");
    }

    /// Cuts a host off, or joins it again: nothing is reset.
    ///
    /// # Panics
    /// If `ip` fails.
    pub fn set_link(&self, host: usize, up: bool) {
        let state = if up { "up" } else { "down" };
        let mut command = self.hub.command(&["--net"], "ip");
        run(command.args(["link", "set", &format!("to{}", host + 1), state])).expect("the state of a link");
    }

    /// Bytes that a host has sent and received.
    ///
    /// # Panics
    /// If the counters cannot be read.
    pub fn traffic(&self, host: usize) -> u64 {
        let mut command = self.hosts[host].command(&["--net"], "cat");
        let output = command.arg("/proc/net/dev").output().expect("the counters of a host");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("eth0:")).expect("eth0");
        let numbers: Vec<u64> =
            line.split_whitespace().map(|word| word.parse().expect("a counter")).collect();
        numbers[0] + numbers[8]
    }

    /// Ends a host with all its processes, as if it lost its power.
    pub fn kill(&self, host: usize) {
        self.hosts[host].kill();
        let start = Instant::now();
        while Path::new(&format!("/proc/{}/ns/net", self.hosts[host].process)).exists()
            && fs::read_link(format!("/proc/{}/ns/net", self.hosts[host].process)).is_ok()
            && start.elapsed() < Duration::from_secs(10)
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// The words for the launcher of an MPI library: its ranks are distributed round-robin over all hosts, or in blocks of so many.
    pub fn launcher_words(&self, name: &str, per_host: Option<usize>) -> Vec<String> {
        self.launcher_words_for(name, self.hosts.len(), per_host)
    }

    /// The same for the first hosts only.
    pub fn launcher_words_for(&self, name: &str, count: usize, per_host: Option<usize>) -> Vec<String> {
        let agent = self.agent().to_string_lossy().into_owned();
        let of_host = |host| match (name, per_host) {
            (_, Some(ranks)) => format!("{}:{ranks}", Self::address(host)),
            ("openmpi", None) => format!("{}:64", Self::address(host)),
            (_, None) => Self::address(host),
        };
        let hosts: Vec<String> = (0..count).map(of_host).collect();
        let hosts = hosts.join(",");
        let text = if name == "openmpi" {
            let mapping = if per_host.is_some() { "slot" } else { "node" };
            format!(
                "--map-by {mapping} --mca plm_rsh_agent {agent} --mca oob_tcp_if_include {NETWORK} --mca btl_tcp_if_include {NETWORK} \
                 --mca btl self,vader,tcp --mca pml ob1 --host {hosts}"
            )
        } else {
            format!("-launcher ssh -launcher-exec {agent} -localhost {LAUNCH_ADDRESS} -hosts {hosts}")
        };
        text.split(' ').map(str::to_owned).collect()
    }

    fn agent(&self) -> PathBuf {
        self.folder.path().join("agent")
    }
}
