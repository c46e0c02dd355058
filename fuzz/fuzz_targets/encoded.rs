//! Bytes decoded as objects of a type with everything in it: an error, or an object that encodes to something that decodes to itself.
#![no_main]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aqueduct_object::{Object, decode, encode};
use libfuzzer_sys::fuzz_target;

#[derive(Object, Debug, PartialEq)]
enum Any {
    Nothing,
    Numbers { small: u8, wide: u128, flag: bool, letter: char },
    Text(String),
    Lists { list: Vec<u32>, queue: VecDeque<(u8, bool)>, empty: Vec<[(); 2]> },
    Keyed(BTreeMap<String, Option<u16>>, BTreeSet<char>),
    Tree { children: Vec<Any>, next: Option<Box<Any>> },
}

fuzz_target!(|bytes: &[u8]| {
    match decode::<Vec<Any>>(bytes) {
        Ok(value) => assert_eq!(decode::<Vec<Any>>(&encode(&value)).as_ref(), Ok(&value)),
        Err(error) => assert!(error.at() <= bytes.len(), "{error}"),
    }
});
