//! Sums that do not depend on the order of their terms, so that energies are bitwise the same for every decomposition.

use anyhow::Result;
use aqueduct::comm::Comm;

/// The number of exponent bits of one bin.
const SPAN: u32 = 32;
/// The number of bins, enough for every finite number.
const BINS: usize = (2046 / SPAN as usize) + 1;

/// An exact sum of `f64`s: mantissas are added as integers, in a bin for each range of exponents.
///
/// ```
/// use aqueduct_md::force::exact_sum::ExactSum;
/// let mut sum = ExactSum::default();
/// [1e100, 1.0, -1e100, 0.1].iter().for_each(|term| sum.add(*term));
/// assert_eq!(sum.value(), 1.1);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExactSum {
    /// The bins; each can hold 2⁴² terms.
    bins: [i128; BINS],
    /// Whether a term was an infinity or NaN.
    broken: bool,
}

impl Default for ExactSum {
    fn default() -> Self {
        Self { bins: [0; BINS], broken: false }
    }
}

impl ExactSum {
    /// Adds a term.
    pub fn add(&mut self, term: f64) {
        let bits = term.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as u32;
        if exponent == 0x7ff {
            self.broken = true;
            return;
        }
        let fraction = bits & ((1 << 52) - 1);
        // Subnormal numbers have the exponent of the smallest normal numbers and no leading bit.
        let (mantissa, place) =
            if exponent == 0 { (fraction, 0) } else { (fraction | 1 << 52, exponent - 1) };
        let value = i128::from(mantissa) << (place % SPAN);
        self.bins[(place / SPAN) as usize] += if term < 0.0 { -value } else { value };
    }

    /// The sum, rounded; NaN if a term was not finite.
    pub fn value(&self) -> f64 {
        if self.broken {
            return f64::NAN;
        }
        let mut digits = self.bins;
        let carry = normalise(&mut digits);
        if carry < 0 {
            let mut digits = self.bins.map(|bin| -bin);
            let carry = normalise(&mut digits);
            return -rounded(&digits, carry);
        }
        rounded(&digits, carry)
    }

    /// The sums of all ranks, at every rank.
    pub fn allreduce(world: &Comm, sums: &[Self]) -> Result<Vec<Self>> {
        let mine: Vec<i128> =
            sums.iter().flat_map(|sum| sum.bins.into_iter().chain([i128::from(sum.broken)])).collect();
        let all = world.allreduce_with(&mine, |a, b| *a += *b)?;
        let sum = |bins: &[i128]| Self { bins: std::array::from_fn(|at| bins[at]), broken: bins[BINS] != 0 };
        Ok(all.chunks_exact(BINS + 1).map(sum).collect())
    }
}

/// Normalises every bin to its range; returns the carry above the last bin.
fn normalise(bins: &mut [i128; BINS]) -> i128 {
    let mut carry = 0;
    for bin in bins {
        let whole = *bin + carry;
        *bin = whole & ((1 << SPAN) - 1);
        carry = whole >> SPAN;
    }
    carry
}

/// Adds the digits from the largest down; the rest is smaller than the rounding error of the sum so far.
fn rounded(digits: &[i128; BINS], carry: i128) -> f64 {
    let base = 2f64.powi(SPAN as i32);
    let value = |bin: f64, place: usize| {
        // In two steps, as the power of the lowest bins is not a normal number.
        let exponent = (place as i32) * SPAN as i32 - 1074;
        bin * 2f64.powi(exponent / 2) * 2f64.powi(exponent - exponent / 2)
    };
    let top = value(carry as f64 * base, BINS - 1);
    digits.iter().enumerate().rev().fold(top, |sum, (place, digit)| sum + value(*digit as f64, place))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_sum_does_not_depend_on_the_order(mut terms in prop::collection::vec(any::<f64>(), 0..60)) {
            terms.retain(|term| term.is_finite() && term.abs() < 1e300);
            let sum = |terms: &[f64]| {
                let mut sum = ExactSum::default();
                terms.iter().for_each(|term| sum.add(*term));
                sum.value()
            };
            let forward = sum(&terms);
            terms.reverse();
            prop_assert_eq!(forward.to_bits(), sum(&terms).to_bits());
        }

        #[test]
        fn the_sum_of_one_term_is_the_term(term in any::<f64>()) {
            let mut sum = ExactSum::default();
            sum.add(term);
            if term.is_finite() {
                prop_assert_eq!(sum.value(), term);
            } else {
                prop_assert!(sum.value().is_nan());
            }
        }

        #[test]
        fn terms_that_cancel_leave_the_rest(term in -1e200..1e200f64, rest in -1e-200..1e-200f64) {
            let mut sum = ExactSum::default();
            [term, rest, -term].iter().for_each(|term| sum.add(*term));
            prop_assert_eq!(sum.value(), rest);
        }
    }
}
