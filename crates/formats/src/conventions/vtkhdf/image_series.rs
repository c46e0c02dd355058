//! Images over time: fields on a regular grid, one more of each with every step.

use std::ffi::OsStr;
use std::ops::Range;

use aqueduct_comm::Comm;

use super::image_data::ImageGrid;
use super::series_fields::{
    STEPS, STEPS_PER_CHUNK, SeriesField, define_field, extend_to, field_part, find_fields, find_steps,
    match_fields, publish_step, rows_of,
};
use crate::conventions::point_field::{FieldElements, PointField};
use crate::error::{Error, Kind, Result};
use crate::hdf5::{DatasetId, Hdf5Attribute, Hdf5Compression, Hdf5CreateOptions, Hdf5File, Hdf5OpenOptions};

/// Bytes of a chunk: some planes of a field.
const CHUNK: u64 = 1 << 20;

/// Images over time that are being written by all ranks.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_formats::vtkhdf::{ImageGrid, ImageSeries, PointField};
///
/// Launch::threads(2).run(|world| {
///     let grid = ImageGrid { points: [4, 3, 2], origin: [0.0; 3], spacing: [0.5; 3] };
///     let mut series = ImageSeries::create(world, "memfs:series.vtkhdf", &grid)?;
///     let z = world.rank() as u64;
///     for step in 0..3 {
///         let pressure = [step as f64; 12];
///         series.write(0.1 * step as f64, &[z..z + 1, 0..3, 0..4], &[PointField::new("pressure", &pressure)])?;
///     }
///     series.close()
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
#[derive(Debug)]
pub struct ImageSeries {
    file: Hdf5File,
    grid: [u64; 3],
    steps: u64,
    times: DatasetId,
    fields: Vec<SeriesField>,
    compression: Option<Hdf5Compression>,
}

impl ImageSeries {
    /// Creates a file. One that exists is refused: [`replace`](Self::replace) replaces it. Collective.
    pub fn create(comm: &Comm, name: impl AsRef<OsStr>, grid: &ImageGrid) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().create(comm, name)?, grid)
    }

    /// Creates a file in place of the one of this name, if there is one. Collective.
    pub fn replace(comm: &Comm, name: impl AsRef<OsStr>, grid: &ImageGrid) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().replace().create(comm, name)?, grid)
    }

    fn define(mut file: Hdf5File, grid: &ImageGrid) -> Result<Self> {
        let times = file.define(|file| {
            grid.define(file)?;
            let times = file.extendible::<f64>(&format!("{STEPS}/Values"), &[0], &[STEPS_PER_CHUNK])?;
            file.attribute(STEPS, "NSteps", 0i64)?;
            Ok(times)
        })?;
        Ok(Self { file, grid: grid.lengths(), steps: 0, times, fields: Vec::new(), compression: None })
    }

    /// Opens a file of this library to append steps. Collective.
    pub fn open(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        let file = Hdf5OpenOptions::new().writable().open(comm, name)?;
        let steps = find_steps(&file, "ImageData")?;
        let extent = file.object(super::ROOT)?.attribute("WholeExtent").and_then(Hdf5Attribute::numbers);
        let Some([0.0, x, 0.0, y, 0.0, z]) = extent.as_deref() else {
            let detail = "its extent does not begin at 0; another program has written it";
            return Err(Error::new(Kind::WrongType, "open", file.name(), detail));
        };
        let grid = [*z, *y, *x].map(|last| last as u64 + 1);
        let (times, fields) = (file.dataset(&format!("{STEPS}/Values"))?, find_fields(&file, 4)?);
        Ok(Self { file, grid, steps, times, fields, compression: None })
    }

    /// Compresses fields that are defined from now on: those of the first step.
    #[must_use]
    pub fn compressed(mut self, compression: Hdf5Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Adds a step: the fields over this rank's points, `part` in the order z, y, x, the values of x side by side. Every step has the fields of the
    /// first one. A rank may have no points. Collective.
    pub fn write(&mut self, time: f64, part: &[Range<u64>; 3], fields: &[PointField<'_>]) -> Result<()> {
        let count = part.iter().map(|range| range.end.saturating_sub(range.start));
        let count: Vec<u64> = std::iter::once(1).chain(count).collect();
        let points = count.iter().product();
        let is_first = self.fields.is_empty() && self.steps == 0;
        let known = (!is_first).then_some(&self.fields[..]);
        let elements = match_fields(self.file.name(), known, fields, points);
        let elements = self.file.agree("write", elements)?;
        if is_first {
            let (grid, compression) = (self.grid, self.compression);
            let shape: Vec<u64> = std::iter::once(0).chain(grid).collect();
            self.fields = self.file.define(|file| {
                let define = |(field, elements): (&PointField<'_>, &FieldElements<'_>)| {
                    let point = elements.datatype.size() * elements.components.unwrap_or(1);
                    let planes = (CHUNK / (grid[1] * grid[2] * point).max(1)).clamp(1, grid[0].max(1));
                    let chunk = [1, planes, grid[1], grid[2]];
                    define_field(file, field.name(), elements, &shape, &chunk, compression)
                };
                fields.iter().zip(&elements).map(define).collect()
            })?;
        }
        let (step, rows) = (self.steps, self.steps + 1);
        let mut extended = vec![(self.times, rows_of(&self.file, self.times)?, rows)];
        for id in self.fields.iter().flat_map(|field| [field.values, field.offsets]) {
            extended.push((id, rows_of(&self.file, id)?, rows));
        }
        self.file.define(|file| extend_to(file, &extended))?;
        let start: Vec<u64> = std::iter::once(step).chain(part.iter().map(|range| range.start)).collect();
        let (times, offsets) = ([time], [step as i64]);
        let mut queue = self.file.queue();
        for (field, elements) in self.fields.iter().zip(&elements) {
            queue.put_bytes(field.values, field_part(&start, &count, elements.components), elements.bytes);
        }
        if self.file.is_root() {
            queue.put(self.times, step..rows, &times);
            for field in &self.fields {
                queue.put(field.offsets, step..rows, &offsets);
            }
        }
        queue.run_all()?;
        publish_step(&mut self.file, rows)?;
        self.steps = rows;
        Ok(())
    }

    /// How many steps there are.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }
}
