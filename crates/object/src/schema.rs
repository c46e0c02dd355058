//! Types as values: names, types, nesting, sizes, offsets, units. The description of the objects in a file.
//!
//! ```
//! use aqueduct_object::Object;
//!
//! #[derive(Object)]
//! struct Cell {
//!     #[object(unit = "Pa")]
//!     pressure: f64,
//!     flags: [bool; 2],
//!     name: Option<String>,
//! }
//!
//! let schema = Cell::schema();
//! assert_eq!(schema.signature(), "Cell{pressure:f64<Pa>,flags:[bool;2],name:text?}");
//! assert_eq!(schema.size(), None, "the name has any length");
//! assert_eq!(schema.locate("flags[1]")?.offset, Some(9));
//! # Ok::<(), aqueduct_object::schema::NoSuchField>(())
//! ```

mod byte_order;
mod columns;
mod display;
mod dtype;
mod field_path;
mod json;
mod migrate;
mod mismatch;
mod outline;
mod walk;

use std::fmt::Write;

use serde::{Deserialize, Serialize};

pub use byte_order::ByteOrder;
pub(crate) use byte_order::swap;
pub use columns::{ColumnKind, ObjectColumn, ObjectColumns};
pub use dtype::DtypeError;
pub use field_path::{FieldLocation, NoSuchField};
use json::SchemaJson;
pub(crate) use migrate::Migration;
pub use mismatch::SchemaMismatch;
pub(crate) use walk::{TypeContext, skip};

/// The type of an object or of a part of one.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "numbers are named as in Rust")]
pub enum Type {
    /// No bytes.
    Unit,
    /// 0 or 1 in a byte.
    Bool,
    /// A Unicode character in 32 bits.
    Char,
    U8,
    U16,
    U32,
    U64,
    U128,
    I8,
    I16,
    I32,
    I64,
    I128,
    F16,
    F32,
    F64,
    /// A length in bytes, then UTF-8.
    Text,
    /// A constant number of elements.
    Array {
        of: Box<Type>,
        len: u64,
    },
    /// Unnamed parts.
    Tuple(Vec<Type>),
    /// A value or none.
    Option(Box<Type>),
    /// Any number of elements, ordered.
    List(Box<Type>),
    /// Any number of different elements.
    Set(Box<Type>),
    /// Keys and values.
    Map {
        key: Box<Type>,
        value: Box<Type>,
    },
    /// Named fields.
    Struct(Struct),
    /// One of several variants.
    Enum(Enum),
    /// A reference to an enclosing structure or enum, counted from the innermost one: trees contain themselves.
    #[serde(rename = "up")]
    Recursive(u32),
}

/// A structure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Struct {
    /// Its name.
    pub name: String,
    /// Its fields, in the order of the encoding.
    pub fields: Vec<Field>,
    /// Fields of older files that are dropped.
    #[serde(skip)]
    pub removed: Vec<String>,
}

/// A field.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub ty: Type,
    /// The unit of its numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// A description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Its names in older files.
    #[serde(skip)]
    pub aliases: Vec<String>,
    /// The encoded form of its value if a file does not have it.
    #[serde(skip)]
    pub default: Option<Vec<u8>>,
}

/// An enumeration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Enum {
    /// Its name.
    pub name: String,
    /// Its variants, in the order of their numbers.
    pub variants: Vec<Variant>,
}

/// A variant.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// Its name.
    pub name: String,
    /// Its fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<Field>,
    /// Its names in older files.
    #[serde(skip)]
    pub aliases: Vec<String>,
}

/// A type as a value: printable, comparable, with a stable hash.
///
/// Two schemas are equal if their names, types, order and units are. Descriptions and the attributes for migration are not compared.
///
/// In JSON it is the name of the type, the type, and the hash, as in the description of an object file.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "SchemaJson", try_from = "SchemaJson")]
pub struct Schema {
    root: Type,
    signature: String,
    hash: u64,
    size: Option<u64>,
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.signature == other.signature
    }
}

impl Eq for Schema {}

impl Schema {
    /// A schema with this type at its root.
    pub fn new(root: Type) -> Self {
        let signature = root.signature();
        let hash = xxhash_rust::xxh3::xxh3_64(signature.as_bytes());
        let size = root.size();
        Self { root, signature, hash, size }
    }

    /// The type of the objects.
    pub fn root(&self) -> &Type {
        &self.root
    }

    /// The name of the type, for messages.
    pub fn name(&self) -> String {
        self.root.name()
    }

    /// Names, types, order and units in one line: the input of the hash.
    pub fn signature(&self) -> &str {
        &self.signature
    }

    /// A hash of the [signature](Schema::signature) (XXH3, 64 bits): the same on every machine and in every version.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Bytes of the encoded form, if all values have the same size.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Checks a decoded schema: references to enclosing types, sizes below 2^63, different names of fields.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.root.check(0)
    }
}

impl Type {
    /// Bytes of the encoded form, if all values have the same size and it is less than 2^63.
    pub fn size(&self) -> Option<u64> {
        let size = match self {
            Self::Unit | Self::Array { len: 0, .. } => 0,
            Self::Bool | Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 | Self::F16 => 2,
            Self::Char | Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
            Self::U128 | Self::I128 => 16,
            Self::Array { of, len } => of.size()?.checked_mul(*len)?,
            Self::Tuple(parts) => sum(parts)?,
            Self::Struct(structure) => sum(structure.fields.iter().map(|field| &field.ty))?,
            Self::Enum(choice) if choice.variants.iter().all(|variant| variant.fields.is_empty()) => 4,
            Self::Enum(_)
            | Self::Text
            | Self::Option(_)
            | Self::List(_)
            | Self::Set(_)
            | Self::Map { .. }
            | Self::Recursive(_) => return None,
        };
        i64::try_from(size).is_ok().then_some(size)
    }

