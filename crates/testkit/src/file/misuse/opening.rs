//! Opening what cannot be opened, and doing what a file was not opened for.

use aqueduct_file::layout::{Basic, Layout};
use aqueduct_file::{Kind, Mode, OpenOptions, Whence, delete};

use super::super::Fixture;
use super::super::memory::AccessMethod;
use super::{existing, is_wrong, refused, works};

pub(super) fn files(bench: &Fixture<'_>) {
    let name = existing(bench);
    refused(bench.open(&bench.name(), Mode::read_only()), Kind::NoSuchFile);
    refused(bench.open(&bench.name(), Mode::read_write()), Kind::NoSuchFile);
    refused(bench.open(&name, Mode::read_write().exclusive()), Kind::FileExists);
    refused(bench.open(&name, Mode::read_only().create()), Kind::BadMode);
    refused(bench.open(&name, Mode::read_write().sequential()), Kind::BadMode);
    for bad in ["", "nosuchdevice:file", "fault=nonsense:memfs:file"] {
        let outcome = OpenOptions::new().read(true).write(true).create(true).open(bench.world, bad);
        let error = outcome.expect_err("a name that cannot be");
        assert_eq!(error.kind(), Kind::BadName, "{error}");
    }
    bench.barrier();
    if bench.rank() == 0 {
        delete(&name).expect("it is there");
        refused(delete(&name), Kind::NoSuchFile);
    }
    bench.barrier();
}

pub(super) fn differing(bench: &Fixture<'_>) {
    if bench.size() == 1 {
        return;
    }
    let (name, other) = (bench.name(), bench.name());
    let (wrong, mode) = (is_wrong(bench), Mode::read_write().create());
    refused(bench.open(if wrong { &other } else { &name }, mode), Kind::NotSame);
    refused(bench.open(&name, if wrong { mode.append() } else { mode }), Kind::NotSame);
    // Hints may differ: those of rank 0 hold on all ranks.
    let hinted = OpenOptions::from(mode.delete_on_close()).hints(bench.info);
    let hinted = hinted.hint("cb_nodes", (bench.rank() + 1).to_string());
    let file = hinted.open(bench.world, &name).expect("hints may differ");
    assert_eq!(file.info().get("cb_nodes"), Some("1"));
    works(bench, &file);
    file.close().expect("closing");
    let file = bench.open(&name, mode.delete_on_close()).expect("the same on all ranks");
    works(bench, &file);
    file.close().expect("closing");
}

pub(super) fn modes(bench: &Fixture<'_>) {
    let name = existing(bench);
    let file = bench.open(&name, Mode::read_only()).expect("for reading");
    for way in AccessMethod::ALL {
        for place in [file.at(0), file.at_pointer(), file.shared()] {
            refused(way.write(place, vec![1u8]), Kind::ReadOnly);
        }
    }
    refused(file.set_size(1), Kind::ReadOnly);
    refused(file.preallocate(1), Kind::ReadOnly);
    assert_eq!(file.at(0).all().read(&mut [0u8; 200]).expect("a read").bytes(), 100);
    file.close().expect("closing");
    let file = bench.open(&name, Mode::write_only().delete_on_close()).expect("for writing");
    for way in AccessMethod::ALL {
        for place in [file.at(0), file.at_pointer(), file.shared()] {
            refused(way.read(place, vec![1u8]), Kind::WriteOnly);
        }
    }
    assert_eq!(file.at(bench.rank() as u64).all().write(&[1u8]).expect("a write").bytes(), 1);
    file.close().expect("closing");
}

pub(super) fn sequential(bench: &Fixture<'_>) {
    let name = existing(bench);
    let file = bench.open(&name, Mode::write_only().sequential()).expect("a tape");
    for way in AccessMethod::ALL {
        for place in [file.at(0), file.at_pointer()] {
            refused(way.write(place, vec![1u8]), Kind::Unsupported);
        }
    }
    refused(file.seek(0, Whence::Start), Kind::Unsupported);
    refused(file.position(), Kind::Unsupported);
    refused(file.seek_shared(0, Whence::Start), Kind::Unsupported);
    file.shared().all().write(&[bench.rank() as u8 + 1; 4]).expect("an ordered write");
    let word = Layout::from(Basic::U32);
    file.set_view_here(&word, &word).expect("a view from here");
    assert_eq!(file.view().displacement(), 4 * bench.size() as u64);
    file.close().expect("closing");
    let file = bench.open(&name, Mode::read_only().delete_on_close()).expect("the same file");
    refused(file.set_view_here(&word, &word), Kind::Unsupported);
    file.close().expect("closing");
}
