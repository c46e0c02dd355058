//! Built-in simulations as input files of k-Wave.

use std::borrow::Cow;

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::formats::Selection;
use aqueduct::hdf5::{DatasetId, Hdf5Attribute, Hdf5CreateOptions, Hdf5Definitions, Hdf5File};

use super::built_in::Scenario;
use super::listed_points::ListedSensor;
use crate::grid::decomposition::DecompositionKind;
use crate::problem::{MediumField, ScalarValue, WaveProblem};

/// A dataset and what this rank writes to it.
enum InputData<'d> {
    Longs(Vec<u64>),
    Floats(Vec<f32>),
    Block(Cow<'d, [f32]>),
}

struct InputDataset<'d> {
    name: String,
    shape: [u64; 3],
    data: InputData<'d>,
}

/// Writes the input file of a simulation. Collective.
pub fn write_input(world: &Comm, scenario: &Scenario, name: &str) -> Result<()> {
    let problem = scenario.problem(world, DecompositionKind::Auto);
    let datasets = datasets(scenario, &problem);
    let mut file = Hdf5CreateOptions::new().replace().create(world, name)?;
    let ids = file.define(|file| {
        for (key, text) in attributes(&problem.description, "input") {
            file.attribute("/", key, Hdf5Attribute::fixed(text))?;
        }
        datasets.iter().map(|dataset| define(file, dataset)).collect::<Result<Vec<_>, _>>()
    })?;
    write(&file, &ids, &datasets, &problem, world.rank() == 0)?;
    Ok(file.close()?)
}

/// The attributes of files of k-Wave that tell what they are.
pub fn attributes(description: &str, kind: &str) -> [(&'static str, String); 6] {
    [
        ("created_by", format!("wave {}", env!("CARGO_PKG_VERSION"))),
        ("creation_date", crate::report::creation_date()),
        ("file_description", if description.is_empty() { "wave".to_owned() } else { description.to_owned() }),
        ("file_type", kind.to_owned()),
        ("major_version", "1".to_owned()),
        ("minor_version", "2".to_owned()),
    ]
}

fn define(
    file: &mut Hdf5Definitions<'_>,
    dataset: &InputDataset<'_>,
) -> Result<DatasetId, aqueduct::formats::Error> {
    let path = format!("/{}", dataset.name);
    let (id, kind) = match dataset.data {
        InputData::Longs(_) => (file.dataset::<u64>(&path, &dataset.shape)?, "long"),
        _ => (file.dataset::<f32>(&path, &dataset.shape)?, "float"),
    };
    file.attribute(&path, "data_type", Hdf5Attribute::fixed(kind))?;
    file.attribute(&path, "domain_type", Hdf5Attribute::fixed("real"))?;
    Ok(id)
}

fn write(
    file: &Hdf5File,
    ids: &[DatasetId],
    datasets: &[InputDataset<'_>],
    problem: &WaveProblem,
    is_root: bool,
) -> Result<()> {
    let mut queue = file.queue();
    for (id, dataset) in ids.iter().zip(datasets) {
        let whole = || Selection::block([0; 3], dataset.shape);
        match &dataset.data {
            InputData::Longs(values) if is_root => queue.put(*id, whole(), values),
            InputData::Floats(values) if is_root => queue.put(*id, whole(), values),
            InputData::Block(values) => {
                queue.put(*id, Selection::block(problem.block.start(), problem.block.shape()), values)
            }
            _ => &mut queue,
        };
    }
    Ok(queue.run_all()?)
}

fn datasets<'d>(scenario: &Scenario, problem: &'d WaveProblem) -> Vec<InputDataset<'d>> {
    let mut list = Vec::new();
    let mut add = |name: &str, shape, data| list.push(InputDataset { name: name.to_owned(), shape, data });
    for (name, value) in &problem.scalars {
        let data = match value {
            ScalarValue::Long(value) => InputData::Longs(vec![*value]),
            ScalarValue::Float(value) => InputData::Floats(vec![*value]),
        };
        add(name, [1, 1, 1], data);
    }
    let mut field = |name: &str, field: &'d MediumField| match field {
        MediumField::Uniform(value) => add(name, [1, 1, 1], InputData::Floats(vec![*value as f32])),
        MediumField::Block(values) => {
            add(name, problem.grid.shape(), InputData::Block(Cow::Borrowed(values)));
        }
    };
    let medium = &problem.medium;
    field("c0", &medium.sound_speed);
    field("rho0", &medium.density);
    for (name, staggered) in ["rho0_sgx", "rho0_sgy", "rho0_sgz"].into_iter().zip(&medium.staggered_density) {
        field(name, staggered);
    }
    if let Some(nonlinearity) = &medium.nonlinearity {
        field("BonA", nonlinearity);
    }
    if let Some(law) = &medium.absorption {
        field("alpha_coeff", &law.coefficient);
    }
    if let Some(pressure) = &problem.sources.initial_pressure {
        let values = (0..pressure.len()).map(|at| pressure.at(at) as f32).collect();
        add("p0_source_input", problem.grid.shape(), InputData::Block(Cow::Owned(values)));
    }
    let one_based =
        |points: &[usize]| InputData::Longs(points.iter().map(|point| *point as u64 + 1).collect());
    if let Some(source) = &scenario.pressure {
        add("p_source_index", [1, 1, source.points.len() as u64], one_based(&source.points));
        add("p_source_input", [1, source.signal.len() as u64, 1], InputData::Floats(source.signal.clone()));
    }
    match &scenario.sensor {
        ListedSensor::Points(points) => {
            add("sensor_mask_index", [1, 1, points.len() as u64], one_based(points));
        }
        ListedSensor::Boxes(boxes) => {
            let first =
                |ranges: &[std::ops::Range<usize>; 3]| ranges.clone().map(|range| range.start as u64 + 1);
            let last = |ranges: &[std::ops::Range<usize>; 3]| ranges.clone().map(|range| range.end as u64);
            let corners =
                boxes.iter().flat_map(|ranges| first(ranges).into_iter().chain(last(ranges))).collect();
            add("sensor_mask_corners", [1, boxes.len() as u64, 6], InputData::Longs(corners));
        }
    }
    list
}
