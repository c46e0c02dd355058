//! openPMD 1.1: meshes and particles with their units in HDF5, as openPMD-viewer, openPMD-api and yt read them.
//!
//! Iterations are groups `/data/N` of one file (`groupBased`). A vector, an array such as `[f64; 3]`, is stored as components `x`, `y`, `z`.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::h5md::Creator;
//! use aqueduct_formats::openpmd::{IterationTime, MeshGeometry, OpenPmdRecord, OpenPmdSeries, RecordUnit};
//!
//! Launch::threads(2).run(|world| {
//!     let creator = Creator { author: "A. Author", program: "example", version: "1.0" };
//!     let mut series = OpenPmdSeries::create(world, "memfs:data.h5", &creator)?;
//!     let geometry = MeshGeometry {
//!         shape: &[4, 6], axis_labels: &["y", "x"], spacing: &[0.5, 0.5], offset: &[0.0, 0.0], unit_si: 1.0,
//!     };
//!     for step in [0, 100] {
//!         series.begin_iteration(step, &IterationTime { time: 0.1 * step as f64, dt: 0.1, unit_si: 1.0 })?;
//!         let y = 2 * world.rank() as u64;
//!         let field = [[1.0f64, 2.0, 3.0]; 12];
//!         let record = OpenPmdRecord::new("E", RecordUnit::ELECTRIC_FIELD, &field);
//!         series.write_mesh(&geometry, &record, &[y..y + 2, 0..6])?;
//!         // Each rank has as many particles as it happens to have.
//!         let positions = vec![[0.5f64, 0.25, 0.0]; 3 + world.rank()];
//!         series.write_particles("electrons", &[OpenPmdRecord::new("position", RecordUnit::LENGTH, &positions)])?;
//!         series.end_iteration()?;
//!     }
//!     series.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```

mod record;

use std::ffi::OsStr;
use std::ops::Range;

use aqueduct_comm::Comm;

pub use record::{OpenPmdRecord, RecordUnit};

use crate::error::{Error, Kind, Result};
use crate::h5md::Creator;
use crate::hdf5::{Hdf5Attribute, Hdf5CreateOptions, Hdf5Definitions, Hdf5File};
use crate::selection::Selection;
use record::ComponentData;

/// The time of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IterationTime {
    /// The time.
    pub time: f64,
    /// The length of the latest step.
    pub dt: f64,
    /// Seconds of a unit of both.
    pub unit_si: f64,
}

/// A regular grid; its dimensions in the order of the file, the last one fastest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeshGeometry<'a> {
    /// Points along each dimension.
    pub shape: &'a [u64],
    /// The name of each dimension.
    pub axis_labels: &'a [&'a str],
    /// How far points are apart.
    pub spacing: &'a [f64],
    /// Where the first point is.
    pub offset: &'a [f64],
    /// Metres of a unit of both.
    pub unit_si: f64,
}

/// A file with iterations that is being written by all ranks.
#[derive(Debug)]
pub struct OpenPmdSeries {
    file: Hdf5File,
    /// The group of the iteration that is being written.
    iteration: Option<String>,
}

impl OpenPmdSeries {
    /// Creates a file. One that exists is refused: [`replace`](Self::replace) replaces it. Collective.
    pub fn create(comm: &Comm, name: impl AsRef<OsStr>, creator: &Creator<'_>) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().create(comm, name)?, creator)
    }

    /// Creates a file in place of the one of this name, if there is one. Collective.
    pub fn replace(comm: &Comm, name: impl AsRef<OsStr>, creator: &Creator<'_>) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().replace().create(comm, name)?, creator)
    }

    fn define(mut file: Hdf5File, creator: &Creator<'_>) -> Result<Self> {
        file.define(|file| {
            file.group("/data")?;
            let texts = [
                ("openPMD", "1.1.0"),
                ("basePath", "/data/%T/"),
                ("meshesPath", "meshes/"),
                ("particlesPath", "particles/"),
                ("iterationEncoding", "groupBased"),
                ("iterationFormat", "/data/%T/"),
                ("author", creator.author),
                ("software", creator.program),
                ("softwareVersion", creator.version),
            ];
            for (name, text) in texts {
                file.attribute("/", name, Hdf5Attribute::fixed(text))?;
            }
            file.attribute("/", "openPMDextension", 0u32)
        })?;
        Ok(Self { file, iteration: None })
    }

    /// Begins an iteration. Collective.
    pub fn begin_iteration(&mut self, number: u64, time: &IterationTime) -> Result<()> {
        if let Some(other) = &self.iteration {
            let detail = format!("iteration {other:?} is not ended; end it with `end_iteration`");
            return Err(self.error(Kind::BadArgument, detail));
        }
        let group = format!("/data/{number}");
        if self.file.tree().contains_key(&group) {
            return Err(self.error(Kind::NameExists, format!("there is an iteration {group:?} already")));
        }
        self.file.define(|file| {
            file.group(&format!("{group}/meshes"))?;
            file.group(&format!("{group}/particles"))?;
            for (name, value) in [("time", time.time), ("dt", time.dt), ("timeUnitSI", time.unit_si)] {
                file.attribute(&group, name, value)?;
            }
            Ok(())
        })?;
        self.iteration = Some(group);
        Ok(())
    }

    fn group(&self) -> Result<&str> {
        self.iteration.as_deref().ok_or_else(|| {
            self.error(Kind::BadArgument, "no iteration is being written; begin one with `begin_iteration`")
        })
    }

