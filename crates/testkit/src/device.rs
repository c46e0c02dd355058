//! The conformance suite for devices: every line of the contract of [`Handle`], once, for every device and every wrapper.
//!
//! A custom device is tested like this:
//!
//! ```
//! use std::sync::Arc;
//! use aqueduct_device::MemFs;
//! use aqueduct_testkit::device::{DeviceUnderTest, conformance};
//!
//! let subject = DeviceUnderTest::new("memfs", Arc::new(MemFs::new()), |number| format!("file{number}").into());
//! conformance(&subject);
//! ```

mod length;
mod opening;
mod segment_lists;
mod sharing;
mod strips;

use std::any::Any;
use std::ffi::{OsStr, OsString};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aqueduct_device::{Device, DeviceOpenOptions, Handle, HandleExt, Result};

/// A device under test, and names of files that it can make.
pub struct DeviceUnderTest {
    title: String,
    device: Arc<dyn Device>,
    names: Box<dyn Fn(usize) -> OsString + Send + Sync>,
    next: AtomicUsize,
    direct: bool,
}

impl DeviceUnderTest {
    /// A device under a title for messages; `names` gives a name that no file has yet for each number.
    pub fn new(
        title: impl Into<String>,
        device: Arc<dyn Device>,
        names: impl Fn(usize) -> OsString + Send + Sync + 'static,
    ) -> Self {
        Self { title: title.into(), device, names: Box::new(names), next: AtomicUsize::new(0), direct: false }
    }

    /// A device whose names are paths of the operating system: files are made in a temporary folder that goes with the subject.
    pub fn in_folder(title: impl Into<String>, device: Arc<dyn Device>) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        Self::new(title, device, move |number| folder.path().join(format!("file{number}")).into())
    }

    /// Opens all files with [`DeviceOpenOptions::direct`].
    #[must_use]
    pub fn direct(mut self) -> Self {
        self.direct = true;
        self
    }

    /// What messages call it.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// A name that no file has yet.
    pub fn fresh(&self) -> OsString {
        (self.names)(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Opens a file of the device.
    pub fn open(&self, name: &OsStr, options: &DeviceOpenOptions) -> Result<Arc<dyn Handle>> {
        self.device.open(name, &options.clone().direct(self.direct))
    }

    /// Makes a new file, to be read and written.
    pub fn create(&self) -> (OsString, Arc<dyn Handle>) {
        let name = self.fresh();
        let options = DeviceOpenOptions::read_write().create(true).exclusive(true);
        let file = self.open(&name, &options).unwrap_or_else(|error| panic!("a new file: {error}"));
        (name, file)
    }

    /// Makes a new file with these bytes.
    pub fn create_with(&self, bytes: &[u8]) -> (OsString, Arc<dyn Handle>) {
        let (name, file) = self.create();
        file.write_at(0, bytes).unwrap();
        (name, file)
    }
}

/// One case of the suite.
type Case = (&'static str, fn(&DeviceUnderTest));

/// Runs all cases against the subject; panics with the names of those that failed and why.
///
/// Every case makes files of its own. Which of them ask for more than the subject has is decided by its
/// [`Capabilities`](aqueduct_device::Capabilities) alone. The subject may transfer less than asked for, slowly, as a device may; it must not fail at random.
pub fn conformance(subject: &DeviceUnderTest) {
    let cases = [segment_lists::CASES, strips::CASES, length::CASES, opening::CASES, sharing::CASES].concat();
    let failures: Vec<String> = cases.iter().filter_map(|case| failure(subject, *case)).collect();
    assert!(
        failures.is_empty(),
        "{} of {} cases failed:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

/// Runs a case; what it said if it failed.
fn failure(subject: &DeviceUnderTest, (name, case): Case) -> Option<String> {
    let panic = catch_unwind(AssertUnwindSafe(|| case(subject))).err()?;
    Some(format!("device {:?}, case {name:?}: {}", subject.title, message(&*panic)))
}

fn message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
}

/// The whole file.
fn contents(file: &dyn Handle) -> Vec<u8> {
    let mut bytes = vec![0xEE; file.len().unwrap() as usize];
    let count = file.read_at(0, &mut bytes).unwrap();
    assert_eq!(count, bytes.len() as u64, "a file can be read up to its length");
    bytes
}
