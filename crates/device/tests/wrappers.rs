//! Every wrapper, alone and stacked, over memory and over files, keeps the contract and agrees with the byte oracle.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use aqueduct_device::layers::{
    CrashDevice, FaultDevice, FaultPlan, FaultTrigger, ThrottleDevice, ThrottleLimits, TraceDevice,
};
use aqueduct_device::units::ByteRate;
use aqueduct_device::{Device, Kind, MemFs, Operation, Registry, Ufs, Uring};
use aqueduct_testkit::device::{DeviceUnderTest, conformance};
use aqueduct_testkit::oracle;

type Wrap = fn(Arc<dyn Device>) -> Arc<dyn Device>;

fn memfs(title: &str, wrap: Wrap) -> DeviceUnderTest {
    let name = |number| OsString::from(format!("file{number}"));
    DeviceUnderTest::new(format!("{title} over memfs"), wrap(Arc::new(MemFs::new())), name)
}

fn ufs(title: &str, wrap: Wrap) -> DeviceUnderTest {
    DeviceUnderTest::in_folder(format!("{title} over ufs"), wrap(Arc::new(Ufs)))
}

/// The whole suite and a round of the oracle, over memory and over files.
fn check_wrapper(title: &str, wrap: Wrap) {
    for subject in [memfs(title, wrap), ufs(title, wrap)] {
        conformance(&subject);
        oracle::check(&subject, 40);
    }
}

fn harmless_fault(inner: Arc<dyn Device>) -> Arc<dyn Device> {
    Arc::new(FaultDevice::new(inner, FaultPlan::new(1)))
}

fn short_fault(inner: Arc<dyn Device>) -> Arc<dyn Device> {
    Arc::new(FaultDevice::new(inner, FaultPlan::new(2).short(FaultTrigger::Chance(0.3))))
}

fn delayed(inner: Arc<dyn Device>) -> Arc<dyn Device> {
    let plan = FaultPlan::new(3).delay(Duration::from_micros(200), FaultTrigger::Chance(0.1));
    Arc::new(FaultDevice::new(inner, plan))
}

fn throttled(inner: Arc<dyn Device>) -> Arc<dyn Device> {
    let limits = ThrottleLimits { bandwidth: Some(ByteRate(2_000_000_000)), ..ThrottleLimits::default() };
    Arc::new(ThrottleDevice::new(inner, limits))
}

fn traced(inner: Arc<dyn Device>) -> Arc<dyn Device> {
    Arc::new(TraceDevice::new(inner))
}

fn crashing(inner: Arc<dyn Device>) -> Arc<dyn Device> {
    Arc::new(CrashDevice::new(inner))
}

fn failing(inner: Arc<dyn Device>) -> Arc<dyn Device> {
    let plan = FaultPlan::new(4)
        .fail(Operation::Write, Kind::Io, FaultTrigger::Chance(0.2))
        .fail(Operation::SetLen, Kind::Io, FaultTrigger::Chance(0.2))
        .fail(Operation::Preallocate, Kind::NoSpace, FaultTrigger::Chance(0.2))
        .fail_any(Kind::Busy, FaultTrigger::Chance(0.05))
        .short(FaultTrigger::Chance(0.4));
    Arc::new(FaultDevice::new(inner, plan))
}

#[test]
fn fault() {
    check_wrapper("fault without faults", harmless_fault);
    check_wrapper("fault with short transfers", short_fault);
    check_wrapper("fault with delays", delayed);
}

#[test]
fn throttle() {
    check_wrapper("throttle", throttled);
}

#[test]
fn trace() {
    check_wrapper("trace", traced);
}

#[test]
fn crash() {
    check_wrapper("crash", crashing);
}

#[test]
fn stacks() {
    check_wrapper("throttle over fault", |inner| throttled(short_fault(inner)));
    check_wrapper("fault over crash over trace", |inner| short_fault(crashing(traced(inner))));
    check_wrapper("crash over throttle over fault", |inner| crashing(throttled(short_fault(inner))));
    check_wrapper("crash over crash", |inner| crashing(crashing(inner)));
    conformance(&DeviceUnderTest::in_folder("crash over uring", crashing(Arc::new(Uring::new()))));
}

#[test]
fn failures_affect_only_the_reported_bytes() {
    for wrap in [failing, |inner| failing(crashing(inner)), |inner| traced(failing(inner))] {
        oracle::check(&memfs("fault with errors", wrap), 60);
        oracle::check(&ufs("fault with errors", wrap), 60);
    }
}

#[test]
fn wrappers_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv").display().to_string();
    for name in [
        format!("trace={trace}:throttle=2GB/s:fault=seed=5,short=0.3:memfs:x"),
        format!("crash=seed=1:fault=short=0.2:{}/x", folder.path().display()),
    ] {
        let (device, path) = Registry::standard().resolve(&name).unwrap();
        let stem = path.into_string().unwrap();
        conformance(&DeviceUnderTest::new(name, device, move |number| format!("{stem}{number}").into()));
    }
    assert!(std::fs::read_to_string(trace).unwrap().lines().count() > 1000);
}
