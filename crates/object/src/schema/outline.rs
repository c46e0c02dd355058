//! Schemas as text: one line per field.

use std::fmt;

use super::{Field, Schema, Type};

/// A line of an outline.
pub(crate) struct OutlineLine {
    /// Name and type, indented by nesting.
    pub(crate) text: String,
    offset: Option<u64>,
    size: Option<u64>,
    unit: Option<String>,
    description: Option<String>,
}

impl OutlineLine {
    /// The text by which two types are compared.
    pub(crate) fn compared(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} in {unit}", self.text),
            None => self.text.clone(),
        }
    }
}

impl fmt::Display for Schema {
    /// One line per field: offset, size, name, type, unit and description.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = self.outline();
        let width = lines.iter().map(|line| line.text.chars().count()).max().unwrap_or(0);
        let number = |number: Option<u64>| number.map_or("-".to_owned(), |number| number.to_string());
        writeln!(f, "{:>8} {:>8}  field", "offset", "bytes")?;
        for line in lines {
            write!(f, "{:>8} {:>8}  {:width$}", number(line.offset), number(line.size), line.text)?;
            if let Some(unit) = &line.unit {
                write!(f, "  [{unit}]")?;
            }
            if let Some(description) = &line.description {
                write!(f, "  {description}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Schema {
    /// The type and its parts, one line each.
    pub(crate) fn outline(&self) -> Vec<OutlineLine> {
        let mut lines = vec![OutlineLine {
            text: short(self.root()),
            offset: Some(0),
            size: self.size(),
            unit: None,
            description: None,
        }];
        inner(self.root(), 1, Some(0), &mut lines);
        lines
    }
}

/// The lines of the parts of a type.
fn inner(ty: &Type, depth: usize, offset: Option<u64>, lines: &mut Vec<OutlineLine>) {
    match ty {
        Type::Struct(structure) => fields(&structure.fields, depth, offset, lines),
        Type::Enum(choice) => {
            for variant in &choice.variants {
                let text = format!("{}| {}", indent(depth), variant.name);
                lines.push(OutlineLine { text, offset: None, size: None, unit: None, description: None });
                fields(&variant.fields, depth + 1, None, lines);
            }
        }
        Type::Array { of, .. } | Type::Option(of) | Type::List(of) | Type::Set(of) => {
            inner(of, depth, None, lines);
        }
        Type::Map { key, value } => {
            inner(key, depth, None, lines);
            inner(value, depth, None, lines);
        }
        Type::Tuple(parts) => parts.iter().for_each(|part| inner(part, depth, None, lines)),
        _ => {}
    }
}

fn fields(fields: &[Field], depth: usize, mut offset: Option<u64>, lines: &mut Vec<OutlineLine>) {
    for field in fields {
        let size = field.ty.size();
        lines.push(OutlineLine {
            text: format!("{}{}: {}", indent(depth), field.name, short(&field.ty)),
            offset,
            size,
            unit: field.unit.clone(),
            description: field.description.clone(),
        });
        inner(&field.ty, depth + 1, offset, lines);
        offset = offset.zip(size).and_then(|(offset, size)| offset.checked_add(size));
    }
}

fn indent(depth: usize) -> String {
    "  ".repeat(depth)
}

/// The name of the type, without the fields of structures.
fn short(ty: &Type) -> String {
    match ty {
        Type::Struct(structure) => structure.name.clone(),
        Type::Enum(choice) => format!("enum {}", choice.name),
        Type::Array { of, len } => format!("[{}; {len}]", short(of)),
        Type::Tuple(parts) => format!("({})", parts.iter().map(short).collect::<Vec<_>>().join(", ")),
        Type::Option(of) => format!("{}?", short(of)),
        Type::List(of) => format!("list of {}", short(of)),
        Type::Set(of) => format!("set of {}", short(of)),
        Type::Map { key, value } => format!("map of {} to {}", short(key), short(value)),
        Type::Recursive(levels) => format!("the type {} levels up", levels + 1),
        simple => simple.word().to_owned(),
    }
}
