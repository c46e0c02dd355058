//! One-dimensional transforms of many lines that lie across the fastest dimension.

use std::sync::Arc;

use num_complex::Complex;
use rustfft::{Fft, FftPlanner};

use super::real::Real;

/// Lines that are transformed before the next ones are fetched: as many as fill cache lines and fit into the second cache.
const LINES: usize = 16;
/// Added to the distance of lines, so that lines of a power of two do not share the same sets of the cache.
const PADDING: usize = 8;

/// Complex transforms of one length, forward and inverse.
pub(super) struct LinePlans<T> {
    pub(super) length: usize,
    pub(super) forward: Arc<dyn Fft<T>>,
    pub(super) inverse: Arc<dyn Fft<T>>,
}

impl<T: Real> LinePlans<T> {
    pub(super) fn new(planner: &mut FftPlanner<T>, length: usize) -> Self {
        let (forward, inverse) = (planner.plan_fft_forward(length), planner.plan_fft_inverse(length));
        Self { length, forward, inverse }
    }

    pub(super) fn scratch(&self) -> usize {
        self.forward.get_inplace_scratch_len().max(self.inverse.get_inplace_scratch_len())
    }

    /// Whether there is nothing to transform.
    pub(super) fn is_trivial(&self) -> bool {
        self.length == 1
    }
}

/// Memory for lines that are fetched from across the fastest dimension.
pub(super) struct LineBuffer<T> {
    stride: usize,
    input: Vec<Complex<T>>,
    output: Vec<Complex<T>>,
    scratch: Vec<Complex<T>>,
}

/// The lines of a call of an operator: those of one ky and kx, of all fields.
pub struct SpectralLines<'l, T> {
    /// The indices of the wave numbers in y and x.
    pub ky: usize,
    /// The index of the wave number in x.
    pub kx: usize,
    /// The number of the first of their elements in an operator that is stored in the layout of the spectrum.
    pub first: usize,
    /// The number of wave numbers in z.
    pub length: usize,
    stride: usize,
    input: &'l [Complex<T>],
    output: &'l mut [Complex<T>],
}

impl<T: Real> SpectralLines<'_, T> {
    /// The line of a field before.
    pub fn input(&self, field: usize) -> &[Complex<T>] {
        &self.input[field * self.stride..][..self.length]
    }

    /// The line of a field before, and the line of a field after the operator.
    pub fn lines(&mut self, input: usize, output: usize) -> (&[Complex<T>], &mut [Complex<T>]) {
        let after = &mut self.output[output * self.stride..][..self.length];
        (&self.input[input * self.stride..][..self.length], after)
    }
}

/// The places of lines in a buffer: element `e` of line `l` of field `f` is at `start(f, e) + l`.
pub(super) trait LinePlaces: Fn(usize, usize) -> usize {}

impl<F: Fn(usize, usize) -> usize> LinePlaces for F {}

impl<T: Real> LineBuffer<T> {
    pub(super) fn new(lengths: [usize; 2], fields: usize, scratch: usize) -> Self {
        let stride = lengths[0].max(lengths[1]) + PADDING;
        let lines = vec![Complex::new(T::zero(), T::zero()); stride * LINES * fields];
        let scratch = vec![Complex::new(T::zero(), T::zero()); scratch];
        Self { stride, input: lines.clone(), output: lines, scratch }
    }

    /// Transforms lines `0..count` of one field from one place to another.
    pub(super) fn transform(
        &mut self,
        (plan, length, count): (&Arc<dyn Fft<T>>, usize, usize),
        (from, from_place): (&[Complex<T>], impl Fn(usize) -> usize),
        (to, to_place): (&mut [Complex<T>], impl Fn(usize) -> usize),
    ) {
        for first in (0..count).step_by(LINES) {
            let width = LINES.min(count - first);
            for element in 0..length {
                let place = from_place(element) + first;
                for (line, value) in from[place..place + width].iter().enumerate() {
                    self.input[line * self.stride + element] = *value;
                }
            }
            for line in 0..width {
                let line = &mut self.input[line * self.stride..][..length];
                plan.process_with_scratch(line, &mut self.scratch);
            }
            for element in 0..length {
                let place = to_place(element) + first;
                for (line, value) in to[place..place + width].iter_mut().enumerate() {
                    *value = self.input[line * self.stride + element];
                }
            }
        }
    }

    /// Transforms lines forward, applies an operator to them, and transforms the result back. `row` is the ky of the lines and the number of
    /// elements of the spectrum before them.
    pub(super) fn apply(
        &mut self,
        plans: &LinePlans<T>,
        (ky, first_kx, before, count): (usize, usize, usize, usize),
        (fields, from, from_places): (usize, &[Complex<T>], &impl LinePlaces),
        (results, to, to_places): (usize, &mut [Complex<T>], &impl LinePlaces),
        operator: &mut impl FnMut(SpectralLines<'_, T>),
    ) {
        let (length, stride) = (plans.length, self.stride);
        for first in (0..count).step_by(LINES) {
            let width = LINES.min(count - first);
            for field in 0..fields {
                for element in 0..length {
                    let place = from_places(field, element) + first;
                    for (line, value) in from[place..place + width].iter().enumerate() {
                        self.input[(line * fields + field) * stride + element] = *value;
                    }
                }
            }
            for line in 0..width {
                let input = &mut self.input[line * fields * stride..][..fields * stride];
                let output = &mut self.output[line * results * stride..][..results * stride];
                if !plans.is_trivial() {
                    for field in input.chunks_exact_mut(stride) {
                        plans.forward.process_with_scratch(&mut field[..length], &mut self.scratch);
                    }
                }
                let kx = first_kx + first + line;
                let at = (before + first + line) * length;
                operator(SpectralLines { ky, kx, first: at, length, stride, input, output });
                if !plans.is_trivial() {
                    for field in
                        self.output[line * results * stride..][..results * stride].chunks_exact_mut(stride)
                    {
                        plans.inverse.process_with_scratch(&mut field[..length], &mut self.scratch);
                    }
                }
            }
            for field in 0..results {
                for element in 0..length {
                    let place = to_places(field, element) + first;
                    for (line, value) in to[place..place + width].iter_mut().enumerate() {
                        *value = self.output[(line * results + field) * stride + element];
                    }
                }
            }
        }
    }
}
