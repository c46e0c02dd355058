//! H5MD 1.1: trajectories of particles in HDF5.
//!
//! ```
//! use aqueduct_comm::Launch;
//! use aqueduct_formats::h5md::{Creator, TrajectoryFrame, Trajectory, TrajectoryUnits};
//!
//! Launch::threads(2).run(|world| {
//!     let creator = Creator { author: "A. Author", program: "example", version: "1.0" };
//!     let mut trajectory = Trajectory::create(world, "memfs:run.h5md", &creator, Some(TrajectoryUnits::MOLECULAR), 10)?;
//!     // Each rank has five of the ten particles.
//!     let first = 5 * world.rank() as u64;
//!     for step in 0..3 {
//!         let positions = [[step as f64, 1.0, 2.0]; 5];
//!         let frame = TrajectoryFrame { step, time: 0.1 * step as f64, edges: [10.0; 3] };
//!         trajectory.write(&frame, first, &positions)?;
//!     }
//!     trajectory.close()
//! })?;
//! # Ok::<(), aqueduct_comm::Error>(())
//! ```
//!
//! Readers see complete frames only: the attribute `aqueduct_complete` of each dataset has their number.

use std::ffi::OsStr;

use aqueduct_comm::Comm;

use crate::error::{Error, Kind, Result};
use crate::hdf5::{DatasetId, Hdf5CreateOptions, Hdf5Definitions, Hdf5File, Hdf5OpenOptions};
use crate::selection::Selection;

/// The group of the particles; readers expect this name.
const PARTICLES: &str = "/particles/trajectory";
/// Numbers of one per frame lie in chunks of so many.
const MANY: u64 = 256;

/// Who has made a file.
#[derive(Clone, Copy, Debug)]
pub struct Creator<'a> {
    /// The name of a person.
    pub author: &'a str,
    /// The name of the program.
    pub program: &'a str,
    /// Its version.
    pub version: &'a str,
}

/// What the numbers of a trajectory mean, in the notation of H5MD's module `units`. Without units readers take the numbers as they are, if asked to
/// (`convert_units=False` in `MDAnalysis`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrajectoryUnits<'a> {
    /// Of positions and edges.
    pub length: &'a str,
    /// Of times.
    pub time: &'a str,
}

impl TrajectoryUnits<'static> {
    /// Ångström and picoseconds.
    pub const MOLECULAR: Self = Self { length: "Angstrom", time: "ps" };
}

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrajectoryFrame {
    /// The number of the step.
    pub step: i64,
    /// The time.
    pub time: f64,
    /// The edges of the periodic box.
    pub edges: [f64; 3],
}

/// A trajectory that is being written by all ranks.
#[derive(Debug)]
pub struct Trajectory {
    file: Hdf5File,
    particles: u64,
    frames: u64,
    position: H5mdElement,
    edges: H5mdElement,
}

/// A quantity over time: its values, and the step and time of each.
#[derive(Clone, Copy, Debug)]
struct H5mdElement {
    value: DatasetId,
    step: DatasetId,
    time: DatasetId,
}

