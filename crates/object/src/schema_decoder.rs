//! Encoded objects of a type that is described somewhere, as values of a type of the program.

use std::marker::PhantomData;

use crate::codec::{DecodeError, Decoder};
use crate::object::{Object, decode_all};
use crate::schema::{Migration, Schema, SchemaMismatch};

/// How encoded objects that a schema describes become values of `T`: the same type, or one whose rules about older files lead from it.
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
    /// Of objects that `found` describes; where that cannot be, an error that shows both types.
    pub fn new(found: &Schema) -> Result<Self, SchemaMismatch> {
        Ok(Self { migration: Migration::plan(found, &T::schema())?, values: PhantomData })
    }

    /// So many values, of an encoded form that has no more.
    pub fn decode(&self, bytes: &[u8], count: usize) -> Result<Vec<T>, DecodeError> {
        decode_migrated(self.migration.as_ref(), bytes, count)
    }
}

/// So many values, of an encoded form that has no more, and may be that of an older type.
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
