//! Strips against lists of their runs: the same bytes, counts, errors and accounts, on memory that ends and below each layer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use aqueduct_device::layers::{
    CrashDevice, FaultDevice, FaultPlan, FaultTrigger, ThrottleDevice, ThrottleLimits, TraceDevice,
};
use aqueduct_device::units::ByteRate;
use aqueduct_device::{
    Device, DeviceOpenOptions, Handle, HandleExt, Kind, MemFs, Operation, Result, Strip, strip,
};
use proptest::prelude::*;

fn create(device: &dyn Device) -> Arc<dyn Handle> {
    device.open("a".as_ref(), &DeviceOpenOptions::read_write().create(true)).unwrap()
}

/// What a transfer says.
fn outcome(result: Result<u64>) -> (Option<Kind>, u64, Option<u64>) {
    match result {
        Ok(count) => (None, count, None),
        Err(error) => (Some(error.kind()), error.transferred(), error.offset()),
    }
}

fn contents(file: &dyn Handle) -> Vec<u8> {
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    bytes
}

fn write_list(file: &dyn Handle, strips: &[Strip], bytes: &[u8]) -> Result<u64> {
    file.write(&strip::segments(strips, bytes).collect::<Vec<_>>())
}

fn read_list(file: &dyn Handle, strips: &[Strip], bytes: &mut [u8]) -> Result<u64> {
    file.read(&mut strip::segments_mut(strips, bytes).collect::<Vec<_>>())
}

fn strips() -> impl Strategy<Value = Vec<Strip>> {
    let lengths = prop_oneof![0_u64..5, Just(8), Just(16), 1_u64..400, Just(70_000)];
    let one = (0_i64..200_000, lengths, -300_i64..1000, 0_u64..60, 0_i64..3);
    let one = one.prop_map(|(offset, len, stride, count, longer)| {
        let stride = stride + longer * len as i64;
        let offset = offset + (-stride).max(0) * count as i64;
        Strip { offset, len, stride, count: if len > 1000 { count % 3 } else { count } }
    });
    proptest::collection::vec(one, 0..6)
}

fn bytes_of(strips: &[Strip]) -> Vec<u8> {
    (0..strip::total(strips)).map(|at| (at % 251) as u8 + 1).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn memory_that_ends(
        strips in strips(),
        capacity in prop_oneof![0_u64..20_000, Just(1 << 30)],
        all in any::<bool>(),
        len in 0_u64..300_000,
    ) {
        let memory = || if all { MemFs::with_memory_limit(capacity + 5000) } else { MemFs::with_capacity(capacity) };
        let (one, other, bytes) = (memory(), memory(), bytes_of(&strips));
        let (first, second) = (create(&one), create(&other));
        prop_assert_eq!(outcome(first.write_strips(&strips, &bytes)), outcome(write_list(&*second, &strips, &bytes)));
        prop_assert_eq!(one.used(), other.used());
        prop_assert!(contents(&*first) == contents(&*second));
        first.set_len(len).unwrap();
        let (mut a, mut b) = (vec![7; bytes.len()], vec![7; bytes.len()]);
        let count = first.read_strips(&strips, &mut a).unwrap();
        second.set_len(len).unwrap();
        prop_assert_eq!(count, read_list(&*second, &strips, &mut b).unwrap());
        prop_assert!(a[..count as usize] == b[..count as usize]);
    }

    #[test]
    fn faults_strike_strips_as_they_strike_lists(
        strips in strips(),
        seed in 0_u64..1000,
        space in prop_oneof![Just(u64::MAX), 0_u64..2000],
    ) {
        let half = FaultTrigger::Chance(0.5);
        let plan = || {
            let plan = FaultPlan::new(seed).short(half).fail(Operation::Write, Kind::Busy, FaultTrigger::Chance(0.3));
            let plan = plan.fail(Operation::Read, Kind::Io, FaultTrigger::Chance(0.3));
            if space == u64::MAX { plan } else { plan.no_space(space) }
        };
        let device = || FaultDevice::new(Arc::new(MemFs::new()), plan());
        let (first, second, bytes) = (create(&device()), create(&device()), bytes_of(&strips));
        for _ in 0..4 {
            let (one, other) = (first.write_strips(&strips, &bytes), write_list(&*second, &strips, &bytes));
            prop_assert_eq!(outcome(one), outcome(other));
            let (mut a, mut b) = (vec![7; bytes.len()], vec![7; bytes.len()]);
            let (one, other) = (first.read_strips(&strips, &mut a), read_list(&*second, &strips, &mut b));
            prop_assert_eq!(outcome(one), outcome(other));
        }
    }
}

#[test]
fn a_strip_is_one_operation_of_a_trace() {
    let trace = TraceDevice::new(Arc::new(MemFs::new()));
    let file = create(&trace);
    let strips = [Strip::run(90, 0), Strip { offset: 100, len: 4, stride: 8, count: 5000 }, Strip::run(3, 2)];
    let bytes = bytes_of(&strips);
    file.write_strips(&strips, &bytes).unwrap();
    file.read_strips(&strips, &mut vec![0; bytes.len()]).unwrap();
    let events: Vec<_> = trace
        .take_events()
        .iter()
        .map(|event| (event.operation, event.offset, event.length, event.segments, event.outcome))
        .collect();
    let of = |operation| (operation, Some(100), 20_002, 5002, Ok(20_002));
    assert_eq!(events[1..], [of(Operation::Write), of(Operation::Read)]);
}

#[test]
fn a_power_cut_takes_a_strip_as_one_operation() {
    let crash = CrashDevice::new(Arc::new(MemFs::new()));
    let (file, strip) = (create(&crash), Strip { offset: 0, len: 4, stride: 8, count: 3000 });
    let before = crash.operations();
    file.write_strips(&[strip], &bytes_of(&[strip])).unwrap();
    assert_eq!(crash.operations(), before + 1);
    let cut = CrashDevice::new(Arc::new(MemFs::new())).after(0, 3);
    let error = create(&cut).write_strips(&[strip], &bytes_of(&[strip])).unwrap_err();
    assert_eq!(error.kind(), Kind::PowerLost);
}

#[test]
fn a_throttle_counts_the_bytes_and_one_latency() {
    let limits = ThrottleLimits {
        bandwidth: Some(ByteRate(10_000_000)),
        latency: Duration::from_millis(20),
        per_handle: false,
    };
    let throttle = ThrottleDevice::new(Arc::new(MemFs::new()), limits);
    let (file, strip) = (create(&throttle), Strip { offset: 0, len: 4, stride: 8, count: 100_000 });
    let start = Instant::now();
    file.write_strips(&[strip], &bytes_of(&[strip])).unwrap();
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(55), "40 ms for the bytes and 20 ms, less the credit: {took:?}");
    assert!(took < Duration::from_secs(2), "not a latency for each list: {took:?}");
}
