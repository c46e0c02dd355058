//! Attributes of groups and datasets.

use aqueduct_object::{Object, decode_all, encode_all};

use super::datatype::Datatype;

/// The value of an attribute.
///
/// ```
/// use aqueduct_formats::hdf5::Hdf5Attribute;
///
/// assert_eq!(Hdf5Attribute::from("m/s").text(), Some("m/s"));
/// assert_eq!(Hdf5Attribute::from([1i32, 2]).numbers(), Some(vec![1.0, 2.0]));
/// assert_eq!(Hdf5Attribute::from(0.5f64).numbers(), Some(vec![0.5]));
/// ```
#[derive(Clone, Debug, PartialEq, Object)]
pub enum Hdf5Attribute {
    /// Text of variable length, in UTF-8: what most readers expect.
    Text(String),
    /// Text of fixed length: what some conventions ask for.
    FixedText(String),
    /// Several texts, of variable length.
    Texts(Vec<String>),
    /// Numbers or objects: of this type, of this shape (none for a single one), encoded.
    Values(Datatype, Vec<u64>, Vec<u8>),
    /// Lists of references to objects, by their paths: of the dimension scales of each dimension (`DIMENSION_LIST`). Empty paths are of objects that
    /// are not there.
    References(Vec<Vec<String>>),
    /// The datasets that use a dimension scale, by their paths, and for which of their dimensions (`REFERENCE_LIST`).
    ScaleUses(Vec<(String, u32)>),
    /// Something that is not read here: what it is called.
    Other(String),
}

impl Hdf5Attribute {
    /// Text of fixed length.
    pub fn fixed(text: impl Into<String>) -> Self {
        Self::FixedText(text.into())
    }

    /// Several texts of the same fixed length: that of the longest.
    pub fn fixed_texts(texts: &[&str]) -> Self {
        let size = texts.iter().map(|text| text.len()).max().unwrap_or(0).max(1);
        let mut bytes = Vec::with_capacity(texts.len() * size);
        for text in texts {
            let end = bytes.len() + size;
            bytes.extend_from_slice(text.as_bytes());
            bytes.resize(end, 0);
        }
        Self::Values(Datatype::Text(size as u64), vec![texts.len() as u64], bytes)
    }

    /// The paths of the objects that it refers to.
    pub(crate) fn references(&self) -> Vec<&str> {
        match self {
            Self::References(lists) => lists.iter().flatten().map(String::as_str).collect(),
            Self::ScaleUses(uses) => uses.iter().map(|(path, _)| path.as_str()).collect(),
            _ => Vec::new(),
        }
    }

    /// Values of any shape, the last dimension side by side; empty for a single value.
    pub fn shaped<T: Object>(shape: &[u64], values: &[T]) -> Result<Self, String> {
        let wanted = shape.iter().try_fold(1u64, |all, length| all.checked_mul(*length));
        if wanted != Some(values.len() as u64) {
            return Err(format!("an attribute of shape {shape:?} was given {} values", values.len()));
        }
        Ok(Self::Values(Datatype::of::<T>()?, shape.to_vec(), encode_all(values).into_owned()))
    }

    /// As a list of texts, if it is one: of variable or of fixed length.
    pub fn texts(&self) -> Option<Vec<String>> {
        match self {
            Self::Texts(texts) => Some(texts.clone()),
            Self::Values(Datatype::Text(size), _, bytes) => {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned();
                Some(bytes.chunks_exact((*size).max(1) as usize).map(text).collect())
            }
            _ => None,
        }
    }

    /// As text, if it is that.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::FixedText(text) => Some(text),
            _ => None,
        }
    }

    /// As numbers, the nearest `f64` of each.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        let Self::Values(ty, _, bytes) = self else { return None };
        super::number::numbers(ty, bytes)
    }

    /// As values of this type, if they are.
    pub fn values<T: Object>(&self) -> Option<Vec<T>> {
        let Self::Values(ty, shape, bytes) = self else { return None };
        let count = shape.iter().product::<u64>() as usize;
        if Datatype::of::<T>().as_ref() == Ok(ty) { decode_all(bytes, count).ok() } else { None }
    }
}

impl From<&str> for Hdf5Attribute {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Hdf5Attribute {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<const N: usize> From<[&str; N]> for Hdf5Attribute {
    fn from(texts: [&str; N]) -> Self {
        Self::Texts(texts.map(str::to_owned).to_vec())
    }
}

macro_rules! numbers {
    ($($type:ty = $kind:expr;)*) => {
        $(impl From<$type> for Hdf5Attribute {
            fn from(value: $type) -> Self {
                Self::Values($kind, Vec::new(), value.to_le_bytes().to_vec())
            }
        }

        impl From<&[$type]> for Hdf5Attribute {
            fn from(values: &[$type]) -> Self {
                Self::Values($kind, vec![values.len() as u64], encode_all(values).into_owned())
            }
        }

        impl<const N: usize> From<[$type; N]> for Hdf5Attribute {
            fn from(values: [$type; N]) -> Self {
                Self::from(&values[..])
            }
        })*
    };
}

numbers! {
    i8 = Datatype::Int(1);
    i16 = Datatype::Int(2);
    i32 = Datatype::Int(4);
    i64 = Datatype::Int(8);
    u8 = Datatype::UInt(1);
    u16 = Datatype::UInt(2);
    u32 = Datatype::UInt(4);
    u64 = Datatype::UInt(8);
    f32 = Datatype::Float(4);
    f64 = Datatype::Float(8);
}
