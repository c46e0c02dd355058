//! What the user may see: a banner, a summary per file, errors in words. On request only: `AQUEDUCT_VERBOSE=1`.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Once, OnceLock};
use std::time::{Duration, Instant};

use aqueduct_comm::{Comm, Op};

use crate::buffer::Direction;
use crate::errors::Fault;
use crate::mpi::Mpi;

/// Whether the environment asks for it.
pub(crate) fn is_wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    let ask = || std::env::var_os("AQUEDUCT_VERBOSE").is_some_and(|value| !value.is_empty() && value != "0");
    *WANTED.get_or_init(ask)
}

/// One line, in one piece: other ranks write too.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("aqueduct: {text}\n").as_bytes());
}

/// An error in words: MPI gives the program a class only.
pub(crate) fn fault(call: &str, fault: &Fault) {
    if is_wanted() {
        say(&format!("{call}: {fault}"));
    }
}

/// At the first file: which MPI, how it is used. Also noted where `aqueduct exec` looks.
pub(crate) fn opened(mpi: &Mpi, comm: &Comm) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        let version = mpi.version();
        note(&format!("opened {version}"));
        if !is_wanted() || comm.rank() != 0 {
            return;
        }
        let (ranks, nodes) = (comm.size(), comm.node_count());
        let exchange = if nodes == 1 { "shared memory" } else { "shared memory and messages" };
        let progress = if comm.serves_threads() { "threads of our own" } else { "calls of the program" };
        let level = comm.thread_level().map_or_else(String::new, |level| format!("{level:?}").to_lowercase());
        say(&format!(
            "version {} serves MPI_File_* under {version} ({}), {ranks} ranks on {nodes} nodes; ranks exchange through {exchange}; \
             requests advance by {progress} (thread level {level})",
            env!("CARGO_PKG_VERSION"),
            mpi.host().path().display(),
        ));
    });
}

/// A line in the file that `aqueduct exec` looks at afterwards.
pub(crate) fn note(text: &str) {
    let Some(path) = std::env::var_os("AQUEDUCT_NOTES").filter(|path| !path.is_empty()) else { return };
    // Nobody can be told if it fails, and nothing of the program's depends on it.
    if let Ok(mut notes) = std::fs::File::options().append(true).open(path) {
        let _ = notes.write_all(format!("{text}\n").as_bytes());
    }
}

/// What a file has moved.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Whether all ranks of the file want a summary.
    wanted: bool,
    /// Bytes and operations, for each direction.
    bytes: [AtomicU64; 2],
    operations: [AtomicU64; 2],
    /// Nanoseconds inside calls that move data.
    time: AtomicU64,
}

impl Tally {
    /// Of a file whose ranks have agreed whether they want a summary.
    pub(crate) fn new(wanted: bool) -> Self {
        Self { wanted, ..Self::default() }
    }

    pub(crate) fn add(&self, direction: Direction, bytes: u64, since: Instant) {
        let which = usize::from(direction == Direction::Write);
        self.bytes[which].fetch_add(bytes, Ordering::Relaxed);
        self.operations[which].fetch_add(1, Ordering::Relaxed);
        self.time.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    /// The summary of a file that is about to be closed. Collective where it is wanted.
    pub(crate) fn summarise(&self, comm: &Comm, name: &str) {
        if !self.wanted {
            return;
        }
        let load = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let mine = [&self.bytes[0], &self.bytes[1], &self.operations[0], &self.operations[1]].map(load);
        let (Ok(sums), Ok(longest)) =
            (comm.allreduce(Op::Sum, &mine), comm.allreduce_one(Op::Max, load(&self.time)))
        else {
            return;
        };
        if comm.rank() == 0 {
            say(&summary(name, &sums, Duration::from_nanos(longest)));
        }
    }
}

fn summary(name: &str, sums: &[u64], time: Duration) -> String {
    let (read, written) = (sums[0] as f64 / 1e6, sums[1] as f64 / 1e6);
    let seconds = time.as_secs_f64();
    let rate = if seconds > 0.0 { (read + written) / seconds } else { 0.0 };
    format!(
        "{name}: {written:.3} MB written in {} operations, {read:.3} MB read in {}, {seconds:.3} s in calls, {rate:.0} MB/s",
        sums[3], sums[2]
    )
}

/// Whether all ranks were asked for summaries: an environment may differ between them. Collective.
pub(crate) fn agreed(comm: &Comm) -> bool {
    comm.allreduce_one(Op::Min, u8::from(is_wanted())).is_ok_and(|all| all == 1)
}