    /// The name, or the signature of a type without a name.
    pub fn name(&self) -> String {
        match self {
            Self::Struct(structure) => structure.name.clone(),
            Self::Enum(choice) => choice.name.clone(),
            other => other.signature(),
        }
    }

    /// Names, types, order and units in one line.
    pub fn signature(&self) -> String {
        let mut text = String::new();
        self.sign(&mut text);
        text
    }

    fn sign(&self, out: &mut String) {
        match self {
            Self::Array { of, len } => {
                out.push('[');
                of.sign(out);
                // Writing to a string does not fail.
                let _ = write!(out, ";{len}]");
            }
            Self::Tuple(parts) => write_signature_list(out, "(", parts, ")", Self::sign),
            Self::Option(of) => {
                of.sign(out);
                out.push('?');
            }
            Self::List(of) => write_signature_list(out, "[", [of], "]", |of, out| of.sign(out)),
            Self::Set(of) => write_signature_list(out, "{", [of], "}", |of, out| of.sign(out)),
            Self::Map { key, value } => {
                out.push('{');
                key.sign(out);
                out.push_str("=>");
                value.sign(out);
                out.push('}');
            }
            Self::Struct(structure) => {
                out.push_str(&structure.name);
                write_signature_list(out, "{", &structure.fields, "}", Field::sign);
            }
            Self::Enum(choice) => {
                out.push_str(&choice.name);
                write_signature_list(out, "<", &choice.variants, ">", |variant, out| {
                    out.push_str(&variant.name);
                    write_signature_list(out, "{", &variant.fields, "}", Field::sign);
                });
            }
            Self::Recursive(levels) => {
                let _ = write!(out, "^{levels}");
            }
            simple => out.push_str(simple.word()),
        }
    }

    /// The name of a type without parts.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Unit => "()",
            Self::Bool => "bool",
            Self::Char => "char",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::F16 => "f16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Text => "text",
            _ => "",
        }
    }

    fn check(&self, depth: u32) -> Result<(), String> {
        match self {
            Self::Recursive(levels) if *levels >= depth => {
                return Err(format!("^{levels} refers to an enclosing type that does not exist"));
            }
            Self::Array { of, .. } | Self::Option(of) | Self::List(of) | Self::Set(of) => of.check(depth)?,
            Self::Map { key, value } => key.check(depth).and_then(|()| value.check(depth))?,
            Self::Tuple(parts) => parts.iter().try_for_each(|part| part.check(depth))?,
            Self::Struct(structure) => distinct(&structure.fields, depth)?,
            Self::Enum(choice) => {
                choice.variants.iter().try_for_each(|variant| distinct(&variant.fields, depth))?;
            }
            _ => {}
        }
        // All parts have constant size and the sum has none: it is too large.
        let constant = match self {
            Self::Array { of, .. } => of.size().is_some(),
            Self::Tuple(parts) => parts.iter().all(|part| part.size().is_some()),
            Self::Struct(structure) => structure.fields.iter().all(|field| field.ty.size().is_some()),
            _ => false,
        };
        if constant && self.size().is_none() {
            return Err(format!("{} exceeds the maximum file size", self.name()));
        }
        Ok(())
    }
}

fn sum<'t>(parts: impl IntoIterator<Item = &'t Type>) -> Option<u64> {
    parts.into_iter().try_fold(0u64, |sum, part| sum.checked_add(part.size()?))
}

fn distinct(fields: &[Field], depth: u32) -> Result<(), String> {
    let mut names: Vec<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    names.sort_unstable();
    if let Some([twice, _]) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two fields have the name {twice:?}"));
    }
    fields.iter().try_for_each(|field| field.ty.check(depth + 1))
}

fn write_signature_list<T>(
    out: &mut String,
    open: &str,
    parts: impl IntoIterator<Item = T>,
    close: &str,
    sign: impl Fn(T, &mut String),
) {
    out.push_str(open);
    for (place, part) in parts.into_iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        sign(part, out);
    }
    out.push_str(close);
}

impl Field {
    /// A field without unit, description, aliases and default.
    pub fn new(name: &str, ty: Type) -> Self {
        Self { name: name.to_owned(), ty, unit: None, description: None, aliases: Vec::new(), default: None }
    }

    /// The unit of its numbers.
    #[must_use]
    pub fn with_unit(mut self, unit: &str) -> Self {
        self.unit = Some(unit.to_owned());
        self
    }

    /// A description.
    #[must_use]
    pub fn with_description(mut self, description: &str) -> Self {
        self.description = Some(description.to_owned());
        self
    }

    /// Adds a name in older files.
    #[must_use]
    pub fn with_alias(mut self, name: &str) -> Self {
        self.aliases.push(name.to_owned());
        self
    }

    /// The encoded form of its value if a file does not have it.
    #[must_use]
    pub fn with_default(mut self, default: Vec<u8>) -> Self {
        self.default = Some(default);
        self
    }

    fn sign(&self, out: &mut String) {
        out.push_str(&self.name);
        out.push(':');
        self.ty.sign(out);
        if let Some(unit) = &self.unit {
            let _ = write!(out, "<{unit}>");
        }
    }
}

impl Variant {
    /// A variant with these fields.
    pub fn new(name: &str, fields: Vec<Field>) -> Self {
        Self { name: name.to_owned(), fields, aliases: Vec::new() }
    }

    /// Adds a name in older files.
    #[must_use]
    pub fn with_alias(mut self, name: &str) -> Self {
        self.aliases.push(name.to_owned());
        self
    }
}
