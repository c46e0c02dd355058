//! Random values of about forty types of all kinds: encoded and decoded; written by N ranks through one view and read by M ranks through every
//! view, on every device, in both byte orders; sent between ranks.

#[path = "random/kinds.rs"]
mod kinds;
#[path = "random/values.rs"]
mod values;
#[path = "random/way.rs"]
mod way;

use aqueduct_object::{Category, decode, encode};
use proptest::collection::vec;
use proptest::prelude::*;

use kinds::{Any, Generic, Grid, Held, Outer, Padded, Point};
use values::Random;
use way::{exchange, read, runner, way, write};

/// The maximum number of objects in a file.
const MOST: usize = 24;
/// The number of files of each type.
const FILES: u32 = 60;

fn is_decoded<T: Random>(kind: &str, cases: u32) {
    let outcome = runner(cases).run(&T::random(), |value| {
        let bytes = encode(&value);
        prop_assert_eq!(bytes.len(), value.encoded_size());
        prop_assert_eq!(T::SIZE.unwrap_or(bytes.len()), bytes.len());
        prop_assert_eq!(T::SIZE.is_none(), T::CATEGORY == Category::Variable);
        let back = decode::<T>(&bytes);
        prop_assert_eq!(back.as_ref(), Ok(&value));
        // Fewer and more bytes are errors.
        let half = decode::<T>(&bytes[..bytes.len() / 2]);
        prop_assert!(bytes.is_empty() || half.is_err(), "half of the bytes: {:?}", half);
        prop_assert!(decode::<T>(&[&bytes[..], &[0]].concat()).is_err());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{kind}: {error}"));
}

fn in_files<T: Random>(kind: &str) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let outcome = runner(FILES).run(&(vec(T::random(), 0..MOST), way()), |(values, way)| {
        let bytes: Vec<Vec<u8>> = values.iter().map(encode).collect();
        let name = format!("{}{}", way.device, folder.path().join("objects").display());
        let written = way.launch(way.writers).run(|world| write::<T>(world, &name, &way, &bytes));
        prop_assert!(written.is_ok(), "writing: {}", written.unwrap_err());
        let read = way.launch(way.readers).run(|world| {
            read::<T>(world, &name, &way, &bytes)?;
            exchange::<T>(world, &bytes)
        });
        prop_assert!(read.is_ok(), "reading: {}", read.unwrap_err());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{kind}: {error}"));
}

#[test]
fn values_are_decoded_as_they_were_encoded() {
    is_decoded::<Any>("any", 20_000);
    is_decoded::<Grid>("trivial", 200);
    is_decoded::<Outer>("constant", 200);
    is_decoded::<Vec<Any>>("lists", 1_000);
}

#[test]
fn trivial_objects_in_files() {
    in_files::<Point>("trivial");
    in_files::<Generic<f64, u64, 3>>("trivial and generic");
}

#[test]
fn constant_objects_in_files() {
    in_files::<Outer>("constant");
    in_files::<Held>("behind pointers");
    in_files::<Generic<Padded, bool, 2>>("constant and generic");
}

#[test]
fn variable_objects_in_files() {
    in_files::<Any>("any");
}
