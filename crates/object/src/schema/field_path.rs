//! Paths of nested fields.

use std::fmt;

use super::{Schema, Type};

/// The location of a field.
#[derive(Clone, Debug)]
pub struct FieldLocation<'s> {
    /// Its offset in the encoded form; none after a part of variable size.
    pub offset: Option<u64>,
    /// Its type.
    pub ty: &'s Type,
    /// The indices of the parts that lead to it, from the outside in.
    pub(crate) steps: Vec<usize>,
}

/// The path is not that of a field.
#[derive(Clone, PartialEq, Eq)]
pub struct NoSuchField {
    path: String,
    detail: String,
}

impl fmt::Display for NoSuchField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no field {:?}: {}", self.path, self.detail)
    }
}

impl fmt::Debug for NoSuchField {
    /// The text of `Display`: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NoSuchField {}

impl Schema {
    /// The field of a path such as `position`, `cell.corner.x`, `pair.0` or `velocity[2]`.
    pub fn locate(&self, path: &str) -> Result<FieldLocation<'_>, NoSuchField> {
        let mut located = FieldLocation { offset: Some(0), ty: self.root(), steps: Vec::new() };
        for word in words(path) {
            let step = step(located.ty, &word).map_err(|detail| NoSuchField {
                path: path.to_owned(),
                detail: format!("{detail} (at {word:?})"),
            })?;
            let before = step.before.iter().try_fold(0u64, |sum, part| sum.checked_add(part.size()?));
            let before = before.and_then(|size| size.checked_mul(step.copies));
            located.offset = located.offset.zip(before).and_then(|(base, before)| base.checked_add(before));
            located.steps.push(step.place);
            located.ty = step.ty;
        }
        Ok(located)
    }
}

/// `a.b[3]` as `a`, `b`, `3`; `[3].a`, in objects that are arrays, as `3`, `a`.
fn words(path: &str) -> impl Iterator<Item = String> {
    path.strip_prefix('[').unwrap_or(path).split(['.', '[']).map(|word| word.trim_end_matches(']').to_owned())
}

struct PathStep<'s> {
    /// The parts before it, `copies` times.
    before: Vec<&'s Type>,
    copies: u64,
    ty: &'s Type,
    place: usize,
}

fn step<'s>(ty: &'s Type, word: &str) -> Result<PathStep<'s>, String> {
    let number =
        || word.parse::<usize>().map_err(|_| format!("a part of {} is selected by a number", ty.name()));
    match ty {
        Type::Struct(structure) => {
            let place = structure.fields.iter().position(|field| field.name == word).ok_or_else(|| {
                let names: Vec<&str> = structure.fields.iter().map(|field| field.name.as_str()).collect();
                format!("{} has {}", structure.name, names.join(", "))
            })?;
            let before = structure.fields[..place].iter().map(|field| &field.ty).collect();
            Ok(PathStep { before, copies: 1, ty: &structure.fields[place].ty, place })
        }
        Type::Tuple(parts) => {
            let place = number()?;
            let found = parts.get(place).ok_or_else(|| format!("the tuple has {} parts", parts.len()))?;
            Ok(PathStep { before: parts[..place].iter().collect(), copies: 1, ty: found, place })
        }
        Type::Array { of, len } => {
            let place = number()?;
            if place as u64 >= *len {
                return Err(format!("the array has {len} elements"));
            }
            Ok(PathStep { before: vec![of], copies: place as u64, ty: of, place })
        }
        other => Err(format!("{} has no fields that exist in every value", other.name())),
    }
}
