//! Values as JSON, which has no infinities and no NaN: they are strings.

use serde_json::{Value, json};

use crate::array_file::{AttributeValue, NamedAttribute, NumberType};

/// A number, or `"inf"`, `"-inf"`, `"NaN"`.
pub(super) fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(|| Value::String(value.to_string()), Value::Number)
}

/// The number at the start of the bytes.
pub(super) fn element(kind: NumberType, bytes: &[u8]) -> Value {
    let text = kind.text(bytes);
    // Integers of all sizes are exact; floating-point numbers have the shortest text that gives the same number, and a point.
    let is_float = matches!(kind, NumberType::F32 | NumberType::F64);
    let point = if is_float && !text.contains('.') { ".0" } else { "" };
    serde_json::from_str(&(text.clone() + point)).unwrap_or(Value::String(text))
}

/// A list or a single number for numbers, text for text.
fn attribute(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::Text(text) => json!(text.trim_end_matches('\0')),
        AttributeValue::Texts(texts) => json!(texts),
        AttributeValue::Numbers(kind, shape, bytes) => {
            let all: Vec<Value> =
                bytes.chunks_exact(kind.size() as usize).map(|bytes| element(*kind, bytes)).collect();
            match &all[..] {
                [one] if shape.len() <= 1 => one.clone(),
                _ => json!(all),
            }
        }
        other => json!(other.to_string()),
    }
}

/// The attributes by their names.
pub(super) fn attributes(all: &[NamedAttribute]) -> Value {
    all.iter().map(|one| (one.name.clone(), attribute(&one.value))).collect::<serde_json::Map<_, _>>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_exact_and_nan_is_text() {
        assert_eq!(number(f64::NAN), json!("NaN"));
        assert_eq!(number(f64::NEG_INFINITY), json!("-inf"));
        assert_eq!(element(NumberType::U64, &u64::MAX.to_le_bytes()), json!(u64::MAX));
        assert_eq!(element(NumberType::F32, &0.1f32.to_le_bytes()).to_string(), "0.1");
        assert_eq!(element(NumberType::F64, &2f64.to_le_bytes()).to_string(), "2.0");
        assert_eq!(element(NumberType::F64, &f64::INFINITY.to_le_bytes()), json!("inf"));
    }
}
