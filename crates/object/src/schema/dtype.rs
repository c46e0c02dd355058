//! The numpy dtype of objects of constant size.

use std::fmt;

use super::{ByteOrder, Schema, Type};

/// Objects of variable size have no dtype.
#[derive(Clone, PartialEq, Eq)]
pub struct DtypeError {
    /// The part of the type that has no constant size.
    pub part: String,
}

impl fmt::Display for DtypeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "numpy has no dtype for {}: its values have variable size", self.part)
    }
}

impl fmt::Debug for DtypeError {
    /// The text of `Display`: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for DtypeError {}

impl Schema {
    /// The dtype of the objects as numpy writes it, a Python literal: `np.dtype(ast.literal_eval(…))`.
    ///
    /// ```
    /// use aqueduct_object::Object;
    /// use aqueduct_object::schema::ByteOrder;
    ///
    /// #[derive(Object)]
    /// struct Particle { id: u32, position: [f64; 3], charged: bool }
    ///
    /// let dtype = Particle::schema().dtype(ByteOrder::Little)?;
    /// assert_eq!(dtype, "[('id', '<u4'), ('position', '<f8', (3,)), ('charged', '?')]");
    /// # Ok::<(), aqueduct_object::schema::DtypeError>(())
    /// ```
    pub fn dtype(&self, order: ByteOrder) -> Result<String, DtypeError> {
        format(self.root(), order)
    }
}

fn format(ty: &Type, order: ByteOrder) -> Result<String, DtypeError> {
    let sign = match order {
        ByteOrder::Little => '<',
        ByteOrder::Big => '>',
    };
    Ok(match ty {
        Type::Bool => "'?'".to_owned(),
        Type::U8 => "'|u1'".to_owned(),
        Type::I8 => "'|i1'".to_owned(),
        Type::Unit => "'|V0'".to_owned(),
        Type::U128 | Type::I128 => "'|V16'".to_owned(),
        Type::U16 => format!("'{sign}u2'"),
        Type::I16 => format!("'{sign}i2'"),
        Type::Char | Type::U32 => format!("'{sign}u4'"),
        Type::I32 => format!("'{sign}i4'"),
        Type::F16 => format!("'{sign}f2'"),
        Type::F32 => format!("'{sign}f4'"),
        Type::U64 => format!("'{sign}u8'"),
        Type::I64 => format!("'{sign}i8'"),
        Type::F64 => format!("'{sign}f8'"),
        Type::Enum(_) if ty.size().is_some() => format!("'{sign}u4'"),
        Type::Array { .. } => {
            let (of, shape) = element(ty);
            format!("({}, {shape})", format(of, order)?)
        }
        Type::Tuple(parts) => {
            let fields =
                parts.iter().enumerate().map(|(place, part)| field(&format!("f{place}"), part, order));
            format!("[{}]", fields.collect::<Result<Vec<_>, _>>()?.join(", "))
        }
        Type::Struct(structure) => {
            let fields = structure.fields.iter().map(|part| field(&part.name, &part.ty, order));
            format!("[{}]", fields.collect::<Result<Vec<_>, _>>()?.join(", "))
        }
        other => return Err(DtypeError { part: other.name() }),
    })
}

fn field(name: &str, ty: &Type, order: ByteOrder) -> Result<String, DtypeError> {
    let name = name.replace('\\', "\\\\").replace('\'', "\\'");
    let (of, shape) = element(ty);
    let of = format(of, order).map_err(|_| DtypeError { part: format!("field {name:?}") })?;
    Ok(if matches!(ty, Type::Array { .. }) {
        format!("('{name}', {of}, {shape})")
    } else {
        format!("('{name}', {of})")
    })
}

/// The element type of nested arrays, and their shape as a tuple.
fn element(mut ty: &Type) -> (&Type, String) {
    let mut lengths = Vec::new();
    while let Type::Array { of, len } = ty {
        lengths.push(format!("{len},"));
        ty = of;
    }
    (ty, format!("({})", lengths.join(" ")))
}
