//! What a person sees of an error that `main` returns: Rust prints its `Debug` form.

use std::fmt;
use std::sync::Arc;

use aqueduct::{checkpoint, comm, device, file, formats, object, stream};

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
    let name: Arc<str> = "run.out".into();
    assert_same_text(&file::Error::new(file::Kind::NoSpace, "write", &name, "the disk is full"));
    assert_same_text(&object::Error::new(object::Kind::Damaged, "read", &name, "changed").clone());
    assert_same_text(&stream::Error::new(stream::Kind::NoSuch, "read", &name, "no such stream").in_step(3));
    assert_same_text(&formats::Error::new(formats::Kind::NotSame, "define", &name, "ranks differ"));
    assert_same_text(&checkpoint::Error::new(checkpoint::Kind::Damaged, "open", &name, "torn"));
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
fn error_of_a_rank_is_readable_where_main_returns_it() {
    let run = comm::Launch::threads(2).run(|world| stream::Reader::open(world, "memfs:nowhere").map(drop));
    let shown = format!("{:?}", run.unwrap_err());
    assert!(shown.contains("open \"memfs:nowhere\"") && !shown.contains("Error {"), "{shown}");
}
