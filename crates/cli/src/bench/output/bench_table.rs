//! A table of figures: as text, CSV, JSON and HTML.

use serde_json::{Value, json};

/// An entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::bench) enum TableValue {
    Text(String),
    Count(u64),
    /// A figure, which is shown with three or four digits.
    Figure(f64),
    /// There is none.
    Missing,
}

/// Columns with names, and rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::bench) struct BenchTable {
    pub(in crate::bench) name: String,
    pub(in crate::bench) columns: Vec<String>,
    pub(in crate::bench) rows: Vec<Vec<TableValue>>,
}

impl From<&str> for TableValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<f64> for TableValue {
    fn from(figure: f64) -> Self {
        if figure.is_finite() { Self::Figure(figure) } else { Self::Missing }
    }
}

impl From<Option<f64>> for TableValue {
    fn from(figure: Option<f64>) -> Self {
        figure.map_or(Self::Missing, Self::from)
    }
}

impl TableValue {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Figure(figure) => figure_text(*figure),
            Self::Missing => "–".to_owned(),
        }
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }

    fn csv(&self) -> String {
        match self {
            Self::Text(text) if text.contains([',', '"', '\n']) => {
                format!("\"{}\"", text.replace('"', "\"\""))
            }
            Self::Text(text) => text.clone(),
            Self::Count(count) => count.to_string(),
            Self::Figure(figure) => format!("{figure:e}"),
            Self::Missing => String::new(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Text(text) => json!(text),
            Self::Count(count) => json!(count),
            Self::Figure(figure) => json!(figure),
            Self::Missing => Value::Null,
        }
    }
}

/// Three digits, or as many as the whole part has.
fn figure_text(figure: f64) -> String {
    let size = figure.abs();
    match size {
        _ if size >= 100.0 || size == 0.0 => format!("{figure:.0}"),
        _ if size >= 10.0 => format!("{figure:.1}"),
        _ if size >= 1.0 => format!("{figure:.2}"),
        _ if size >= 0.001 => format!("{figure:.3}"),
        _ => format!("{figure:.1e}"),
    }
}

impl BenchTable {
    pub(in crate::bench) fn new(name: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { name: name.to_owned(), columns, rows: Vec::new() }
    }

    /// Adds a row with an entry for each column.
    pub(in crate::bench) fn add(&mut self, row: Vec<TableValue>) {
        debug_assert_eq!(row.len(), self.columns.len(), "a row has an entry for each column");
        self.rows.push(row);
    }

    /// Columns as wide as their longest entry; text to the left, numbers to the right.
    pub(super) fn text(&self) -> String {
        let texts: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(TableValue::text).collect()).collect();
        let is_text = |at: usize| self.rows.first().is_some_and(|row| row[at].is_text());
        let width = |at: usize| {
            let entries = texts.iter().map(|row| row[at].chars().count());
            entries.chain([self.columns[at].chars().count()]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let line = |row: &[String]| {
            let entries = row.iter().enumerate().map(|(at, entry)| {
                let width = widths[at];
                if is_text(at) { format!("{entry:width$}") } else { format!("{entry:>width$}") }
            });
            entries.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let title = if self.name.is_empty() { String::new() } else { format!("{}\n", self.name) };
        title + &line(&self.columns) + &texts.iter().map(|row| line(row)).collect::<String>()
    }

    pub(super) fn csv(&self) -> String {
        let row =
            |row: &Vec<TableValue>| row.iter().map(TableValue::csv).collect::<Vec<_>>().join(",") + "\n";
        self.columns.join(",") + "\n" + &self.rows.iter().map(row).collect::<String>()
    }

    /// A list of objects.
    pub(super) fn json(&self) -> Value {
        let row = |row: &Vec<TableValue>| -> Value {
            self.columns
                .iter()
                .cloned()
                .zip(row.iter().map(TableValue::json))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        self.rows.iter().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_text_csv_and_json() {
        let mut table = BenchTable::new("speed", &["pattern", "bytes", "MB/s"]);
        table.add(vec!["a, \"b\"".into(), TableValue::Count(4096), 1234.56.into()]);
        table.add(vec!["tiles".into(), TableValue::Count(1), TableValue::Missing]);
        assert_eq!(
            table.text(),
            "speed\npattern  bytes  MB/s\na, \"b\"    4096  1235\ntiles        1     –\n"
        );
        assert_eq!(table.csv(), "pattern,bytes,MB/s\n\"a, \"\"b\"\"\",4096,1.23456e3\ntiles,1,\n");
        assert_eq!(table.json()[0]["MB/s"], 1234.56);
        assert_eq!(table.json()[1]["MB/s"], Value::Null);
    }

    #[test]
    fn figures_have_three_digits() {
        let texts = [0.0, 0.00012, 0.0123, 1.234, 12.34, 123.4, 12345.6].map(figure_text);
        assert_eq!(texts, ["0", "1.2e-4", "0.012", "1.23", "12.3", "123", "12346"]);
        assert_eq!(TableValue::from(f64::NAN), TableValue::Missing);
    }
}
