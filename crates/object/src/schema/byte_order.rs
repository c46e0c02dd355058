//! Byte orders: conversion of encoded objects between little-endian, the canonical form, and big-endian.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Type;
use super::walk::TypeContext;

/// The byte order of stored numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// The least significant byte first; the canonical form.
    #[default]
    Little,
    /// The most significant byte first.
    Big,
}

impl fmt::Display for ByteOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Little => "little-endian",
            Self::Big => "big-endian",
        })
    }
}

/// Swaps the byte order of the numbers of consecutive encoded objects; `from` is their present order. If the bytes are not objects of the type, the
/// error has the position.
pub(crate) fn swap(ty: &Type, from: ByteOrder, bytes: &mut [u8]) -> Result<(), String> {
    let mut turn = ByteSwapper { bytes, at: 0, from };
    let mut around = TypeContext::default();
    while turn.at < turn.bytes.len() {
        let start = turn.at;
        turn.value(ty, &mut around).map_err(|why| format!("{why} at byte {}", turn.at))?;
        if turn.at == start {
            return Err(format!("the objects have no bytes, found {} bytes", turn.bytes.len()));
        }
    }
    Ok(())
}

struct ByteSwapper<'b> {
    bytes: &'b mut [u8],
    at: usize,
    from: ByteOrder,
}

impl ByteSwapper<'_> {
    fn take(&mut self, len: u64) -> Result<&mut [u8], String> {
        let left = self.bytes.len() - self.at;
        let wanted = usize::try_from(len).ok().filter(|len| *len <= left);
        let len = wanted.ok_or_else(|| format!("{len} more bytes are needed and {left} are left"))?;
        self.at += len;
        Ok(&mut self.bytes[self.at - len..self.at])
    }

    /// Swaps `count` numbers of this width.
    fn numbers(&mut self, width: u64, count: u64) -> Result<(), String> {
        let bytes = self.take(width.checked_mul(count).ok_or("the size exceeds the maximum file size")?)?;
        match width {
            0 | 1 => {}
            2 => bytes.chunks_exact_mut(2).for_each(|number| number.swap(0, 1)),
            width => bytes.chunks_exact_mut(width as usize).for_each(<[u8]>::reverse),
        }
        Ok(())
    }

    /// Swaps a length or the number of a variant, and returns its value.
    fn number<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let from = self.from;
        let bytes = self.take(N as u64)?;
        let mut number = [0; N];
        number.copy_from_slice(bytes);
        bytes.reverse();
        if from == ByteOrder::Big {
            number.reverse();
        }
        Ok(number)
    }

    fn len(&mut self, element: Option<u64>) -> Result<u64, String> {
        let len = u64::from_le_bytes(self.number()?);
        let most = match element {
            Some(0) => 1 << 24,
            size => (self.bytes.len() - self.at) as u64 / size.unwrap_or(1),
        };
        if len > most {
            Err(format!("a length of {len} where at most {most} elements can follow"))
        } else {
            Ok(len)
        }
    }

    fn value<'s>(&mut self, ty: &'s Type, around: &mut TypeContext<'s>) -> Result<(), String> {
        let (ty, outside) = around.enter(ty)?;
        match ty {
            Type::Unit => {}
            Type::Enum(choice) => {
                let number = u32::from_le_bytes(self.number()?);
                let variant = choice.variants.get(number as usize);
                let variant = variant.ok_or_else(|| format!("{} has no variant {number}", choice.name))?;
                variant.fields.iter().try_for_each(|field| self.value(&field.ty, around))?;
            }
            Type::Text => {
                let len = self.len(Some(1))?;
                self.take(len)?;
            }
            Type::Option(of) => match self.take(1)?[0] {
                0 => {}
                1 => self.value(of, around)?,
                other => return Err(format!("{other} is neither 0 nor 1")),
            },
            Type::List(of) | Type::Set(of) => {
                let len = self.len(of.size())?;
                self.repeat(of, len, around)?;
            }
            Type::Map { key, value } => {
                let size = key.size().zip(value.size()).and_then(|(key, value)| key.checked_add(value));
                for _ in 0..self.len(size)? {
                    self.value(key, around)?;
                    self.value(value, around)?;
                }
            }
            Type::Array { of, len } => self.repeat(of, *len, around)?,
            Type::Tuple(parts) => parts.iter().try_for_each(|part| self.value(part, around))?,
            Type::Struct(structure) => {
                structure.fields.iter().try_for_each(|field| self.value(&field.ty, around))?;
            }
            number => self.numbers(number.size().unwrap_or(1), 1)?,
        }
        around.leave(outside);
        Ok(())
    }

    fn repeat<'s>(&mut self, of: &'s Type, len: u64, around: &mut TypeContext<'s>) -> Result<(), String> {
        if !of.word().is_empty() && !matches!(of, Type::Text) {
            return self.numbers(of.size().unwrap_or(1), len);
        }
        if of.size() == Some(0) {
            return Ok(());
        }
        (0..len).try_for_each(|_| self.value(of, around))
    }
}
