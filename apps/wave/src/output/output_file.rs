//! The file of an output. The ending of its name decides: `.h5` for that of k-Wave, `.nc` for netCDF with the same names, else a stream file.

use std::sync::Arc;

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::formats::Selection;
use aqueduct::hdf5::{Hdf5Attribute, Hdf5CreateOptions, Hdf5Definitions, Hdf5File, Hdf5OpenOptions};
use aqueduct::netcdf::{NcType, NetcdfCreateOptions, NetcdfOpenOptions};
use aqueduct::stream::target::{FileTarget, Hdf5Target, NetcdfTarget, OutputTarget};
use aqueduct::stream::{self, Declaration};

use super::quantity_streams::{SamplingPlan, type_attributes};
use crate::grid::field_block::FieldBlock;
use crate::problem::{ScalarValue, SensorMask, WaveProblem};

/// The types of numbers in files of k-Wave.
const FLOAT: &str = "float";
const LONG: &str = "long";

/// Bytes of the header of a netCDF file without streams, and for each variable of a stream.
const HEADER: u64 = 64 << 10;
const VARIABLE: u64 = 512;

/// The number of steps that were made.
const STEPS_MADE: &str = "t_index";

/// The kind of an output file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputFormat {
    /// HDF5 as k-Wave has it.
    Kwave,
    /// netCDF with the names of k-Wave.
    Netcdf,
    /// A stream file: quantities without the numbers of the input.
    Stream,
}

impl OutputFormat {
    /// By the ending of a name.
    pub fn of(name: &str) -> Self {
        match name.rsplit_once('.') {
            Some((_, "h5" | "hdf5")) => Self::Kwave,
            Some((_, "nc")) => Self::Netcdf,
            _ => Self::Stream,
        }
    }
}

type FormatOutcome<T> = std::result::Result<T, aqueduct::formats::Error>;

fn annotate(file: &mut Hdf5Definitions<'_>, path: &str, data_type: &str) -> FormatOutcome<()> {
    type_attributes(data_type).into_iter().try_for_each(|(name, value)| file.attribute(path, name, value))
}

fn one() -> Selection {
    Selection::block([0; 3], [1; 3])
}

/// The numbers of the input that are copied, and the number of steps.
fn scalars(problem: &WaveProblem, plan: &SamplingPlan) -> Vec<(String, ScalarValue)> {
    let mut scalars = problem.scalars.clone();
    scalars.retain(|(name, _)| name != STEPS_MADE && !(plan.copy_mask && name == "sensor_mask_index"));
    scalars.push((STEPS_MADE.to_owned(), ScalarValue::Long(0)));
    scalars
}

/// The numbers as bytes on rank 0, which writes them; nothing on the others.
fn values_of_root(world: &Comm, scalars: &[(String, ScalarValue)]) -> Vec<Vec<u8>> {
    let bytes = |(_, value): &(String, ScalarValue)| match value {
        ScalarValue::Long(value) => value.to_ne_bytes().to_vec(),
        ScalarValue::Float(value) => value.to_ne_bytes().to_vec(),
    };
    if world.rank() == 0 { scalars.iter().map(bytes).collect() } else { Vec::new() }
}

/// Creates the file of a run with the numbers of its input, for [`open_target`]; replaces one that exists. Collective.
pub fn create_file(world: &Comm, problem: &WaveProblem, plan: &SamplingPlan) -> Result<()> {
    let format = OutputFormat::of(&plan.name);
    ensure!(
        format == OutputFormat::Kwave || (!plan.copy_mask && plan.compression == 0),
        "{}: only HDF5 files (.h5) have a copy of the mask and compression",
        plan.name
    );
    match format {
        OutputFormat::Kwave => create_hdf5(world, problem, plan),
        OutputFormat::Netcdf => create_netcdf(world, problem, plan),
        OutputFormat::Stream => Ok(()),
    }
}

fn create_hdf5(world: &Comm, problem: &WaveProblem, plan: &SamplingPlan) -> Result<()> {
    let scalars = scalars(problem, plan);
    let mut file = Hdf5CreateOptions::new().replace().create(world, &plan.name)?;
    let ids = file.define(|file| {
        let define = |(name, value): &(String, ScalarValue)| {
            let path = format!("/{name}");
            let (id, data_type) = match value {
                ScalarValue::Long(_) => (file.dataset::<u64>(&path, &[1, 1, 1])?, LONG),
                ScalarValue::Float(_) => (file.dataset::<f32>(&path, &[1, 1, 1])?, FLOAT),
            };
            annotate(file, &path, data_type)?;
            Ok(id)
        };
        scalars.iter().map(define).collect::<FormatOutcome<Vec<_>>>()
    })?;
    let values = values_of_root(world, &scalars);
    let mut queue = file.queue();
    ids.iter().zip(&values).for_each(|(id, value)| _ = queue.put_bytes(*id, one(), value));
    queue.run_all()?;
    if plan.copy_mask {
        copy_mask(&mut file, world.rank() == 0, &problem.sensor, &problem.block)?;
    }
    // It is not closed, because it is not complete.
    Ok(file.commit()?)
}

