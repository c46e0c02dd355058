//! Random schemas and random values of them are written and read like derived types. The expected bytes come from a model of the format.
//!
//! `unsafe` here: implementations of the unsafe trait `Object`; none of them is trivial, which is what the contract is about.
#![allow(unsafe_code)]

#[path = "random/types.rs"]
mod types;
#[path = "random/way.rs"]
mod way;

use std::cell::RefCell;
use std::sync::Arc;

use aqueduct_comm::{Comm, Launch};
use aqueduct_file::File;
use aqueduct_object::schema::{ByteOrder, Field, Struct, Type};
use aqueduct_object::{
    Category, DecodeError, Decoder, Encoder, Error, Object, ObjectFile, Schema, SchemaBuilder, encode,
};
use proptest::collection::vec;
use proptest::prelude::*;

use types::{Leaves, Value, any_type, any_value, big, little, old_value, older};
use way::{Way, exchange, read, runner, way, write};

/// The number of schemas of each kind.
const SCHEMAS: u32 = 150;
/// The maximum number of objects in a file.
const MOST: usize = 16;
/// The sizes of objects of constant size; smaller random parts are padded.
const SIZES: [usize; 3] = [3, 24, 61];

thread_local! {
    /// The schema of this rank's objects.
    static SCHEMA: RefCell<Option<Arc<Schema>>> = const { RefCell::new(None) };
}

/// An object of a random type, of `SIZE` bytes, or of variable size if that is 0.
#[derive(Clone, Debug, PartialEq)]
struct Made<const SIZE: usize>(Vec<u8>);

impl<const SIZE: usize> Made<SIZE> {
    fn means(schema: &Arc<Schema>) {
        SCHEMA.set(Some(Arc::clone(schema)));
    }
}

// SAFETY: not trivial.
unsafe impl<const SIZE: usize> Object for Made<SIZE> {
    const CATEGORY: Category = if SIZE == 0 { Category::Variable } else { Category::Constant };
    const SIZE: Option<usize> = if SIZE == 0 { None } else { Some(SIZE) };

    fn describe(_: &mut SchemaBuilder) -> Type {
        Self::schema().root().clone()
    }

    fn encoded_size(&self) -> usize {
        self.0.len()
    }

    fn encode(&self, out: &mut Encoder<'_>) {
        out.put(&self.0);
    }

    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError> {
        let mut whole = input.clone();
        types::take(Self::schema().root(), &[], None, input, &mut Vec::new())?;
        whole.take(input.position() - whole.position()).map(|bytes| Self(bytes.to_vec()))
    }

    fn schema() -> Arc<Schema> {
        SCHEMA.with_borrow(|schema| Arc::clone(schema.as_ref().expect("the rank has said what it means")))
    }
}

/// A structure of `size` bytes with a random part; of variable size if `size` is 0.
fn filled(part: Type, size: usize, behind: bool) -> Option<Type> {
    let more = match (part.size(), size) {
        (None, 0) => return Some(part),
        (Some(_), 0) => Type::Text,
        (Some(part), size) => Type::Array { of: Box::new(Type::U8), len: (size as u64).checked_sub(part)? },
        (None, _) => return None,
    };
    let fields = if behind { [part, more] } else { [more, part] };
    let fields = fields.into_iter().zip(["a", "b"]).map(|(ty, name)| Field::new(name, ty)).collect();
    Some(Type::Struct(Struct { name: "Whole".to_owned(), fields, removed: Vec::new() }))
}

/// A random type of `size` bytes, and objects of it.
fn objects(size: usize) -> impl Strategy<Value = (Arc<Schema>, Vec<Value>)> {
    let whole = (any_type(), any::<bool>());
    let whole = whole.prop_filter_map("another size", move |(part, behind)| filled(part, size, behind));
    whole.prop_flat_map(|root| {
        let values = vec(any_value(&root), 0..MOST);
        (Just(Arc::new(Schema::new(root))), values)
    })
}

/// The bytes of the data file.
fn data(name: &str, world: &Comm) -> Result<Vec<u8>, Error> {
    let file = File::open(world, name)?;
    let mut bytes = vec![0; file.size()? as usize];
    file.at(0).read(&mut bytes)?;
    file.close()?;
    Ok(bytes)
}

/// Reads a field that all objects have.
fn project<const SIZE: usize>(
    world: &Comm,
    name: &str,
    pick: usize,
    objects: &[Vec<u8>],
) -> Result<(), Error> {
    let schema = Made::<SIZE>::schema();
    let leaves = |bytes: &Vec<u8>| {
        let mut leaves = Leaves::new();
        types::take(schema.root(), &[], Some(""), &mut Decoder::new(bytes), &mut leaves).expect("an object");
        leaves.retain(|(path, ty, _)| !path.is_empty() && !matches!(ty, Type::Unit));
        leaves
    };
    let leaves: Vec<Leaves> = objects.iter().map(leaves).collect();
    let Some(first) = leaves.first().filter(|first| !first.is_empty()) else { return Ok(()) };
    let (path, ty, _) = &first[pick % first.len()];
    let expected: Vec<&[u8]> = leaves.iter().map(|leaves| &leaves[pick % first.len()].2[..]).collect();
    macro_rules! read_as {
        ($($kind:ident $rust:ty),*) => {
            match ty {
                $(Type::$kind => column::<SIZE, $rust>(world, name, path, objects.len() as u64)?,)*
                other => panic!("{} is no leaf", other.name()),
            }
        };
    }
    let found = read_as!(
        Bool bool, Char char, U8 u8, U16 u16, U32 u32, U64 u64, U128 u128, I8 i8, I16 i16, I32 i32, I64 i64,
        I128 i128, F32 f32, F64 f64, Text String
    );
    assert_eq!(found, expected, "{path} of {}", schema.signature());
    Ok(())
}

