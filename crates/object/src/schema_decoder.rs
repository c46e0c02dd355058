//! Decoding of objects by a stored schema, into values of a type of the program.

use std::marker::PhantomData;

use crate::codec::{DecodeError, Decoder};
use crate::object::{Object, decode_all};
use crate::schema::{Migration, Schema, SchemaMismatch};

/// Decodes objects of a stored schema into values of `T`. The schema is that of `T`, or one that `T` can be migrated from by its attributes.
///
/// ```
/// use aqueduct_object::{SchemaDecoder, Object, encode_all};
///
/// #[derive(Object)]
/// #[object(rename = "Cell")]
/// struct Old { pressure: f64 }
/// #[derive(Object, Debug, PartialEq)]
/// struct Cell { pressure: f64, #[object(default = 7)] level: u8 }
///
/// let bytes = encode_all(&[Old { pressure: 0.5 }, Old { pressure: 1.5 }]).into_owned();
/// let decoding = SchemaDecoder::<Cell>::new(&Old::schema())?;
/// assert_eq!(decoding.decode(&bytes, 2)?[1], Cell { pressure: 1.5, level: 7 });
/// assert!(SchemaDecoder::<f64>::new(&Old::schema()).is_err_and(|both| both.to_string().contains("pressure")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SchemaDecoder<T> {
    migration: Option<Migration>,
    values: PhantomData<fn() -> T>,
}

impl<T: Object> SchemaDecoder<T> {
    /// A decoder of objects of the schema `found`. If `T` cannot be decoded from them, the error shows both types.
    pub fn new(found: &Schema) -> Result<Self, SchemaMismatch> {
        Ok(Self { migration: Migration::plan(found, &T::schema())?, values: PhantomData })
    }

    /// Decodes exactly `count` values.
    pub fn decode(&self, bytes: &[u8], count: usize) -> Result<Vec<T>, DecodeError> {
        decode_migrated(self.migration.as_ref(), bytes, count)
    }
}

/// Decodes exactly `count` values, which may be of an older type.
pub(crate) fn decode_migrated<T: Object>(
    migration: Option<&Migration>,
    bytes: &[u8],
    count: usize,
) -> Result<Vec<T>, DecodeError> {
    let Some(migration) = migration else { return decode_all(bytes, count) };
    let (mut input, mut migrated) = (Decoder::new(bytes), Vec::with_capacity(bytes.len()));
    for _ in 0..count {
        migration.apply(&mut input, &mut migrated)?;
    }
    input.end()?;
    decode_all(&migrated, count)
}
