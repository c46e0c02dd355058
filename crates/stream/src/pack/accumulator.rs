//! Reductions over time, kept in memory until they are stored.

use aqueduct_file::layout::{LayoutError, Pattern};

use crate::declare::stream::Reduction;
use crate::value::{StreamValue, ValueKind, by_kind};

/// Bytes that are gathered at a time: they fit the first-level cache.
const WINDOW: usize = 4096;

/// The reduction of a stream so far, on this rank.
#[derive(Debug)]
pub(crate) struct Accumulator {
    kind: ValueKind,
    reduction: Reduction,
    samples: u64,
    /// The program has given values; only [`Reduction::Last`] may have samples without.
    given: bool,
    /// The values that are stored, in words, so that they are aligned.
    words: Vec<u64>,
    /// Bytes of these values.
    bytes: usize,
}

impl Accumulator {
    /// An empty reduction of this number of values.
    pub(crate) fn new(kind: ValueKind, reduction: Reduction, values: u64) -> Self {
        let bytes = (values * reduction.stored(kind).width()) as usize;
        Self { kind, reduction, samples: 0, given: bytes == 0, words: vec![0; bytes.div_ceil(8)], bytes }
    }

    pub(crate) fn samples(&self) -> u64 {
        self.samples
    }

    /// Its memory in bytes.
    pub(crate) fn memory(&self) -> u64 {
        8 * self.words.len() as u64
    }

    /// Adds a sample: the values that `pattern` finds in `memory`.
    pub(crate) fn add(&mut self, memory: &[u8], pattern: &Pattern) -> Result<(), LayoutError> {
        by_kind!(self.kind, add(self, memory, pattern))
    }

    /// Counts a step without a sample, as [`Reduction::Last`] allows.
    pub(crate) fn skip(&mut self) {
        self.samples += 1;
    }

    /// True if there are values to store.
    pub(crate) fn is_given(&self) -> bool {
        self.given
    }

    /// The values so far; none if there are none.
    pub(crate) fn values(&self) -> Option<&[u8]> {
        self.given.then(|| &bytemuck::cast_slice(&self.words)[..self.bytes])
    }

    /// Continues a reduction with the values of this number of samples; none if there are none yet.
    pub(crate) fn restore(&mut self, samples: u64, values: Option<&[u8]>) {
        self.samples = samples;
        if let Some(values) = values {
            bytemuck::cast_slice_mut(&mut self.words)[..self.bytes].copy_from_slice(values);
            self.given = true;
        }
    }

    /// Ends the reduction and returns its values as they are stored. The next sample begins a new one.
    pub(crate) fn finish(&mut self) -> &[u8] {
        let samples = self.samples.max(1) as f64;
        let values: &mut [f64] = match self.reduction {
            Reduction::Mean | Reduction::Rms => bytemuck::cast_slice_mut(&mut self.words),
            _ => &mut [],
        };
        let root = self.reduction == Reduction::Rms;
        for value in values {
            let mean = *value / samples;
            *value = if root { mean.sqrt() } else { mean };
        }
        self.samples = 0;
        &bytemuck::cast_slice(&self.words)[..self.bytes]
    }
}

fn add<T: StreamValue>(into: &mut Accumulator, memory: &[u8], pattern: &Pattern) -> Result<(), LayoutError> {
    let mut window = [0u64; WINDOW / 8];
    let (size, width) = (pattern.size(), size_of::<T>() as u64);
    let first_sample = into.samples == 0;
    into.given = true;
    let mut first = 0;
    while first < size {
        let bytes = (size - first).min(WINDOW as u64);
        let window = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut window)[..bytes as usize];
        pattern.gather(memory, first, window)?;
        let samples: &[T] = bytemuck::cast_slice(window);
        fold(into.reduction, &mut into.words, (first / width) as usize, samples, first_sample);
        first += bytes;
    }
    into.samples += 1;
    Ok(())
}

/// Reduces samples into the values from number `at` on; the first sample replaces them.
fn fold<T: StreamValue>(reduction: Reduction, words: &mut [u64], at: usize, samples: &[T], first: bool) {
    if matches!(reduction, Reduction::None | Reduction::Max | Reduction::Min | Reduction::Last) {
        let values: &mut [T] = &mut bytemuck::cast_slice_mut(words)[at..at + samples.len()];
        match reduction {
            _ if first || reduction == Reduction::Last => values.copy_from_slice(samples),
            Reduction::Max => each(values, samples, T::greater),
            _ => each(values, samples, T::lesser),
        }
        return;
    }
    let values: &mut [f64] = &mut bytemuck::cast_slice_mut(words)[at..at + samples.len()];
    if first {
        values.fill(0.0);
    }
    match reduction {
        Reduction::Rms => each(values, samples, |sum, sample| sum + sample.widened() * sample.widened()),
        _ => each(values, samples, |sum, sample| sum + sample.widened()),
    }
}

fn each<V: Copy, T: Copy>(values: &mut [V], samples: &[T], combine: impl Fn(V, T) -> V) {
    for (value, sample) in values.iter_mut().zip(samples) {
        *value = combine(*value, *sample);
    }
}

#[cfg(test)]
mod tests {
    use aqueduct_file::layout::Layout;

    use super::*;

    /// Reduces steps of 1500 values (more than a window), of which every second is sampled.
    fn reduced<T: StreamValue>(reduction: Reduction, steps: &[fn(usize) -> T]) -> Vec<u8> {
        let width = size_of::<T>();
        let pattern = Layout::bytes(width as u64).unwrap().resized(0, 2 * width as i64).unwrap();
        let pattern = pattern.tiled(1500).unwrap();
        let mut accumulator = Accumulator::new(T::KIND, reduction, 1500);
        let mut last = Vec::new();
        // Twice, to check that a new reduction begins.
        for _ in 0..2 {
            for step in steps {
                let memory: Vec<T> = (0..3000).map(|at| step(at / 2)).collect();
                accumulator.add(bytemuck::cast_slice(&memory), &pattern).unwrap();
            }
            assert_eq!(accumulator.samples(), steps.len() as u64);
            last = accumulator.finish().to_vec();
            assert_eq!(accumulator.samples(), 0);
        }
        last
    }

    #[test]
    fn reductions_have_the_expected_values() {
        let steps: [fn(usize) -> i16; 3] = [|at| at as i16, |at| -(at as i16), |_| 3];
        let all = |reduction| reduced(reduction, &steps);
        let shorts = |expected: fn(i16) -> i16| -> Vec<u8> {
            (0..1500).flat_map(|at| expected(at).to_le_bytes()).collect()
        };
        let floats = |expected: fn(f64) -> f64| -> Vec<u8> {
            (0..1500).flat_map(|at| expected(f64::from(at)).to_le_bytes()).collect()
        };
        assert!(all(Reduction::Max) == shorts(|at| at.max(3)));
        assert!(all(Reduction::Min) == shorts(|at| -at));
        assert!(all(Reduction::Sum) == floats(|_| 3.0));
        assert!(all(Reduction::Mean) == floats(|_| 1.0));
        assert!(all(Reduction::Rms) == floats(|at| ((2.0 * at * at + 9.0) / 3.0).sqrt()));
    }
}