impl Trajectory {
    /// Creates a file for so many particles. One that exists is refused: [`replace`](Self::replace) replaces it. Collective.
    pub fn create(
        comm: &Comm,
        name: impl AsRef<OsStr>,
        creator: &Creator<'_>,
        units: Option<TrajectoryUnits<'_>>,
        particles: u64,
    ) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().create(comm, name)?, creator, units, particles)
    }

    /// Creates a file for so many particles, in place of the one of this name, if there is one. Collective.
    pub fn replace(
        comm: &Comm,
        name: impl AsRef<OsStr>,
        creator: &Creator<'_>,
        units: Option<TrajectoryUnits<'_>>,
        particles: u64,
    ) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().replace().create(comm, name)?, creator, units, particles)
    }

    fn define(
        mut file: Hdf5File,
        creator: &Creator<'_>,
        units: Option<TrajectoryUnits<'_>>,
        particles: u64,
    ) -> Result<Self> {
        let (position, edges) = file.define(|file| {
            file.group("/h5md/author")?;
            file.group("/h5md/creator")?;
            file.attribute("/h5md", "version", [1i32, 1])?;
            file.attribute("/h5md/author", "name", creator.author)?;
            file.attribute("/h5md/creator", "name", creator.program)?;
            file.attribute("/h5md/creator", "version", creator.version)?;
            let of_box = format!("{PARTICLES}/box");
            file.group(&of_box)?;
            file.attribute(&of_box, "dimension", 3i32)?;
            file.attribute(&of_box, "boundary", ["periodic", "periodic", "periodic"])?;
            let position = element(file, "position", &[0, particles, 3], units)?;
            Ok((position, element(file, "box/edges", &[0, 3], units)?))
        })?;
        Ok(Self { file, particles, frames: 0, position, edges })
    }

    /// Opens a file of this library to append frames. Collective.
    pub fn open(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        let file = Hdf5OpenOptions::new().writable().open(comm, name)?;
        let found = |name: &str| {
            let dataset = |part: &str| file.dataset(&format!("{PARTICLES}/{name}/{part}"));
            Ok::<_, Error>(H5mdElement {
                value: dataset("value")?,
                step: dataset("step")?,
                time: dataset("time")?,
            })
        };
        let (position, edges) = (found("position")?, found("box/edges")?);
        let &[frames, particles, 3] = &file.describe(position.value)?.shape[..] else {
            let detail =
                "positions are not frames of particles; this trajectory was written by another program";
            return Err(Error::new(Kind::WrongType, "open", file.name(), detail));
        };
        Ok(Self { file, particles, frames, position, edges })
    }

    /// Reads a frame: of the positions, `count` from number `first` on. Collective.
    pub fn read(&self, number: u64, first: u64, count: u64) -> Result<(TrajectoryFrame, Vec<[f64; 3]>)> {
        let row = number..number + 1;
        let step: Vec<i64> = self.file.at(self.position.step, row.clone()).all().read_vec()?;
        let time: Vec<f64> = self.file.at(self.position.time, row.clone()).all().read_vec()?;
        let edges: Vec<f64> = self.file.at(self.edges.value, [row, 0..3]).all().read_vec()?;
        let slab = Selection::block([number, first, 0], [1, count, 3]);
        let flat: Vec<f64> = self.file.at(self.position.value, slab).all().read_vec()?;
        let edges = edges.first_chunk().copied().unwrap_or_default();
        let (step, time) = (step.first().copied().unwrap_or(0), time.first().copied().unwrap_or(0.0));
        let positions = flat.chunks_exact(3).map(|place| [place[0], place[1], place[2]]).collect();
        Ok((TrajectoryFrame { step, time, edges }, positions))
    }

    /// Adds a frame: this rank has the positions of particles from number `first` on. Collective.
    pub fn write(&mut self, frame: &TrajectoryFrame, first: u64, positions: &[[f64; 3]]) -> Result<()> {
        let (at, rows) = (self.frames, self.frames + 1);
        let elements = [self.position, self.edges];
        self.file.define(|file| {
            let datasets = elements.iter().flat_map(|element| [element.value, element.step, element.time]);
            datasets.into_iter().try_for_each(|dataset| file.extend(dataset, rows))
        })?;
        let (steps, times, edges) = ([frame.step], [frame.time], frame.edges);
        let flat: Vec<f64> = positions.iter().flatten().copied().collect();
        let mut queue = self.file.queue();
        let count = positions.len() as u64;
        queue.put(self.position.value, Selection::block([at, first, 0], [1, count, 3]), &flat);
        if self.file.is_root() {
            for element in &elements {
                queue.put(element.step, at..rows, &steps).put(element.time, at..rows, &times);
            }
            queue.put(self.edges.value, [at..rows, 0..3], &edges);
        }
        queue.run_all()?;
        self.file.commit()?;
        self.frames = rows;
        Ok(())
    }

    /// How many particles there are.
    pub fn particles(&self) -> u64 {
        self.particles
    }

    /// How many frames there are.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<()> {
        self.file.close()
    }
}

fn element(
    file: &mut Hdf5Definitions<'_>,
    name: &str,
    shape: &[u64],
    units: Option<TrajectoryUnits<'_>>,
) -> Result<H5mdElement> {
    let path = |part: &str| format!("{PARTICLES}/{name}/{part}");
    let chunk: Vec<u64> =
        std::iter::once(1).chain(shape[1..].iter().map(|length| (*length).max(1))).collect();
    let value = file.extendible::<f64>(&path("value"), shape, &chunk)?;
    let step = file.extendible::<i64>(&path("step"), &[0], &[MANY])?;
    let time = file.extendible::<f64>(&path("time"), &[0], &[MANY])?;
    if let Some(TrajectoryUnits { length, time }) = units {
        file.attribute(&path("value"), "unit", length)?;
        file.attribute(&path("time"), "unit", time)?;
    }
    Ok(H5mdElement { value, step, time })
}