fn create_netcdf(world: &Comm, problem: &WaveProblem, plan: &SamplingPlan) -> Result<()> {
    let scalars = scalars(problem, plan);
    let boxes = match &problem.sensor {
        SensorMask::Points { .. } => 1,
        SensorMask::Boxes(boxes) => boxes.len() as u64,
    };
    // Variables of streams are defined later, each with its dimensions.
    let header = HEADER + VARIABLE * plan.quantities.len() as u64 * boxes;
    let mut file = NetcdfCreateOptions::new().replace().header_room(header).create(world, &plan.name)?;
    let ids = file.define(|file| {
        let single = file.dimension("one", 1)?;
        let define = |(name, value): &(String, ScalarValue)| {
            let kind = match value {
                ScalarValue::Long(_) => NcType::UInt64,
                ScalarValue::Float(_) => NcType::Float,
            };
            file.variable(name, kind, &[single; 3])
        };
        scalars.iter().map(define).collect::<FormatOutcome<Vec<_>>>()
    })?;
    let values = values_of_root(world, &scalars);
    let mut queue = file.queue();
    ids.iter().zip(&values).for_each(|(id, value)| _ = queue.put_bytes(*id, one(), value));
    queue.run_all()?;
    Ok(file.close()?)
}

/// The target of the streams of an output whose file was created, on the ranks that write. Collective.
pub fn open_target(
    comm: &Comm,
    name: &str,
    declared: &Arc<Declaration>,
) -> stream::Result<Box<dyn OutputTarget>> {
    Ok(match OutputFormat::of(name) {
        OutputFormat::Kwave => {
            let file = Hdf5OpenOptions::new().writable().open(comm, name)?;
            Box::new(Hdf5Target::write_into(comm, file, declared)?)
        }
        OutputFormat::Netcdf => {
            let file = NetcdfOpenOptions::new().writable().open(comm, name)?;
            Box::new(NetcdfTarget::write_into(comm, file, declared)?)
        }
        OutputFormat::Stream => Box::new(FileTarget::create(comm, name, declared)?),
    })
}

/// Stores the number of steps in the file of a run that ended; one that made its last step gets attributes, and is complete. Collective.
pub fn end_file(world: &Comm, name: &str, steps: u64, attributes: Option<&[(&str, String)]>) -> Result<()> {
    let mine = [steps];
    let mine = if world.rank() == 0 { &mine[..] } else { &[] };
    let place = if world.rank() == 0 { one() } else { Selection::block([0; 3], [0; 3]) };
    match OutputFormat::of(name) {
        OutputFormat::Kwave => {
            let mut file = Hdf5OpenOptions::new().writable().open(world, name)?;
            let id = file.dataset(&format!("/{STEPS_MADE}"))?;
            file.at(id, place).all().write(mine)?;
            let Some(attributes) = attributes else { return Ok(file.commit()?) };
            file.define(|file| {
                attributes.iter().try_for_each(|(name, text)| {
                    file.attribute("/", name, Hdf5Attribute::fixed(text.as_str()))
                })
            })?;
            Ok(file.close()?)
        }
        OutputFormat::Netcdf => {
            let file = NetcdfOpenOptions::new().writable().open(world, name)?;
            file.at(file.variable(STEPS_MADE)?, place).all().write(mine)?;
            Ok(file.close()?)
        }
        OutputFormat::Stream => Ok(()),
    }
}

/// Copies the mask of the sensor. Collective.
fn copy_mask(file: &mut Hdf5File, is_root: bool, mask: &SensorMask, block: &FieldBlock) -> Result<()> {
    let (name, shape) = match mask {
        SensorMask::Points { count, .. } => ("/sensor_mask_index", vec![1, 1, *count]),
        SensorMask::Boxes(boxes) => ("/sensor_mask_corners", vec![1, boxes.len() as u64, 6]),
    };
    let id = file.define(|file| {
        let id = file.dataset::<u64>(name, &shape)?;
        annotate(file, name, LONG)?;
        Ok(id)
    })?;
    let numbers: Vec<u64>;
    let mut queue = file.queue();
    match mask {
        SensorMask::Points { mine, .. } => {
            numbers = mine.iter().map(|point| block.global(point.local) as u64 + 1).collect();
            let mut first = 0;
            // Points of this rank that follow one another in the list.
            for run in mine.chunk_by(|one, next| one.position + 1 == next.position) {
                let place = Selection::block([0, 0, run[0].position], [1, 1, run.len() as u64]);
                queue.put(id, place, &numbers[first..first + run.len()]);
                first += run.len();
            }
        }
        SensorMask::Boxes(boxes) => {
            let corners = |ranges: &[std::ops::Range<usize>; 3]| {
                let [x, y, z] = ranges.clone().map(|range| (range.start as u64 + 1, range.end as u64));
                [x.0, y.0, z.0, x.1, y.1, z.1]
            };
            numbers = boxes.iter().flat_map(corners).collect();
            if is_root {
                queue.put(id, Selection::block(vec![0; 3], shape), &numbers);
            }
        }
    }
    Ok(queue.run_all()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_of_a_name_decides() {
        let cases = [
            ("out.h5", OutputFormat::Kwave),
            ("memfs:out.hdf5", OutputFormat::Kwave),
            ("folder.h5/out", OutputFormat::Stream),
            ("out.nc", OutputFormat::Netcdf),
            ("out", OutputFormat::Stream),
        ];
        for (name, format) in cases {
            assert_eq!(OutputFormat::of(name), format, "{name}");
        }
    }
}
