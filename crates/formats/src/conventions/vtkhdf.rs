//! VTKHDF 2: images and particles, as `ParaView` opens them; one state, or many over time.
//!
//! - [`ImageData`]: fields on a regular grid.
//! - [`ImageSeries`]: the same over time.
//! - [`ParticleSeries`]: particles over time, whose number may change (`PolyData` with a vertex for each particle).
//!
//! A series has one step more after each [`write`](ParticleSeries::write): the file can be opened at any time and shows the steps that are
//! complete, also after `kill -9`.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::vtkhdf::{ParticleSeries, PointField};
//!
//! Launch::threads(2).run(|world| {
//!     let mut series = ParticleSeries::create(world, "memfs:run.vtkhdf")?;
//!     for step in 0..3 {
//!         // Each rank has as many particles as it happens to have.
//!         let count = 4 + step + world.rank();
//!         let (positions, density) = (vec![[0.5f64, 1.0, step as f64]; count], vec![1000.0f32; count]);
//!         let velocity = vec![[0.0f32, 0.0, 1.0]; count];
//!         let fields = [PointField::new("density", &density), PointField::new("velocity", &velocity)];
//!         series.write(0.1 * step as f64, &positions, &fields)?;
//!     }
//!     assert_eq!(series.steps(), 3);
//!     series.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

mod image_data;
mod image_series;
mod particle_series;
mod series_fields;

pub use crate::conventions::point_field::PointField;
pub use image_data::{ImageData, ImageGrid};
pub use image_series::ImageSeries;
pub use particle_series::ParticleSeries;

/// The group of all of it.
const ROOT: &str = "/VTKHDF";
