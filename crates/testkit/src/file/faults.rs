//! The fault matrix: a medium that fails one rank at one operation. Every rank returns, collective calls with the same class of error,
//! counts are true, and the file goes on working.

mod calls;
mod fault_storm;

use std::cell::Cell;

use aqueduct_comm::{Comm, Op};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Count, Error, File, Info, Kind, Mode, Result, View};

use super::memory::{AccessMethod, CompletionStyle};
use super::{FileCaseGuard, Fixture};

/// Values that each rank accesses, one in turn: as many runs of four bytes.
const VALUES: usize = 12;
const STRATEGIES: [&str; 4] = ["direct", "list", "sieve", "two-phase"];

/// Runs the fault matrix on files whose names begin with `place`, which the fault wrapper is put before; returns how many faults it injected.
/// Collective.
///
/// ```
/// use aqueduct_comm::{Error, Launch};
/// Launch::threads(2).run(|world| Ok::<_, Error>(aqueduct_testkit::file::faults(world, "memfs:faulty-")))?;
/// # Ok::<(), Error>(())
/// ```
pub fn faults(world: &Comm, place: &str) -> usize {
    let info = Info::new();
    let bench = Fixture { world, place, info: &info, next: Cell::new(0) };
    let matrix = FaultMatrix { fixture: bench, count: Cell::new(0) };
    for way in AccessMethod::ALL {
        matrix.accesses(way);
    }
    matrix.calls();
    matrix.fault_storms();
    matrix.count.get()
}

struct FaultMatrix<'a> {
    fixture: Fixture<'a>,
    count: Cell<usize>,
}

