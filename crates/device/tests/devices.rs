//! Every device through the conformance suite and against the byte oracle.

use std::sync::Arc;

use aqueduct_device::{MemFs, NodeMemFs, Ufs, Uring};
use aqueduct_testkit::device::{DeviceUnderTest, conformance};
use aqueduct_testkit::oracle;

#[path = "../examples/own_device.rs"]
#[expect(dead_code, reason = "its main function is that of the example")]
mod own_device;

/// The folder of the build: the temporary folder may be on tmpfs, which has no `O_DIRECT`.
fn on_disk(title: &str, device: Arc<dyn aqueduct_device::Device>) -> DeviceUnderTest {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    DeviceUnderTest::new(title, device, move |number| folder.path().join(number.to_string()).into())
}

fn by_number(title: &str, device: Arc<dyn aqueduct_device::Device>) -> DeviceUnderTest {
    DeviceUnderTest::new(title, device, |number| format!("file{number}").into())
}

fn check(subject: &DeviceUnderTest) {
    conformance(subject);
    oracle::check(subject, 64);
}

#[test]
fn memfs() {
    check(&by_number("memfs", Arc::new(MemFs::new())));
}

#[test]
fn memfs_of_a_node() {
    let parent = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let memory = NodeMemFs::in_folder(parent.path().join("files"), Some(1 << 30));
    check(&by_number("memfs of a node", Arc::new(memory)));
}

#[test]
fn ufs() {
    check(&on_disk("ufs", Arc::new(Ufs)));
}

#[test]
fn ufs_direct() {
    check(&on_disk("ufs direct", Arc::new(Ufs)).direct());
}

#[test]
fn uring() {
    check(&on_disk("uring", Arc::new(Uring::new())));
}

#[test]
fn uring_direct() {
    check(&on_disk("uring direct", Arc::new(Uring::new())).direct());
}

#[test]
fn uring_refused() {
    check(&on_disk("uring refused", Arc::new(Uring::refused())));
}

#[test]
fn a_custom_device() {
    let folder = tempfile::tempdir().unwrap();
    check(&by_number("scratch", Arc::new(own_device::Scratch(folder.path().into()))));
}
