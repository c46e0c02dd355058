//! What a dataset holds: numbers, and objects of constant size as compound types. Pure.

use std::fmt;

use aqueduct_object::Object;
use aqueduct_object::schema::{Schema, Type};

/// The type of a dataset's elements: little-endian, without implicit padding.
#[derive(Clone, Debug, PartialEq, Eq, Object)]
pub enum Datatype {
    /// An integer with a sign, of so many bytes.
    Int(u32),
    /// An integer without one.
    UInt(u32),
    /// A number with a point.
    Float(u32),
    /// Yes or no, in a byte: what h5py takes for `bool`.
    Bool,
    /// A name out of several, in an integer of so many bytes.
    Enum(u32, Vec<(String, u64)>),
    /// Named fields: bytes of all, and of each its name, place and type.
    Compound(u64, Vec<(String, u64, Datatype)>),
    /// So many of the same.
    Array(Box<Datatype>, u64),
    /// Text of so many bytes, filled up with zeros.
    Text(u64),
    /// Variable-length text, which is stored in a heap of the file: read by [`Hdf5File::read_vlen_strings`](crate::hdf5::Hdf5File::read_vlen_strings).
    VlenText,
    /// Bytes without a meaning for this library, such as references: what they are called, and how many.
    Opaque(String, u64),
    /// Something that is not accessed here: what it is called, and its bytes.
    Other(String, u64),
}

const VLEN_TEXT: &str = "text of any length";
/// What references to objects are called.
pub(crate) const OBJECT_REFERENCE: &str = "object reference";
/// What lists of references to objects are called.
pub(crate) const REFERENCE_SEQUENCES: &str = "sequences of variable length of object references";

impl Datatype {
    /// The type of `T`: a number, or an object of constant size.
    pub fn of<T: Object>() -> Result<Self, String> {
        Self::of_schema(&T::schema())
    }

    /// The type of the objects that a schema describes.
    pub fn of_schema(schema: &Schema) -> Result<Self, String> {
        of(schema.root()).map_err(|part| {
            format!(
                "{} has no type in HDF5: {part}; store numbers, or objects of constant size",
                schema.name()
            )
        })
    }

    /// Bytes of an element.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bool => 1,
            Self::Int(size) | Self::UInt(size) | Self::Float(size) | Self::Enum(size, _) => u64::from(*size),
            Self::Compound(size, _) | Self::Text(size) | Self::Opaque(_, size) | Self::Other(_, size) => {
                *size
            }
            // A length, the address of a heap, and a number in it.
            Self::VlenText => 16,
            Self::Array(of, count) => of.size().saturating_mul(*count),
        }
    }

    /// The part of it that is not accessed here, if there is one.
    pub(crate) fn foreign(&self) -> Option<&str> {
        match self {
            Self::Other(name, _) => Some(name),
            Self::VlenText => Some(VLEN_TEXT),
            Self::Array(of, _) => of.foreign(),
            Self::Compound(_, fields) => fields.iter().find_map(|(_, _, ty)| ty.foreign()),
            _ => None,
        }
    }
}

fn of(ty: &Type) -> Result<Datatype, String> {
    Ok(match ty {
        Type::Bool => Datatype::Bool,
        Type::U8 => Datatype::UInt(1),
        Type::U16 => Datatype::UInt(2),
        Type::U32 | Type::Char => Datatype::UInt(4),
        Type::U64 => Datatype::UInt(8),
        Type::I8 => Datatype::Int(1),
        Type::I16 => Datatype::Int(2),
        Type::I32 => Datatype::Int(4),
        Type::I64 => Datatype::Int(8),
        Type::F16 => Datatype::Float(2),
        Type::F32 => Datatype::Float(4),
        Type::F64 => Datatype::Float(8),
        Type::Array { of: inner, len } if *len > 0 => Datatype::Array(Box::new(of(inner)?), *len),
        Type::Tuple(parts) => {
            let names = (0..parts.len()).map(|at| format!("f{at}"));
            compound(names.zip(parts))?
        }
        Type::Struct(structure) => {
            compound(structure.fields.iter().map(|field| (field.name.clone(), &field.ty)))?
        }
        Type::Enum(choice) if ty.size().is_some() => {
            let members = choice.variants.iter().enumerate();
            Datatype::Enum(4, members.map(|(at, variant)| (variant.name.clone(), at as u64)).collect())
        }
        other => return Err(format!("{} is none", other.name())),
    })
}

fn compound<'a>(parts: impl Iterator<Item = (String, &'a Type)>) -> Result<Datatype, String> {
    let (mut offset, mut fields) = (0, Vec::new());
    for (name, ty) in parts {
        let ty = of(ty).map_err(|why| format!("field {name:?}: {why}"))?;
        let size = ty.size();
        fields.push((name, offset, ty));
        offset += size;
    }
    if fields.is_empty() {
        Err("nothing is in it".to_owned())
    } else {
        Ok(Datatype::Compound(offset, fields))
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(size) => write!(f, "i{}", size * 8),
            Self::UInt(size) => write!(f, "u{}", size * 8),
            Self::Float(size) => write!(f, "f{}", size * 8),
            Self::Bool => f.write_str("bool"),
            Self::Text(size) => write!(f, "text of {size} bytes"),
            Self::Opaque(name, size) => write!(f, "{name} of {size} bytes"),
            Self::Other(name, _) => f.write_str(name),
            Self::VlenText => f.write_str(VLEN_TEXT),
            Self::Array(of, count) => write!(f, "[{of}; {count}]"),
            Self::Enum(_, members) => {
                let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
                write!(f, "enum {{{}}}", names.join(", "))
            }
            Self::Compound(_, fields) => {
                let fields: Vec<String> =
                    fields.iter().map(|(name, _, ty)| format!("{name}: {ty}")).collect();
                write!(f, "{{{}}}", fields.join(", "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Object)]
    struct Inner(u16, [f32; 3]);

    #[derive(Object)]
    struct Outer {
        flag: bool,
        inner: Inner,
        grid: [[i8; 2]; 3],
    }

    #[test]
    fn objects_become_compounds_without_gaps() {
        let ty = Datatype::of::<Outer>().unwrap();
        assert_eq!(Some(ty.size()), Outer::schema().size());
        assert!(ty.to_string().starts_with("{flag: bool, inner: {"), "{ty}");
    }

    #[test]
    fn what_has_no_constant_size_is_refused_by_name() {
        #[derive(Object)]
        struct Named {
            names: Vec<String>,
        }
        let error = Datatype::of::<Named>().unwrap_err();
        assert!(error.contains("Named") && error.contains("names"), "{error}");
    }
}
