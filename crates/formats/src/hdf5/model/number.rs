//! Bytes of any numeric type as `f64`: for looking at values without knowing their type.

use super::datatype::Datatype;

/// The nearest `f64` of each number in `bytes`; none if the elements are no numbers.
pub fn numbers(ty: &Datatype, bytes: &[u8]) -> Option<Vec<f64>> {
    fn each<const N: usize>(bytes: &[u8], number: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect()
    }
    Some(match ty {
        Datatype::Int(1) => each(bytes, |bytes| f64::from(i8::from_le_bytes(bytes))),
        Datatype::Int(2) => each(bytes, |bytes| f64::from(i16::from_le_bytes(bytes))),
        Datatype::Int(4) => each(bytes, |bytes| f64::from(i32::from_le_bytes(bytes))),
        Datatype::Int(8) => each(bytes, |bytes| i64::from_le_bytes(bytes) as f64),
        Datatype::UInt(1) | Datatype::Enum(1, _) | Datatype::Bool => {
            each(bytes, |bytes| f64::from(u8::from_le_bytes(bytes)))
        }
        Datatype::UInt(2) | Datatype::Enum(2, _) => each(bytes, |bytes| f64::from(u16::from_le_bytes(bytes))),
        Datatype::UInt(4) | Datatype::Enum(4, _) => each(bytes, |bytes| f64::from(u32::from_le_bytes(bytes))),
        Datatype::UInt(8) | Datatype::Enum(8, _) => each(bytes, |bytes| u64::from_le_bytes(bytes) as f64),
        Datatype::Float(4) => each(bytes, |bytes| f64::from(f32::from_le_bytes(bytes))),
        Datatype::Float(8) => each(bytes, f64::from_le_bytes),
        Datatype::Array(of, _) => return numbers(of, bytes),
        _ => return None,
    })
}
