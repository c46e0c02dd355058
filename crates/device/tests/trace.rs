//! The trace wrapper records every operation.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aqueduct_device::layers::{ThrottleDevice, ThrottleLimits, TraceDevice, TraceEvent};
use aqueduct_device::{
    Device, DeviceOpenOptions, HandleExt, Kind, LockKind, MemFs, Operation, Registry, Segment, SyncScope,
};

fn options(rank: usize) -> DeviceOpenOptions {
    DeviceOpenOptions::read_write().create(true).rank(rank)
}

/// What happened, without when.
fn shape(event: &TraceEvent) -> (Option<usize>, Operation, Option<u64>, u64, usize, Result<u64, Kind>) {
    (event.rank, event.operation, event.offset, event.length, event.segments, event.outcome)
}

#[test]
fn every_operation_is_recorded_in_order() {
    let trace = TraceDevice::new(Arc::new(MemFs::new()));
    let file = trace.open("a".as_ref(), &options(3)).unwrap();
    file.write(&[Segment::new(9, b""), Segment::new(100, b"abc"), Segment::new(5, b"de")]).unwrap();
    file.read(&mut [aqueduct_device::SegmentMut::new(101, &mut [0; 10])]).unwrap();
    file.len().unwrap();
    file.set_len(50).unwrap();
    file.preallocate(60).unwrap();
    file.sync(SyncScope::Data).unwrap();
    drop(file.lock(10..30, LockKind::Shared).unwrap());
    file.write(&[Segment::new(u64::MAX, b"x")]).unwrap_err();
    drop(file);
    trace.delete("a".as_ref()).unwrap();
    let events = trace.events();
    let rank = Some(3);
    assert_eq!(
        events.iter().map(shape).collect::<Vec<_>>(),
        [
            (rank, Operation::Open, None, 0, 0, Ok(0)),
            (rank, Operation::Write, Some(100), 5, 3, Ok(5)),
            (rank, Operation::Read, Some(101), 10, 1, Ok(2)),
            (rank, Operation::Len, None, 0, 0, Ok(103)),
            (rank, Operation::SetLen, None, 50, 0, Ok(0)),
            (rank, Operation::Preallocate, None, 60, 0, Ok(0)),
            (rank, Operation::Sync, None, 0, 0, Ok(0)),
            (rank, Operation::Lock, Some(10), 20, 0, Ok(0)),
            (rank, Operation::Write, Some(u64::MAX), 1, 1, Err(Kind::InvalidArgument)),
            (None, Operation::Delete, None, 0, 0, Ok(0)),
        ]
    );
    assert!(events.iter().all(|event| &*event.name == "a"));
    assert_eq!(trace.take_events().len(), 10);
    assert!(trace.events().is_empty());
}

#[test]
fn times_are_those_of_the_operations() {
    let limits = ThrottleLimits { latency: Duration::from_millis(10), ..ThrottleLimits::default() };
    let trace = TraceDevice::new(Arc::new(ThrottleDevice::new(Arc::new(MemFs::new()), limits)));
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let before = now();
    let file = trace.open("a".as_ref(), &options(0)).unwrap();
    file.write_at(0, b"x").unwrap();
    let after = now();
    let events = trace.events();
    let slack = Duration::from_millis(500);
    for event in &events {
        assert!(event.duration >= Duration::from_millis(10));
        assert!(event.start + slack >= before && event.start <= after + slack, "{event:?}");
    }
    assert!(events[1].start >= events[0].start + events[0].duration);
}

#[test]
fn a_file_gets_the_lines_when_a_handle_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ops.csv");
    let trace = TraceDevice::to_file(Arc::new(MemFs::new()), &path);
    assert!(!path.exists(), "a trace that is never used makes no file");
    let file = trace.open("a,\"b\"".as_ref(), &options(7)).unwrap();
    file.write_at(64, b"abc").unwrap();
    drop(file);
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!((lines.len(), lines[0]), (3, TraceEvent::HEADER));
    assert!(
        lines[2].starts_with("7,Write,\"a,\"\"b\"\"\",") && lines[2].ends_with(",64,3,1,ok,3,"),
        "{}",
        lines[2]
    );
    trace.delete("nothing".as_ref()).unwrap_err();
    trace.flush().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.trim_end().ends_with(",NotFound,0,"), "{text}");
}

#[test]
fn by_name() {
    let folder = tempfile::tempdir().unwrap();
    let registry = Registry::standard();
    let pattern = folder.path().join("ops-%p.csv");
    let name = format!("trace={}:memfs:a", pattern.display());
    registry.open(&name, &options(0)).unwrap().write_at(0, b"abc").unwrap();
    let path = folder.path().join(format!("ops-{}.csv", std::process::id()));
    assert_eq!(fs::read_to_string(path).unwrap().lines().count(), 3);
    let error = registry.open("trace:memfs:a", &options(0)).err().unwrap();
    assert_eq!(error.kind(), Kind::InvalidName);
    assert!(error.to_string().contains("trace=FILE"), "{error}");
    let nowhere = format!("trace={}/no/ops.csv:memfs:a", folder.path().display());
    let error = registry.open(&nowhere, &options(0)).err().unwrap();
    assert_eq!(error.kind(), Kind::NotFound);
    assert!(error.to_string().contains("ops.csv"), "{error}");
}

#[test]
fn threads_write_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ops.csv");
    let trace = TraceDevice::to_file(Arc::new(MemFs::new()), &path);
    std::thread::scope(|scope| {
        for rank in 0..4 {
            let file = trace.open("a".as_ref(), &options(rank)).unwrap();
            scope.spawn(move || (0..500).for_each(|step| file.write_at(step, b"x").unwrap()));
        }
    });
    drop(trace);
    let text = fs::read_to_string(&path).unwrap();
    let columns = TraceEvent::HEADER.split(',').count();
    assert!(text.lines().all(|line| line.split(',').count() == columns));
    for rank in 0..4 {
        let writes = format!("{rank},Write,");
        assert_eq!(text.lines().filter(|line| line.starts_with(&writes)).count(), 500);
    }
}
