//! Layers keep the strategy of what they observe: mapped access goes through them, is traced, faulted and lost in a crash.

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_device::layers::CrashDevice;
use aqueduct_device::{DeviceOpenOptions, HandleExt, Ufs, register_device};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Counters, Error, File, Kind, Mode, OpenOptions, Result, View};

const BYTES: usize = 64 << 10;

/// A file of which each rank sees pieces of 64 bytes in turns; there is always one more rank than there are.
fn open(world: &Comm, name: &str) -> Result<File> {
    let mode = Mode::read_write().create();
    let file = OpenOptions::from(mode).hint("aqueduct_strategy", "map").open(world, name)?;
    let piece = Layout::from(Basic::Byte).contiguous(64).unwrap();
    let turns = piece.resized(0, 64 * (world.size() as i64 + 1)).unwrap();
    file.set_view(&View::new(64 * world.rank() as u64, &Basic::Byte.into(), &turns)?)?;
    Ok(file)
}

fn path(folder: &Path, name: &str) -> String {
    format!("ufs:{}", folder.join(name).display())
}

fn counted(file: &File, value: u8) -> Result<Counters> {
    let before = file.counters();
    file.at(0).write(&vec![value; BYTES])?;
    Ok(file.counters() - before)
}

#[test]
fn strategies_are_those_without_the_layer() {
    let folder = tempfile::tempdir().unwrap();
    let copied = |layer: &str| {
        let name = format!("{layer}{}", path(folder.path(), "a"));
        let outcome = Launch::threads(2).run(|world| {
            let file = open(world, &name)?;
            file.set_size(3 * BYTES as u64)?;
            counted(&file, 1)?;
            let done = counted(&file, 2)?;
            file.close()?;
            Ok::<_, Error>((done.copied, done.system_calls < 20))
        });
        outcome.unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let without = copied("");
    for layer in ["trace=/dev/null:", "fault=write=io@#999:", "crash:", "throttle=10GB/s:"] {
        assert_eq!(copied(layer), without, "{layer}");
    }
}

#[test]
fn mapped_access_is_traced() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("operations.csv");
    let name = format!("trace={}:{}", trace.display(), path(folder.path(), "a"));
    let outcome = Launch::threads(1).run(|world| {
        let file = open(world, &name)?;
        counted(&file, 1)?;
        file.at(0).read(&mut vec![0u8; BYTES])?;
        file.close()
    });
    outcome.unwrap();
    let text = std::fs::read_to_string(trace).unwrap();
    for operation in ["Write", "Read"] {
        let line = text.lines().find(|line| line.contains(operation) && line.ends_with("\"mapped\""));
        assert!(line.is_some_and(|line| line.contains(&format!(",{BYTES},"))), "{operation}: {text}");
    }
    assert!(text.contains(",Close,"), "{text}");
}

#[test]
fn mapped_access_fails_as_planned() {
    let folder = tempfile::tempdir().unwrap();
    let plans =
        [("write=io@#3", Kind::Io), ("nospace=150kB", Kind::NoSpace), ("write=quota@#2", Kind::Quota)];
    for (plan, kind) in plans {
        let name = format!("fault={plan}:{}", path(folder.path(), plan));
        let outcome = Launch::threads(1).run(|world| {
            let file = open(world, &name)?;
            let failed = (0..4).find_map(|step| counted(&file, step).err());
            file.close()?;
            Ok::<_, Error>(failed.map(|error| error.kind()))
        });
        let failed = outcome.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(failed, [Some(kind)], "{plan}");
    }
}

/// Of what was stored through a mapping and not synced, each sector is old or new after a power cut, and both happens.
#[test]
fn mapped_stores_are_lost_in_a_crash_unless_synced() {
    let folder = tempfile::tempdir().unwrap();
    let crash = Arc::new(CrashDevice::new(Arc::new(Ufs)));
    register_device("power", Arc::clone(&crash) as Arc<dyn aqueduct_device::Device>).unwrap();
    let path = folder.path().join("a");
    let name = format!("power:{}", path.display());
    let (mut lost, mut kept) = (0, 0);
    for seed in 0..12 {
        let outcome = Launch::threads(1).run(|world| {
            let file = open(world, &name)?;
            assert_eq!(counted(&file, 1)?.copied, BYTES as u64, "it is mapped");
            file.sync()?;
            counted(&file, 2)?;
            let mut back = vec![0u8; BYTES];
            file.at(0).read(&mut back)?;
            assert!(back.iter().all(|byte| *byte == 2));
            let mut durable = [0; 64];
            std::fs::File::open(&path).unwrap().read_exact_at(&mut durable, 1280).unwrap();
            assert_eq!(durable, [1; 64], "the device inside has only what is durable");
            crash.cut(seed).unwrap();
            assert_eq!(counted(&file, 3).unwrap_err().kind(), Kind::Io);
            let _ = file.close();
            Ok::<_, Error>(())
        });
        outcome.unwrap();
        let left = aqueduct_device::open(&name, &DeviceOpenOptions::read_only()).unwrap();
        let mut bytes = vec![0; 2 * BYTES - 64];
        left.read_at(0, &mut bytes).unwrap();
        for sector in bytes.chunks(512) {
            let pieces: Vec<u8> = sector.chunks(128).map(|piece| piece[0]).collect();
            assert!(pieces.iter().all(|value| *value == pieces[0]), "a sector is whole: {pieces:?}");
            match pieces[0] {
                1 => lost += 1,
                2 => kept += 1,
                other => panic!("{other}"),
            }
        }
    }
    assert!(lost > 0 && kept > 0, "{lost} {kept}");
}
