//! The fault wrapper injects the planned faults into the planned operations and ranks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_device::layers::{FaultDevice, FaultPlan, FaultTrigger};
use aqueduct_device::{
    Device, DeviceOpenOptions, Handle, HandleExt, Kind, MemFs, Operation, Registry, Segment, SyncScope,
};

fn device(plan: FaultPlan) -> FaultDevice {
    FaultDevice::new(Arc::new(MemFs::new()), plan)
}

fn create(device: &dyn Device, rank: usize) -> Arc<dyn Handle> {
    device.open("a".as_ref(), &DeviceOpenOptions::read_write().create(true).rank(rank)).unwrap()
}

/// Which of `count` one-byte writes fail.
fn failures(file: &dyn Handle, count: usize) -> Vec<bool> {
    (0..count).map(|_| file.write_at(0, b"x").is_err()).collect()
}

#[test]
fn the_nth_operation_fails() {
    let file = create(&device(FaultPlan::new(0).fail(Operation::Write, Kind::Busy, FaultTrigger::Nth(3))), 0);
    assert_eq!(failures(&*file, 5), [false, false, true, false, false]);
    let file = create(&device(FaultPlan::new(0).fail(Operation::Write, Kind::Io, FaultTrigger::From(3))), 0);
    assert_eq!(failures(&*file, 5), [false, false, true, true, true]);
}

#[test]
fn errors_have_kind_operation_and_offset() {
    let file = create(&device(FaultPlan::new(0).fail(Operation::Write, Kind::Busy, FaultTrigger::Nth(1))), 0);
    let error = file.write_at(4096, b"abc").unwrap_err();
    assert_eq!((error.kind(), error.operation(), error.offset()), (Kind::Busy, Operation::Write, Some(4096)));
    assert_eq!((error.name(), error.transferred()), ("a", 0));
    assert_eq!(file.len().unwrap(), 0, "a failed write transfers nothing unless it is shortened");
    assert!(error.to_string().contains("fault wrapper"), "{error}");
}

#[test]
fn each_operation_can_fail() {
    let always = FaultTrigger::Chance(1.0);
    for operation in [Operation::Read, Operation::Len, Operation::SetLen, Operation::Sync, Operation::Lock] {
        let file = create(&device(FaultPlan::new(0).fail(operation, Kind::Io, always)), 0);
        let failed = [
            file.read_at(0, &mut [0]).map(drop),
            file.write_at(0, b"x"),
            file.len().map(drop),
            file.set_len(1),
            file.sync(SyncScope::Data),
            file.lock(0..1, aqueduct_device::LockKind::Shared).map(drop),
        ]
        .map(|outcome| outcome.err().map(|error| error.operation()));
        assert_eq!(failed.iter().flatten().collect::<Vec<_>>(), [&operation]);
    }
    let broken = device(FaultPlan::new(0).fail_any(Kind::Io, always));
    assert!(broken.open("a".as_ref(), &DeviceOpenOptions::read_write().create(true)).is_err());
    assert_eq!(broken.delete("a".as_ref()).unwrap_err().operation(), Operation::Delete);
    let file = create(&device(FaultPlan::new(0).fail(Operation::Preallocate, Kind::NoSpace, always)), 0);
    assert_eq!(file.preallocate(1).unwrap_err().kind(), Kind::NoSpace);
}

#[test]
fn only_the_given_rank_is_affected() {
    let plan = FaultPlan::new(0).rank(1).fail_any(Kind::Io, FaultTrigger::From(2));
    let device = device(plan);
    let (first, second) = (create(&device, 0), create(&device, 1));
    assert_eq!(failures(&*first, 3), [false; 3]);
    assert_eq!(failures(&*second, 3), [true; 3]);
}

#[test]
fn faults_of_a_rank_do_not_depend_on_other_ranks() {
    let plan = || FaultPlan::new(11).fail(Operation::Write, Kind::Io, FaultTrigger::Chance(0.5));
    let quiet = device(plan());
    let alone = failures(&*create(&quiet, 1), 64);
    let busy = device(plan());
    let (mine, other) = (create(&busy, 1), create(&busy, 0));
    let beside: Vec<bool> = (0..64).flat_map(|_| (failures(&*other, 3), failures(&*mine, 1)).1).collect();
    assert_eq!(alone, beside);
    assert_ne!(alone, failures(&*create(&device(plan().rank(1)), 1), 65)[1..], "they vary in time");
    let reseeded = FaultPlan::new(12).fail(Operation::Write, Kind::Io, FaultTrigger::Chance(0.5));
    assert_ne!(alone, failures(&*create(&device(reseeded), 1), 64), "and with the seed");
    assert!((16..48).contains(&alone.iter().filter(|&&failed| failed).count()));
}

