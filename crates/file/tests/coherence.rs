//! Ranks on several nodes: accesses are locked where the file system is not coherent, and atomic mode is refused where locks do not reach.

#[path = "coherence/concurrent_extension.rs"]
mod concurrent_extension;

use std::ffi::OsStr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::{
    Capabilities, Device, DeviceOpenOptions, Handle, LockGuard, LockKind, LockScope, MemFs, RangeLocks,
    Segment, SegmentMut, SyncScope, register_device,
};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Counters, Error, Kind, Mode, OpenOptions, View};

/// Smaller than a page, and no divisor of one.
const PIECE: usize = 100;
const PIECES: usize = 500;

/// What is counted while all ranks write and read pieces in turns.
fn interleaved(world: &Comm, name: &str, hints: &[(&str, &str)]) -> aqueduct_file::Result<Counters> {
    let mut open = OpenOptions::new().read(true).write(true).create(true).delete_on_close(true);
    for (key, value) in hints {
        open = open.hint(*key, *value);
    }
    let file = open.open(world, name)?;
    let before = file.counters();
    let piece = Layout::from(Basic::Byte).contiguous(PIECE as u64).unwrap();
    let turns = piece.resized(0, (PIECE * world.size()) as i64).unwrap();
    file.set_view(&View::new((world.rank() * PIECE) as u64, &Basic::Byte.into(), &turns)?)?;
    for (step, together) in [false, true, false].into_iter().enumerate() {
        let value = (1 + world.rank() + 10 * step) as u8;
        let data = vec![value; PIECE * PIECES];
        if together {
            file.at(0).all().write(&data)?
        } else {
            file.at(0).write(&data)?
        };
        world.barrier().unwrap();
        let mut back = vec![0u8; PIECE * PIECES * world.size()];
        file.set_view(&View::default())?;
        if together {
            file.at(0).all().read(&mut back)?
        } else {
            file.at(0).read(&mut back)?
        };
        let owner = |at: usize| (at / PIECE % world.size() + 1 + 10 * step) as u8;
        assert!(back.iter().enumerate().all(|(at, byte)| *byte == owner(at)), "step {step}");
        file.set_view(&View::new((world.rank() * PIECE) as u64, &Basic::Byte.into(), &turns)?)?;
    }
    let done = file.counters() - before;
    file.close()?;
    Ok(done)
}

#[test]
fn accesses_are_locked_between_nodes_where_the_file_system_is_not_coherent() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("ufs:{}", folder.path().join("a").display());
    let locks = |nodes: bool, hints: &[(&str, &str)]| -> Vec<u64> {
        let launch = Launch::threads(3);
        let launch = if nodes { launch.node_ranks(1) } else { launch };
        let counted = launch.run(|world| interleaved(world, &name, hints)).unwrap();
        counted.iter().map(|counters| counters.locks).collect()
    };
    assert_eq!(locks(true, &[]), [0; 3], "this file system is coherent");
    assert_eq!(locks(false, &[("aqueduct_coherent", "false")]), [0; 3], "there is one node");
    for strategy in ["list", "sieve", "two-phase", "map"] {
        let counted = locks(true, &[("aqueduct_coherent", "false"), ("aqueduct_strategy", strategy)]);
        // Alone, two writes and two reads of each rank are locked.
        assert!(counted.iter().all(|locks| *locks >= 4), "{strategy}: {counted:?}");
    }
}

#[test]
fn every_case_of_the_suite_holds_where_accesses_are_locked() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("ufs:{}/", folder.path().display());
    let info = aqueduct_file::Info::from([("aqueduct_coherent", "false")]);
    let cases = Launch::threads(2)
        .node_ranks(1)
        .run(|world| Ok::<_, Error>(aqueduct_testkit::file::conformance_with(world, &place, &info)));
    assert!(cases.unwrap().iter().all(|cases| *cases > 30));
}

/// A device whose locks each handle has for itself, as with `-o nolock`.
#[derive(Default)]
struct LocalLocks {
    files: MemFs,
    /// Says that it is not coherent between nodes.
    incoherent: bool,
    /// How often what is cached was to be forgotten.
    revalidations: Arc<AtomicU64>,
}

struct LocalHandle {
    inner: Arc<dyn Handle>,
    locks: RangeLocks,
    incoherent: bool,
    revalidations: Arc<AtomicU64>,
}

impl Device for LocalLocks {
    fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> aqueduct_device::Result<Arc<dyn Handle>> {
        let inner = self.files.open(name, options)?;
        let (locks, revalidations) = (RangeLocks::default(), Arc::clone(&self.revalidations));
        Ok(Arc::new(LocalHandle { inner, locks, incoherent: self.incoherent, revalidations }))
    }

    fn delete(&self, name: &OsStr) -> aqueduct_device::Result<()> {
        self.files.delete(name)
    }
}

