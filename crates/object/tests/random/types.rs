//! Random types and random values of them, as bytes: an independent model of the encoding after `docs/format-object.md`, without code of the
//! library.

use aqueduct_object::schema::{Enum, Field, Struct, Type, Variant};
use aqueduct_object::{DecodeError, Decoder};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;

/// The maximum nesting of types.
const DEPTH: u32 = 3;
/// The maximum nesting of values of recursive types.
const ROUNDS: u32 = 2;

/// A number, or bytes without a byte order.
#[derive(Clone, Debug)]
pub(crate) struct Atom {
    little: Vec<u8>,
    turns: bool,
    /// True if older values do not have it.
    added: bool,
}

pub(crate) type Value = Vec<Atom>;

pub(crate) fn little(value: &Value) -> Vec<u8> {
    value.iter().flat_map(|atom| atom.little.clone()).collect()
}

pub(crate) fn big(value: &Value) -> Vec<u8> {
    let turned = |atom: &Atom| -> Vec<u8> {
        if atom.turns { atom.little.iter().rev().copied().collect() } else { atom.little.clone() }
    };
    value.iter().flat_map(turned).collect()
}

/// The field that is added to structures, and its default.
const ADDED: (&str, [u8; 2]) = ("added", [7, 0]);

/// The type as it was before fields were added.
pub(crate) fn older(ty: &Type) -> Type {
    let boxed = |of: &Type| Box::new(older(of));
    let fields = |fields: &[Field]| {
        let kept = fields.iter().filter(|field| field.name != ADDED.0);
        kept.map(|field| Field { ty: older(&field.ty), ..field.clone() }).collect()
    };
    match ty {
        Type::Array { of, len } => Type::Array { of: boxed(of), len: *len },
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(older).collect()),
        Type::Option(of) => Type::Option(boxed(of)),
        Type::List(of) => Type::List(boxed(of)),
        Type::Set(of) => Type::Set(boxed(of)),
        Type::Map { key, value } => Type::Map { key: boxed(key), value: boxed(value) },
        Type::Struct(structure) => {
            Type::Struct(Struct { fields: fields(&structure.fields), ..structure.clone() })
        }
        Type::Enum(choice) => {
            let variant = |variant: &Variant| Variant { fields: fields(&variant.fields), ..variant.clone() };
            Type::Enum(Enum { variants: choice.variants.iter().map(variant).collect(), ..choice.clone() })
        }
        simple => simple.clone(),
    }
}

/// The value as it was before fields were added.
pub(crate) fn old_value(value: &Value) -> Value {
    value.iter().filter(|atom| !atom.added).cloned().collect()
}

/// Any type.
pub(crate) fn any_type() -> BoxedStrategy<Type> {
    nested(DEPTH, 0, false)
}

/// A type inside `around` structures and enums. A recursive reference is allowed if an empty list or an option can end the recursion: `guarded`.
fn nested(depth: u32, around: u32, guarded: bool) -> BoxedStrategy<Type> {
    let mut kinds = vec![(4, leaf())];
    if guarded && around > 0 {
        kinds.push((3, (0..around).prop_map(Type::Recursive).boxed()));
    }
    if depth > 0 {
        let inner = |guarded| nested(depth - 1, around, guarded);
        let boxed = |guarded| inner(guarded).prop_map(Box::new);
        let array = (boxed(guarded), 0..4u64).prop_map(|(of, len)| Type::Array { of, len });
        let map = (boxed(false), boxed(true)).prop_map(|(key, value)| Type::Map { key, value });
        kinds.push((1, array.boxed()));
        kinds.push((1, vec(inner(guarded), 1..4).prop_map(Type::Tuple).boxed()));
        kinds.push((1, boxed(true).prop_map(Type::Option).boxed()));
        kinds.push((2, boxed(true).prop_map(Type::List).boxed()));
        kinds.push((1, boxed(false).prop_map(Type::Set).boxed()));
        kinds.push((1, map.boxed()));
        kinds.push((3, structure(depth - 1, around + 1)));
        kinds.push((2, choice(depth - 1, around + 1)));
    }
    Union::new_weighted(kinds).boxed()
}

fn leaf() -> BoxedStrategy<Type> {
    use Type::{Bool, Char, F32, F64, I8, I16, I32, I64, I128, Text, U8, U16, U32, U64, U128, Unit};
    select(vec![Unit, Bool, Char, U8, U16, U32, U64, U128, I8, I16, I32, I64, I128, F32, F64, Text, Text])
        .boxed()
}

