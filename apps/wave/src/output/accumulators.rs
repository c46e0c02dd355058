//! Quantities that are reduced over time. Pure.

use super::quantities::StoredForm;
use crate::transform::real::Real;

/// The samples of a quantity so far.
#[derive(Clone, Debug)]
pub enum Accumulated<T> {
    /// The extreme values.
    Extreme(Vec<T>),
    /// Sums, in double precision.
    Sum(Vec<f64>),
}

/// A reduction over time.
#[derive(Clone, Debug)]
pub struct TimeReduction<T> {
    form: StoredForm,
    samples: u64,
    /// The values so far; empty before the first sample.
    pub values: Accumulated<T>,
    /// Pressure and velocity of the last sample, whose velocity at the time of the pressure is known in the next step.
    pub previous: Option<[Vec<T>; 2]>,
}

impl<T: Real> TimeReduction<T> {
    /// Without samples, for this many values.
    pub fn new(form: StoredForm, length: usize) -> Self {
        let values = match form {
            StoredForm::Max | StoredForm::Min => Accumulated::Extreme(vec![T::of(f64::NAN); length]),
            _ => Accumulated::Sum(vec![0.0; length]),
        };
        let zeros = || vec![T::zero(); length];
        let previous = matches!(form, StoredForm::Intensity(_)).then(|| [zeros(), zeros()]);
        Self { form, samples: 0, values, previous }
    }

    /// Continues after this number of samples, with values that were set.
    pub fn continue_after(&mut self, samples: u64) {
        self.samples = samples;
    }

    /// Adds a sample; of an intensity the velocity, with the pressure.
    pub fn add(&mut self, sample: &[T], pressure: &[T]) {
        self.samples += 1;
        match (&mut self.values, &mut self.previous) {
            (Accumulated::Extreme(values), _) => {
                let largest = self.form == StoredForm::Max;
                for (value, sample) in values.iter_mut().zip(sample) {
                    // Not a number is less than nothing, and greater than nothing.
                    #[expect(clippy::eq_op, reason = "true of what is not a number")]
                    if *value != *value || (if largest { *sample > *value } else { *sample < *value }) {
                        *value = *sample;
                    }
                }
            }
            (Accumulated::Sum(sums), Some([last_pressure, last_velocity])) => {
                if self.samples > 1 {
                    let before = last_pressure.iter().zip(last_velocity.iter());
                    for ((sum, (pressure, velocity)), sample) in sums.iter_mut().zip(before).zip(sample) {
                        *sum += pressure.wide() * 0.5 * (velocity.wide() + sample.wide());
                    }
                }
                last_pressure.copy_from_slice(pressure);
                last_velocity.copy_from_slice(sample);
            }
            (Accumulated::Sum(sums), None) => {
                for (sum, sample) in sums.iter_mut().zip(sample) {
                    *sum += sample.wide() * sample.wide();
                }
            }
        }
    }

    /// The values that are stored.
    pub fn stored(&self) -> Vec<f32> {
        let samples = self.samples.max(1) as f64;
        match (&self.values, &self.previous) {
            (Accumulated::Extreme(values), _) => values.iter().map(|value| value.stored()).collect(),
            (Accumulated::Sum(sums), Some([pressure, velocity])) => {
                let last = pressure
                    .iter()
                    .zip(velocity)
                    .map(|(pressure, velocity)| pressure.wide() * velocity.wide());
                sums.iter().zip(last).map(|(sum, last)| ((sum + last) / samples) as f32).collect()
            }
            (Accumulated::Sum(sums), None) => sums.iter().map(|sum| (sum / samples).sqrt() as f32).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reduced(form: StoredForm, samples: &[f32]) -> f32 {
        let mut reduction = TimeReduction::new(form, 1);
        samples.iter().for_each(|sample| reduction.add(&[*sample], &[2.0]));
        reduction.stored()[0]
    }

    #[test]
    fn reductions_ignore_what_is_not_a_number() {
        assert_eq!(reduced(StoredForm::Max, &[f32::NAN, -3.0, -5.0, f32::NAN]), -3.0);
        assert_eq!(reduced(StoredForm::Min, &[-3.0, f32::NAN, -5.0]), -5.0);
        assert!(reduced(StoredForm::Max, &[f32::NAN]).is_nan());
        assert_eq!(reduced(StoredForm::Rms, &[3.0, -4.0]), 12.5f32.sqrt());
        // 2 · (1 + 3)/2, 2 · (3 + 5)/2, 2 · 5
        assert_eq!(reduced(StoredForm::Intensity(0), &[1.0, 3.0, 5.0]), 22.0 / 3.0);
    }
}
