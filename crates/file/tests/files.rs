//! Opening, closing, sizes, modes and hints, and what is refused.

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Class, Error, File, Info, Kind, Mode, OpenOptions, Result, View, Whence, delete};

fn on(ranks: usize, program: impl Fn(&Comm) -> Result<()> + Sync) {
    Launch::threads(ranks).run(program).unwrap();
}

fn scratch() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true).delete_on_close(true)
}

#[test]
fn open_fails_with_the_same_error_on_all_ranks() {
    on(3, |world| {
        let missing = File::open(world, "memfs:nothing").unwrap_err();
        assert_eq!((missing.kind(), missing.class()), (Kind::NoSuchFile, Class::NoSuchFile));
        assert_eq!(missing.rank(), None, "every rank has met it itself");
        let unknown = scratch().open(world, "floppy:a").unwrap_err();
        assert_eq!(unknown.class(), Class::BadFile);
        let mode = if world.rank() == 2 { Mode::write_only() } else { Mode::read_write() };
        let different = OpenOptions::from(mode.create()).open(world, "memfs:modes-differ").unwrap_err();
        assert_eq!(different.kind(), Kind::NotSame, "{different}");
        let name = format!("memfs:name-{}", world.rank());
        assert_eq!(scratch().open(world, name).unwrap_err().class(), Class::NotSame);
        let hints = scratch().hint("cb_nodes", (world.rank() + 1).to_string());
        let file = hints.open(world, "memfs:hints-differ")?;
        assert_eq!(file.info().get("cb_nodes"), Some("1"), "those of rank 0 hold");
        file.close()
    });
}

#[test]
fn modes_that_contradict_themselves_are_refused() {
    on(2, |world| {
        for mode in [Mode::read_only().create(), Mode::read_write().sequential()] {
            assert_eq!(
                OpenOptions::from(mode).open(world, "memfs:contradiction").unwrap_err().class(),
                Class::Amode
            );
        }
        Ok(())
    });
}

#[test]
fn options_that_contradict_one_another_are_refused() {
    on(2, |world| {
        let refused = [
            OpenOptions::new(),
            OpenOptions::new().read(true).create(true),
            OpenOptions::new().read(true).truncate(true),
            OpenOptions::new().write(true).append(true).truncate(true),
            OpenOptions::new().read(true).write(true).sequential(true),
        ];
        for options in refused {
            let error = options.open(world, "memfs:contradiction").unwrap_err();
            assert_eq!(error.kind(), Kind::BadMode, "{options:?}");
        }
        let truncate = world.rank() == 1;
        let differing = scratch().truncate(truncate).open(world, "memfs:contradiction").unwrap_err();
        assert_eq!(differing.kind(), Kind::NotSame, "{differing}");
        Ok(())
    });
}

#[test]
fn options_set_and_clear_the_access_mode() {
    let options = scratch().append(true).unique_open(true).exclusive(true);
    let expected = Mode::read_write().create().delete_on_close().append().unique_open().exclusive();
    assert_eq!(options.mode(), expected);
    let options =
        options.append(false).unique_open(false).exclusive(false).delete_on_close(false).write(false);
    assert_eq!(options.create(false).mode(), Mode::read_only());
}

#[test]
fn create_replaces_the_contents_and_open_reads_only() {
    on(2, |world| {
        let name = "memfs:create";
        let file = File::create(world, name)?;
        file.at(100 * world.rank() as u64).all().write(&[7u8; 100])?;
        file.close()?;
        let file = File::create(world, name)?;
        assert_eq!(file.size()?, 0, "truncated");
        file.at(world.rank() as u64).all().write(&[world.rank() as u8])?;
        let mut back = [0xff; 2];
        file.sync()?;
        assert_eq!(file.at(0).all().read(&mut back)?.bytes(), 2, "opened for reading too");
        file.close()?;
        let kept = OpenOptions::new().read(true).write(true).create(true).open(world, name)?;
        assert_eq!(kept.size()?, 2, "kept without truncate");
        kept.close()?;
        let file = File::open(world, name)?;
        assert_eq!(file.at(0).write(&[1u8]).unwrap_err().kind(), Kind::ReadOnly);
        file.close()
    });
}

#[test]
fn exclusive_and_delete_on_close() {
    on(2, |world| {
        let file =
            OpenOptions::new().read(true).write(true).exclusive(true).open(world, "memfs:exclusive")?;
        let again = OpenOptions::new()
            .read(true)
            .write(true)
            .exclusive(true)
            .open(world, "memfs:exclusive")
            .unwrap_err();
        assert_eq!(again.class(), Class::FileExists);
        assert_eq!(delete("memfs:exclusive").unwrap_err().class(), Class::FileInUse);
        file.close()?;
        scratch().open(world, "memfs:exclusive")?.close()?;
        assert_eq!(delete("memfs:exclusive").unwrap_err().class(), Class::NoSuchFile);
        Ok(())
    });
}

