//! The crash wrapper keeps synced data, and leaves every state of unsynced data that a disk may leave.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::sync::Arc;

use aqueduct_device::layers::{CrashDevice, FaultDevice, FaultPlan, FaultTrigger, TraceDevice};
use aqueduct_device::{
    Device, DeviceOpenOptions, Handle, HandleExt, Kind, LockKind, MappedAccess, MemFs, Operation, Registry,
    SyncScope, Ufs,
};
use aqueduct_testkit::crash;
use aqueduct_testkit::oracle::DeviceOperation;

const SECTOR: usize = 512;

fn name() -> &'static OsStr {
    OsStr::new("a")
}

fn create(device: &dyn Device) -> Arc<dyn Handle> {
    device.open(name(), &DeviceOpenOptions::read_write().create(true)).unwrap()
}

/// The whole file, `None` if there is none.
fn contents(device: &dyn Device) -> Option<Vec<u8>> {
    let file = device.open(name(), &DeviceOpenOptions::read_only()).ok()?;
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

/// A file of four synced sectors of `o`, on a device of which the inner part is given too.
fn synced() -> (Arc<MemFs>, CrashDevice, Arc<dyn Handle>) {
    let inner = Arc::new(MemFs::new());
    let crash = CrashDevice::new(Arc::clone(&inner) as Arc<dyn Device>);
    let file = create(&crash);
    file.write_at(0, &[b'o'; 4 * SECTOR]).unwrap();
    file.sync(SyncScope::Entry).unwrap();
    (inner, crash, file)
}

#[test]
fn the_inner_device_has_only_durable_data() {
    let (inner, crash, file) = synced();
    file.write_at(100, b"new").unwrap();
    file.set_len(5000).unwrap();
    assert_eq!(contents(&*inner).unwrap(), [b'o'; 4 * SECTOR]);
    let seen = contents(&crash).unwrap();
    assert_eq!((seen.len(), &seen[100..103]), (5000, &b"new"[..]));
    file.sync(SyncScope::Data).unwrap();
    assert_eq!(contents(&*inner).unwrap(), seen);
}

#[test]
fn unsynced_changes_outlive_their_handles() {
    let (inner, crash, file) = synced();
    file.write_at(0, b"new").unwrap();
    drop(file);
    assert_eq!(&contents(&crash).unwrap()[..3], b"new");
    assert_eq!(&contents(&*inner).unwrap()[..3], b"ooo");
    let other = crash.open(name(), &DeviceOpenOptions::read_only()).unwrap();
    other.sync(SyncScope::Data).unwrap();
    assert_eq!(&contents(&*inner).unwrap()[..3], b"new", "whoever syncs, syncs everyone's changes");
}

#[test]
fn old_handles_fail_and_new_ones_see_the_surviving_data() {
    let (_, crash, file) = synced();
    let reader = crash.open(name(), &DeviceOpenOptions::read_only()).unwrap();
    crash.cut(0).unwrap();
    let lost = [
        file.read_at(0, &mut [0]).map(drop),
        file.write_at(0, b"x"),
        file.len().map(drop),
        file.set_len(1),
        file.preallocate(1),
        file.sync(SyncScope::Data),
        file.lock(0..1, LockKind::Shared).map(drop),
        reader.len().map(drop),
    ];
    for outcome in lost {
        assert_eq!(outcome.unwrap_err().kind(), Kind::PowerLost);
    }
    assert_eq!(contents(&crash).unwrap(), [b'o'; 4 * SECTOR]);
    let anew = create(&crash);
    drop((file, reader));
    anew.write_at(0, b"n").unwrap();
    assert_eq!(contents(&crash).unwrap()[0], b'n', "writes work again");
}

#[test]
fn sectors_survive_in_every_combination() {
    let (inner, crash, file) = synced();
    file.write_at(0, &[b'n'; 4 * SECTOR]).unwrap();
    let durable = contents(&*inner).unwrap();
    let mut seen = HashSet::new();
    for survivor in crash.crash_images(1).take(500) {
        let image = survivor.file_bytes(name(), &durable).unwrap();
        let whole = |sector: &[u8]| sector.iter().all(|&byte| byte == sector[0]);
        assert!(image.chunks(SECTOR).all(whole), "sectors are not torn");
        seen.insert(image.iter().step_by(SECTOR).copied().collect::<Vec<_>>());
    }
    assert_eq!(seen.len(), 16, "each of four sectors is old or new");
}

#[test]
fn writes_and_lengths_survive_independently() {
    let (inner, crash, file) = synced();
    file.write_at(0, b"1").unwrap();
    file.write_at(4 * SECTOR as u64, &[b'2'; SECTOR]).unwrap();
    file.set_len(6 * SECTOR as u64).unwrap();
    let durable = contents(&*inner).unwrap();
    let images: HashSet<_> = crash
        .crash_images(1)
        .take(500)
        .map(|survivor| survivor.file_bytes(name(), &durable).unwrap())
        .collect();
    let any = |found: &dyn Fn(&Vec<u8>) -> bool| images.iter().any(found);
    assert!(any(&|image| image[0] == b'1' && image.len() == 4 * SECTOR), "the first without the second");
    assert!(
        any(&|image| image[0] == b'o' && image.get(4 * SECTOR) == Some(&b'2')),
        "the second without the first"
    );
    assert!(any(&|image| image.get(4 * SECTOR) == Some(&0)), "the length without the bytes");
    assert!(any(&|image| image.len() == 5 * SECTOR) && any(&|image| image.len() == 6 * SECTOR));
    assert!(any(&|image| *image == durable), "nothing");
    assert!(
        any(&|image| image[0] == b'1' && image.len() == 6 * SECTOR && image[4 * SECTOR] == b'2'),
        "everything"
    );
}

#[test]
fn the_crash_image_equals_the_state_after_a_cut() {
    for seed in 0..50 {
        let (inner, crash, file) = synced();
        file.write_at(300, &[b'n'; 1000]).unwrap();
        file.set_len(700).unwrap();
        file.write_at(1800, &[b'm'; 1000]).unwrap();
        let expected = crash.crash_image(seed).file_bytes(name(), &contents(&*inner).unwrap());
        assert_eq!(crash.crash_image(seed), crash.crash_image(seed));
        crash.cut(seed).unwrap();
        assert_eq!(contents(&crash), expected);
        assert_eq!(contents(&*inner), expected);
    }
}

#[test]
fn a_new_file_may_be_gone_until_its_entry_is_synced() {
    let mut left = HashSet::new();
    for seed in 0..50 {
        let crash = CrashDevice::new(Arc::new(MemFs::new()));
        let file = create(&crash);
        file.write_at(0, b"abc").unwrap();
        file.sync(SyncScope::Data).unwrap();
        crash.cut(seed).unwrap();
        left.insert(contents(&crash));
    }
    assert_eq!(left, HashSet::from([None, Some(b"abc".to_vec())]), "gone, or with all that was synced");
    for seed in 0..50 {
        let (_, crash, file) = synced();
        drop(file);
        crash.cut(seed).unwrap();
        assert!(contents(&crash).is_some());
    }
}

#[test]
fn a_scheduled_power_cut_happens_once() {
    let crash = CrashDevice::new(Arc::new(MemFs::new())).after(2, 3);
    let file = create(&crash);
    file.write_at(0, b"abc").unwrap();
    file.sync(SyncScope::Entry).unwrap();
    let mut bytes = [0; 3];
    file.read_at(0, &mut bytes).unwrap();
    assert_eq!(crash.operations(), 2, "reading does not count");
    assert_eq!(file.write_at(0, b"ABC").unwrap_err().kind(), Kind::PowerLost);
    let file = create(&crash);
    let left = contents(&crash).unwrap();
    assert!(left == b"abc" || left == b"ABC");
    (0..10).for_each(|_| file.write_at(0, b"xyz").unwrap());
}

#[test]
fn deleting_forgets_what_was_not_synced() {
    let (inner, crash, file) = synced();
    file.write_at(0, b"new").unwrap();
    drop(file);
    crash.delete(name()).unwrap();
    assert_eq!((contents(&crash), contents(&*inner)), (None, None));
    let file = create(&crash);
    assert_eq!(file.len().unwrap(), 0);
}

#[test]
fn a_failed_sync_keeps_what_is_pending() {
    let plan = FaultPlan::new(0).fail(Operation::Sync, Kind::Io, FaultTrigger::Nth(1)).fail(
        Operation::Write,
        Kind::Io,
        FaultTrigger::Nth(1),
    );
    let inner: Arc<dyn Device> = Arc::new(FaultDevice::new(Arc::new(MemFs::new()), plan));
    let crash = CrashDevice::new(Arc::clone(&inner));
    let file = create(&crash);
    file.write_at(0, b"abc").unwrap();
    assert_eq!(file.sync(SyncScope::Entry).unwrap_err().operation(), Operation::Write);
    assert_eq!(file.sync(SyncScope::Entry).unwrap_err().operation(), Operation::Sync);
    assert_eq!(contents(&crash).unwrap(), b"abc");
    file.sync(SyncScope::Entry).unwrap();
    crash.cut(0).unwrap();
    assert_eq!(contents(&crash).unwrap(), b"abc");
}

#[test]
fn stores_past_the_end_of_a_truncated_file_have_no_effect() {
    let folder = tempfile::tempdir().unwrap();
    let crash = CrashDevice::new(Arc::new(Ufs));
    let path = folder.path().join("a");
    let file = crash.open(path.as_os_str(), &DeviceOpenOptions::read_write().create(true)).unwrap();
    file.write_at(0, &[7; 10_000]).unwrap();
    let mapping = file.map(0..10_000).expect("the file system of temporary files can be mapped");
    file.set_len(100).unwrap();
    let access = MappedAccess { range: 5000..6000, bytes: 1000, write: true };
    let stored = file.access_mapped(&access, &mut || mapping.access(&access.range, true, |_| {}));
    assert!(!stored.unwrap(), "the access has to be done by calls");
    assert_eq!(file.len().unwrap(), 100);
}

#[test]
fn a_file_that_cannot_be_mapped_is_not_copied() {
    let trace = Arc::new(TraceDevice::new(Arc::new(MemFs::new())));
    let crash = CrashDevice::new(Arc::clone(&trace) as Arc<dyn Device>);
    let file = create(&crash);
    file.write_at(0, &[7; 10_000]).unwrap();
    file.sync(SyncScope::Data).unwrap();
    assert!(!file.capabilities().maps && file.map(0..10_000).is_none());
    assert!(trace.events().iter().all(|event| event.operation != Operation::Read));
}

#[test]
fn by_name() {
    let registry = Registry::standard();
    let (name, create) = ("crash=after=1,seed=3:memfs:a", DeviceOpenOptions::read_write().create(true));
    let file = registry.open(name, &create).unwrap();
    file.write_at(0, b"abc").unwrap();
    assert_eq!(file.sync(SyncScope::Data).unwrap_err().kind(), Kind::PowerLost);
    registry.open(name, &create).unwrap().sync(SyncScope::Entry).unwrap();
    for bad in
        ["crash=after:memfs:a", "crash=after=-1:memfs:a", "crash=when=3:memfs:a", "crash=seed=x:memfs:a"]
    {
        let error = registry.open(bad, &create).err().expect(bad);
        assert_eq!(error.kind(), Kind::InvalidName);
        assert!(error.to_string().contains("crash=after=N,seed=N"), "{error}");
    }
}

/// Write, sync, write more, cut and extend: the power is cut in every one of these operations, with many seeds.
#[test]
fn power_cuts_in_every_operation_of_a_fixed_sequence() {
    let write = |salt, extents: &[(u64, usize)]| DeviceOperation::Write { salt, extents: extents.to_vec() };
    let story = [
        write(1, &[(0, 3000)]),
        write(2, &[(100, 10), (1024, 512), (2500, 2000)]),
        DeviceOperation::Sync(SyncScope::Data),
        write(3, &[(0, 100), (4000, 1000)]),
        DeviceOperation::Sync(SyncScope::Entry),
        DeviceOperation::SetLen(700),
        write(4, &[(650, 30), (2000, 600)]),
        DeviceOperation::SetLen(2300),
        DeviceOperation::Preallocate(6000),
        write(5, &[(0, 6000)]),
        DeviceOperation::Sync(SyncScope::Data),
        DeviceOperation::SetLen(1300),
        DeviceOperation::SetLen(5000),
        DeviceOperation::Sync(SyncScope::Data),
        write(6, &[(511, 2)]),
    ];
    crash::cut_everywhere(name(), &story, 60, &|| Arc::new(MemFs::new())).unwrap();
}

#[test]
fn power_cuts_in_every_operation_of_random_sequences() {
    crash::check("crash over memfs", 60, name(), || Arc::new(MemFs::new()));
    let short = || FaultPlan::new(1).short(FaultTrigger::Chance(0.3));
    crash::check("crash over fault", 20, name(), move || {
        Arc::new(FaultDevice::new(Arc::new(MemFs::new()), short()))
    });
}

#[test]
fn power_cuts_in_every_operation_on_files() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let fresh = path.clone();
    crash::check("crash over ufs", 10, path.as_os_str(), move || {
        std::fs::remove_file(&fresh).ok();
        Arc::new(Ufs)
    });
}
