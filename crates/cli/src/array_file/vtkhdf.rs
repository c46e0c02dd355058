//! Arrays as images of VTKHDF 2, which `ParaView` opens: fields over a regular grid, over time if the arrays grow.
//!
//! See "VTKHDF File Format" in the documentation of VTK.

use std::ffi::{OsStr, OsString};

use anyhow::{Result, bail};
use aqueduct::comm::Comm;
use aqueduct::hdf5::{DatasetId, Hdf5Attribute, Hdf5CreateOptions, Hdf5Definitions, Hdf5File};

use super::{Array, ArrayFileContent, ArrayPart, ArrayWriter, hdf5};

const ROOT: &str = "/VTKHDF";
/// The size of a chunk of a field in bytes.
const CHUNK: u64 = 1 << 20;

/// Writes arrays of two or three dimensions, or of one more that grows.
pub(crate) struct VtkImageWriter {
    world: Comm,
    file: Hdf5File,
    name: OsString,
    /// Whether it is over time, and the number of leading dimensions of length 1 that the array has and the dataset has not.
    datasets: Vec<(DatasetId, bool, usize)>,
}

/// The points of the image of an array along z, y, x; `None` if it is no image.
fn points(array: &Array) -> Option<[u64; 3]> {
    match &array.shape[usize::from(array.grows && array.shape.len() > 2)..] {
        [z, y, x] => Some([*z, *y, *x]),
        [y, x] => Some([1, *y, *x]),
        _ => None,
    }
}

impl VtkImageWriter {
    pub(crate) fn create(world: &Comm, name: &OsStr) -> Result<Self> {
        let file = Hdf5CreateOptions::new().create(world, name)?;
        Ok(Self { world: world.clone(), file, name: name.to_owned(), datasets: Vec::new() })
    }
}

/// Whether the first dimension of an array is time.
fn is_series(array: &Array) -> bool {
    array.grows && array.shape.len() > 2
}

impl ArrayWriter for VtkImageWriter {
    fn unsupported_reason(&self, array: &Array) -> Option<String> {
        if points(array).is_none() {
            return Some(format!("its shape is {:?}, but an image has two or three dimensions", array.shape));
        }
        let is_number = array.element.as_number().is_some();
        (!is_number).then(|| format!("its elements are {}, but an image has numbers", array.element.name))
    }

    fn define(&mut self, content: &ArrayFileContent) -> Result<Vec<String>> {
        let Some(first) = content.arrays.first() else {
            bail!("there is no array of two or three dimensions")
        };
        let steps = is_series(first).then(|| first.rows());
        for array in &content.arrays {
            if points(array) != points(first) || is_series(array).then(|| array.rows()) != steps {
                bail!(
                    "the fields of an image have the same shape, but {} has {:?} and {} has {:?}; select one with --array",
                    first.name,
                    first.shape,
                    array.name,
                    array.shape
                );
            }
        }
        let grid = points(first).unwrap_or([0; 3]);
        self.datasets = self.file.define(|file| {
            define_image(file, grid, steps)?;
            content.arrays.iter().map(|array| define_field(file, array, grid)).collect()
        })?;
        if let Some(steps) = steps {
            let all: Vec<f64> = (0..steps).map(|step| step as f64).collect();
            let offsets: Vec<i64> = (0..steps as i64).collect();
            let fields = content.arrays.iter().map(|array| format!("PointDataOffsets/{}", field_name(array)));
            let ids: aqueduct::formats::Result<Vec<DatasetId>> =
                fields.map(|path| self.file.dataset(&format!("{ROOT}/Steps/{path}"))).collect();
            let (ids, values) = (ids?, self.file.dataset(&format!("{ROOT}/Steps/Values"))?);
            let mut queue = self.file.queue();
            // One rank writes them, in the same collective call.
            if self.world.rank() == 0 {
                queue.put(values, 0..steps, &all);
                for id in ids {
                    queue.put(id, 0..steps, &offsets);
                }
            }
            queue.run_all()?;
        }
        let has_attributes = content.arrays.iter().any(|array| !array.attributes.is_empty());
        Ok(if has_attributes {
            vec!["fields of VTKHDF have no attributes: all are omitted".to_owned()]
        } else {
            Vec::new()
        })
    }

    fn write(&mut self, array: usize, part: Option<(&ArrayPart, &[u8])>) -> Result<()> {
        let mut queue = self.file.queue();
        if let Some((part, bytes)) = part {
            let (id, is_series, omitted) = self.datasets[array];
            let mut slab = part.slab.clone();
            let flat = usize::from(is_series)..usize::from(is_series) + omitted;
            slab.start.drain(flat.clone());
            slab.count.drain(flat);
            queue.put_bytes(id, slab, bytes);
        }
        Ok(queue.run_all()?)
    }

    fn created_files(&self) -> Vec<OsString> {
        vec![self.name.clone()]
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.file.close()?)
    }
}

/// The name of a field, which has no slash.
fn field_name(array: &Array) -> String {
    array.name.trim_matches('/').replace('/', ".")
}

fn define_image(
    file: &mut Hdf5Definitions<'_>,
    [z, y, x]: [u64; 3],
    steps: Option<u64>,
) -> aqueduct::formats::Result<()> {
    let last = [x, y, z].map(|points| points.saturating_sub(1) as i64);
    file.group(&format!("{ROOT}/PointData"))?;
    file.attribute(ROOT, "Version", [2i64, 2])?;
    file.attribute(ROOT, "Type", Hdf5Attribute::fixed("ImageData"))?;
    file.attribute(ROOT, "WholeExtent", [0, last[0], 0, last[1], 0, last[2]])?;
    file.attribute(ROOT, "Origin", [0f64; 3])?;
    file.attribute(ROOT, "Spacing", [1f64; 3])?;
    file.attribute(ROOT, "Direction", [1f64, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])?;
    if let Some(steps) = steps {
        file.dataset::<f64>(&format!("{ROOT}/Steps/Values"), &[steps])?;
        file.attribute(&format!("{ROOT}/Steps"), "NSteps", steps as i64)?;
    }
    Ok(())
}

/// The dataset of a field, whether it is over time, and how many dimensions it has less than the array: VTK reads plane images from
/// datasets without z, and lines from datasets without y and z.
fn define_field(
    file: &mut Hdf5Definitions<'_>,
    array: &Array,
    [z, y, x]: [u64; 3],
) -> aqueduct::formats::Result<(DatasetId, bool, usize)> {
    let name = field_name(array);
    let is_series = is_series(array);
    let path = format!("{ROOT}/PointData/{name}");
    let number = array.element.as_number().unwrap_or(super::NumberType::U8);
    let ty = hdf5::as_datatype(number);
    let flat = [z, y].iter().take_while(|points| **points == 1).count();
    let omitted = array.shape.len() - usize::from(is_series) - (3 - flat);
    if !is_series {
        return Ok((file.dataset_as(&path, ty, &[z, y, x][flat..])?, false, omitted));
    }
    let planes = (CHUNK / (y * x * number.size()).max(1)).clamp(1, z.max(1));
    let (shape, chunk) = ([z, y, x], [planes, y.max(1), x.max(1)]);
    let with_time = |first: u64, sides: &[u64]| [&[first], &sides[flat..]].concat();
    let id = file.extendible_as(&path, ty, &with_time(array.rows(), &shape), &with_time(1, &chunk))?;
    file.dataset::<i64>(&format!("{ROOT}/Steps/PointDataOffsets/{name}"), &[array.rows()])?;
    Ok((id, true, omitted))
}