#[test]
fn short_transfers_have_at_least_one_byte() {
    let file = create(&device(FaultPlan::new(3).short(FaultTrigger::Chance(1.0))), 0);
    for length in 2..200 {
        let bytes = vec![length as u8; length];
        let count = file.write(&[Segment::new(0, &bytes)]).unwrap();
        assert!((1..length as u64).contains(&count), "{count} of {length}");
    }
    assert_eq!(file.write(&[Segment::new(0, b"x")]).unwrap(), 1, "a single byte cannot be short");
    file.write_at(0, b"abcdefgh").unwrap();
    let mut bytes = [0; 8];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), 8);
    assert_eq!(&bytes, b"abcdefgh");
}

#[test]
fn an_error_after_a_short_transfer_counts_it() {
    let plan = FaultPlan::new(3).short(FaultTrigger::Chance(1.0)).fail(
        Operation::Write,
        Kind::Io,
        FaultTrigger::Chance(1.0),
    );
    let file = create(&device(plan), 0);
    let segments = [Segment::new(10, &[1; 50]), Segment::new(1000, &[2; 50])];
    let error = file.write(&segments).unwrap_err();
    let count = error.transferred();
    assert!((1..100).contains(&count));
    let (end, place) = if count <= 50 { (10 + count, 10 + count) } else { (950 + count, 950 + count) };
    assert_eq!(file.len().unwrap(), end, "exactly what was counted is there");
    assert_eq!(error.offset(), Some(if count == 50 { 1000 } else { place }));
}

#[test]
fn the_space_limit_is_exact() {
    let file = create(&device(FaultPlan::new(0).no_space(1000)), 0);
    file.write_at(0, &[1; 600]).unwrap();
    file.write_at(0, &[2; 100]).unwrap();
    assert_eq!(file.preallocate(901).unwrap_err().kind(), Kind::NoSpace);
    file.preallocate(700).unwrap();
    let segments = [Segment::new(600, &[3; 200]), Segment::new(2000, &[4; 200])];
    let error = file.write(&segments).unwrap_err();
    assert_eq!((error.kind(), error.transferred(), error.offset()), (Kind::NoSpace, 300, Some(2100)));
    assert_eq!(file.len().unwrap(), 2100);
    let error = file.write_at(0, b"x").unwrap_err();
    assert_eq!((error.kind(), error.transferred()), (Kind::NoSpace, 0));
    assert_eq!(file.read_at(0, &mut [0; 10]).unwrap(), 10, "reading goes on");
}

#[test]
fn the_space_is_shared_and_unused_space_is_released() {
    let device = device(FaultPlan::new(5).no_space(1000).short(FaultTrigger::Chance(0.5)));
    let (first, second) = (create(&device, 0), create(&device, 1));
    first.write_at(0, &[1; 500]).unwrap();
    second.write_at(500, &[2; 500]).unwrap();
    assert_eq!(first.write_at(0, b"x").unwrap_err().kind(), Kind::NoSpace);
}

#[test]
fn delays_are_slept() {
    let plan = FaultPlan::new(0).delay(Duration::from_millis(5), FaultTrigger::Chance(1.0));
    let file = create(&device(plan), 0);
    let start = Instant::now();
    file.write_at(0, b"x").unwrap();
    file.len().unwrap();
    assert!(start.elapsed() >= Duration::from_millis(10));
}

#[test]
fn by_name() {
    let registry = Registry::standard();
    let create = DeviceOpenOptions::read_write().create(true);
    let file = registry.open("fault=write=busy@#2,nospace=4kB:memfs:a", &create).unwrap();
    assert_eq!(failures(&*file, 3), [false, true, false]);
    assert_eq!(file.write_at(0, &[0; 4096]).unwrap_err().kind(), Kind::NoSpace);
    let again = registry.open("fault=write=busy@#2,nospace=4kB:memfs:a", &create).unwrap();
    assert_eq!(
        again.write_at(0, b"x").unwrap_err().kind(),
        Kind::NoSpace,
        "the same text is the same device"
    );
    let error = registry.open("fault=wrote=1:memfs:a", &create).err().unwrap();
    assert_eq!(error.kind(), Kind::InvalidName);
    assert!(error.to_string().contains("OPERATION is any, open, read"), "{error}");
}
