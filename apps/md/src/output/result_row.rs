//! A row of results: printed, stored in a table, plotted.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context, Result};

use crate::force::energy::Energies;

/// Energies, temperature and pressure at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResultRow {
    /// The step.
    pub step: u64,
    /// Simulated time.
    pub time: f64,
    /// Kinetic energy.
    pub kinetic: f64,
    /// Potential energy.
    pub potential: f64,
    /// Temperature.
    pub temperature: f64,
    /// Pressure.
    pub pressure: f64,
}

impl ResultRow {
    /// The first line of a file of rows.
    pub const HEAD: &'static str = "# step time kinetic potential total temperature pressure";

    /// The row of energies in a box of this volume.
    pub fn new(step: u64, time: f64, energies: &Energies, volume: f64) -> Self {
        Self {
            step,
            time,
            kinetic: energies.kinetic,
            potential: energies.potential,
            temperature: energies.temperature(),
            pressure: energies.pressure(volume),
        }
    }

    /// The sum of kinetic and potential energy.
    pub fn total(&self) -> f64 {
        self.kinetic + self.potential
    }

    /// The names of the columns, as wide as [`pretty`](ResultRow::pretty) rows are.
    pub fn pretty_head() -> String {
        let [kinetic, potential, total] = ["kinetic", "potential", "total"];
        format!(
            "{:>9} {:>11} {kinetic:>15} {potential:>15} {total:>15} {:>11} {:>11}",
            "step", "time", "temperature", "pressure"
        )
    }

    /// The row for the terminal: few digits, in columns.
    pub fn pretty(&self) -> String {
        let Self { step, time, kinetic, potential, temperature, pressure } = self;
        let total = self.total();
        format!(
            "{step:>9} {time:>11.4} {kinetic:>15.6} {potential:>15.6} {total:>15.6} {temperature:>11.6} {pressure:>11.6}"
        )
    }
}

/// The row with all digits, for files.
impl fmt::Display for ResultRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, time, kinetic, potential, temperature, pressure } = self;
        write!(f, "{step} {time} {kinetic} {potential} {} {temperature} {pressure}", self.total())
    }
}

impl FromStr for ResultRow {
    type Err = anyhow::Error;

    fn from_str(line: &str) -> Result<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [step, numbers @ ..] = words.as_slice() else { anyhow::bail!("the row is empty") };
        let numbers: Vec<f64> = numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
        let [time, kinetic, potential, _, temperature, pressure] = numbers[..] else {
            anyhow::bail!("the row has {} columns instead of 7", words.len());
        };
        let step = step.parse().with_context(|| format!("`{step}` is not a step"))?;
        Ok(Self { step, time, kinetic, potential, temperature, pressure })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_survives_formatting_and_parsing() {
        let row = ResultRow {
            step: 7,
            time: 0.1 + 0.2,
            kinetic: 1e-300,
            potential: -1.0 / 3.0,
            temperature: 0.0,
            pressure: 1e22,
        };
        assert_eq!(row.to_string().parse::<ResultRow>().unwrap(), row);
        assert!("1 2 3".parse::<ResultRow>().unwrap_err().to_string().contains("3 columns instead of 7"));
        let plain = ResultRow { kinetic: 1.0, pressure: -0.5, ..row };
        assert_eq!(ResultRow::pretty_head().len(), plain.pretty().len());
    }
}
