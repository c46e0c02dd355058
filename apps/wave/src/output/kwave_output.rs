//! The output file of k-Wave.

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::formats::Selection;
use aqueduct::hdf5::{
    DatasetId, Hdf5Attribute, Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5Definitions,
    Hdf5File, Hdf5OpenOptions,
};

use super::mask_layout::MaskLayout;
use super::quantities::{StoredForm, WaveQuantity};
use crate::grid::field_block::FieldBlock;
use crate::problem::{ScalarValue, SensorMask, WaveProblem};

/// The attributes of an element type.
const FLOAT: &str = "float";
const LONG: &str = "long";

/// The largest chunk of a compressed dataset in elements.
const LARGEST_CHUNK: u64 = 1 << 20;

/// What a run stores, and how.
#[derive(Clone, Debug)]
pub struct SamplingPlan {
    /// The name of the file.
    pub name: String,
    /// The quantities.
    pub quantities: Vec<WaveQuantity>,
    /// The number of sampled steps.
    pub samples: u64,
    /// The level of compression; 0 for none.
    pub compression: u32,
    /// Whether the mask of the sensor is stored too.
    pub copy_mask: bool,
}

/// An output file that all ranks have open.
pub struct KwaveOutput {
    file: Hdf5File,
    /// The datasets of each quantity: one for each region of the mask, or one for the whole grid.
    datasets: Vec<Vec<DatasetId>>,
    /// Whether the dataset of a raw quantity has a first dimension of 1 before the steps.
    leading: bool,
    step_index: DatasetId,
    is_root: bool,
}

type Hdf5Outcome<T> = std::result::Result<T, aqueduct::formats::Error>;

fn annotate(file: &mut Hdf5Definitions<'_>, path: &str, data_type: &str) -> Hdf5Outcome<()> {
    file.attribute(path, "data_type", Hdf5Attribute::fixed(data_type))?;
    file.attribute(path, "domain_type", Hdf5Attribute::fixed("real"))
}

/// The paths of the datasets of a quantity, with their shapes.
pub(super) fn dataset_shapes(
    quantity: &WaveQuantity,
    plan: &SamplingPlan,
    layout: &MaskLayout,
    shape: [u64; 3],
) -> Vec<(String, Vec<u64>)> {
    if quantity.whole {
        return vec![(format!("/{}", quantity.name), shape.to_vec())];
    }
    let raw = quantity.form == StoredForm::Raw;
    let region = |(number, shape): (usize, &Vec<u64>)| {
        if layout.boxes {
            let steps = raw.then_some(plan.samples);
            return (
                format!("/{}/{}", quantity.name, number + 1),
                steps.into_iter().chain(shape.iter().copied()).collect(),
            );
        }
        (format!("/{}", quantity.name), vec![1, if raw { plan.samples } else { 1 }, shape[0]])
    };
    layout.regions.iter().enumerate().map(region).collect()
}

/// How a dataset is stored: in one piece, or in compressed chunks of a step.
fn storage(shape: &[u64], raw: bool, boxes: bool, level: u32) -> Hdf5DatasetOptions {
    if level == 0 || shape.contains(&0) {
        return Hdf5DatasetOptions::new();
    }
    let mut chunk = shape.to_vec();
    if raw {
        chunk[usize::from(!boxes)] = 1;
    }
    let mut at = 0;
    while chunk.iter().product::<u64>() > LARGEST_CHUNK && at < chunk.len() {
        let others = chunk.iter().product::<u64>() / chunk[at];
        chunk[at] = (LARGEST_CHUNK / others).clamp(1, chunk[at]);
        at += 1;
    }
    Hdf5DatasetOptions::new().chunk(&chunk).compress(Hdf5Compression::Deflate(level))
}

impl KwaveOutput {
    /// Creates a file with all of its datasets in full size, and stores the numbers of the input. Collective.
    pub fn create(
        world: &Comm,
        problem: &WaveProblem,
        plan: &SamplingPlan,
        layout: &MaskLayout,
    ) -> Result<()> {
        let mut file = Hdf5CreateOptions::new().replace().create(world, &plan.name)?;
        let mut scalars = problem.scalars.clone();
        scalars.retain(|(name, _)| name != "t_index" && !(plan.copy_mask && name == "sensor_mask_index"));
        let numbers = file.define(|file| {
            let mut numbers = Vec::new();
            for (name, value) in &scalars {
                let path = format!("/{name}");
                let (id, data_type) = match value {
                    ScalarValue::Long(_) => (file.dataset::<u64>(&path, &[1, 1, 1])?, LONG),
                    ScalarValue::Float(_) => (file.dataset::<f32>(&path, &[1, 1, 1])?, FLOAT),
                };
                annotate(file, &path, data_type)?;
                numbers.push(id);
            }
            file.dataset::<u64>("/t_index", &[1, 1, 1])?;
            annotate(file, "/t_index", LONG)?;
            for quantity in &plan.quantities {
                for (path, shape) in dataset_shapes(quantity, plan, layout, problem.grid.shape()) {
                    let options =
                        storage(&shape, quantity.form == StoredForm::Raw, layout.boxes, plan.compression);
                    file.dataset_with::<f32>(&path, &shape, &options)?;
                    annotate(file, &path, FLOAT)?;
                    if matches!(quantity.form, StoredForm::Intensity(_)) {
                        file.attribute(&path, "interpolation", Hdf5Attribute::fixed("linear"))?;
                    }
                }
            }
            Ok(numbers)
        })?;
        let is_root = world.rank() == 0;
        let mut queue = file.queue();
        if is_root {
            for (id, (_, value)) in numbers.iter().zip(&scalars) {
                match value {
                    ScalarValue::Long(value) => {
                        queue.put(*id, [0..1, 0..1, 0..1], std::slice::from_ref(value))
                    }
                    ScalarValue::Float(value) => {
                        queue.put(*id, [0..1, 0..1, 0..1], std::slice::from_ref(value))
                    }
                };
            }
        }
        queue.run_all()?;
        if plan.copy_mask {
            copy_mask(&mut file, is_root, layout, &problem.sensor, &problem.block)?;
        }
        Ok(file.sync()?)
    }

