//! The fields of variable-size objects as columns of values of constant size: for formats that have only arrays.

use super::walk::{TypeContext, length, skip};
use super::{Schema, Type};
use crate::codec::{DecodeError, Decoder};

/// How many values of a column an object has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// One.
    Single,
    /// Any number.
    List,
    /// Any number of bytes of UTF-8.
    Text,
}

/// A field of an object.
#[derive(Clone, Debug)]
pub struct ObjectColumn {
    /// Its path, such as `place.at`; empty for an object that is no structure.
    pub name: String,
    /// How many values an object has.
    pub kind: ColumnKind,
    /// The type of a value, of constant size.
    pub value: Type,
}

/// The columns of the objects of a schema.
///
/// ```
/// use aqueduct_object::schema::{ColumnKind, ObjectColumns};
/// use aqueduct_object::{Object, encode};
///
/// #[derive(Object)]
/// struct Track { id: u16, points: Vec<[f32; 2]>, name: String }
///
/// let columns = ObjectColumns::of(&Track::schema());
/// let names: Vec<&str> = columns.columns().iter().map(|column| column.name.as_str()).collect();
/// assert_eq!(names, ["id", "points", "name"]);
/// let track = encode(&Track { id: 7, points: vec![[1.0, 2.0]; 3], name: "ab".into() });
/// let mut found = Vec::new();
/// columns.split(&track, |column, count, bytes| found.push((column, count, bytes.len())))?;
/// assert_eq!(found, [(0, 1, 2), (1, 3, 24), (2, 2, 2)]);
/// # Ok::<(), aqueduct_object::DecodeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ObjectColumns {
    columns: Vec<ObjectColumn>,
    omitted: Vec<String>,
    steps: Vec<ColumnStep>,
}

/// What follows in an encoded object.
#[derive(Clone, Debug)]
enum ColumnStep {
    Column(usize),
    /// An optional value: a list of at most one.
    Optional(usize),
    Omitted(Type),
}

impl ObjectColumns {
    /// The columns of a schema.
    pub fn of(schema: &Schema) -> Self {
        let mut all = Self { columns: Vec::new(), omitted: Vec::new(), steps: Vec::new() };
        all.take(schema.root(), "");
        all
    }

    /// The columns, in the order of the fields.
    pub fn columns(&self) -> &[ObjectColumn] {
        &self.columns
    }

    /// The fields that are no columns: lists in lists, variants with fields, types that contain themselves.
    pub fn omitted(&self) -> &[String] {
        &self.omitted
    }

    fn take(&mut self, ty: &Type, name: &str) {
        let inner = |field: &str| if name.is_empty() { field.to_owned() } else { format!("{name}.{field}") };
        let constant = |ty: &Type| ty.size().is_some();
        match ty {
            Type::Struct(structure) => {
                structure.fields.iter().for_each(|field| self.take(&field.ty, &inner(&field.name)));
            }
            Type::Tuple(parts) if !constant(ty) => {
                parts.iter().enumerate().for_each(|(at, part)| self.take(part, &inner(&at.to_string())));
            }
            ty if constant(ty) => self.add(name, ColumnKind::Single, ty.clone(), ColumnStep::Column),
            Type::Text => self.add(name, ColumnKind::Text, Type::U8, ColumnStep::Column),
            Type::List(of) | Type::Set(of) if constant(of) && of.size() != Some(0) => {
                self.add(name, ColumnKind::List, (**of).clone(), ColumnStep::Column);
            }
            Type::Map { key, value } if constant(key) && constant(value) => {
                let pair = Type::Tuple(vec![(**key).clone(), (**value).clone()]);
                self.add(name, ColumnKind::List, pair, ColumnStep::Column);
            }
            Type::Option(of) if constant(of) => {
                self.add(name, ColumnKind::List, (**of).clone(), ColumnStep::Optional);
            }
            other => {
                self.omitted.push(name.to_owned());
                self.steps.push(ColumnStep::Omitted(other.clone()));
            }
        }
    }

