//! What an object is.
//!
//! `unsafe` here: the trait is, because trivial types are moved as bytes; see its section on safety.
#![allow(unsafe_code)]

pub(crate) mod cast;
mod category;
mod compound;
mod container;
mod primitive;
mod schema_builder;
mod sequence;

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::codec::{DecodeError, Decoder, Encoder};
use crate::schema::{Schema, Type};

pub use category::{Category, fold};
pub use schema_builder::SchemaBuilder;

/// A value that can be sent to other ranks and stored in files. Derive it; there is nothing to write by hand.
///
/// ```
/// use aqueduct_object::{Object, decode, encode};
///
/// #[derive(Object, Debug, PartialEq)]
/// struct Particle {
///     #[object(unit = "m", description = "where it is")]
///     position: [f64; 3],
///     #[object(rename = "v", unit = "m/s")]
///     velocity: [f64; 3],
///     neighbours: Vec<u32>,
///     #[object(skip)]
///     scratch: usize,
/// }
///
/// let particle = Particle { position: [1.0, 2.0, 3.0], velocity: [0.0; 3], neighbours: vec![4, 5], scratch: 0 };
/// let bytes = encode(&particle);
/// assert_eq!(bytes.len(), 24 + 24 + 8 + 2 * 4);
/// assert_eq!(decode::<Particle>(&bytes)?, particle);
/// println!("{}", Particle::schema());
/// # Ok::<(), aqueduct_object::DecodeError>(())
/// ```
///
/// # What can be a field
/// All numbers, `bool`, `char`, `()`, `String`; arrays and tuples; `Option`, `Box`, `Rc`, `Arc` (their values); `Vec`, `VecDeque`,
/// `BTreeMap`, `HashMap`, `BTreeSet`, `HashSet`; `PhantomData`; other objects, enums and trees among them.
///
/// ```compile_fail
/// #[derive(aqueduct_object::Object)]
/// struct Unknown { handle: std::process::Command } // Command is no object: the compiler says so, and what to do
/// ```
///
/// # Attributes
/// | `#[object(…)]` | on | means |
/// |---|---|---|
/// | `skip` | field | not stored; made by `Default`, or by `default = …` |
/// | `rename = "…"` | field, variant, type | its name in files |
/// | `default`, `default = …` | field | the value where a file has no such field |
/// | `was("…")` | field, variant | names it has in older files |
/// | `removed("…")` | type | fields that older files may have besides |
/// | `unit = "…"`, `description = "…"` | field | told by the file |
///
/// # How it is encoded
/// Fields in the order of their declaration without gaps, numbers little-endian, `usize` as 64 bits, `bool` as 0 or 1, `char` and the number of a
/// variant as 32 bits; an option's presence as a byte; before text, lists, sets and maps their length as 64 bits. `docs/format-object.md` has all of it.
///
/// # Safety
/// An implementation says [`Category::Trivial`] only where the type has no padding, every pattern of bits is a valid value, and memory on a
/// little-endian machine is the encoded form. The derive finds that out in constants.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an object or a part of one",
    label = "nobody has said how to store a `{Self}`",
    note = "if it is your type, put #[derive(Object)] on it; if not, store what it holds in fields of your own, \
            or leave the field out with #[object(skip)]"
)]
pub unsafe trait Object: Sized + 'static {
    /// How values are moved.
    const CATEGORY: Category;

    /// Bytes of the encoded form, where all values have the same.
    const SIZE: Option<usize>;

    /// The type as a value; [`schema`](Object::schema) is what programs call.
    fn describe(scribe: &mut SchemaBuilder) -> Type;

    /// Bytes of this value's encoded form.
    fn encoded_size(&self) -> usize;

    /// Appends the encoded form.
    fn encode(&self, out: &mut Encoder<'_>);

    /// Takes a value from its encoded form.
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError>;

    /// Names, types, nesting, sizes, offsets and units: made once per type.
    fn schema() -> Arc<Schema> {
        static MADE: OnceLock<Mutex<HashMap<TypeId, Arc<Schema>>>> = OnceLock::new();
        let made = || MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(schema) = made().get(&TypeId::of::<Self>()) {
            return Arc::clone(schema);
        }
        // Made outside the lock: defaults of fields are values of the program's making, which may want schemas too.
        let schema = Arc::new(Schema::new(SchemaBuilder::default().describe::<Self>()));
        Arc::clone(made().entry(TypeId::of::<Self>()).or_insert(schema))
    }
}

/// The encoded form of a value.
pub fn encode<T: Object>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.encoded_size());
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

/// The encoded form of values, one after the other: without a copy where they lie in memory like that.
///
/// ```
/// assert_eq!(*aqueduct_object::encode_all(&[1u16, 2]), [1, 0, 2, 0]);
/// ```
pub fn encode_all<T: Object>(values: &[T]) -> Cow<'_, [u8]> {
    cast::bytes(values).map_or_else(
        || {
            let mut bytes = Vec::with_capacity(values.iter().map(Object::encoded_size).sum());
            Encoder::new(&mut bytes).put_all(values);
            Cow::Owned(bytes)
        },
        Cow::Borrowed,
    )
}

/// So many values, of an encoded form that has no more.
///
/// ```
/// assert_eq!(aqueduct_object::decode_all::<u16>(&[1, 0, 2, 0], 2)?, [1, 2]);
/// # Ok::<(), aqueduct_object::DecodeError>(())
/// ```
pub fn decode_all<T: Object>(bytes: &[u8], count: usize) -> Result<Vec<T>, DecodeError> {
    let mut input = Decoder::new(bytes);
    let values = input.take_all(count)?;
    input.end()?;
    Ok(values)
}

/// The encoded form of values, to be overwritten, where they lie in memory like that.
pub fn bytes_mut<T: Object>(values: &mut [T]) -> Option<&mut [u8]> {
    cast::bytes_mut(values)
}

/// The value of an encoded form, all of it.
pub fn decode<T: Object>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut input = Decoder::new(bytes);
    let value = T::decode(&mut input)?;
    input.end()?;
    Ok(value)
}