fn column<const SIZE: usize, F: Object>(
    world: &Comm,
    name: &str,
    path: &str,
    count: u64,
) -> Result<Vec<Vec<u8>>, Error> {
    let file = ObjectFile::<Made<SIZE>>::open(world, name)?;
    let field = file.field::<F>(path)?;
    let values = field.all().read(0..count)?;
    drop(field);
    file.close()?;
    Ok(values.iter().map(encode).collect())
}

fn travels<const SIZE: usize>(way: Way, pick: usize, name: &str, schema: &Arc<Schema>, values: &[Value]) {
    let bytes: Vec<Vec<u8>> = values.iter().map(little).collect();
    assert_eq!(schema.size(), (SIZE > 0).then_some(SIZE as u64), "{}", schema.signature());
    let written = way.launch(way.writers).run(|world| {
        Made::<SIZE>::means(schema);
        write::<Made<SIZE>>(world, name, &way, &bytes)
    });
    written.unwrap_or_else(|error| panic!("writing {}: {error}", schema.signature()));
    // The data of variable objects is in the order of writes, which is defined for one writer.
    if SIZE > 0 || way.writers == 1 {
        let stored = match way.order {
            ByteOrder::Little => values.iter().flat_map(little).collect::<Vec<u8>>(),
            ByteOrder::Big => values.iter().flat_map(big).collect(),
        };
        let found = Launch::threads(1).run(|world| data(name, world)).unwrap().remove(0);
        assert_eq!(found, stored, "{}", schema.signature());
    }
    let read = way.launch(way.readers).run(|world| {
        Made::<SIZE>::means(schema);
        read::<Made<SIZE>>(world, name, &way, &bytes)?;
        project::<SIZE>(world, name, pick, &bytes)?;
        exchange::<Made<SIZE>>(world, &bytes)
    });
    read.unwrap_or_else(|error| panic!("reading {}: {error}", schema.signature()));
}

fn in_files<const SIZE: usize>(schemas: u32) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let cases = (objects(SIZE), way(), any::<usize>());
    let outcome = runner(schemas).run(&cases, |((schema, values), way, pick)| {
        let name = format!("{}{}", way.device, folder.path().join("objects").display());
        travels::<SIZE>(way, pick, &name, &schema, &values);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn random_types_of_variable_size() {
    in_files::<0>(2 * SCHEMAS);
}

#[test]
fn random_types_of_constant_size() {
    in_files::<{ SIZES[0] }>(SCHEMAS);
    in_files::<{ SIZES[1] }>(SCHEMAS);
    in_files::<{ SIZES[2] }>(SCHEMAS);
}

/// A recursive reference leads to a type with other enclosing types than the reference has.
#[test]
fn types_that_contain_each_other() {
    let list = |ty: Type| Type::List(Box::new(ty));
    let structure = |name: &str, fields: [(&str, Type); 2]| {
        let fields = fields.into_iter().map(|(name, ty)| Field::new(name, ty)).collect();
        Type::Struct(Struct { name: name.to_owned(), fields, removed: Vec::new() })
    };
    let inner = structure("Inner", [("id", Type::U8), ("middles", list(Type::Recursive(1)))]);
    let middle = structure("Middle", [("outers", list(Type::Recursive(1))), ("inners", list(inner))]);
    let outer = structure("Outer", [("middle", middle), ("tail", Type::U16)]);
    let schema = Arc::new(Schema::new(outer.clone()));
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let name = folder.path().join("objects").display().to_string();
    let outcome = runner(60).run(&(vec(any_value(&outer), 1..6), way()), |(values, way)| {
        travels::<0>(way, usize::MAX, &format!("{}{name}", way.device), &schema, &values);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// Fields are added in random places, also in recursive types: old files are read with the new type.
#[test]
fn random_types_with_added_fields() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let name = folder.path().join("objects").display().to_string();
    let outcome = runner(2 * SCHEMAS).run(&(objects(0), way()), |((new, values), way)| {
        let old = Arc::new(Schema::new(older(new.root())));
        // Old objects of constant size, or without bytes, are another case.
        if old == new || old.size().is_some() {
            return Ok(());
        }
        let before: Vec<Vec<u8>> = values.iter().map(|value| little(&old_value(value))).collect();
        let after: Vec<Made<0>> = values.iter().map(|value| Made(little(value))).collect();
        let name = format!("{}{name}", way.device);
        let written = way.launch(way.writers).run(|world| {
            Made::<0>::means(&old);
            write::<Made<0>>(world, &name, &way, &before)
        });
        prop_assert!(written.is_ok(), "writing {}: {}", old.signature(), written.unwrap_err());
        let read = way.launch(way.readers).run(|world| {
            Made::<0>::means(&new);
            let file = ObjectFile::<Made<0>>::open(world, &name)?;
            let found = file.at(0).all().read_vec(file.count()?)?;
            file.close().map(|()| found)
        });
        prop_assert!(
            read.is_ok(),
            "reading {} as {}: {}",
            old.signature(),
            new.signature(),
            read.unwrap_err()
        );
        prop_assert!(read.unwrap().iter().all(|found| *found == after), "{}", new.signature());
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