impl Handle for LocalHandle {
    fn read(&self, pieces: &mut [SegmentMut<'_>]) -> aqueduct_device::Result<u64> {
        self.inner.read(pieces)
    }

    fn write(&self, pieces: &[Segment<'_>]) -> aqueduct_device::Result<u64> {
        self.inner.write(pieces)
    }

    fn len(&self) -> aqueduct_device::Result<u64> {
        self.inner.len()
    }

    fn set_len(&self, len: u64) -> aqueduct_device::Result<()> {
        self.inner.set_len(len)
    }

    fn sync(&self, scope: SyncScope) -> aqueduct_device::Result<()> {
        self.inner.sync(scope)
    }

    fn capabilities(&self) -> Capabilities {
        let coherent = !self.incoherent;
        Capabilities { locks: LockScope::System, coherent, ..self.inner.capabilities() }
    }

    fn revalidate(&self, range: Range<u64>) -> aqueduct_device::Result<()> {
        self.revalidations.fetch_add(1, Ordering::Relaxed);
        self.inner.revalidate(range)
    }

    fn lock(&self, range: Range<u64>, kind: LockKind) -> aqueduct_device::Result<Box<dyn LockGuard + '_>> {
        Ok(Box::new(self.locks.lock(range, kind)))
    }

    fn try_lock(
        &self,
        range: Range<u64>,
        kind: LockKind,
    ) -> aqueduct_device::Result<Option<Box<dyn LockGuard + '_>>> {
        let guard = self.locks.try_lock(range, kind);
        Ok(guard.map(|guard| -> Box<dyn LockGuard + '_> { Box::new(guard) }))
    }
}

#[test]
fn atomic_mode_is_refused_where_locks_do_not_reach_other_nodes() {
    register_device("local-locks", Arc::new(LocalLocks::default())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let disk = format!("ufs:{}", folder.path().join("a").display());
    let outcome = Launch::threads(3).node_ranks(1).run(|world| {
        let open = |name: &str, mode: Mode| OpenOptions::from(mode).open(world, name);
        let file = open("local-locks:a", Mode::read_write().create())?;
        let refused = file.set_atomic(true).expect_err("locks do not reach");
        assert_eq!(refused.kind(), Kind::Unsupported);
        assert!(refused.to_string().contains("nolock") && !file.is_atomic(), "{refused}");
        file.set_atomic(false)?;
        file.close()?;
        for name in ["memfs:atomic", &format!("trace=/dev/null:{disk}"), &disk] {
            let file = open(name, Mode::read_write().create().delete_on_close())?;
            for _ in 0..3 {
                file.set_atomic(true)?;
                file.set_atomic(false)?;
            }
            file.close()?;
        }
        Ok::<_, Error>(())
    });
    outcome.unwrap();
    let one_node = Launch::threads(3).run(|world| {
        let file = OpenOptions::new().read(true).write(true).create(true).open(world, "local-locks:b")?;
        file.set_atomic(true)?;
        file.close()
    });
    one_node.expect("the ranks of one node are not probed");
}

#[test]
fn what_is_cached_is_forgotten_only_between_nodes_that_are_not_coherent() {
    let device = LocalLocks { incoherent: true, ..LocalLocks::default() };
    let revalidations = Arc::clone(&device.revalidations);
    register_device("incoherent", Arc::new(device)).unwrap();
    let count = |nodes: bool, coherent: Option<&str>| {
        let before = revalidations.load(Ordering::Relaxed);
        let launch = Launch::threads(2);
        let launch = if nodes { launch.node_ranks(1) } else { launch };
        let locks = launch.run(|world| {
            let mut open =
                OpenOptions::new().read(true).write(true).create(true).append(true).delete_on_close(true);
            if let Some(coherent) = coherent {
                open = open.hint("aqueduct_coherent", coherent);
            }
            let file = open.open(world, "incoherent:a")?;
            // Locks of one node are for atomic mode.
            if !nodes {
                file.set_atomic(true)?;
            }
            file.at(100 * world.rank() as u64).write(&[7u8; 100])?;
            file.at(0).read(&mut [0u8; 10])?;
            file.size()?;
            let locks = file.counters().locks;
            file.close()?;
            Ok::<_, Error>(locks)
        });
        (locks.unwrap()[1], revalidations.load(Ordering::Relaxed) - before)
    };
    assert_eq!(count(false, None), (2, 0), "one node pays nothing");
    assert_eq!(count(false, Some("false")), (2, 0), "one node pays nothing");
    assert_eq!(count(true, Some("true")), (0, 0), "the hint overrules the device");
    // Of each rank: the length when the file is opened to append, a write, a read, the size.
    assert_eq!(count(true, None), (2, 8));
}

#[test]
fn where_accesses_cannot_be_locked_the_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("fault=lock=resource@#1+:ufs:{}", folder.path().join("a").display());
    let outcome = Launch::threads(2).node_ranks(1).run(|world| {
        let open = OpenOptions::new().read(true).write(true).create(true).hint("aqueduct_coherent", "false");
        let file = open.open(world, &name)?;
        let error = file.at(0).write(&[7u8; 100]).expect_err("there are no locks");
        assert!(error.to_string().contains("set the hint aqueduct_coherent=true"), "{error}");
        file.close()
    });
    outcome.unwrap();
}
