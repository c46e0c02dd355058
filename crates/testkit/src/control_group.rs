//! Control groups with a memory limit, and tests that are run in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A control group with a memory limit, removed when it is dropped.
#[derive(Debug)]
pub struct LimitedGroup(PathBuf);

impl LimitedGroup {
    /// A group of processes that may use so many bytes together; none, with a notice, where none can be made.
    pub fn new(limit: u64) -> Option<Self> {
        let version_1 = (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes");
        let version_2 = (Path::new("/sys/fs/cgroup"), "memory.max");
        let hierarchies = [version_1, version_2].into_iter().filter(|(mount, _)| mount.is_dir());
        let group = hierarchies.into_iter().find_map(|(mount, file)| {
            let group = Self(mount.join(format!("aqueduct-test-{}", std::process::id())));
            fs::create_dir(&group.0).ok()?;
            fs::write(group.0.join(file), limit.to_string()).ok()?;
            Some(group)
        });
        if group.is_none() {
            eprintln!("skipped: no memory control group can be made here");
        }
        group
    }

    /// Runs one test of this program in the group, with this variable set.
    ///
    /// # Panics
    /// If the program cannot be started.
    pub fn run_test(&self, name: &str, variable: &str) -> Output {
        let program = std::env::current_exe().expect("a test is a program");
        // The shell joins the group and becomes the test.
        let script = "echo $$ > \"$0/cgroup.procs\" && exec \"$1\" --exact \"$2\" --nocapture";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&self.0).arg(program).arg(name).env(variable, "1");
        command.output().expect("there is a shell")
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}
