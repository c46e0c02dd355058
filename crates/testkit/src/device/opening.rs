//! Opening and deleting: the options and their errors.

use std::ffi::OsStr;

use aqueduct_device::{DeviceOpenOptions, HandleExt, Kind, Operation, Result};

use super::{Case, DeviceUnderTest, contents};

pub(super) const CASES: &[Case] = &[
    ("a missing file is not found", missing),
    ("creating", creating),
    ("creating exclusively", exclusive),
    ("truncating", truncating),
    ("a file opened to be read cannot be written", read_only),
    ("a file opened to be written cannot be read", write_only),
    ("modes that contradict themselves are refused", contradictions),
    ("invalid names are rejected", bad_names),
    ("bytes stay when a file is closed", reopened),
    ("closing", closing),
    ("deleting", deleting),
    ("deleting an open file", deleting_open),
];

fn kind<T>(outcome: Result<T>) -> Option<Kind> {
    outcome.err().map(|error| error.kind())
}

/// Only the last reference closes a file; what was written stays.
fn closing(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(b"abc");
    let (other, second) =
        (subject.open(&name, &DeviceOpenOptions::read_only()).unwrap(), std::sync::Arc::clone(&file));
    file.close().unwrap();
    second.write_at(3, b"def").unwrap();
    second.close().unwrap();
    assert_eq!(contents(&*other), b"abcdef", "other handles stay open");
    other.close().unwrap();
    assert_eq!(contents(&*subject.open(&name, &DeviceOpenOptions::read_only()).unwrap()), b"abcdef");
}

fn missing(subject: &DeviceUnderTest) {
    let name = subject.fresh();
    for options in
        [DeviceOpenOptions::read_only(), DeviceOpenOptions::read_write(), DeviceOpenOptions::write_only()]
    {
        let error = subject.open(&name, &options).err().expect("a missing file cannot be opened");
        assert_eq!((error.kind(), error.operation()), (Kind::NotFound, Operation::Open));
        assert!(!error.name().is_empty(), "the error names the file");
    }
    let exclusive_alone = DeviceOpenOptions::read_write().exclusive(true).truncate(true);
    assert_eq!(kind(subject.open(&name, &exclusive_alone)), Some(Kind::NotFound));
}

fn creating(subject: &DeviceUnderTest) {
    let name = subject.fresh();
    let create = DeviceOpenOptions::read_write().create(true);
    subject.open(&name, &create).unwrap().write_at(0, b"abc").unwrap();
    let again = subject.open(&name, &create).unwrap();
    assert_eq!(contents(&*again), b"abc", "what is there is not created anew");
}

fn exclusive(subject: &DeviceUnderTest) {
    let name = subject.fresh();
    let exclusive = DeviceOpenOptions::read_write().create(true).exclusive(true);
    let first = subject.open(&name, &exclusive).unwrap();
    assert_eq!(kind(subject.open(&name, &exclusive)), Some(Kind::AlreadyExists));
    drop(first);
    assert_eq!(kind(subject.open(&name, &exclusive)), Some(Kind::AlreadyExists));
}

fn truncating(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(b"abcdef");
    let cut = subject.open(&name, &DeviceOpenOptions::write_only().truncate(true)).unwrap();
    assert_eq!((cut.len().unwrap(), file.len().unwrap()), (0, 0), "also for handles there were");
    cut.write_at(2, b"x").unwrap();
    assert_eq!(contents(&*file), b"\0\0x");
}

fn read_only(subject: &DeviceUnderTest) {
    let (name, _) = subject.create_with(b"abc");
    let file = subject.open(&name, &DeviceOpenOptions::read_only()).unwrap();
    assert_eq!(kind(file.write_at(0, b"x")), Some(Kind::PermissionDenied));
    assert_eq!(kind(file.set_len(1)), Some(Kind::PermissionDenied));
    assert_eq!(kind(file.preallocate(100)), Some(Kind::PermissionDenied));
    assert_eq!(contents(&*file), b"abc");
}

fn write_only(subject: &DeviceUnderTest) {
    let (name, reader) = subject.create_with(b"abc");
    let file = subject.open(&name, &DeviceOpenOptions::write_only()).unwrap();
    assert_eq!(kind(file.read_at(0, &mut [0; 3])), Some(Kind::PermissionDenied));
    file.write_at(1, b"B").unwrap();
    file.set_len(2).unwrap();
    assert_eq!(file.len().unwrap(), 2);
    assert_eq!(contents(&*reader), b"aB");
}

fn contradictions(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(b"abc");
    for options in
        [DeviceOpenOptions::read_only().create(true), DeviceOpenOptions::read_only().truncate(true)]
    {
        assert_eq!(kind(subject.open(&name, &options)), Some(Kind::InvalidArgument));
    }
    assert_eq!(contents(&*file), b"abc");
}

fn bad_names(subject: &DeviceUnderTest) {
    let create = DeviceOpenOptions::read_write().create(true);
    for text in ["", "a\0b"] {
        let name = OsStr::new(text);
        assert_eq!(kind(subject.open(name, &create)), Some(Kind::InvalidName), "{text:?}");
        assert_eq!(kind(subject.device().delete(name)), Some(Kind::InvalidName), "{text:?}");
    }
}

fn reopened(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(b"abc");
    drop(file);
    let file = subject.open(&name, &DeviceOpenOptions::read_write()).unwrap();
    assert_eq!(contents(&*file), b"abc");
    file.write_at(3, b"def").unwrap();
    drop(file);
    let file = subject.open(&name, &DeviceOpenOptions::read_only()).unwrap();
    assert_eq!(contents(&*file), b"abcdef");
}

fn deleting(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(b"abc");
    drop(file);
    subject.device().delete(&name).unwrap();
    let error = subject.device().delete(&name).expect_err("what is gone cannot be deleted");
    assert_eq!((error.kind(), error.operation()), (Kind::NotFound, Operation::Delete));
    assert_eq!(kind(subject.open(&name, &DeviceOpenOptions::read_only())), Some(Kind::NotFound));
    let anew = subject.open(&name, &DeviceOpenOptions::read_write().create(true).exclusive(true)).unwrap();
    assert_eq!(anew.len().unwrap(), 0, "a file of the same name has nothing of the old one");
}

/// A device either refuses, and nothing happens, or lets the name go, and open handles keep their bytes.
fn deleting_open(subject: &DeviceUnderTest) {
    let (name, file) = subject.create_with(b"abc");
    if let Err(error) = subject.device().delete(&name) {
        assert_eq!(error.kind(), Kind::Busy);
        let other = subject.open(&name, &DeviceOpenOptions::read_only()).unwrap();
        assert_eq!(contents(&*other), b"abc");
    } else {
        assert_eq!(kind(subject.open(&name, &DeviceOpenOptions::read_only())), Some(Kind::NotFound));
        let anew = subject.open(&name, &DeviceOpenOptions::read_write().create(true)).unwrap();
        assert_eq!(anew.len().unwrap(), 0);
    }
    file.write_at(3, b"d").unwrap();
    assert_eq!(contents(&*file), b"abcd");
}
