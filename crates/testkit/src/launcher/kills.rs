//! Tests that kill processes of a program with `SIGKILL`.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::rng::SeededRng;

/// The number of kills: that of `AQUEDUCT_KILLS`, or this one.
pub fn requested_kills(default: usize) -> usize {
    std::env::var("AQUEDUCT_KILLS")
        .map_or(default, |kills| kills.parse().expect("AQUEDUCT_KILLS is a number"))
}

/// The processes of a job: those of a program whose command line contains a word that no other job's has.
#[derive(Debug)]
pub struct JobProcesses<'a> {
    program: PathBuf,
    word: &'a str,
}

impl<'a> JobProcesses<'a> {
    /// The processes of this program with this word.
    pub fn new(program: &str, word: &'a str) -> Self {
        Self { program: fs::canonicalize(program).expect("the program exists"), word }
    }

    fn running(&self) -> Vec<Pid> {
        let is_ours = |folder: &Path| {
            let line = || fs::read(folder.join("cmdline")).unwrap_or_default();
            fs::read_link(folder.join("exe")).is_ok_and(|exe| exe == self.program)
                && String::from_utf8_lossy(&line()).contains(self.word)
        };
        let processes = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let ours = processes.filter(|entry| is_ours(&entry.path()));
        ours.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
    }

    /// Waits until the job has begun and `progress` is at least `wanted`, and for up to `longest` more. Then kills one process, and returns
    /// the progress right before; none if the job ended before it could be killed.
    pub fn kill_one_after(
        &self,
        progress: impl Fn() -> u64,
        wanted: u64,
        longest: Duration,
        random: &mut SeededRng,
        is_over: impl Fn() -> bool,
    ) -> Option<u64> {
        while (self.running().is_empty() || progress() < wanted) && !is_over() {
            thread::sleep(Duration::from_millis(2));
        }
        thread::sleep(Duration::from_millis(random.below(longest.as_millis() as usize) as u64));
        let running = self.running();
        if running.is_empty() {
            return None;
        }
        let seen = progress();
        kill_process(running[random.below(running.len())], Signal::KILL).is_ok().then_some(seen)
    }
}
