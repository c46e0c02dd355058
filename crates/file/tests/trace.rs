//! The trace of a program: what is recorded, and that recording changes nothing. The traced program is this test itself, because the folder
//! is a setting of the process.

use std::path::Path;
use std::process::Command;

use aqueduct_comm::Launch;
use aqueduct_file::layout::Layout;
use aqueduct_file::replan::{RecordedAccess, replan};
use aqueduct_file::trace::{CallPhase, CallRecord, RankTrace, TRACE_VARIABLE, TraceFolder, TracedOperation};
use aqueduct_file::{Info, OpenOptions, Strategy, View};

const RANKS: usize = 4;
const BLOCK: u64 = 1000;

/// Rank 2 is late, the ranks write round-robin, each writes by itself, one call fails, and rank 0 buffers.
fn traced_program(folder: &Path) {
    let path = folder.join("out.bin");
    let nodes = std::env::var("TEST_NODES").map_or(RANKS, |ranks| ranks.parse().unwrap());
    let program = |world: &aqueduct_comm::Comm| {
        let hints = Info::parse("romio_cb_write enable");
        let options = OpenOptions::new().read(true).write(true).create(true).truncate(true).hints(&hints);
        let file = options.open(world, &path)?;
        let block = Layout::of::<u8>().contiguous(BLOCK).unwrap();
        let round = block.resized(0, (BLOCK * RANKS as u64) as i64).unwrap();
        file.set_view(&View::new(BLOCK * world.rank() as u64, &block, &round)?)?;
        if world.rank() == 2 {
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        file.at(0).all().write(&vec![1u8; 100 * BLOCK as usize])?;
        let mut back = vec![0u8; 100 * BLOCK as usize];
        file.at(0).read(&mut back)?;
        file.set_view(&View::of(0, &Layout::of::<u8>())?)?;
        file.at(1 << 20).write(&[2u8; 10])?;
        assert!(file.at(u64::MAX).write(&[2u8; 10]).is_err());
        // The second sync has nothing to write, which could take longer than the wait for rank 2.
        file.sync()?;
        if world.rank() == 2 {
            std::thread::sleep(std::time::Duration::from_millis(30));
        }
        file.sync()?;
        file.set_size(1 << 21)?;
        file.preallocate(1 << 21)?;
        file.close()
    };
    Launch::threads(RANKS).node_ranks(nodes).run(program).unwrap();
}

#[test]
fn a_traced_program() {
    if let Some(folder) = std::env::var_os("TEST_TRACED") {
        traced_program(Path::new(&folder));
    }
}

fn trace(folder: &Path, node_ranks: usize) -> TraceFolder {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_traced_program"])
        .env("TEST_TRACED", folder)
        .env("TEST_NODES", node_ranks.to_string())
        .env(TRACE_VARIABLE, folder.join("trace"))
        .output()
        .unwrap();
    assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stderr));
    TraceFolder::read(folder.join("trace")).unwrap()
}

fn find(rank: &RankTrace, operation: TracedOperation, collective: bool) -> &CallRecord {
    let found = |call: &&CallRecord| {
        call.operation() == Some(operation) && call.is_collective() == collective && !call.has_failed()
    };
    rank.calls.iter().find(found).unwrap_or_else(|| panic!("no {operation:?} in {:?}", rank.calls))
}

