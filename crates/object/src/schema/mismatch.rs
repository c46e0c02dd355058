//! Two schemas side by side, with the first difference marked.

use std::fmt;

use super::Schema;

/// Two types that do not match: the reason, and both of them.
#[derive(Clone, PartialEq, Eq)]
pub struct SchemaMismatch {
    why: String,
    table: String,
}

impl SchemaMismatch {
    /// `found` is the stored type, `wanted` that of the program.
    pub(crate) fn new(found: &Schema, wanted: &Schema, why: impl Into<String>) -> Self {
        Self { why: why.into(), table: side_by_side(found, wanted) }
    }
}

impl fmt::Display for SchemaMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.why, self.table)
    }
}

impl fmt::Debug for SchemaMismatch {
    /// The text of `Display`: the form in which `main` prints an error that it returns.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for SchemaMismatch {}

fn side_by_side(found: &Schema, wanted: &Schema) -> String {
    let outline = |schema: &Schema| -> Vec<String> {
        schema.outline().iter().map(super::outline::OutlineLine::compared).collect()
    };
    let (left, right) = (outline(found), outline(wanted));
    let lines = left.len().max(right.len());
    let line = |side: &[String], at: usize| side.get(at).cloned().unwrap_or_default();
    let first = (0..lines).find(|at| line(&left, *at) != line(&right, *at));
    let width = left.iter().map(|text| text.chars().count()).chain([11]).max().unwrap_or(11);
    let mut table = format!("    {:width$} | {}", "in the file", "in the program");
    for at in 0..lines {
        let mark = if Some(at) == first { "--> " } else { "    " };
        let row = format!("{mark}{:width$} | {}", line(&left, at), line(&right, at));
        table.push('\n');
        table.push_str(row.trim_end());
    }
    table
}
