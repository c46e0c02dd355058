//! The conformance suite for the file engine: programs of all ranks that compare what a file holds with what they compute by themselves.
//!
//! * [`conformance`]: everything that must hold on a medium that works, short transfers included;
//! * [`faults`]: a medium that fails each rank at each operation.
//!
//! Random cases show their seed when they fail; `AQUEDUCT_SEED=…` begins with another one.

mod atomic;
mod consistency;
mod exchange;
mod expected_view;
mod faults;
mod memory;
mod misuse;
mod model_test;
mod overlap;
mod random_layout;
mod representation;
mod shared;

use std::cell::Cell;

use aqueduct_comm::Comm;
use aqueduct_file::{File, Info, Mode, OpenOptions, View};

pub use faults::faults;

/// Where a case runs: the ranks, a place for files, and hints that every file is opened with.
pub(crate) struct Fixture<'a> {
    world: &'a Comm,
    place: &'a str,
    info: &'a Info,
    next: Cell<usize>,
}

impl Fixture<'_> {
    fn rank(&self) -> usize {
        self.world.rank()
    }

    fn size(&self) -> usize {
        self.world.size()
    }

    fn barrier(&self) {
        self.world.barrier().expect("a barrier of the suite");
    }

    /// A name that no file has yet, the same on all ranks.
    fn name(&self) -> String {
        self.next.set(self.next.get() + 1);
        format!("{}conformance-{}", self.place, self.next.get())
    }

    fn open(&self, name: &str, mode: Mode) -> aqueduct_file::Result<File> {
        OpenOptions::from(mode).hints(self.info).open(self.world, name)
    }

    /// A new file, deleted when it is closed.
    fn fresh(&self) -> File {
        self.open(&self.name(), Mode::read_write().create().delete_on_close()).expect("a new file")
    }

    /// The bytes of a file, as this rank reads them; its view is all bytes afterwards. Collective.
    fn contents(&self, file: &File) -> Vec<u8> {
        self.barrier();
        file.set_view(&View::default()).expect("the view of all bytes");
        let mut bytes = vec![0xEE; file.size().expect("the size") as usize];
        let count = file.at(0).read(&mut bytes).expect("reading all bytes");
        assert_eq!(count.bytes(), bytes.len() as u64, "a file can be read up to its size");
        self.barrier();
        bytes
    }
}

/// What a case is called, and its program.
type Entry = (&'static str, fn(&Fixture<'_>));

/// Runs all cases on files whose names begin with `place`, such as `memfs:run-` or a folder with a slash at its end, and returns how many
/// there were. Collective; a failing case panics, naming itself and the rank.
///
/// ```
/// use aqueduct_comm::{Error, Launch};
/// let counts = Launch::threads(2).run(|world| {
///     Ok::<_, Error>(aqueduct_testkit::file::conformance(world, "memfs:example-"))
/// })?;
/// assert_eq!(counts[0], counts[1]);
/// # Ok::<(), Error>(())
/// ```
pub fn conformance(world: &Comm, place: &str) -> usize {
    conformance_with(world, place, &Info::new())
}

/// As [`conformance`], with hints for every file.
pub fn conformance_with(world: &Comm, place: &str, info: &Info) -> usize {
    let cases = [
        model_test::CASES,
        atomic::CASES,
        shared::CASES,
        consistency::CASES,
        overlap::CASES,
        exchange::CASES,
        representation::CASES,
        misuse::CASES,
    ]
    .concat();
    let bench = Fixture { world, place, info, next: Cell::new(0) };
    for (name, program) in &cases {
        let _named = FileCaseGuard { case: (*name).to_owned(), rank: world.rank() };
        program(&bench);
        bench.barrier();
    }
    cases.len()
}

/// Says which case a panic came from.
struct FileCaseGuard {
    case: String,
    rank: usize,
}

impl Drop for FileCaseGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("file case \"{}\" failed on rank {}", self.case, self.rank);
        }
    }
}

/// The seed to begin with, the same on all ranks: that of `AQUEDUCT_SEED`, or 0.
fn first_seed(world: &Comm) -> u64 {
    let given = std::env::var("AQUEDUCT_SEED").ok().and_then(|text| text.parse().ok());
    let mut seed = [given.unwrap_or(0)];
    world.broadcast(0, &mut seed).expect("the seed is broadcast");
    seed[0]
}
