//! Encoded objects as text, by their schema.

use std::fmt::Write;

use super::walk::{TypeContext, length};
use super::{Field, Schema, Type};
use crate::codec::{DecodeError, Decoder};

impl Schema {
    /// An encoded object as text: fields with their names, values in Rust's `Debug` form.
    ///
    /// ```
    /// use aqueduct_object::{Object, encode};
    ///
    /// #[derive(Object)]
    /// struct Spark { at: [f32; 2], colour: Option<String> }
    ///
    /// let spark = Spark { at: [1.0, 0.5], colour: Some("red".into()) };
    /// let shown = Spark::schema().show(&encode(&spark))?;
    /// assert_eq!(shown, r#"Spark { at: [1.0, 0.5], colour: Some("red") }"#);
    /// # Ok::<(), aqueduct_object::DecodeError>(())
    /// ```
    pub fn show(&self, encoded: &[u8]) -> Result<String, DecodeError> {
        let mut input = Decoder::new(encoded);
        let mut show =
            ValueFormatter { input: &mut input, around: TypeContext::default(), text: String::new() };
        show.value(self.root())?;
        let text = show.text;
        input.end()?;
        Ok(text)
    }
}

/// The state of printing an object.
struct ValueFormatter<'s, 'i, 'b> {
    input: &'i mut Decoder<'b>,
    around: TypeContext<'s>,
    text: String,
}

impl<'s> ValueFormatter<'s, '_, '_> {
    fn value(&mut self, ty: &'s Type) -> Result<(), DecodeError> {
        let (meant, outside) = self.around.enter(ty).map_err(|why| self.input.error(why))?;
        match meant {
            Type::Text => self.put_text()?,
            Type::Option(of) => match self.input.take(1)?[0] {
                0 => self.text.push_str("None"),
                1 => self.inside(["Some(", ")"], |show| show.value(of))?,
                other => return Err(self.input.error(format!("{other} is neither 0 nor 1"))),
            },
            // Elements without bytes: their number is not bounded by the input.
            Type::Array { of, len } if of.size() == Some(0) && *len > 0 => {
                self.inside(["[", "]"], |show| show.value(of))?;
                self.text.insert_str(self.text.len() - 1, &format!("; {len}"));
            }
            Type::Array { of, len } => {
                self.inside(["[", "]"], |show| show.many(*len, |show| show.value(of)))?;
            }
            Type::Tuple(parts) => self.inside(["(", ")"], |show| {
                let mut parts = parts.iter();
                show.many(parts.len() as u64, |show| parts.next().map_or(Ok(()), |part| show.value(part)))
            })?,
            Type::List(of) => {
                let len = length(&[of], self.input)? as u64;
                self.inside(["[", "]"], |show| show.many(len, |show| show.value(of)))?;
            }
            Type::Set(of) => {
                let len = length(&[of], self.input)? as u64;
                self.inside(["{", "}"], |show| show.many(len, |show| show.value(of)))?;
            }
            Type::Map { key, value } => {
                let len = length(&[key, value], self.input)? as u64;
                self.inside(["{", "}"], |show| {
                    show.many(len, |show| {
                        show.value(key)?;
                        show.text.push_str(": ");
                        show.value(value)
                    })
                })?;
            }
            Type::Struct(structure) => self.fields(&structure.name, &structure.fields)?,
            Type::Enum(choice) => {
                let number = u32::from_le_bytes(self.input.take_array()?);
                let variant = choice.variants.get(number as usize);
                let variant = variant.ok_or_else(|| self.input.no_variant(&choice.name, number))?;
                self.fields(&variant.name, &variant.fields)?;
            }
            simple => self.simple(simple)?,
        }
        self.around.leave(outside);
        Ok(())
    }

    /// Named fields with their names; unnamed ones in their order.
    fn fields(&mut self, name: &str, fields: &'s [Field]) -> Result<(), DecodeError> {
        self.text.push_str(name);
        if fields.is_empty() {
            return Ok(());
        }
        let numbered = fields.iter().enumerate().all(|(at, field)| field.name == at.to_string());
        let mut fields = fields.iter();
        self.inside(if numbered { ["(", ")"] } else { [" { ", " }"] }, |show| {
            show.many(fields.len() as u64, |show| {
                let Some(field) = fields.next() else { return Ok(()) };
                if !numbered {
                    show.text.push_str(&field.name);
                    show.text.push_str(": ");
                }
                show.value(&field.ty)
            })
        })
    }

    fn inside(
        &mut self,
        [open, close]: [&str; 2],
        inner: impl FnOnce(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.text.push_str(open);
        inner(self)?;
        self.text.push_str(close);
        Ok(())
    }

    fn many(
        &mut self,
        count: u64,
        mut one: impl FnMut(&mut Self) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for at in 0..count {
            if at > 0 {
                self.text.push_str(", ");
            }
            one(self)?;
        }
        Ok(())
    }

    fn put_text(&mut self) -> Result<(), DecodeError> {
        let len = self.input.take_len_of(Some(1))?;
        let bytes = self.input.take(len)?;
        let text = std::str::from_utf8(bytes).map_err(|why| self.input.error(why.to_string()))?;
        // Writing to a string does not fail.
        let _ = write!(self.text, "{text:?}");
        Ok(())
    }

    fn simple(&mut self, ty: &Type) -> Result<(), DecodeError> {
        macro_rules! number {
            ($type:ty) => {
                format!("{:?}", <$type>::from_le_bytes(self.input.take_array()?))
            };
        }
        let shown = match ty {
            Type::Unit => "()".to_owned(),
            Type::Bool => match self.input.take(1)?[0] {
                0 => "false".to_owned(),
                1 => "true".to_owned(),
                other => return Err(self.input.error(format!("{other} is neither 0 nor 1"))),
            },
            Type::Char => {
                let number = u32::from_le_bytes(self.input.take_array()?);
                let found = char::from_u32(number);
                format!(
                    "{:?}",
                    found.ok_or_else(|| self.input.error(format!("{number} is not a character")))?
                )
            }
            Type::U8 => number!(u8),
            Type::U16 => number!(u16),
            Type::U32 => number!(u32),
            Type::U64 => number!(u64),
            Type::U128 => number!(u128),
            Type::I8 => number!(i8),
            Type::I16 => number!(i16),
            Type::I32 => number!(i32),
            Type::I64 => number!(i64),
            Type::I128 => number!(i128),
            Type::F16 => format!("{:?}", f16_to_f32(u16::from_le_bytes(self.input.take_array()?))),
            Type::F32 => number!(f32),
            Type::F64 => number!(f64),
            other => return Err(self.input.error(format!("{} cannot be printed", other.name()))),
        };
        self.text.push_str(&shown);
        Ok(())
    }
}

/// The value of a number of IEEE 754 `binary16`, which `f32` holds exactly.
fn f16_to_f32(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 0 { magnitude } else { -magnitude }
}
