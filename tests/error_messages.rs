//! The `Debug` form of errors, which Rust prints if `main` returns one.

use std::fmt;

use aqueduct::{Error, Kind, comm, device, file, stream};

/// An error with an error underneath.
#[derive(Debug)]
struct Wrapped(&'static str, Option<Box<Wrapped>>);

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.1.as_deref().map(|below| below as _)
    }
}

fn assert_same_text(error: &dyn std::error::Error) {
    assert_eq!(format!("{error:?}"), error.to_string());
}

#[test]
fn debug_form_of_every_error_type_is_its_message() {
    let error = Error::new(Kind::NoSpace, "write", "run.out", "the disk is full");
    assert_same_text(&error.clone().in_step(3));
    assert_same_text(&error.on_rank(2));
    assert_same_text(&device::Error::new(device::Kind::Busy, device::Operation::Lock, "run.out"));
    assert_same_text(&"7 parrots".parse::<device::units::ByteSize>().unwrap_err());
    assert_same_text(&comm::Error::new(comm::Kind::Mismatch, "bcast", "the roots differ"));
    assert_same_text(&file::layout::Layout::bytes(u64::MAX).unwrap_err());
}

#[test]
fn debug_form_shows_the_chain_of_sources() {
    let below =
        Wrapped("write failed", Some(Box::new(Wrapped("disk full", Some(Box::new(Wrapped("quota", None)))))));
    let error = comm::Error::new(comm::Kind::Program, "run", "rank 0 failed").with_source(below);
    let expected = "run: rank 0 failed: write failed\n  caused by: disk full\n  caused by: quota";
    assert_eq!(format!("{error:?}"), expected);
}

#[test]
fn run_returns_the_error_of_a_rank_with_its_kind() {
    let open = |world: &comm::Comm| stream::Reader::open(world, "memfs:nowhere").map(drop);
    let error = Error::from(comm::Launch::threads(3).run(open).unwrap_err());
    assert_eq!((error.kind(), error.path()), (Kind::NoSuchFile, "memfs:nowhere"));
    assert!(error.rank().is_some());
}

#[test]
fn debug_form_of_the_error_of_a_rank_is_readable() {
    let run = comm::Launch::threads(2).run(|world| stream::Reader::open(world, "memfs:nowhere").map(drop));
    let shown = format!("{:?}", run.unwrap_err());
    assert!(shown.contains("open \"memfs:nowhere\"") && !shown.contains("Error {"), "{shown}");
}
