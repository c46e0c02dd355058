//! The trait of objects, and encoding and decoding of values.
//!
//! `unsafe` here: the trait is unsafe, because trivial types are copied as bytes; see its section on safety.
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
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::codec::{DecodeError, Decoder, Encoder};
use crate::schema::{Schema, Type};

pub use category::{Category, fold};
pub use schema_builder::SchemaBuilder;

/// A value that can be sent to other ranks and stored in files. Derive it.
///
/// ```
/// use aqueduct_object::{Object, decode, encode};
///
/// #[derive(Object, Debug, PartialEq)]
/// struct Particle {
///     #[object(unit = "m", description = "position of the centre")]
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
/// # Types of fields
/// All numbers, `bool`, `char`, `()`, `String`; arrays and tuples; `Option`, `Box`, `Rc`, `Arc` (their values); `Vec`, `VecDeque`,
/// `LinkedList`, `BinaryHeap`, `Box<[T]>`, `Cow<'static, _>` of slices and texts; `BTreeMap`, `HashMap`, `BTreeSet`, `HashSet`; `Range`,
/// `Duration`; `PhantomData`; other objects, including enums and trees. With the feature `num-complex`
/// also `Complex<f32>` and `Complex<f64>`, with the feature `half` also `half::f16`.
///
/// ```compile_fail
/// #[derive(aqueduct_object::Object)]
/// struct Unknown { handle: std::process::Command } // a compile error: Command does not implement Object
/// ```
///
/// # Attributes
/// | `#[object(…)]` | on | meaning |
/// |---|---|---|
/// | `skip` | field | not stored; its value is `Default::default()` or that of `default = …` |
/// | `rename = "…"` | field, variant, type | its name in files |
/// | `default`, `default = …` | field | the value if a file has no such field |
/// | `alias = "…"` | field, variant | a name in older files; may be repeated |
/// | `removed("…")` | type | fields of older files that are dropped |
/// | `unit = "…"`, `description = "…"` | field | stored in the schema of the file |
///
/// # Encoding
/// Fields in the order of their declaration without gaps, numbers little-endian, `usize` as 64 bits, `bool` as 0 or 1, `char` and the number of a
/// variant as 32 bits; an option's presence as a byte; before text, lists, sets and maps their length as 64 bits. `docs/format-object.md` specifies it.
///
/// # Safety
/// An implementation may declare [`Category::Trivial`] only if the type has no padding, every bit pattern is a valid value, and its bytes in
/// memory on a little-endian machine are the encoded form. The derive macro computes this in constants.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an object or a part of one",
    label = "`{Self}` does not implement `Object`",
    note = "if it is your type, add #[derive(Object)]; if not, store its contents in fields of your own types, \
            or leave the field out with #[object(skip)]"
)]
pub unsafe trait Object: Sized + 'static {
    /// How values are encoded.
    const CATEGORY: Category;

    /// Bytes of the encoded form, if all values have the same size.
    const SIZE: Option<usize>;

    /// Builds the schema; programs call [`schema`](Object::schema).
    fn describe(builder: &mut SchemaBuilder) -> Type;

    /// Bytes of this value's encoded form.
    fn encoded_size(&self) -> usize;

    /// Appends the encoded form.
    fn encode(&self, out: &mut Encoder<'_>);

    /// Decodes a value.
    fn decode(input: &mut Decoder<'_>) -> Result<Self, DecodeError>;

    /// Names, types, nesting, sizes, offsets and units. Built once per type.
    fn schema() -> Arc<Schema> {
        if let Some(schema) = made().get(&TypeId::of::<Self>()) {
            return Arc::clone(schema);
        }
        // Built without holding the lock: the expressions of field defaults may call `schema` too.
        let schema = Arc::new(Schema::new(SchemaBuilder::default().describe::<Self>()));
        Arc::clone(made().entry(TypeId::of::<Self>()).or_insert(schema))
    }
}

/// The schemas that were built.
fn made() -> MutexGuard<'static, HashMap<TypeId, Arc<Schema>>> {
    static MADE: OnceLock<Mutex<HashMap<TypeId, Arc<Schema>>>> = OnceLock::new();
    MADE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The name of a type that this process has used, by the hash of its schema.
pub(crate) fn schema_name_of(hash: u64) -> Option<String> {
    made().values().find(|schema| schema.hash().max(1) == hash).map(|schema| schema.name())
}

/// The encoded form of a value.
pub fn encode<T: Object>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(value.encoded_size());
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

/// The encoded form of values without gaps; borrowed if the values are trivial.
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

/// Decodes exactly `count` values.
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

/// The bytes of trivial values, to be overwritten with their encoded form.
pub fn bytes_mut<T: Object>(values: &mut [T]) -> Option<&mut [u8]> {
    cast::bytes_mut(values)
}

/// `len` values whose bytes are zero, to be [overwritten](bytes_mut), if the type is trivial.
pub fn zeroed<T: Object>(len: usize) -> Option<Vec<T>> {
    cast::zeroed(len)
}

/// Decodes one value, which must take all bytes.
pub fn decode<T: Object>(bytes: &[u8]) -> Result<T, DecodeError> {
    let mut input = Decoder::new(bytes);
    let value = T::decode(&mut input)?;
    input.end()?;
    Ok(value)
}
