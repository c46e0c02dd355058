//! Tables on standard output: text in aligned columns, and measured figures next to their targets.

use std::fmt;

use crate::timing::best_and_median;

/// Rows of text in columns as wide as their longest entry. The first and the last column are left-aligned, the others right-aligned.
pub(crate) struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    pub(crate) fn new<T: Into<String>>(titles: impl IntoIterator<Item = T>) -> Self {
        Self { rows: vec![titles.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row with as many entries as there are titles.
    pub(crate) fn add(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.rows[0].len(), "a row has an entry for each title");
        self.rows.push(row);
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.rows[0].len() - 1;
        let width =
            |column: usize| self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..=last).map(width).collect();
        for row in &self.rows {
            for (column, (entry, width)) in row.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{entry:width$}")?,
                    _ if column == last => write!(f, "  {entry}")?,
                    _ => write!(f, "  {entry:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// The value that the median of a figure has to reach.
#[derive(Clone, Copy)]
pub(crate) enum FigureTarget {
    AtLeast(f64),
    AtMost(f64),
    None,
}

impl FigureTarget {
    fn is_met(self, median: f64) -> Option<bool> {
        match self {
            Self::AtLeast(least) => Some(median >= least),
            Self::AtMost(most) => Some(median <= most),
            Self::None => None,
        }
    }
}

impl fmt::Display for FigureTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::None => f.write_str("-"),
        }
    }
}

/// Width of the first column. Rows are printed as soon as they are measured, so the longest label is not known.
const LABEL_WIDTH: usize = 84;

/// Prints a row for each figure as soon as it is measured: best, median, target.
#[derive(Default)]
pub(crate) struct FigureTable {
    rows: usize,
    met: usize,
    missed: usize,
}

impl FigureTable {
    /// Ratios of which the largest is the best.
    pub(crate) fn at_least(&mut self, label: &str, ratios: &[f64], least: f64) {
        let negated: Vec<f64> = ratios.iter().map(|ratio| -ratio).collect();
        let [best, median] = best_and_median(&negated).map(|figure| -figure);
        self.row(label, [best, median], FigureTarget::AtLeast(least));
    }

    /// Ratios of which the smallest is the best.
    pub(crate) fn at_most(&mut self, label: &str, ratios: &[f64], most: f64) {
        self.row(label, best_and_median(ratios), FigureTarget::AtMost(most));
    }

    /// An exact number.
    pub(crate) fn count(&mut self, label: &str, count: u64, most: u64) {
        self.row(label, [count as f64; 2], FigureTarget::AtMost(most as f64));
    }

    /// A row that cannot be measured: its target is missed.
    pub(crate) fn missing(&mut self, label: &str) {
        self.missed += 1;
        println!("{label:LABEL_WIDTH$}  {:>8}  {:>8}  missed", "n/a", "n/a");
    }

    /// A row of the best figure and the median.
    pub(crate) fn row(&mut self, label: &str, [best, median]: [f64; 2], target: FigureTarget) {
        if self.rows == 0 {
            println!("{:LABEL_WIDTH$}  {:>8}  {:>8}  target", "", "best", "median");
        }
        self.rows += 1;
        let is_met = target.is_met(median);
        self.met += usize::from(is_met == Some(true));
        self.missed += usize::from(is_met == Some(false));
        let mark = if is_met == Some(false) { "  missed" } else { "" };
        println!("{label:LABEL_WIDTH$}  {best:>8.3}  {median:>8.3}  {target}{mark}");
    }

    /// Prints how many targets were met.
    pub(crate) fn finish(self) {
        println!("{} targets met, {} missed", self.met, self.missed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_longest_entry() {
        let mut table = TextTable::new(["", "MB/s", "status"]);
        table.add(vec!["tiles".to_owned(), "7".to_owned(), "ok".to_owned()]);
        assert_eq!(table.to_string(), "       MB/s  status\ntiles     7  ok\n");
    }

    #[test]
    fn the_median_decides_whether_a_target_is_met() {
        let mut table = FigureTable::default();
        table.at_least("speed", &[1.0, 0.5, 0.4], 0.5);
        table.at_least("speed", &[1.0, 0.4, 0.4], 0.5);
        table.at_most("cost", &[1.0, 1.2, 3.0], 1.2);
        table.count("calls", 3, 2);
        table.row("time", [1.0, 2.0], FigureTarget::None);
        assert_eq!((table.met, table.missed), (2, 2));
        table.missing("not installed");
        assert_eq!((table.met, table.missed), (2, 3));
    }
}
