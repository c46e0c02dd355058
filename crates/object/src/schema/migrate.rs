//! Migration of objects in older files to newer types: fields added with a default, removed and renamed, by the attributes of the type.

use super::walk::{TypeContext, length, skip};
use super::{Enum, Field, Schema, SchemaMismatch, Struct, Type};
use crate::codec::{DecodeError, Decoder};

/// The migration of objects of one schema to another.
#[derive(Clone, Debug)]
pub(crate) struct Migration {
    root: MigrationStep,
    /// The schema of the file, which steps refer to.
    from: Type,
}

/// The migration of a value.
#[derive(Clone, Debug)]
enum MigrationStep {
    /// It is copied.
    Keep,
    /// A length, then every element by the same step.
    Many(Vec<MigrationStep>),
    /// Every element by the same step.
    Array(Box<MigrationStep>),
    Option(Box<MigrationStep>),
    Tuple(Vec<MigrationStep>),
    /// The origin of each new field.
    Fields(Vec<FieldOrigin>),
    /// The new number of each variant, and the origins of its fields.
    Variants(Vec<(u32, Vec<FieldOrigin>)>),
    /// The step of an enclosing type.
    Up(usize),
}

#[derive(Clone, Debug)]
enum FieldOrigin {
    Field(usize, MigrationStep),
    Default(Vec<u8>),
}

impl Migration {
    /// The migration from schema `from` to schema `to`; none if they are the same.
    pub(crate) fn plan(from: &Schema, to: &Schema) -> Result<Option<Self>, SchemaMismatch> {
        if from == to {
            return Ok(None);
        }
        let refused = |why: String| SchemaMismatch::new(from, to, why);
        let root = step(from.root(), to.root()).map_err(refused)?;
        Ok(Some(Self { root, from: from.root().clone() }))
    }

    /// Migrates one encoded object and appends it to `out`.
    pub(crate) fn apply(&self, input: &mut Decoder<'_>, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        let mut run = MigrationWalker { around: TypeContext::default(), steps: Vec::new() };
        run.value(&self.from, &self.root, input, out)
    }
}

fn step(from: &Type, to: &Type) -> Result<MigrationStep, String> {
    if !recursive(from) && from.signature() == to.signature() {
        return Ok(MigrationStep::Keep);
    }
    let differ = || Err(format!("the file has {}, the program has {}", from.name(), to.name()));
    match (from, to) {
        (Type::Struct(from), Type::Struct(to)) if from.name == to.name => {
            fields(&from.name, &from.fields, &to.fields, &to.removed).map(MigrationStep::Fields)
        }
        (Type::Enum(from), Type::Enum(to)) if from.name == to.name => {
            variants(from, to).map(MigrationStep::Variants)
        }
        (Type::Array { of, len }, Type::Array { of: to, len: wanted }) if len == wanted => {
            Ok(MigrationStep::Array(Box::new(step(of, to)?)))
        }
        (Type::Option(of), Type::Option(to)) => Ok(MigrationStep::Option(Box::new(step(of, to)?))),
        (Type::List(of), Type::List(to)) | (Type::Set(of), Type::Set(to)) => {
            Ok(MigrationStep::Many(vec![step(of, to)?]))
        }
        (Type::Map { key, value }, Type::Map { key: to_key, value: to_value }) => {
            Ok(MigrationStep::Many(vec![step(key, to_key)?, step(value, to_value)?]))
        }
        (Type::Tuple(from), Type::Tuple(to)) if from.len() == to.len() => from
            .iter()
            .zip(to)
            .map(|(from, to)| step(from, to))
            .collect::<Result<_, _>>()
            .map(MigrationStep::Tuple),
        (Type::Recursive(levels), Type::Recursive(wanted)) if levels == wanted => {
            Ok(MigrationStep::Up(*levels as usize))
        }
        (simple, wanted) if !simple.word().is_empty() && simple.word() == wanted.word() => {
            Ok(MigrationStep::Keep)
        }
        _ => differ(),
    }
}

/// True if it refers to an enclosing type: then equal signatures may mean different types.
fn recursive(ty: &Type) -> bool {
    match ty {
        Type::Recursive(_) => true,
        Type::Array { of, .. } | Type::Option(of) | Type::List(of) | Type::Set(of) => recursive(of),
        Type::Map { key, value } => recursive(key) || recursive(value),
        Type::Tuple(parts) => parts.iter().any(recursive),
        Type::Struct(Struct { fields, .. }) => fields.iter().any(|field| recursive(&field.ty)),
        Type::Enum(choice) => {
            choice.variants.iter().any(|variant| variant.fields.iter().any(|field| recursive(&field.ty)))
        }
        _ => false,
    }
}

fn fields(name: &str, from: &[Field], to: &[Field], removed: &[String]) -> Result<Vec<FieldOrigin>, String> {
    let mut used = vec![false; from.len()];
    let mut origins = Vec::new();
    for field in to {
        let known = |old: &&Field| old.name == field.name || field.aliases.contains(&old.name);
        let place = from.iter().position(|old| old.name == field.name);
        let place = place.or_else(|| from.iter().position(|old| known(&old)));
        origins.push(match (place, &field.default) {
            (Some(place), _) => {
                if from[place].unit != field.unit {
                    let unit = |field: &Field| field.unit.as_ref().map_or("no unit".to_owned(), |unit| format!("the unit {unit}"));
                    let (there, here) = (unit(&from[place]), unit(field));
                    return Err(format!("field {:?} of {name} has {there} in the file and {here} in the program", field.name));
                }
                used[place] = true;
                let inside = step(&from[place].ty, &field.ty);
                FieldOrigin::Field(place, inside.map_err(|why| format!("in field {:?} of {name}: {why}", field.name))?)
            }
            (None, Some(default)) => FieldOrigin::Default(default.clone()),
            (None, None) => {
                return Err(format!(
                    "the file has no field {:?} of {name}; add #[object(default)] or #[object(alias = \"…\")] if it may be missing or had another name",
                    field.name
                ));
            }
        });
    }
    let unused = from.iter().zip(&used).find(|(old, used)| !**used && !removed.contains(&old.name));
    match unused {
        Some((old, _)) => Err(format!(
            "the file has a field {:?} that {name} lacks; add #[object(removed(\"{}\"))] on the type if it may be dropped",
            old.name, old.name
        )),
        None => Ok(origins),
    }
}