fn fields(depth: u32, around: u32, count: std::ops::Range<usize>) -> BoxedStrategy<Vec<Field>> {
    let unit = prop::option::weighted(0.2, select(vec!["m", "Pa"]));
    let named = |parts: Vec<(Type, Option<&'static str>)>| {
        let field = |(place, (ty, unit)): (usize, (Type, Option<&str>))| {
            let field = Field::new(&format!("f{place}"), ty);
            unit.map_or(field.clone(), |unit| field.with_unit(unit))
        };
        parts.into_iter().enumerate().map(field).collect()
    };
    vec((nested(depth, around, false), unit), count).prop_map(named).boxed()
}

fn structure(depth: u32, around: u32) -> BoxedStrategy<Type> {
    let made = |(name, mut fields, added): (usize, Vec<Field>, Option<usize>)| {
        if let Some(place) = added {
            fields
                .insert(place % fields.len(), Field::new(ADDED.0, Type::U16).with_default(ADDED.1.to_vec()));
        }
        Type::Struct(Struct { name: format!("S{name}"), fields, removed: Vec::new() })
    };
    let added = prop::option::weighted(0.3, any::<usize>());
    (0..9usize, fields(depth, around, 1..4), added).prop_map(made).boxed()
}

fn choice(depth: u32, around: u32) -> BoxedStrategy<Type> {
    let made = |(name, variants): (usize, Vec<Vec<Field>>)| {
        let variant = |(place, fields): (usize, Vec<Field>)| Variant::new(&format!("v{place}"), fields);
        let variants = variants.into_iter().enumerate().map(variant).collect();
        Type::Enum(Enum { name: format!("E{name}"), variants })
    };
    let bare = (0..9usize, vec(Just(Vec::new()), 1..4)).prop_map(made);
    let full = (0..9usize, vec(fields(depth, around, 0..3), 1..4)).prop_map(made);
    prop_oneof![1 => bare, 2 => full].boxed()
}

/// The type with references resolved, and the structures and enums that enclose it and its parts.
fn meant<'t>(ty: &'t Type, around: &[&'t Type]) -> (&'t Type, Vec<&'t Type>) {
    let (meant, mut around) = match ty {
        Type::Recursive(levels) => {
            let place = around.len() - 1 - *levels as usize;
            (around[place], around[..place].to_vec())
        }
        other => (other, around.to_vec()),
    };
    if matches!(meant, Type::Struct(_) | Type::Enum(_)) {
        around.push(meant);
    }
    (meant, around)
}

/// Any value of a type.
pub(crate) fn any_value(ty: &Type) -> BoxedStrategy<Value> {
    value(ty, &[], ROUNDS)
}

fn number(little: &[u8]) -> Value {
    vec![Atom { little: little.to_vec(), turns: true, added: false }]
}

fn value(ty: &Type, around: &[&Type], rounds: u32) -> BoxedStrategy<Value> {
    let rounds_left = if matches!(ty, Type::Recursive(_)) { rounds - 1 } else { rounds };
    let (ty, around) = meant(ty, around);
    let part = |ty: &Type| value(ty, &around, rounds_left);
    let counted = |parts: Vec<Value>| [number(&(parts.len() as u64).to_le_bytes()), parts.concat()].concat();
    let field = |field: &Field| {
        if field.name == ADDED.0 {
            return Just(vec![Atom { little: ADDED.1.to_vec(), turns: true, added: true }]).boxed();
        }
        part(&field.ty)
    };
    let sequence =
        |fields: &[Field]| fields.iter().map(field).collect::<Vec<_>>().prop_map(|parts| parts.concat());
    let most = if rounds_left == 0 { 1 } else { 4 };
    match ty {
        Type::Bool => any::<bool>().prop_map(|bit| number(&[u8::from(bit)])).boxed(),
        Type::Char => any::<char>().prop_map(|letter| number(&u32::from(letter).to_le_bytes())).boxed(),
        Type::Text => any::<String>().prop_map(text).boxed(),
        Type::Array { of, len } => vec(part(of), *len as usize).prop_map(|parts| parts.concat()).boxed(),
        Type::Tuple(parts) => {
            parts.iter().map(part).collect::<Vec<_>>().prop_map(|parts| parts.concat()).boxed()
        }
        Type::Option(_) if rounds_left == 0 => Just(number(&[0])).boxed(),
        Type::Option(of) => {
            let some = |value: Value| [number(&[1]), value].concat();
            prop::option::of(part(of)).prop_map(move |of| of.map_or(number(&[0]), some)).boxed()
        }
        Type::List(_) | Type::Set(_) | Type::Map { .. } if rounds_left == 0 => Just(number(&[0; 8])).boxed(),
        Type::List(of) | Type::Set(of) => vec(part(of), 0..most).prop_map(counted).boxed(),
        Type::Map { key, value } => {
            let pair = (part(key), part(value)).prop_map(|(key, value)| [key, value].concat());
            vec(pair, 0..most).prop_map(counted).boxed()
        }
        Type::Struct(structure) => sequence(&structure.fields).boxed(),
        Type::Enum(choice) => {
            let variant = |(place, variant): (usize, &Variant)| {
                let fields = sequence(&variant.fields);
                fields
                    .prop_map(move |fields| [number(&(place as u32).to_le_bytes()), fields].concat())
                    .boxed()
            };
            Union::new(choice.variants.iter().enumerate().map(variant)).boxed()
        }
        simple => vec(any::<u8>(), width(simple)).prop_map(|bytes| number(&bytes)).boxed(),
    }
}

