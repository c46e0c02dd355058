//! The conformance suite for transports: what every rank may expect of a [`Comm`], written once and run on every transport.
//!
//! Each case is a program of all ranks that compares what it gets with what it computes by itself.

mod collectives;
mod counters;
mod groups;
mod messages;
mod misuse;
mod random_programs;
mod regions;

use aqueduct_comm::Comm;

/// A program of all ranks that panics where the transport is wrong.
pub struct TransportCase {
    /// What it shows.
    pub name: &'static str,
    /// The program.
    pub program: fn(&Comm),
}

/// All cases, in the order they are run.
pub fn cases() -> Vec<TransportCase> {
    let families = [
        messages::CASES,
        collectives::CASES,
        groups::CASES,
        regions::CASES,
        counters::CASES,
        misuse::CASES,
        random_programs::CASES,
    ];
    families.concat().into_iter().map(|(name, program)| TransportCase { name, program }).collect()
}

/// Runs all cases on `world` and returns how many there were. A failing case panics, naming itself and the rank.
///
/// ```
/// use aqueduct_comm::{Error, Launch};
/// let counts = Launch::threads(2).run(|world| Ok::<_, Error>(aqueduct_testkit::transport::conformance(world)))?;
/// assert_eq!(counts[0], counts[1]);
/// # Ok::<(), Error>(())
/// ```
pub fn conformance(world: &Comm) -> usize {
    let cases = cases();
    for case in &cases {
        let _named = TransportCaseGuard { case: case.name, rank: world.rank() };
        (case.program)(world);
        world.barrier().expect("the barrier between two cases");
    }
    cases.len()
}

/// Says which case a panic came from.
struct TransportCaseGuard {
    case: &'static str,
    rank: usize,
}

impl Drop for TransportCaseGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("conformance case \"{}\" failed on rank {}", self.case, self.rank);
        }
    }
}

/// The entry type of the case tables.
type Entry = (&'static str, fn(&Comm));

/// Values that differ by rank and place.
fn values(rank: usize, count: usize) -> Vec<u32> {
    (0..count).map(|at| (rank * 1_000_003 + at * 7 + 1) as u32).collect()
}

/// Lengths around the borders where transports change their ways: inline, one window, several windows.
const LENGTHS: [usize; 6] = [0, 1, 57, 60, 1_000, 70_001];
