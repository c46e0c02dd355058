//! Operators in the space of wave numbers, in the layout of the spectrum of a rank.

use num_complex::Complex;

use crate::grid::WaveGrid;
use crate::grid::wave_numbers::{sinc, wave_numbers};
use crate::problem::WaveProblem;
use crate::transform::real::Real;
use crate::transform::spectral_transform::SpectralTransform;

/// All operators. Those of the whole spectrum have the normalization of the transform.
pub struct SpectralOperators<T> {
    /// The correction that makes a step exact in a homogeneous medium.
    pub kappa: Vec<T>,
    /// The correction of additive sources, if there are any.
    pub source_kappa: Option<Vec<T>>,
    /// The fractional Laplacians of absorption and dispersion, if there is any.
    pub absorption: Option<[Vec<T>; 2]>,
    /// Derivatives from the places of pressure to those of the velocity, per direction.
    pub to_velocity: Vec<Vec<Complex<T>>>,
    /// Derivatives from the places of the velocity to those of pressure.
    pub to_pressure: Vec<Vec<Complex<T>>>,
    /// The shift of the velocity to the places of pressure.
    pub shift: Vec<Vec<Complex<T>>>,
    /// What normalizes a transform.
    pub normalization: T,
}

/// i·k·e^{±i·k·d/2} of a direction.
fn derivative<T: Real>(points: usize, spacing: f64, sign: f64) -> Vec<Complex<T>> {
    let value = |(index, k): (usize, f64)| {
        if 2 * index == points {
            // The highest frequency: real.
            return Complex::new(T::of(sign * k), T::zero());
        }
        let (sin, cos) = (sign * k * spacing / 2.0).sin_cos();
        Complex::new(T::of(-k * sin), T::of(k * cos))
    };
    wave_numbers(points, spacing).into_iter().enumerate().map(value).collect()
}

/// e^{−i·k·d/2} of a direction; nothing of the highest frequency.
fn shift<T: Real>(points: usize, spacing: f64) -> Vec<Complex<T>> {
    let value = |(index, k): (usize, f64)| {
        if 2 * index == points {
            return Complex::new(T::zero(), T::zero());
        }
        let (sin, cos) = (-k * spacing / 2.0).sin_cos();
        Complex::new(T::of(cos), T::of(sin))
    };
    wave_numbers(points, spacing).into_iter().enumerate().map(value).collect()
}

impl<T: Real> SpectralOperators<T> {
    /// The operators of a problem.
    pub fn new(problem: &WaveProblem, transform: &SpectralTransform<T>, corrected_sources: bool) -> Self {
        let WaveGrid { points, spacing } = problem.grid;
        let dimensions = problem.grid.dimensions();
        let k: Vec<Vec<f64>> = (0..3)
            .map(|at| if at < dimensions { wave_numbers(points[at], spacing[at]) } else { vec![0.0] })
            .collect();
        let scale = 1.0 / problem.grid.volume() as f64;
        let field = |value: &dyn Fn(f64) -> f64| {
            let mut values = Vec::with_capacity(transform.elements());
            transform.for_each_element(|ky, kx, kz| {
                let (x, y, z) = (k[0][kx], k[1][ky], k[2][kz]);
                values.push(T::of(scale * value((x * x + y * y + z * z).sqrt())));
            });
            values
        };
        let half_step = problem.reference_speed * problem.dt / 2.0;
        let finite = |value: f64| if value.is_infinite() { 0.0 } else { value };
        let absorption =
            problem.medium.absorption.as_ref().filter(|law| !law.stokes).map(|law| {
                [2.0, 1.0].map(|less| field(&|length: f64| finite(length.powf(law.power - less))))
            });
        let directions = 0..dimensions;
        Self {
            kappa: field(&|length| sinc(half_step * length)),
            source_kappa: corrected_sources.then(|| field(&|length| (half_step * length).cos())),
            absorption,
            to_velocity: directions.clone().map(|at| derivative(points[at], spacing[at], 1.0)).collect(),
            to_pressure: directions.clone().map(|at| derivative(points[at], spacing[at], -1.0)).collect(),
            shift: directions.map(|at| shift(points[at], spacing[at])).collect(),
            normalization: T::of(scale),
        }
    }
}

impl<T: Real> SpectralTransform<T> {
    /// The gradient of the transformed field: one field before, one per direction after.
    pub fn gradient(&mut self, kappa: &[T], derivatives: &[Vec<Complex<T>>]) {
        self.apply(1, derivatives.len(), |mut lines| {
            let kappa = &kappa[lines.first..][..lines.length];
            for (direction, derivative) in derivatives.iter().enumerate() {
                let constant = [lines.kx, lines.ky].get(direction).map(|index| derivative[*index]);
                let (before, after) = lines.lines(0, direction);
                multiply(before, after, kappa, constant.ok_or(derivative));
            }
        });
    }

    /// A derivative of each of the transformed fields in its own direction.
    pub fn divergence_parts(&mut self, kappa: &[T], derivatives: &[Vec<Complex<T>>]) {
        self.apply(derivatives.len(), derivatives.len(), |mut lines| {
            let kappa = &kappa[lines.first..][..lines.length];
            for (direction, derivative) in derivatives.iter().enumerate() {
                let constant = [lines.kx, lines.ky].get(direction).map(|index| derivative[*index]);
                let (before, after) = lines.lines(direction, direction);
                multiply(before, after, kappa, constant.ok_or(derivative));
            }
        });
    }

    /// The transformed fields, each shifted in its own direction.
    pub fn shift(&mut self, normalization: T, shifts: &[Vec<Complex<T>>]) {
        self.apply(shifts.len(), shifts.len(), |mut lines| {
            for (direction, shift) in shifts.iter().enumerate() {
                let constant = [lines.kx, lines.ky].get(direction).map(|index| shift[*index]);
                let (before, after) = lines.lines(direction, direction);
                for (z, (before, after)) in before.iter().zip(after).enumerate() {
                    *after = *before * constant.unwrap_or(shift[z.min(shift.len() - 1)]) * normalization;
                }
            }
        });
    }

    /// Multiplies each of the transformed fields by a real operator.
    pub fn filter(&mut self, operators: &[&[T]]) {
        self.apply(operators.len(), operators.len(), |mut lines| {
            let (first, length) = (lines.first, lines.length);
            for (field, operator) in operators.iter().enumerate() {
                let (before, after) = lines.lines(field, field);
                for ((before, after), factor) in before.iter().zip(after).zip(&operator[first..][..length]) {
                    *after = before * *factor;
                }
            }
        });
    }
}

/// A line times a real operator and a derivative, which is constant on the line or, in z, is not.
fn multiply<T: Real>(
    before: &[Complex<T>],
    after: &mut [Complex<T>],
    kappa: &[T],
    derivative: Result<Complex<T>, &Vec<Complex<T>>>,
) {
    match derivative {
        Ok(constant) => {
            for ((before, after), kappa) in before.iter().zip(after).zip(kappa) {
                *after = before * *kappa * constant;
            }
        }
        Err(derivative) => {
            for (((before, after), kappa), derivative) in before.iter().zip(after).zip(kappa).zip(derivative)
            {
                *after = before * *kappa * derivative;
            }
        }
    }
}