fn text(text: String) -> Value {
    let length = number(&(text.len() as u64).to_le_bytes());
    [length, vec![Atom { little: text.into_bytes(), turns: false, added: false }]].concat()
}

/// Bytes of a type without parts, from the table of the format.
fn width(ty: &Type) -> usize {
    match ty {
        Type::Unit => 0,
        Type::Bool | Type::U8 | Type::I8 => 1,
        Type::U16 | Type::I16 => 2,
        Type::Char | Type::U32 | Type::I32 | Type::F32 => 4,
        Type::U64 | Type::I64 | Type::F64 => 8,
        Type::U128 | Type::I128 => 16,
        other => panic!("{} has parts", other.name()),
    }
}

/// The parts that every value has and that have no parts, by their paths.
pub(crate) type Leaves = Vec<(String, Type, Vec<u8>)>;

/// Decodes a value from its canonical form; adds its parts with their paths to `leaves`.
pub(crate) fn take(
    ty: &Type,
    around: &[&Type],
    path: Option<&str>,
    input: &mut Decoder<'_>,
    leaves: &mut Leaves,
) -> Result<(), DecodeError> {
    let reference = matches!(ty, Type::Recursive(_));
    let (ty, around) = meant(ty, around);
    let path = path.filter(|_| !reference);
    let below = |name: &str| {
        path.map(|path| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") })
    };
    let many = |parts: &[&Type], input: &mut Decoder<'_>| {
        let count = u64::from_le_bytes(input.take_array()?);
        (0..count).try_for_each(|_| {
            parts.iter().try_for_each(|part| take(part, &around, None, input, &mut Vec::new()))
        })
    };
    match ty {
        Type::Text => {
            let from = input.clone();
            let len = u64::from_le_bytes(input.take_array()?) as usize;
            input.take(len)?;
            leaves.extend(path.map(|path| (path.to_owned(), ty.clone(), taken(&from, input))));
            Ok(())
        }
        Type::Option(of) => match input.take(1)?[0] {
            0 => Ok(()),
            _ => take(of, &around, None, input, leaves),
        },
        Type::List(of) | Type::Set(of) => many(&[of], input),
        Type::Map { key, value } => many(&[key, value], input),
        Type::Array { of, len } => (0..*len).try_for_each(|at| {
            let path = path.map(|path| format!("{path}[{at}]"));
            take(of, &around, path.as_deref(), input, leaves)
        }),
        Type::Tuple(parts) => parts.iter().enumerate().try_for_each(|(place, part)| {
            take(part, &around, below(&place.to_string()).as_deref(), input, leaves)
        }),
        Type::Struct(Struct { fields, .. }) => fields
            .iter()
            .try_for_each(|field| take(&field.ty, &around, below(&field.name).as_deref(), input, leaves)),
        Type::Enum(choice) => {
            let number = u32::from_le_bytes(input.take_array()?) as usize;
            let variant = choice.variants.get(number).ok_or_else(|| input.error("no such variant"))?;
            variant.fields.iter().try_for_each(|field| take(&field.ty, &around, None, input, leaves))
        }
        simple => {
            let from = input.clone();
            input.take(width(simple))?;
            leaves.extend(path.map(|path| (path.to_owned(), ty.clone(), taken(&from, input))));
            Ok(())
        }
    }
}

/// The bytes between two positions.
fn taken(from: &Decoder<'_>, to: &Decoder<'_>) -> Vec<u8> {
    from.clone().take(to.position() - from.position()).expect("it has just been taken").to_vec()
}