fn variants(from: &Enum, to: &Enum) -> Result<Vec<(u32, Vec<FieldOrigin>)>, String> {
    let convert = |old: &super::Variant| {
        let known = |new: &super::Variant| new.name == old.name;
        let place = to.variants.iter().position(known);
        let place = place.or_else(|| to.variants.iter().position(|new| new.aliases.contains(&old.name)));
        let place =
            place.ok_or_else(|| format!("the file has a variant {:?} that {} lacks", old.name, to.name))?;
        let origins = fields(&old.name, &old.fields, &to.variants[place].fields, &[])?;
        Ok((place as u32, origins))
    };
    from.variants.iter().map(convert).collect()
}

struct MigrationWalker<'m> {
    around: TypeContext<'m>,
    /// The steps of the enclosing structures and enums, parallel to `around`.
    steps: Vec<&'m MigrationStep>,
}

impl<'m> MigrationWalker<'m> {
    fn value(
        &mut self,
        ty: &'m Type,
        step: &'m MigrationStep,
        input: &mut Decoder<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        if matches!(step, MigrationStep::Keep) {
            let start = input.clone();
            skip(ty, input, &mut self.around)?;
            let len = input.position() - start.position();
            out.extend_from_slice(start.clone().take(len)?);
            return Ok(());
        }
        // The enclosing steps change with the enclosing types.
        let (step, kept, mut left) = match step {
            MigrationStep::Up(levels) => {
                let place = self.steps.len().checked_sub(levels + 1);
                let place = place
                    .ok_or_else(|| input.error("the type refers to an enclosing type that does not exist"))?;
                let left = self.steps.split_off(place);
                (left[0], place, left)
            }
            other => (other, self.steps.len(), Vec::new()),
        };
        let (ty, outside) = self.around.enter(ty).map_err(|why| input.error(why))?;
        if matches!(ty, Type::Struct(_) | Type::Enum(_)) {
            self.steps.push(step);
        }
        input.nested(|input| self.parts(ty, step, input, out))?;
        self.steps.truncate(kept);
        self.steps.append(&mut left);
        self.around.leave(outside);
        Ok(())
    }

    fn parts(
        &mut self,
        ty: &'m Type,
        step: &'m MigrationStep,
        input: &mut Decoder<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        match (ty, step) {
            (Type::Struct(structure), MigrationStep::Fields(origins)) => {
                self.fields(&structure.fields, origins, input, out)
            }
            (Type::Enum(choice), MigrationStep::Variants(steps)) => {
                let number = u32::from_le_bytes(input.take_array()?);
                let known = choice.variants.get(number as usize).zip(steps.get(number as usize));
                let (variant, (new, origins)) =
                    known.ok_or_else(|| input.no_variant(&choice.name, number))?;
                out.extend_from_slice(&new.to_le_bytes());
                self.fields(&variant.fields, origins, input, out)
            }
            (Type::Array { of, len }, MigrationStep::Array(step)) => {
                (0..*len).try_for_each(|_| self.value(of, step, input, out))
            }
            (Type::Option(of), MigrationStep::Option(step)) => {
                let there = input.take(1)?[0];
                out.push(there);
                if there == 0 { Ok(()) } else { self.value(of, step, input, out) }
            }
            (Type::List(of) | Type::Set(of), MigrationStep::Many(steps)) => {
                let len = length(&[of], input)?;
                out.extend_from_slice(&(len as u64).to_le_bytes());
                (0..len).try_for_each(|_| self.value(of, &steps[0], input, out))
            }
            (Type::Map { key, value }, MigrationStep::Many(steps)) => {
                let len = length(&[key, value], input)?;
                out.extend_from_slice(&(len as u64).to_le_bytes());
                (0..len).try_for_each(|_| {
                    self.value(key, &steps[0], input, out)?;
                    self.value(value, &steps[1], input, out)
                })
            }
            (Type::Tuple(parts), MigrationStep::Tuple(steps)) => {
                parts.iter().zip(steps).try_for_each(|(part, step)| self.value(part, step, input, out))
            }
            _ => Err(input.error("the migration does not match the type")),
        }
    }

    /// Locates each old field, then writes the new ones in their order.
    fn fields(
        &mut self,
        old: &'m [Field],
        origins: &'m [FieldOrigin],
        input: &mut Decoder<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let mut places = Vec::with_capacity(old.len());
        for field in old {
            places.push(input.clone());
            skip(&field.ty, input, &mut self.around)?;
        }
        for origin in origins {
            match origin {
                FieldOrigin::Default(value) => out.extend_from_slice(value),
                FieldOrigin::Field(place, step) => {
                    let mut input = places[*place].clone();
                    self.value(&old[*place].ty, step, &mut input, out)?;
                }
            }
        }
        Ok(())
    }
}