/// One fault, and the access that meets it.
#[derive(Clone, Copy, Debug)]
struct InjectedFault {
    rank: usize,
    /// The operation of the device, the kind of its error, and which time it fails.
    operation: &'static str,
    kind: (&'static str, Kind),
    nth: usize,
    /// Whether some bytes are transferred before the error.
    partly: bool,
    strategy: &'static str,
    atomic: bool,
    write: bool,
    method: AccessMethod,
}

impl FaultMatrix<'_> {
    /// The same file by two names: one that works, and one on which this goes wrong.
    fn names(&self, plan: &str) -> (String, String) {
        self.count.set(self.count.get() + 1);
        let name = self.fixture.name();
        // The seed makes the wrapper, and with it its counters, a new one. It is in the name, which differs from run to run.
        let seed = name.bytes().fold(7u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let faulty = format!("fault=seed={},{plan}:{name}", seed % 1_000_000_007);
        (name, faulty)
    }

    /// Panics unless all ranks had the same outcome, by class.
    fn same_on_all<T>(&self, outcome: &Result<T>, context: &str) {
        let class = outcome.as_ref().err().map_or(u64::MAX, |error| error.kind() as u64);
        let all = self.fixture.world.allgather(&[class]).expect("the outcomes of all ranks");
        assert!(all.iter().all(|other| *other == class), "outcomes differ: {all:?} {context}");
    }

    fn accesses(&self, way: AccessMethod) {
        let kinds = [("io", Kind::Io), ("nospace", Kind::NoSpace), ("busy", Kind::InUse)];
        let mut turn = 0;
        for strategy in STRATEGIES {
            for (write, atomic, operation) in [
                (true, false, "write"),
                (true, false, "read"),
                (true, true, "write"),
                (true, true, "lock"),
                (false, false, "read"),
                (false, true, "read"),
                (false, true, "lock"),
            ] {
                for (rank, nth) in (0..self.fixture.size()).flat_map(|rank| [1, 2, 5].map(|nth| (rank, nth)))
                {
                    turn += 1;
                    let (kind, partly) = (kinds[turn % 3], turn % 4 == 0);
                    let fault = InjectedFault {
                        rank,
                        operation,
                        kind,
                        nth,
                        partly,
                        strategy,
                        atomic,
                        write,
                        method: way,
                    };
                    let _named = FileCaseGuard { case: format!("{fault:?}"), rank: self.fixture.rank() };
                    self.access(&fault);
                }
            }
        }
    }

    /// What a rank writes.
    fn values(rank: usize, round: usize) -> Vec<u32> {
        (0..VALUES).map(|at| (round * 10_000 + rank * 100 + at + 1) as u32).collect()
    }

    fn view(&self) -> View {
        let element = Layout::from(Basic::U32);
        let filetype = element.resized(0, 4 * self.fixture.size() as i64).expect("in turn");
        View::new(4 * self.fixture.rank() as u64, &element, &filetype).expect("a view")
    }

    /// How many locks a rank asks for when atomic mode is switched on: between nodes it is probed whether locks reach.
    fn probing_locks(&self, rank: usize) -> usize {
        let world = self.fixture.world;
        let first = world.ranks_of_node(world.node_of(rank)).first() == Some(&rank);
        usize::from(world.node_count() > 1 && (rank == 0 || first && world.node_of(rank) != world.node_of(0)))
    }

    fn access(&self, fault: &InjectedFault) {
        let InjectedFault { rank, operation, kind, mut nth, strategy, .. } = *fault;
        if operation == "lock" && fault.atomic {
            nth += self.probing_locks(rank);
        }
        let short = if fault.partly { ",short=1" } else { "" };
        let (name, faulty) = self.names(&format!("rank={rank},{operation}={}@#{nth}{short}", kind.0));
        let sound = self.fixture.open(&name, Mode::read_write().create()).expect("a new file");
        sound.set_view(&self.view()).expect("a view");
        let (me, context) = (self.fixture.rank(), format!("{fault:?}"));
        sound.at(0).all().write(&Self::values(me, 0)).expect("the first content");
        let file = self.fixture.open(&faulty, Mode::read_write()).expect("the same file");
        let hints =
            [("aqueduct_strategy", strategy), ("ind_rd_buffer_size", "20"), ("ind_wr_buffer_size", "20")];
        let small = [("cb_buffer_size", "32"), ("striping_unit", "16")];
        file.set_info(&hints.into_iter().chain(small).collect::<Info>()).expect("hints");
        file.set_view(&self.view()).expect("a view");
        file.set_atomic(fault.atomic).expect("atomic mode");
        if fault.write {
            self.write(fault, &file, &sound, &context);
        } else {
            self.read(fault, &file, &context);
        }
        self.fixture.barrier();
        sound.close().expect("closing");
        file.close().expect("closing");
        if me == 0 {
            aqueduct_file::delete(&name).expect("deleting");
        }
    }

    /// The kind must be the injected one, on the ranks that may see it.
    fn check_error(&self, fault: &InjectedFault, error: &Error, context: &str) {
        assert_eq!(error.kind(), fault.kind.1, "{error}: {context}");
        assert!(error.transferred() <= 4 * VALUES as u64, "{}: {context}", error.transferred());
        let mine = fault.rank == self.fixture.rank();
        assert!(mine || fault.method.collective, "another rank's error: {error}: {context}");
        assert!(mine || error.rank() == Some(fault.rank), "whose error? {error}: {context}");
        // Run by run, the count says exactly which run failed.
        if mine && fault.strategy == "direct" && !fault.partly && fault.operation != "lock" {
            assert_eq!(error.transferred(), 4 * (fault.nth as u64 - 1), "{context}");
        }
    }

    fn write(&self, fault: &InjectedFault, file: &File, sound: &File, context: &str) {
        let mine = Self::values(self.fixture.rank(), 1);
        let place =
            if fault.method.style == CompletionStyle::Started { file.at_pointer() } else { file.at(0) };
        let outcome = fault.method.write(place, mine.clone());
        if fault.method.collective {
            self.same_on_all(&outcome, context);
        }
        self.fixture.barrier();
        let mut there = vec![0u32; VALUES];
        sound.at(0).read(&mut there).expect("a read that works");
        let (there, mine_bytes) = (bytes(&there), bytes(&mine));
        let old = bytes(&Self::values(self.fixture.rank(), 0));
        let done = match &outcome {
            Ok(count) => count.bytes() as usize,
            Err(error) => {
                self.check_error(fault, error, context);
                error.transferred() as usize
            }
        };
        assert!(outcome.is_err() || done == 4 * VALUES, "the count: {context}");
        assert_eq!(there[..done], mine_bytes[..done], "what was counted as written: {context}");
        let either = (0..there.len()).all(|at| there[at] == mine_bytes[at] || there[at] == old[at]);
        assert!(either, "neither old nor new: {context}");
        self.fixture.barrier();
        self.once_more(fault, outcome.is_err(), context, || file.at(0).all().write(&mine));
        let mut again = vec![0u32; VALUES];
        sound.at(0).all().read(&mut again).expect("a read that works");
        assert_eq!(again, mine, "after the second time: {context}");
    }

    fn read(&self, fault: &InjectedFault, file: &File, context: &str) {
        let expected = Self::values(self.fixture.rank(), 0);
        let place =
            if fault.method.style == CompletionStyle::Started { file.at_pointer() } else { file.at(0) };
        let outcome = fault.method.read(place, vec![0u32; VALUES]);
        if fault.method.collective {
            self.same_on_all(&outcome, context);
        }
        match &outcome {
            Ok((got, count)) => {
                assert_eq!((got, count.bytes()), (&expected, 4 * VALUES as u64), "{context}");
            }
            Err(error) => self.check_error(fault, error, context),
        }
        self.fixture.barrier();
        let mut again = vec![0u32; VALUES];
        self.once_more(fault, outcome.is_err(), context, || file.at(0).all().read(&mut again));
        assert_eq!(again, expected, "the second time: {context}");
    }

    /// Tries again, together, until it works: there is one fault in all.
    fn once_more(
        &self,
        fault: &InjectedFault,
        failed: bool,
        context: &str,
        mut again: impl FnMut() -> Result<Count>,
    ) {
        let mut struck =
            self.fixture.world.allreduce_one(Op::Max, u8::from(failed)).expect("what was met") > 0;
        let count = loop {
            let outcome = again();
            self.same_on_all(&outcome, context);
            match outcome {
                Ok(count) => break count,
                Err(error) => {
                    assert!(!struck, "a second error: {error}: {context}");
                    assert_eq!(error.kind(), fault.kind.1, "{error}: {context}");
                    struck = true;
                }
            }
        };
        assert_eq!(count.bytes(), 4 * VALUES as u64, "{context}");
    }
}

fn bytes(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}