#[test]
fn what_the_mode_forbids_is_refused() {
    on(2, |world| {
        let name = "memfs:forbidden";
        scratch().open(world, name)?.close()?;
        OpenOptions::new().write(true).create(true).open(world, name)?.close()?;
        let reader = File::open(world, name)?;
        assert_eq!(reader.at(0).write(&[1u8]).unwrap_err().class(), Class::ReadOnly);
        assert_eq!(reader.at(0).all().write(&[1u8]).unwrap_err().class(), Class::ReadOnly);
        assert_eq!(reader.set_size(3).unwrap_err().class(), Class::ReadOnly);
        reader.close()?;
        let writer = OpenOptions::new().write(true).open(world, name)?;
        assert_eq!(writer.at(0).read(&mut [0u8]).unwrap_err().class(), Class::Access);
        writer.close()?;
        let tape = OpenOptions::new().write(true).sequential(true).open(world, name)?;
        assert_eq!(tape.at(0).write(&[1u8]).unwrap_err().class(), Class::UnsupportedOperation);
        assert_eq!(tape.seek(0, Whence::Start).unwrap_err().class(), Class::UnsupportedOperation);
        tape.shared().write(&[7u8])?;
        world.barrier().unwrap();
        assert_eq!(tape.size()?, 2);
        tape.set_view_here(&Layout::from(Basic::U8), &Layout::from(Basic::U8))?;
        assert_eq!((tape.view().displacement(), tape.position_shared()?), (2, 0));
        tape.close()?;
        if world.rank() == 0 {
            delete(name)?;
        }
        Ok(())
    });
}

#[test]
fn append_starts_at_the_end() {
    on(2, |world| {
        let file = OpenOptions::new().read(true).write(true).create(true).open(world, "memfs:append")?;
        file.set_size(100)?;
        file.close()?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .append(true)
            .delete_on_close(true)
            .open(world, "memfs:append")?;
        assert_eq!((file.position()?, file.position_shared()?), (100, 100));
        file.shared().all().write(&[1u8; 5])?;
        assert_eq!(file.size()?, 110);
        file.close()
    });
}

#[test]
fn set_size_acts_once_for_all_ranks() {
    on(3, |world| {
        let file = scratch().open(world, "memfs:sizes")?;
        file.preallocate(1000)?;
        assert_eq!(file.size()?, 1000);
        file.preallocate(10)?;
        file.set_size(77)?;
        assert_eq!(file.size()?, 77);
        assert_eq!(file.set_size(world.rank() as u64).unwrap_err().class(), Class::NotSame);
        assert_eq!(file.size()?, 77);
        assert_eq!(file.seek(-7, Whence::End)?, 70);
        assert_eq!(file.seek(-71, Whence::Current).unwrap_err().class(), Class::Arg);
        assert_eq!(file.position()?, 70);
        file.sync()?;
        file.close()
    });
}

#[test]
fn hints_can_be_queried_and_changed() {
    on(2, |world| {
        let file =
            scratch().hint("cb_buffer_size", "12345").hint("colour", "blue").open(world, "memfs:hints")?;
        assert_eq!(file.info().get("cb_buffer_size"), Some("12345"));
        assert_eq!(file.info().get("colour"), None);
        file.set_info(&Info::from([("romio_ds_read", "disable")]))?;
        assert_eq!(file.info().get("romio_ds_read"), Some("disable"));
        assert_eq!(file.info().get("cb_buffer_size"), Some("12345"));
        let mine = Info::from([("cb_nodes", (world.rank() + 1).to_string())]);
        file.set_info(&mine)?;
        assert_eq!(file.info().get("cb_nodes"), Some("1"), "those of rank 0 hold");
        let none = Info::new();
        file.set_info(if world.rank() == 0 { &mine } else { &none })?;
        file.set_view_and_info(&View::default(), if world.rank() == 1 { &mine } else { &none })?;
        assert_eq!(file.info().get("cb_nodes"), Some("1"), "rank 0 gave none");
        let wrong = Error::new(Kind::BadArgument, "set_info", "hints", "no handle");
        let outcome = if world.rank() == 1 { file.refuse_info(wrong) } else { file.set_info(&mine) };
        assert_eq!(outcome.unwrap_err().kind(), Kind::BadArgument);
        file.close()
    });
}

