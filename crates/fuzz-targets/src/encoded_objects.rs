//! Encoded objects of a type with all kinds of fields: an error, or an object that encodes to bytes that decode to the same object.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aqueduct_object::{Object, decode, encode};

use crate::FuzzTarget;

pub(crate) const TARGET: FuzzTarget = FuzzTarget { name: "encoded_objects", run, seeds, words: &[] };

#[derive(Object, Debug, PartialEq)]
enum AnyRecord {
    Nothing,
    Numbers { small: u8, wide: u128, flag: bool, letter: char },
    Text(String),
    Lists { list: Vec<u32>, queue: VecDeque<(u8, bool)>, empty: Vec<[(); 2]> },
    Keyed(BTreeMap<String, Option<u16>>, BTreeSet<char>),
    Tree { children: Vec<AnyRecord>, next: Option<Box<AnyRecord>> },
}

fn run(input: &[u8]) -> bool {
    match decode::<Vec<AnyRecord>>(input) {
        Ok(value) => {
            assert_eq!(decode::<Vec<AnyRecord>>(&encode(&value)).as_ref(), Ok(&value));
            true
        }
        Err(error) => {
            assert!(error.at() <= input.len(), "{error}");
            false
        }
    }
}

fn seeds() -> Vec<Vec<u8>> {
    use AnyRecord::{Keyed, Lists, Nothing, Numbers, Text, Tree};
    let lists = Lists { list: vec![1, 2, 3], queue: [(4, true)].into(), empty: vec![[(); 2]; 3] };
    let keyed = Keyed([("key".to_owned(), Some(5)), (String::new(), None)].into(), ['a', 'ä'].into());
    let leaf = Numbers { small: 1, wide: u128::MAX, flag: true, letter: 'x' };
    let tree = Tree { children: vec![leaf, Nothing], next: Some(Box::new(Text("leaf".into()))) };
    vec![encode(&vec![Nothing, lists, keyed]), encode(&vec![tree]), Vec::new()]
}
