//! Types of elements: the package describes a numpy dtype as a tree of tuples, which becomes a schema, an HDF5 type or a kind of values here.
//!
//! | tree | type |
//! |---|---|
//! | `"i1"` … `"u8"`, `"f2"`, `"f4"`, `"f8"`, `"b1"`, `"c8"`, `"c16"` | a number, as numpy names it |
//! | `("S", n)`, `("V", n)` | text, bytes |
//! | `("array", of, n)` | so many of one type |
//! | `("struct", name, [(field, type), …])` | fields without gaps |

use aqueduct::hdf5::Datatype;
use aqueduct::netcdf::NcType;
use aqueduct::object::schema::{Field, Schema, Struct, Type};
use aqueduct::stream::ValueKind;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

/// The deepest nesting of types.
const DEEPEST: usize = 32;

/// A tree of tuples.
#[derive(Clone, Debug)]
pub(crate) enum TypeTree {
    Number(String),
    Text(u64),
    Bytes(u64),
    Array(Box<TypeTree>, u64),
    Struct(String, Vec<(String, TypeTree)>),
}

impl<'py> FromPyObject<'_, 'py> for TypeTree {
    type Error = PyErr;

    fn extract(tree: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        parse(&tree, 0)
    }
}

fn parse(tree: &Bound<'_, PyAny>, depth: usize) -> PyResult<TypeTree> {
    let wrong = || PyTypeError::new_err(format!("{tree} does not describe a type"));
    if depth > DEEPEST {
        return Err(wrong());
    }
    if let Ok(number) = tree.cast::<PyString>() {
        return Ok(TypeTree::Number(number.to_string()));
    }
    let parts = tree.cast::<PyTuple>().map_err(|_| wrong())?;
    let word: String = parts.get_item(0)?.extract()?;
    Ok(match &*word {
        "S" => TypeTree::Text(parts.get_item(1)?.extract()?),
        "V" => TypeTree::Bytes(parts.get_item(1)?.extract()?),
        "array" => {
            TypeTree::Array(Box::new(parse(&parts.get_item(1)?, depth + 1)?), parts.get_item(2)?.extract()?)
        }
        "struct" => {
            let mut fields = Vec::new();
            for field in parts.get_item(2)?.try_iter()? {
                let (name, ty): (String, Bound<'_, PyAny>) = field?.extract()?;
                fields.push((name, parse(&ty, depth + 1)?));
            }
            TypeTree::Struct(parts.get_item(1)?.extract()?, fields)
        }
        _ => return Err(wrong()),
    })
}

impl TypeTree {
    /// As a kind of values of streams.
    pub(crate) fn kind(&self) -> Option<ValueKind> {
        let Self::Number(number) = self else { return None };
        ValueKind::ALL.into_iter().find(|kind| name_of(*kind) == number)
    }

    /// As a type of objects.
    pub(crate) fn schema(&self) -> Result<Schema, String> {
        Ok(Schema::new(self.object()?))
    }

    fn object(&self) -> Result<Type, String> {
        Ok(match self {
            Self::Number(number) => match &**number {
                "b1" => Type::Bool,
                "i1" => Type::I8,
                "i2" => Type::I16,
                "i4" => Type::I32,
                "i8" => Type::I64,
                "u1" => Type::U8,
                "u2" => Type::U16,
                "u4" => Type::U32,
                "u8" => Type::U64,
                "f2" => Type::F16,
                "f4" => Type::F32,
                "f8" => Type::F64,
                "c8" => complex(Type::F32),
                "c16" => complex(Type::F64),
                other => return Err(format!("there are no objects of type {other}")),
            },
            Self::Text(size) | Self::Bytes(size) => Type::Array { of: Box::new(Type::U8), len: *size },
            Self::Array(of, len) => Type::Array { of: Box::new(of.object()?), len: *len },
            Self::Struct(name, fields) => {
                let fields = fields.iter().map(|(name, ty)| Ok(Field::new(name, ty.object()?)));
                structure(name, fields.collect::<Result<Vec<_>, String>>()?)
            }
        })
    }

    /// As a type of HDF5.
    pub(crate) fn hdf5(&self) -> Result<Datatype, String> {
        Ok(match self {
            Self::Number(number) => {
                let size: u32 = number.get(1..).and_then(|size| size.parse().ok()).unwrap_or(0);
                match number.as_bytes().first() {
                    Some(b'b') => Datatype::Bool,
                    Some(b'i') => Datatype::Int(size),
                    Some(b'u') => Datatype::UInt(size),
                    Some(b'f') => Datatype::Float(size),
                    Some(b'c') => {
                        let part = Datatype::Float(size / 2);
                        let fields = [("r", 0), ("i", part.size())];
                        let fields = fields.map(|(name, at)| (name.to_owned(), at, part.clone()));
                        Datatype::Compound(u64::from(size), fields.to_vec())
                    }
                    _ => return Err(format!("HDF5 has no type {number}")),
                }
            }
            Self::Text(size) => Datatype::Text(*size),
            Self::Bytes(size) => Datatype::Opaque("bytes".to_owned(), *size),
            Self::Array(of, count) => Datatype::Array(Box::new(of.hdf5()?), *count),
            Self::Struct(_, fields) => {
                let (mut at, mut all) = (0, Vec::new());
                for (name, ty) in fields {
                    let ty = ty.hdf5()?;
                    let size = ty.size();
                    all.push((name.clone(), at, ty));
                    at += size;
                }
                Datatype::Compound(at, all)
            }
        })
    }
}

fn complex(part: Type) -> Type {
    structure("Complex", ["r", "i"].map(|name| Field::new(name, part.clone())).to_vec())
}

fn structure(name: &str, fields: Vec<Field>) -> Type {
    Type::Struct(Struct { name: name.to_owned(), fields, removed: Vec::new() })
}

/// The name of a kind, as numpy has it.
pub(crate) fn name_of(kind: ValueKind) -> &'static str {
    match kind {
        ValueKind::I8 => "i1",
        ValueKind::I16 => "i2",
        ValueKind::I32 => "i4",
        ValueKind::I64 => "i8",
        ValueKind::U8 => "u1",
        ValueKind::U16 => "u2",
        ValueKind::U32 => "u4",
        ValueKind::U64 => "u8",
        ValueKind::F32 => "f4",
        ValueKind::F64 => "f8",
        ValueKind::F16 => "f2",
        ValueKind::Bool => "b1",
        ValueKind::Complex64 => "c8",
        ValueKind::Complex128 => "c16",
    }
}