    fn error(&self, kind: Kind, detail: impl Into<String>) -> Error {
        Error::new(kind, "write", self.file.name(), detail)
    }

    /// Writes a mesh: this rank's part of it, the last dimension side by side. A rank may have no points. Collective.
    pub fn write_mesh(
        &mut self,
        geometry: &MeshGeometry<'_>,
        record: &OpenPmdRecord<'_>,
        part: &[Range<u64>],
    ) -> Result<()> {
        let checked = record.components(self.file.name()).and_then(|components| {
            let dimensions = geometry.shape.len();
            let lengths =
                [geometry.axis_labels.len(), geometry.spacing.len(), geometry.offset.len(), part.len()];
            if lengths.iter().any(|length| *length != dimensions) || dimensions == 0 {
                let detail = format!(
                    "mesh {:?}: its labels, spacing, offset and part do not have {dimensions} dimensions",
                    record.name()
                );
                return Err(self.error(Kind::BadArgument, detail));
            }
            Ok((components, format!("{}/meshes/{}", self.group()?, record.name())))
        });
        let (components, path) = self.file.agree("write", checked)?;
        let datasets = self.file.define(|file| {
            let datasets = define_components(file, &path, &components, geometry.shape, record.unit())?;
            file.attribute(&path, "geometry", Hdf5Attribute::fixed("cartesian"))?;
            file.attribute(&path, "dataOrder", Hdf5Attribute::fixed("C"))?;
            file.attribute(&path, "axisLabels", Hdf5Attribute::fixed_texts(geometry.axis_labels))?;
            file.attribute(&path, "gridSpacing", geometry.spacing)?;
            file.attribute(&path, "gridGlobalOffset", geometry.offset)?;
            file.attribute(&path, "gridUnitSI", geometry.unit_si)?;
            let inside = vec![0.0f64; geometry.shape.len()];
            for component in &components {
                file.attribute(&component.path(&path), "position", &inside[..])?;
            }
            Ok(datasets)
        })?;
        let mut queue = self.file.queue();
        for (dataset, component) in datasets.into_iter().zip(&components) {
            queue.put_bytes(dataset, Selection::from(part), &component.bytes);
        }
        queue.run_all()
    }

    /// Writes the records of a species; one of them is `position`. The particles are stored in the order of the ranks. A rank may have none. Collective.
    pub fn write_particles(&mut self, species: &str, records: &[OpenPmdRecord<'_>]) -> Result<()> {
        let count = records.first().map_or(0, OpenPmdRecord::count);
        let checked =
            records.iter().map(|record| record.components(self.file.name())).collect::<Result<Vec<_>>>();
        let checked = checked.and_then(|components| {
            if records.iter().any(|record| record.count() != count) {
                return Err(self.error(Kind::BadArgument, "records of different numbers of particles"));
            }
            let position = records.iter().zip(&components).find(|(record, _)| record.name() == "position");
            let Some((_, position)) = position else {
                return Err(self.error(Kind::BadArgument, "particles without a record \"position\""));
            };
            let names: Vec<&'static str> = position.iter().filter_map(|component| component.name).collect();
            Ok((names, components, format!("{}/particles/{species}", self.group()?)))
        });
        let (axes, components, path) = self.file.agree("write", checked)?;
        let (first, total) = self.file.rank_share("write", count)?;
        let datasets = self.file.define(|file| {
            let mut datasets = Vec::new();
            for (record, components) in records.iter().zip(&components) {
                let path = format!("{path}/{}", record.name());
                datasets.push(define_components(file, &path, components, &[total], record.unit())?);
            }
            // Positions are whole: their offset is 0, a constant.
            let offset = format!("{path}/positionOffset");
            for axis in &axes {
                let component = format!("{offset}/{axis}");
                file.group(&component)?;
                file.attribute(&component, "value", 0.0)?;
                file.attribute(&component, "shape", [total])?;
                file.attribute(&component, "unitSI", 1.0)?;
            }
            file.group(&offset)?;
            file.attribute(&offset, "unitDimension", RecordUnit::LENGTH.dimension)?;
            file.attribute(&offset, "timeOffset", 0.0)?;
            Ok(datasets)
        })?;
        let mut queue = self.file.queue();
        for (datasets, components) in datasets.into_iter().zip(&components) {
            for (dataset, component) in datasets.into_iter().zip(components) {
                queue.put_bytes(dataset, first..first + count, &component.bytes);
            }
        }
        queue.run_all()
    }

    /// Makes the iteration a part of the file, and marks it as `closed`. Collective.
    pub fn end_iteration(&mut self) -> Result<()> {
        let group = self.group()?.to_owned();
        self.file.commit()?;
        self.file.define(|file| file.attribute(&group, "closed", 1u8))?;
        self.iteration = None;
        Ok(())
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }
}

/// Defines the components of a record: datasets in a group, or one dataset.
fn define_components(
    file: &mut Hdf5Definitions<'_>,
    path: &str,
    components: &[ComponentData],
    shape: &[u64],
    unit: RecordUnit,
) -> Result<Vec<crate::hdf5::DatasetId>> {
    let mut datasets = Vec::new();
    for component in components {
        let own = component.path(path);
        datasets.push(file.dataset_as(&own, component.datatype.clone(), shape)?);
        file.attribute(&own, "unitSI", unit.si)?;
    }
    file.attribute(path, "unitDimension", unit.dimension)?;
    file.attribute(path, "timeOffset", 0.0)?;
    Ok(datasets)
}
