//! What arrays hold: numbers, and records of them.

use aqueduct::object::schema::Type;

/// A kind of number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs, reason = "named as in Rust")]
pub(crate) enum Number {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Number {
    pub(crate) fn size(self) -> u64 {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    /// The number that lies at the start of bytes, as text and as the nearest `f64`; there are enough bytes.
    #[allow(clippy::cast_lossless, reason = "one expression for all types, some of which lose digits")]
    pub(crate) fn read(self, bytes: &[u8]) -> (String, f64) {
        macro_rules! number {
            ($type:ty) => {{
                let mut own = [0; size_of::<$type>()];
                own.copy_from_slice(&bytes[..size_of::<$type>()]);
                let value = <$type>::from_le_bytes(own);
                (value.to_string(), value as f64)
            }};
        }
        match self {
            Self::I8 => number!(i8),
            Self::I16 => number!(i16),
            Self::I32 => number!(i32),
            Self::I64 => number!(i64),
            Self::U8 => number!(u8),
            Self::U16 => number!(u16),
            Self::U32 => number!(u32),
            Self::U64 => number!(u64),
            Self::F32 => number!(f32),
            Self::F64 => number!(f64),
        }
    }
}

/// An element: its bytes, and the numbers in it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Element {
    /// For people.
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Where each number is, what it is called (empty for an element that is one), and its kind. None where others are in it.
    pub(crate) parts: Option<Vec<(u64, String, Number)>>,
}

impl Element {
    pub(crate) fn number(number: Number) -> Self {
        let name = format!("{number:?}").to_lowercase();
        Self { name, size: number.size(), parts: Some(vec![(0, String::new(), number)]) }
    }

    /// The kind of number that it is, if it is one.
    pub(crate) fn as_number(&self) -> Option<Number> {
        match self.parts.as_deref() {
            Some([(0, name, number)]) if name.is_empty() => Some(*number),
            _ => None,
        }
    }

    /// Of objects, in their encoded form.
    pub(crate) fn of_schema(name: String, ty: &Type) -> Self {
        let mut parts = Vec::new();
        let known = collect(ty, 0, "", &mut parts).is_some();
        Self { name, size: ty.size().unwrap_or(0), parts: known.then_some(parts) }
    }

    /// The nearest `f64` of each number; none where others are among them.
    pub(crate) fn numbers(&self, bytes: &[u8]) -> Option<Vec<f64>> {
        let parts = self.parts.as_ref()?;
        let whole = bytes.chunks_exact(self.size.max(1) as usize);
        Some(
            whole
                .flat_map(|one| parts.iter().map(|(at, _, number)| number.read(&one[*at as usize..]).1))
                .collect(),
        )
    }

    /// Turns the bytes of each number around.
    pub(crate) fn swap(&self, bytes: &mut [u8]) {
        for one in bytes.chunks_exact_mut(self.size.max(1) as usize) {
            for (at, _, number) in self.parts.iter().flatten() {
                one[*at as usize..(*at + number.size()) as usize].reverse();
            }
        }
    }
}

/// The numbers of a type, and behind its last byte; none where it has others.
fn collect(ty: &Type, at: u64, name: &str, parts: &mut Vec<(u64, String, Number)>) -> Option<u64> {
    let inner = |part: &str| if name.is_empty() { part.to_owned() } else { format!("{name}.{part}") };
    let number = match ty {
        Type::Bool | Type::U8 => Number::U8,
        Type::U16 => Number::U16,
        Type::U32 | Type::Char => Number::U32,
        Type::Enum(_) if ty.size().is_some() => Number::U32,
        Type::U64 => Number::U64,
        Type::I8 => Number::I8,
        Type::I16 => Number::I16,
        Type::I32 => Number::I32,
        Type::I64 => Number::I64,
        Type::F32 => Number::F32,
        Type::F64 => Number::F64,
        Type::Array { of, len } => {
            return (0..*len).try_fold(at, |at, index| collect(of, at, &format!("{name}[{index}]"), parts));
        }
        Type::Tuple(of) => {
            return of
                .iter()
                .enumerate()
                .try_fold(at, |at, (index, ty)| collect(ty, at, &inner(&index.to_string()), parts));
        }
        Type::Struct(of) => {
            return of
                .fields
                .iter()
                .try_fold(at, |at, field| collect(&field.ty, at, &inner(&field.name), parts));
        }
        _ => return None,
    };
    parts.push((at, name.to_owned(), number));
    Some(at + number.size())
}
