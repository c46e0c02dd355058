//! An array that is followed: its steps, rates and the values of its last step.

use anyhow::Result;
use serde_json::{Value, json};

use crate::array_file::{Array, ArrayFile};
use crate::file_commands::json::number;
use crate::file_commands::statistics;
use crate::report;
use crate::terminal::{Palette, TextRole};

/// The number of steps whose mean is drawn.
const HISTORY: usize = 32;
/// Heights of a bar, from the lowest to the greatest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// An array that is followed.
pub(super) struct WatchedArray {
    name: String,
    /// Bytes of a step.
    row: u64,
    steps: u64,
    /// The number of steps that the last look has found.
    added: u64,
    /// Seconds from the start of the command to the look that found the last steps.
    time: f64,
    /// Steps per second between the last two looks that found steps.
    rate: Option<f64>,
    /// Minimum and maximum of the last step.
    range: Option<(f64, f64)>,
    /// The means of the last steps that were looked at.
    means: Vec<f64>,
}

impl WatchedArray {
    pub(super) fn new(array: &Array) -> Self {
        let (name, row) = (array.name.clone(), array.row());
        Self { name, row, steps: 0, added: 0, time: 0.0, rate: None, range: None, means: Vec::new() }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Reads the last step if there are new ones; whether there are.
    pub(super) fn update(&mut self, file: &dyn ArrayFile, at: usize, now: f64) -> Result<bool> {
        let array = &file.arrays()[at];
        let steps = array.complete.unwrap_or(array.rows()).min(array.rows());
        if steps <= self.steps {
            // A program that starts again truncates its file.
            self.steps = steps;
            return Ok(false);
        }
        let found = if array.row() > 0 { statistics::of_rows(file, at, steps - 1..steps)? } else { None };
        self.added = steps - self.steps;
        // The first look finds steps of unknown age.
        let is_first = self.steps == 0;
        self.rate = (!is_first && now > self.time).then(|| self.added as f64 / (now - self.time));
        (self.steps, self.time) = (steps, now);
        self.range = found.as_ref().and_then(statistics::NumberStatistics::range);
        if let Some(found) = found.filter(|_| self.range.is_some()) {
            self.means.push(found.mean());
            if self.means.len() > HISTORY {
                self.means.remove(0);
            }
        }
        Ok(true)
    }

    /// Steps, rates, minimum and maximum of the last step.
    fn columns(&self) -> [String; 5] {
        let rate = self.rate.map_or(String::new(), |rate| format!("{rate:.1} steps/s"));
        let bytes =
            self.rate.map_or(String::new(), |rate| format!("{}/s", report::bytes(rate * self.row as f64)));
        let [min, max] = match self.range {
            Some((min, max)) => [format!("min {min:.6}"), format!("max {max:.6}")],
            None => [String::new(), String::new()],
        };
        [format!("{} steps (+{})", self.steps, self.added), rate, bytes, min, max]
    }

    /// A line that is appended.
    pub(super) fn line(&self) -> String {
        let columns = self.columns();
        let columns = columns.iter().filter(|column| !column.is_empty());
        format!("{:9.1} s  {}  {}", self.time, self.name, columns.cloned().collect::<Vec<_>>().join("  "))
    }

    /// A row of the table.
    pub(super) fn row(&self, palette: Palette) -> String {
        let [steps, rate, bytes, min, max] = self.columns();
        let name = palette.paint(TextRole::Name, &format!("{:20}", self.name));
        format!("{name} {steps:>18} {rate:>14} {bytes:>12}  {min:<18} {max:<18} {}", sparkline(&self.means))
    }

    pub(super) fn json(&self) -> Value {
        let range = self.range.map(|(min, max)| [number(min), number(max)]);
        json!({
            "seconds": self.time, "array": self.name, "steps": self.steps, "new_steps": self.added,
            "steps_per_second": self.rate, "bytes_per_second": self.rate.map(|rate| rate * self.row as f64),
            "min": range.as_ref().map(|range| &range[0]), "max": range.as_ref().map(|range| &range[1]),
        })
    }
}

/// Values as bars between their minimum and maximum.
fn sparkline(values: &[f64]) -> String {
    let (min, max) = values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(min, max), value| {
        (f64::min(min, *value), f64::max(max, *value))
    });
    let bar = |value: &f64| {
        let height = if max > min { (value - min) / (max - min) } else { 0.0 };
        // A value that is not finite is the lowest bar.
        BARS[((height * (BARS.len() - 1) as f64).round() as usize).min(BARS.len() - 1)]
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_span_the_range() {
        assert_eq!(sparkline(&[0.0, 1.0, 0.5]), "▁█▅");
        assert_eq!(sparkline(&[2.0, 2.0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0.0, f64::NAN, f64::INFINITY]).chars().count(), 3);
    }
}