    /// Opens a file with the datasets of a plan. Collective.
    pub fn open(
        world: &Comm,
        problem: &WaveProblem,
        plan: &SamplingPlan,
        layout: &MaskLayout,
    ) -> Result<Self> {
        let name = &plan.name;
        let file = Hdf5OpenOptions::new().writable().open(world, name);
        let file = file.with_context(|| format!("{name}: the output of the run"))?;
        let mut datasets = Vec::new();
        for quantity in &plan.quantities {
            let mut regions = Vec::new();
            for (path, shape) in dataset_shapes(quantity, plan, layout, problem.grid.shape()) {
                let id = file.dataset(&path)?;
                let found = &file.describe(id)?.shape;
                ensure!(
                    *found == shape,
                    "{name}: dataset {path} has the shape {found:?}, this run would store {shape:?}; the file belongs to another run"
                );
                regions.push(id);
            }
            datasets.push(regions);
        }
        let step_index = file.dataset("/t_index")?;
        Ok(Self { file, datasets, leading: !layout.boxes, step_index, is_root: world.rank() == 0 })
    }

    /// Stores reduced quantities, by their numbers. Collective.
    pub fn write_reduced(
        &self,
        layout: &MaskLayout,
        block: &FieldBlock,
        values: &[(usize, bool, Vec<f32>)],
    ) -> Result<()> {
        let mut queue = self.file.queue();
        for (quantity, whole, values) in values {
            let ids = &self.datasets[*quantity];
            if *whole {
                queue.put(ids[0], Selection::block(block.start(), block.shape()), values);
                continue;
            }
            for part in &layout.parts {
                let (mut start, mut count) =
                    if self.leading { (vec![0, 0], vec![1, 1]) } else { (Vec::new(), Vec::new()) };
                start.extend(&part.start);
                count.extend(&part.count);
                let selection = Selection::block(start, count);
                queue.put(ids[part.region], selection, &values[part.first..part.first + part.len()]);
            }
        }
        Ok(queue.run_all()?)
    }

    /// Stores the number of steps that were made, and makes all data durable. Collective.
    pub fn flush(&self, steps: u64) -> Result<()> {
        let mut queue = self.file.queue();
        if self.is_root {
            queue.put(self.step_index, [0..1, 0..1, 0..1], std::slice::from_ref(&steps));
        }
        queue.run_all()?;
        Ok(self.file.sync()?)
    }

    /// Stores the attributes of the file, and completes it. Collective.
    pub fn finish(mut self, steps: u64, attributes: &[(&str, String)]) -> Result<()> {
        self.file.define(|file| {
            attributes
                .iter()
                .try_for_each(|(name, text)| file.attribute("/", name, Hdf5Attribute::fixed(text.as_str())))
        })?;
        let mut queue = self.file.queue();
        if self.is_root {
            queue.put(self.step_index, [0..1, 0..1, 0..1], std::slice::from_ref(&steps));
        }
        queue.run_all()?;
        Ok(self.file.close()?)
    }
}

/// Copies the mask of the sensor. Collective.
fn copy_mask(
    file: &mut Hdf5File,
    is_root: bool,
    layout: &MaskLayout,
    mask: &SensorMask,
    block: &FieldBlock,
) -> Result<()> {
    let (name, shape) = match mask {
        SensorMask::Points { count, .. } => ("/sensor_mask_index", vec![1, 1, *count]),
        SensorMask::Boxes(boxes) => ("/sensor_mask_corners", vec![1, boxes.len() as u64, 6]),
    };
    let id = file.define(|file| {
        let id = file.dataset::<u64>(name, &shape)?;
        annotate(file, name, LONG)?;
        Ok(id)
    })?;
    let values: Vec<u64> = match mask {
        SensorMask::Points { mine, .. } => {
            mine.iter().map(|point| block.global(point.local) as u64 + 1).collect()
        }
        SensorMask::Boxes(boxes) if is_root => {
            let corners = |ranges: &[std::ops::Range<usize>; 3]| {
                let [x, y, z] = ranges.clone().map(|range| (range.start as u64 + 1, range.end as u64));
                [x.0, y.0, z.0, x.1, y.1, z.1]
            };
            boxes.iter().flat_map(corners).collect()
        }
        SensorMask::Boxes(_) => Vec::new(),
    };
    let mut queue = file.queue();
    if layout.boxes && is_root {
        queue.put(id, Selection::block(vec![0; 3], shape), &values);
    } else if !layout.boxes {
        for part in &layout.parts {
            let selection = Selection::block([0, 0, part.start[0]], [1, 1, part.count[0]]);
            queue.put(id, selection, &values[part.first..part.first + part.len()]);
        }
    }
    Ok(queue.run_all()?)
}
