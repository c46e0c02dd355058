//! Sums that do not depend on the order of their terms: fixed-point numbers of 128 bits.

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;

/// The value of a unit is 2⁻⁷²: terms from about 10⁻²¹ to 10¹⁶ are summed, each rounded to a unit.
const BITS: i32 = 72;

/// Sums of numbers of order 1, which are the same to the bit on any number of ranks.
#[derive(Clone, Debug)]
pub struct FixedPointSums {
    sums: Vec<i128>,
    /// Terms that were not finite, or too large.
    refused: i128,
}

impl FixedPointSums {
    /// `count` sums without terms.
    pub fn new(count: usize) -> Self {
        Self { sums: vec![0; count], refused: 0 }
    }

    /// Adds a term to a sum.
    #[inline]
    pub fn add(&mut self, sum: usize, term: f64) {
        if term.abs() < 1e12 {
            self.sums[sum] += (term * 2f64.powi(BITS)) as i128;
        } else {
            self.refused += 1;
        }
    }

    /// The sums of all ranks, at every rank: one collective call.
    pub fn allreduce(mut self, world: &Comm) -> Result<Vec<f64>> {
        self.sums.push(self.refused);
        let mut sums = world.allreduce_with(&self.sums, |sum, term| *sum += *term)?;
        let refused = sums.pop().unwrap_or(0);
        ensure!(
            refused == 0,
            "{refused} forces are not finite or above 10^12; the run has become unstable: choose a smaller time step"
        );
        Ok(sums.into_iter().map(|sum| sum as f64 * 2f64.powi(-BITS)).collect())
    }
}