    fn add(&mut self, name: &str, kind: ColumnKind, value: Type, step: impl Fn(usize) -> ColumnStep) {
        self.steps.push(step(self.columns.len()));
        self.columns.push(ObjectColumn { name: name.to_owned(), kind, value });
    }

    /// Calls `take` with each column of an encoded object: its number, the number of its values, and their bytes.
    pub fn split(&self, encoded: &[u8], mut take: impl FnMut(usize, u64, &[u8])) -> Result<(), DecodeError> {
        let mut input = Decoder::new(encoded);
        for step in &self.steps {
            let at = match step {
                ColumnStep::Omitted(ty) => {
                    skip(ty, &mut input, &mut TypeContext::default())?;
                    continue;
                }
                ColumnStep::Column(at) | ColumnStep::Optional(at) => *at,
            };
            let column = &self.columns[at];
            let size = column.value.size().unwrap_or(0);
            let count = match (step, column.kind) {
                (ColumnStep::Optional(_), _) => match input.take(1)?[0] {
                    flag @ (0 | 1) => u64::from(flag),
                    other => return Err(input.error(format!("{other} is neither 0 nor 1"))),
                },
                (_, ColumnKind::Single) => 1,
                (_, ColumnKind::List | ColumnKind::Text) => length(&[&column.value], &mut input)? as u64,
            };
            let bytes = count.checked_mul(size).and_then(|bytes| usize::try_from(bytes).ok());
            take(at, count, input.take(bytes.unwrap_or(usize::MAX))?);
        }
        input.end()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Object, encode};

    type Columns = (Vec<(String, ColumnKind)>, Vec<String>);

    fn columns_of(schema: &Schema) -> Columns {
        let columns = ObjectColumns::of(schema);
        let named = columns.columns().iter().map(|column| (column.name.clone(), column.kind));
        (named.collect(), columns.omitted().to_vec())
    }

    #[test]
    fn lists_texts_options_and_maps_are_columns_and_nested_lists_are_skipped() {
        type Row = (u8, Vec<Vec<u16>>, Option<u32>, BTreeMap<u8, u16>, (String, [u8; 2]));
        let (named, omitted) = columns_of(&Row::schema());
        let names: Vec<&str> = named.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!((names, omitted), (vec!["0", "2", "3", "4.0", "4.1"], vec!["1".to_owned()]));
        let row: Row = (1, vec![vec![2], vec![]], Some(3), [(4, 5), (6, 7)].into(), ("é".into(), [8, 9]));
        let mut found = Vec::new();
        let columns = ObjectColumns::of(&Row::schema());
        columns.split(&encode(&row), |at, count, bytes| found.push((at, count, bytes.to_vec()))).unwrap();
        let expected = [
            (0, 1, vec![1]),
            (1, 1, vec![3, 0, 0, 0]),
            (2, 2, vec![4, 5, 0, 6, 7, 0]),
            (3, 2, "é".as_bytes().to_vec()),
            (4, 1, vec![8, 9]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn objects_that_are_lists_have_one_column_without_a_name() {
        assert_eq!(columns_of(&Vec::<f64>::schema()).0, [(String::new(), ColumnKind::List)]);
        assert_eq!(columns_of(&String::schema()).0, [(String::new(), ColumnKind::Text)]);
    }

    #[test]
    fn damaged_objects_are_errors() {
        let columns = ObjectColumns::of(&<(u16, Vec<u32>)>::schema());
        let whole = encode(&(1u16, vec![2u32, 3]));
        for length in 0..whole.len() {
            assert!(columns.split(&whole[..length], |_, _, _| ()).is_err(), "{length} bytes");
        }
        let mut longer = whole;
        longer[2..10].fill(0xff);
        assert!(columns.split(&longer, |_, _, _| ()).is_err());
    }
}
