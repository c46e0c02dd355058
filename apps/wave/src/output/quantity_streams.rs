//! The streams of a run: one for each quantity, with the names and shapes of k-Wave.

use aqueduct::hdf5::Hdf5Attribute;
use aqueduct::stream::{Hyperslab, Reduction, Stream, StreamAttribute, StreamKey, Streams};

use super::quantities::{StoredForm, WaveQuantity};
use crate::problem::{SensorMask, WaveProblem};
use crate::transform::real::Real;

/// What a run stores, and how.
#[derive(Clone, Debug)]
pub struct SamplingPlan {
    /// The name of the file.
    pub name: String,
    /// The quantities.
    pub quantities: Vec<WaveQuantity>,
    /// The first sampled step, from 0.
    pub first_step: u64,
    /// The level of compression; 0 for none.
    pub compression: u32,
    /// Whether the mask of the sensor is stored too.
    pub copy_mask: bool,
}

/// The attributes of a dataset of numbers of this type, as k-Wave has them.
pub(super) fn type_attributes(data_type: &str) -> [(&'static str, Hdf5Attribute); 2] {
    [("data_type", Hdf5Attribute::fixed(data_type)), ("domain_type", Hdf5Attribute::fixed("real"))]
}

fn reduction(form: StoredForm) -> Reduction {
    match form {
        StoredForm::Raw => Reduction::None,
        StoredForm::Max => Reduction::Max,
        StoredForm::Min => Reduction::Min,
        StoredForm::Rms => Reduction::Rms,
        StoredForm::Final => Reduction::Last,
        StoredForm::Intensity(_) => Reduction::Mean,
    }
}

/// Declares the streams of all quantities, in their order.
pub fn declare<T: Real>(problem: &WaveProblem, plan: &SamplingPlan) -> (Streams, Vec<StreamKey<T>>) {
    let mut streams = Streams::new();
    let keys = plan.quantities.iter().map(|quantity| streams.add(stream(problem, plan, quantity)));
    let keys = keys.collect();
    (streams, keys)
}

fn stream(problem: &WaveProblem, plan: &SamplingPlan, quantity: &WaveQuantity) -> Stream {
    let block = &problem.block;
    let mut stream = Stream::array(&quantity.name, problem.grid.shape())
        .reduce(reduction(quantity.form))
        .stored_as::<f32>()
        .attribute("data_type", StreamAttribute::fixed("float"))
        .attribute("domain_type", StreamAttribute::fixed("real"));
    if block.volume() > 0 {
        stream = stream.block(block.start(), block.shape());
    }
    if quantity.form != StoredForm::Final {
        stream = stream.from(plan.first_step);
    }
    if plan.compression > 0 {
        stream = stream.deflate(plan.compression);
    }
    if let StoredForm::Intensity(_) = quantity.form {
        stream = stream.attribute("interpolation", StreamAttribute::fixed("linear"));
    }
    let path = format!("/{}", quantity.name);
    match &problem.sensor {
        _ if quantity.whole => stream.paths([path]),
        SensorMask::Points { mine, .. } => {
            let points = mine.iter().map(|point| (point.position, block.global(point.local) as u64));
            // (1, steps, points), or (1, 1, points).
            let leading = if quantity.form == StoredForm::Raw { 1 } else { 2 };
            stream.listed_points(points).paths([path]).leading_ones(leading)
        }
        SensorMask::Boxes(boxes) => {
            let slab = |[x, y, z]: &[std::ops::Range<usize>; 3]| {
                let sides = [z, y, x].map(|range| (range.start as u64, range.len() as u64));
                Hyperslab::new(sides.map(|side| side.0), sides.map(|side| side.1))
            };
            stream.cuboids(boxes.iter().map(slab)).paths((1..=boxes.len()).map(|at| format!("{path}/{at}")))
        }
    }
}