#[test]
fn huge_buffers_are_cut_to_the_access() {
    on(2, |world| {
        let huge = (1u64 << 60).to_string();
        let file = scratch()
            .hint("cb_buffer_size", huge)
            .hint("romio_cb_write", "enable")
            .open(world, "memfs:huge")?;
        file.set_view(&View::round_robin::<u8>(world)?)?;
        // Larger and smaller accesses in turn share the buffers.
        for count in [10, 100_000, 3, 50_000] {
            file.at(0).all().write(&vec![world.rank() as u8 + 1; count])?;
            let mut got = vec![0u8; count];
            file.at(0).all().read(&mut got)?;
            assert!(got.iter().all(|byte| *byte == world.rank() as u8 + 1));
        }
        file.close()
    });
}

#[test]
fn invalid_views_are_rejected() {
    let (int, byte) = (Layout::from(Basic::I32), Layout::from(Basic::Byte));
    let backwards = int.hindexed([(1, 8), (1, 0)]).unwrap();
    let negative = int.hindexed([(1, -4), (1, 0)]).unwrap();
    let overlapping = int.hindexed([(1, 0), (1, 2)]).unwrap();
    for filetype in [&backwards, &negative, &byte.contiguous(6).unwrap()] {
        assert_eq!(View::new(0, &int, filetype).unwrap_err().class(), Class::Type);
    }
    assert_eq!(View::new(u64::MAX, &int, &int).unwrap_err().class(), Class::Arg);
    assert_eq!(View::new(0, &Layout::empty(), &int).unwrap_err().class(), Class::Type);
    on(2, |world| {
        // Reading a byte twice is fine, writing it is not.
        let file = scratch().open(world, "memfs:views")?;
        let twice = View::new(0, &int, &overlapping);
        if let Ok(twice) = twice {
            assert_eq!(file.set_view(&twice).unwrap_err().class(), Class::Type);
        }
        let etype = if world.rank() == 0 { &int } else { &byte };
        assert_eq!(file.set_view(&View::of(0, etype)?).unwrap_err().class(), Class::NotSame);
        assert_eq!(file.at(u64::MAX - 3).write(&[1u8; 8]).unwrap_err().class(), Class::Arg);
        assert_eq!(file.at(i64::MAX as u64).all().read(&mut [1u8; 8]).unwrap_err().class(), Class::Arg);
        file.close()
    });
}

#[test]
fn an_access_may_bring_its_own_view() {
    let job = |world: &Comm| {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .delete_on_close(true)
            .open(world, "memfs:own-view")?;
        let byte = Layout::from(Basic::Byte);
        let (rank, size) = (world.rank() as u64, world.size() as u64);
        let own = View::new(10 + rank, &byte, &byte.resized(0, size as i64).unwrap())?;
        file.with_view(&own).all().write(&vec![world.rank() as u8 + 1; 5])?;
        world.barrier().unwrap();
        let mut seen = vec![0; 10 + 5 * world.size()];
        file.at_pointer().read(&mut seen)?;
        let expected =
            std::iter::repeat_n(0, 10).chain((0..5 * world.size()).map(|at| (at % world.size()) as u8 + 1));
        assert!(seen.iter().copied().eq(expected), "{seen:?}");
        let mut mine = [0u8; 5];
        file.with_view(&own).read(&mut mine)?;
        assert_eq!(mine, [world.rank() as u8 + 1; 5]);
        assert_eq!(file.position()?, seen.len() as u64);
        // What one rank may not do fails on all of them.
        let doubled = View::new(0, &byte, &byte.resized(0, 0).unwrap())?;
        let views = [&own, &doubled];
        let refused = file.with_view(views[usize::from(rank == 0)]).all().write(&[0u8; 2]).unwrap_err();
        assert_eq!(refused.kind(), Kind::BadLayout);
        let foreign = own.clone().represented(aqueduct_file::Representation::External32);
        assert_eq!(file.with_view(&foreign).read(&mut mine).unwrap_err().kind(), Kind::Unsupported);
        file.close()
    };
    Launch::threads(3).run(job).unwrap();
}

/// `sync` succeeds on a device in memory; whether that makes bytes durable is a property of the device, passed on by layers.
#[test]
fn only_persistent_devices_are_reported_as_such() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = folder.path().join("a").to_string_lossy().into_owned();
    let shared_memory = format!("/dev/shm/aqueduct-test-{}", std::process::id());
    on(2, |world| {
        let files = [
            (format!("ufs:{disk}"), true),
            (format!("crash:ufs:{disk}"), true),
            ("memfs:volatile".to_owned(), false),
            ("fault=short=0.1:memfs:volatile".to_owned(), false),
            (format!("ufs:{shared_memory}"), false),
        ];
        for (name, persistent) in files {
            let file = scratch().open(world, &name)?;
            file.sync()?;
            assert_eq!(file.is_persistent(), persistent, "{name}");
            file.close()?;
        }
        Ok(())
    });
}