#[test]
fn calls_are_recorded_with_phases_strategies_and_extents() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), RANKS);
    assert_eq!(trace.ranks.len(), RANKS);
    let mut device = 0;
    for (number, rank) in trace.ranks.iter().enumerate() {
        assert_eq!((rank.rank, rank.size, rank.files.len()), (number, RANKS, 1));
        assert!(rank.files[0].name.ends_with("out.bin") && rank.process_started > 0);
        for call in &rank.calls {
            assert_eq!(call.phases.iter().sum::<u64>(), call.duration(), "{call:?}");
        }
        let write = find(rank, TracedOperation::Write, true);
        assert_eq!((write.bytes, write.runs, write.sequence), (100 * BLOCK, 100, 1));
        assert_eq!(write.strategy(), Some(Strategy::TwoPhase));
        assert!(write.estimates[4] > 0.0 && write.estimates[1] > 0.0, "the rejected ones too: {write:?}");
        assert_eq!((write.aggregators > 0, write.is_inexact()), (true, false));
        device += write.device_bytes;
        let read = find(rank, TracedOperation::Read, false);
        assert_eq!((read.bytes, read.runs, read.exchanged), (100 * BLOCK, 100, 0));
        let (_, owned, _) = rank.extents_of_calls().find(|(call, ..)| call.start == write.start).unwrap();
        let start = BLOCK * number as u64;
        assert_eq!((owned.len(), owned[0].offset, owned[0].bytes()), (1, start, 100 * BLOCK));
        for operation in [TracedOperation::Sync, TracedOperation::Resize, TracedOperation::Close] {
            let call = find(rank, operation, true);
            assert_eq!((call.bytes, call.sequence > 1), (0, true), "{operation:?} is a collective call");
        }
        let resizes = rank.calls.iter().filter(|call| call.operation() == Some(TracedOperation::Resize));
        assert_eq!(resizes.count(), 2, "set_size and preallocate; truncation is a part of opening the file");
    }
    assert_eq!(device, 100 * BLOCK * RANKS as u64, "aggregators wrote each byte once");
    let exchanged: u64 =
        trace.ranks.iter().map(|rank| find(rank, TracedOperation::Write, true).exchanged).sum();
    let accesses: Vec<RecordedAccess> = trace
        .ranks
        .iter()
        .map(|rank| {
            let (_, owned, _) = rank.extents_of_calls().find(|(call, ..)| call.sequence == 1).unwrap();
            RecordedAccess { rank: rank.rank, node: rank.node, extents: owned.to_vec() }
        })
        .collect();
    let capabilities = trace.ranks[0].files[0].fact("capabilities").unwrap();
    let planned = replan(true, &accesses, capabilities, &Info::parse("romio_cb_write enable")).unwrap();
    assert_eq!((planned.strategy, planned.exchanged), (Strategy::TwoPhase, exchanged), "as it was executed");
    // The ranks that are not late wait for the one that is.
    for operation in [TracedOperation::Write, TracedOperation::Sync] {
        let is_last = |call: &&CallRecord| call.operation() == Some(operation) && call.is_collective();
        let waited = |rank: usize| {
            let call = trace.ranks[rank].calls.iter().rfind(is_last).unwrap();
            call.phases[CallPhase::Wait as usize]
        };
        let all: Vec<u64> = (0..4).map(waited).collect();
        assert!(waited(0) > waited(2) && waited(1) > 10_000_000, "{operation:?}: {all:?}");
    }
}

/// Writes once, and then does nothing to files until it is killed.
#[test]
fn an_idle_program() {
    let Some(folder) = std::env::var_os("TEST_IDLE") else { return };
    let path = Path::new(&folder).join("out.bin");
    let program = |world: &aqueduct_comm::Comm| {
        let file = aqueduct_file::File::create(world, &path)?;
        file.at(BLOCK * world.rank() as u64).write(&[1u8; BLOCK as usize])?;
        std::fs::write(Path::new(&folder).join(format!("written-{}", world.rank())), "").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(100));
        file.close()
    };
    Launch::threads(2).run(program).unwrap();
}

#[test]
fn the_trace_of_a_killed_idle_program_has_its_calls() {
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "an_idle_program"])
        .env("TEST_IDLE", folder.path())
        .env(TRACE_VARIABLE, folder.path().join("trace"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let start = std::time::Instant::now();
    let has_written = |rank: usize| folder.path().join(format!("written-{rank}")).exists();
    while !(has_written(0) && has_written(1)) && start.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    std::thread::sleep(std::time::Duration::from_secs(1));
    program.kill().unwrap();
    program.wait().unwrap();
    let trace = TraceFolder::read(folder.path().join("trace")).unwrap();
    assert_eq!(trace.ranks.len(), 2);
    for rank in &trace.ranks {
        assert_eq!(find(rank, TracedOperation::Write, false).bytes, BLOCK);
    }
}

#[test]
fn clocks_of_nodes_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 1);
    for rank in &trace.ranks {
        assert!(rank.clock_offset.abs() < 1_000_000_000, "one machine has one clock: {}", rank.clock_offset);
        let write = find(rank, TracedOperation::Write, true);
        assert!(write.phases[CallPhase::Exchange as usize] > 0, "{write:?}");
    }
    assert_eq!(trace.ranks[3].node, 3);
}

#[test]
fn damaged_traces_are_errors_or_shorter() {
    let folder = tempfile::tempdir().unwrap();
    let whole = trace(folder.path(), RANKS);
    let path = folder.path().join("trace");
    let calls = std::fs::read(path.join("rank-000000.calls")).unwrap();
    std::fs::write(path.join("rank-000000.calls"), &calls[..calls.len() - 1]).unwrap();
    let shorter = TraceFolder::read(&path).unwrap();
    assert_eq!(shorter.ranks[0].calls.len(), whole.ranks[0].calls.len() - 1);
    std::fs::write(path.join("rank-000000.extents"), b"").unwrap();
    assert!(TraceFolder::read(&path).unwrap().ranks[0].calls.len() < 2);
    std::fs::write(path.join("rank-000001.facts"), "aqueduct-trace\t2\nrank\t1\tmany\t0\n").unwrap();
    let error = TraceFolder::read(&path).unwrap_err().to_string();
    assert!(error.contains("rank-000001.facts") && error.contains("line 2"), "{error}");
    assert!(TraceFolder::read(folder.path()).unwrap_err().to_string().contains("AQUEDUCT_TRACE"));
}
