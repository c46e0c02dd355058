//! One image: fields on a regular grid.

use std::ffi::OsStr;

use aqueduct_comm::Comm;
use aqueduct_object::Object;

use super::ROOT;
use crate::conventions::point_field::PointField;
use crate::error::{Error, Kind, Result};
use crate::hdf5::{Hdf5Attribute, Hdf5CreateOptions, Hdf5Definitions, Hdf5File};
use crate::selection::Selection;

/// A regular grid.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImageGrid {
    /// Points along x, y, z.
    pub points: [u64; 3],
    /// Where the first one is.
    pub origin: [f64; 3],
    /// How far they are apart.
    pub spacing: [f64; 3],
}

impl ImageGrid {
    /// Points along z, y and x: the shape of a field.
    pub(super) fn lengths(&self) -> [u64; 3] {
        let [x, y, z] = self.points;
        [z, y, x]
    }

    /// Defines the groups and attributes of an image.
    pub(super) fn define(&self, file: &mut Hdf5Definitions<'_>) -> Result<()> {
        let last = self.points.map(|points| points.saturating_sub(1) as i64);
        file.group(&format!("{ROOT}/PointData"))?;
        file.attribute(ROOT, "Version", [2i64, 2])?;
        file.attribute(ROOT, "Type", Hdf5Attribute::fixed("ImageData"))?;
        file.attribute(ROOT, "WholeExtent", [0, last[0], 0, last[1], 0, last[2]])?;
        file.attribute(ROOT, "Origin", self.origin)?;
        file.attribute(ROOT, "Spacing", self.spacing)?;
        file.attribute(ROOT, "Direction", [1f64, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
    }
}

/// An image that is being written by all ranks.
#[derive(Debug)]
pub struct ImageData {
    file: Hdf5File,
    grid: ImageGrid,
}

impl ImageData {
    /// Creates a file. One that exists is refused: [`replace`](Self::replace) replaces it. Collective.
    pub fn create(comm: &Comm, name: impl AsRef<OsStr>, grid: &ImageGrid) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().create(comm, name)?, grid)
    }

    /// Creates a file in place of the one of this name, if there is one. Collective.
    pub fn replace(comm: &Comm, name: impl AsRef<OsStr>, grid: &ImageGrid) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().replace().create(comm, name)?, grid)
    }

    fn define(mut file: Hdf5File, grid: &ImageGrid) -> Result<Self> {
        file.define(|file| grid.define(file))?;
        Ok(Self { file, grid: *grid })
    }

    /// Writes this rank's part of a field over the points: `part` in the order z, y, x, the values of x side by side; a vector is an
    /// array (`[f64; 3]`). Defines the field when it is first written. Collective.
    pub fn write<T: Object>(&mut self, field: &str, part: impl Into<Selection>, values: &[T]) -> Result<()> {
        let path = format!("{ROOT}/PointData/{field}");
        let field = PointField::new(field, values);
        let known = self.file.dataset(&path);
        let elements = self.file.agree("write", field.elements(self.file.name()))?;
        let dataset = match known {
            Ok(dataset) => dataset,
            Err(_) => {
                let shape: Vec<u64> = self.grid.lengths().into_iter().chain(elements.components).collect();
                self.file.define(|file| file.dataset_as(&path, elements.datatype, &shape))?
            }
        };
        let part = match elements.components {
            Some(components) => part.into().with_dimension(components),
            None => Some(part.into()),
        };
        let part = part.ok_or_else(|| {
            let detail = "vectors are written to ranges of z, y and x";
            Error::new(Kind::BadArgument, "write", self.file.name(), detail)
        });
        let part = self.file.agree("write", part)?;
        let mut queue = self.file.queue();
        queue.put_bytes(dataset, part, elements.bytes);
        queue.run_all()
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }
}
