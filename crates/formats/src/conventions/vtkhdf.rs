//! VTKHDF 2, image data: fields on a regular grid, as `ParaView` opens them.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::vtkhdf::{ImageGrid, ImageData};
//!
//! Launch::threads(2).run(|world| {
//!     let grid = ImageGrid { points: [4, 3, 2], origin: [0.0; 3], spacing: [0.5; 3] };
//!     let mut image = ImageData::create(world, "memfs:field.vtkhdf", &grid)?;
//!     // One plane of 4 × 3 points for each rank.
//!     let z = world.rank() as u64;
//!     image.write("pressure", [z..z + 1, 0..3, 0..4], &[z as f64; 12])?;
//!     image.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

use std::ffi::OsStr;

use aqueduct_comm::Comm;
use aqueduct_object::Object;

use crate::error::Result;
use crate::hdf5::{Hdf5Attribute, Hdf5CreateOptions, Hdf5File};
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
        let last = grid.points.map(|points| points.saturating_sub(1) as i64);
        file.define(|file| {
            file.group("/VTKHDF/PointData")?;
            file.attribute("/VTKHDF", "Version", [2i64, 0])?;
            file.attribute("/VTKHDF", "Type", Hdf5Attribute::fixed("ImageData"))?;
            file.attribute("/VTKHDF", "WholeExtent", [0, last[0], 0, last[1], 0, last[2]])?;
            file.attribute("/VTKHDF", "Origin", grid.origin)?;
            file.attribute("/VTKHDF", "Spacing", grid.spacing)?;
            file.attribute("/VTKHDF", "Direction", [1f64, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0])
        })?;
        Ok(Self { file, grid: *grid })
    }

    /// Writes this rank's part of a field over the points: `part` in the order z, y, x, the values of x side by side. Defines
    /// the field when it is first written. Collective.
    pub fn write<T: Object>(&mut self, field: &str, part: impl Into<Selection>, values: &[T]) -> Result<()> {
        let path = format!("/VTKHDF/PointData/{field}");
        let dataset = match self.file.dataset(&path) {
            Ok(dataset) => dataset,
            Err(_) => {
                let [x, y, z] = self.grid.points;
                self.file.define(|file| file.dataset::<T>(&path, &[z, y, x]))?
            }
        };
        self.file.at(dataset, part).all().write(values)
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }
}
