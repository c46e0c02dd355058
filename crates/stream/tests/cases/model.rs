//! The model: the expected values of a file, computed one at a time from x + y·a + z·a² + t·a³, without blocks, ranks
//! or layouts.

use aqueduct_stream::{Hyperslab, Reduction};

/// The array, z slowest.
pub(crate) const SHAPE: [u64; 3] = [7, 6, 5];
const A: u64 = 8;

/// The value of an element in a step: below 2¹⁶, and exact in every kind of values of two bytes or more.
pub(crate) fn value(z: u64, y: u64, x: u64, step: u64) -> u64 {
    x + y * A + z * A * A + step * A * A * A
}

/// The value of the element of this number.
pub(crate) fn value_at(number: u64, step: u64) -> u64 {
    let (plane, row) = (SHAPE[1] * SHAPE[2], SHAPE[2]);
    value(number / plane, number % plane / row, number % row, step)
}

/// The sampled region.
#[derive(Clone, Debug)]
pub(crate) enum SampledElements {
    Whole,
    Cuboids(Vec<Hyperslab>),
    Points(Vec<u64>),
}

/// A stream as the model sees it.
#[derive(Clone, Debug)]
pub(crate) struct ModelStream {
    pub(crate) name: &'static str,
    pub(crate) what: SampledElements,
    pub(crate) reduction: Reduction,
    pub(crate) every: Option<u64>,
}

impl ModelStream {
    /// The numbers of the sampled elements, in the order in which they are stored.
    pub(crate) fn elements(&self) -> Vec<u64> {
        let all = || (0..SHAPE.iter().product()).collect();
        match &self.what {
            SampledElements::Whole => all(),
            SampledElements::Points(points) => points.clone(),
            SampledElements::Cuboids(cuboids) => {
                let mut elements = Vec::new();
                for cuboid in cuboids {
                    for z in cuboid.start[0]..cuboid.start[0] + cuboid.count[0] {
                        for y in cuboid.start[1]..cuboid.start[1] + cuboid.count[1] {
                            for x in cuboid.start[2]..cuboid.start[2] + cuboid.count[2] {
                                elements.push((z * SHAPE[1] + y) * SHAPE[2] + x);
                            }
                        }
                    }
                }
                elements
            }
        }
    }

    /// The steps whose samples step `step` stores; none if it stores nothing of this stream.
    pub(crate) fn samples(&self, step: u64) -> Option<Vec<u64>> {
        match (self.reduction, self.every) {
            (Reduction::None, every) => step.is_multiple_of(every.unwrap_or(1)).then(|| vec![step]),
            (_, None) => None,
            (_, Some(every)) => (step + 1).is_multiple_of(every).then(|| (step + 1 - every..=step).collect()),
        }
    }

    /// The same for the data that is stored at the end, after this number of steps.
    pub(crate) fn samples_at_end(&self, steps: u64) -> Option<Vec<u64>> {
        let left = match (self.reduction, self.every) {
            (Reduction::None, _) => 0,
            (_, None) => steps,
            (_, Some(every)) => steps % every,
        };
        (left > 0).then(|| (steps - left..steps).collect())
    }

    /// The stored values of samples of these steps, in the order in which they are stored.
    pub(crate) fn values(&self, samples: &[u64]) -> Vec<f64> {
        let one = |element: u64| {
            let values: Vec<f64> = samples.iter().map(|step| value_at(element, *step) as f64).collect();
            let count = values.len() as f64;
            match self.reduction {
                Reduction::None => values[0],
                Reduction::Max => values.iter().copied().fold(f64::MIN, f64::max),
                Reduction::Min => values.iter().copied().fold(f64::MAX, f64::min),
                Reduction::Sum => values.iter().sum(),
                Reduction::Mean => values.iter().sum::<f64>() / count,
                Reduction::Rms => (values.iter().map(|value| value * value).sum::<f64>() / count).sqrt(),
                Reduction::Last => values[values.len() - 1],
            }
        };
        self.elements().into_iter().map(one).collect()
    }
}