/// The type of a netCDF variable for a type of numpy, and back.
const NETCDF: [(&str, NcType); 11] = [
    ("i1", NcType::Byte),
    ("S1", NcType::Char),
    ("i2", NcType::Short),
    ("i4", NcType::Int),
    ("f4", NcType::Float),
    ("f8", NcType::Double),
    ("u1", NcType::UByte),
    ("u2", NcType::UShort),
    ("u4", NcType::UInt),
    ("i8", NcType::Int64),
    ("u8", NcType::UInt64),
];

/// The type of netCDF of this name.
pub(crate) fn netcdf_type(name: &str) -> Option<NcType> {
    NETCDF.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
}

/// The name of a type of netCDF, as numpy has it.
pub(crate) fn netcdf_name(ty: NcType) -> &'static str {
    NETCDF.iter().find(|(_, known)| *known == ty).map_or("u1", |(name, _)| name)
}

/// A type of HDF5 as a tree, with the places of fields: `("fields", size, [(name, offset, tree), …])`; `None` where it cannot be read.
pub(crate) fn hdf5_tree(py: Python<'_>, ty: &Datatype) -> PyResult<Py<PyAny>> {
    match ty {
        Datatype::Int(size) => format!("i{size}").into_py_any(py),
        Datatype::UInt(size) => format!("u{size}").into_py_any(py),
        Datatype::Float(size) => format!("f{size}").into_py_any(py),
        Datatype::Bool => "b1".into_py_any(py),
        Datatype::Enum(size, members) => ("enum", *size, members.clone()).into_py_any(py),
        Datatype::Text(size) => ("S", *size).into_py_any(py),
        Datatype::Opaque(_, size) => ("V", *size).into_py_any(py),
        Datatype::Array(of, count) => ("array", hdf5_tree(py, of)?, *count).into_py_any(py),
        Datatype::Compound(size, fields) => {
            let list = PyList::empty(py);
            for (name, at, ty) in fields {
                list.append((name, *at, hdf5_tree(py, ty)?))?;
            }
            ("fields", *size, list).into_py_any(py)
        }
        Datatype::VlenText => "text".into_py_any(py),
        Datatype::Other(..) => Ok(py.None()),
    }
}
