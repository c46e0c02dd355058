//! Figures beside what is wanted of them: a table at the end, or a row as soon as it is measured.
#![allow(dead_code, reason = "not every benchmark needs all of it")]

use std::fmt;

/// What a figure should be.
enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

struct Row {
    what: String,
    best: f64,
    median: f64,
    goal: Goal,
}

/// Figures in the order they were measured.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Speed as a part of the bare operation's, once per round.
    pub(crate) fn ratios(&mut self, what: &str, ratios: Vec<f64>, least: f64) {
        self.add(what, ratios, Goal::AtLeast(least));
    }

    /// Cost as a multiple of another, once per round.
    pub(crate) fn at_most(&mut self, what: &str, ratios: Vec<f64>, most: f64) {
        self.add(what, ratios, Goal::AtMost(most));
    }

    /// An exact number.
    pub(crate) fn count(&mut self, what: &str, count: u64, most: u64) {
        self.add(what, vec![count as f64], Goal::AtMost(most as f64));
    }

    fn add(&mut self, what: &str, mut figures: Vec<f64>, goal: Goal) {
        figures.sort_by(f64::total_cmp);
        let best = match goal {
            Goal::AtLeast(_) => figures.last(),
            Goal::AtMost(_) => figures.first(),
        };
        let best = best.copied().unwrap_or(f64::NAN);
        let median = figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN);
        self.rows.push(Row { what: what.to_owned(), best, median, goal });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        writeln!(f, "{}", line("", width, "best", "median", "wanted"))?;
        for row in &self.rows {
            let (sign, wanted, met) = match row.goal {
                Goal::AtLeast(least) => ('≥', least, row.median >= least),
                Goal::AtMost(most) => ('≤', most, row.median <= most),
            };
            let mark = if met { "" } else { "  missed" };
            let (best, median) = (format!("{:.2}", row.best), format!("{:.2}", row.median));
            writeln!(f, "{}", line(&row.what, width, &best, &median, &format!("{sign} {wanted}{mark}")))?;
        }
        Ok(())
    }
}

/// Width of the first column of rows that are printed one by one.
const ROW_WIDTH: usize = 72;

/// Prints the smallest and the median of ratios at once, beside what is wanted in words.
pub(crate) fn print_row(what: &str, ratios: &[f64], wanted: &str) {
    let mut ratios = ratios.to_vec();
    ratios.sort_by(f64::total_cmp);
    let figure = |at: usize| ratios.get(at).map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
    println!("{}", line(what, ROW_WIDTH, &figure(0), &figure(ratios.len() / 2), &format!("wanted {wanted}")));
}

fn line(what: &str, width: usize, best: &str, median: &str, wanted: &str) -> String {
    format!("{what:width$}  {best:>8}  {median:>8}  {wanted}")
}
