//! Traversal of encoded objects by their schema: their lengths, without the Rust type.

use super::Type;
use crate::codec::{DEEPEST, DecodeError, Decoder};

/// The position of a traversal in a schema: the enclosing structures and enums, outermost first.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeContext<'s> {
    named: Vec<&'s Type>,
    depth: usize,
}

/// The context before a type was entered.
pub(crate) struct SavedContext<'s> {
    kept: usize,
    /// The contexts that a recursive reference leaves: its target has other enclosing types.
    left: Vec<&'s Type>,
}

impl<'s> TypeContext<'s> {
    /// Enters a type: resolves a recursive reference and returns the type with the context before.
    pub(crate) fn enter(&mut self, ty: &'s Type) -> Result<(&'s Type, SavedContext<'s>), String> {
        if self.depth > DEEPEST {
            return Err(format!("values nested more than {DEEPEST} deep"));
        }
        let (meant, outside) = match ty {
            Type::Recursive(levels) => {
                let place = self.named.len().checked_sub(*levels as usize + 1);
                let place = place.ok_or("the type refers to an enclosing type that does not exist")?;
                let left = self.named.split_off(place);
                (left[0], SavedContext { kept: place, left })
            }
            other => (other, SavedContext { kept: self.named.len(), left: Vec::new() }),
        };
        self.depth += 1;
        if matches!(meant, Type::Struct(_) | Type::Enum(_)) {
            self.named.push(meant);
        }
        Ok((meant, outside))
    }

    pub(crate) fn leave(&mut self, mut outside: SavedContext<'s>) {
        self.named.truncate(outside.kept);
        self.named.append(&mut outside.left);
        self.depth -= 1;
    }
}

/// Skips one value of the type.
pub(crate) fn skip<'s>(
    ty: &'s Type,
    input: &mut Decoder<'_>,
    around: &mut TypeContext<'s>,
) -> Result<(), DecodeError> {
    if let Some(size) = ty.size() {
        return input.take(usize::try_from(size).unwrap_or(usize::MAX)).map(drop);
    }
    let (meant, outside) = around.enter(ty).map_err(|why| input.error(why))?;
    input.nested(|input| parts(meant, input, around))?;
    around.leave(outside);
    Ok(())
}

fn parts<'s>(ty: &'s Type, input: &mut Decoder<'_>, around: &mut TypeContext<'s>) -> Result<(), DecodeError> {
    match ty {
        Type::Text => {
            let len = input.take_len_of(Some(1))?;
            input.take(len).map(drop)
        }
        Type::Option(of) => match input.take(1)?[0] {
            0 => Ok(()),
            1 => skip(of, input, around),
            other => Err(DecodeError::new(format!("{other} is neither 0 nor 1"), input.position() - 1)),
        },
        Type::List(of) | Type::Set(of) => many(&[of.as_ref()], input, around),
        Type::Map { key, value } => many(&[key.as_ref(), value.as_ref()], input, around),
        Type::Array { of, len } => (0..*len).try_for_each(|_| skip(of, input, around)),
        Type::Tuple(parts) => parts.iter().try_for_each(|part| skip(part, input, around)),
        Type::Struct(structure) => {
            structure.fields.iter().try_for_each(|field| skip(&field.ty, input, around))
        }
        Type::Enum(choice) => {
            let number = u32::from_le_bytes(input.take_array()?);
            let variant = choice.variants.get(number as usize);
            let variant = variant.ok_or_else(|| input.no_variant(&choice.name, number))?;
            variant.fields.iter().try_for_each(|field| skip(&field.ty, input, around))
        }
        simple => Err(input.error(format!("{} cannot be skipped", simple.name()))),
    }
}

/// The number of elements with these parts that follow, if so many can.
pub(super) fn length(of: &[&Type], input: &mut Decoder<'_>) -> Result<usize, DecodeError> {
    match combined_size(of) {
        Some(0) => input.take_len_of(Some(0)),
        _ => input.take_len_of(Some(1)),
    }
}

/// Bytes of an element with these parts, if all have constant size.
fn combined_size(of: &[&Type]) -> Option<u64> {
    of.iter().try_fold(0u64, |sum, part| sum.checked_add(part.size()?))
}

/// Skips a length and that number of elements with these parts.
fn many<'s>(
    of: &[&'s Type],
    input: &mut Decoder<'_>,
    around: &mut TypeContext<'s>,
) -> Result<(), DecodeError> {
    let len = length(of, input)? as u64;
    match combined_size(of) {
        Some(size) => {
            let bytes = size.checked_mul(len).and_then(|bytes| usize::try_from(bytes).ok());
            input.take(bytes.unwrap_or(usize::MAX)).map(drop)
        }
        None => (0..len).try_for_each(|_| of.iter().try_for_each(|part| skip(part, input, around))),
    }
}
