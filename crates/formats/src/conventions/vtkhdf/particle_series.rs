//! Particles over time: `PolyData` with a vertex for each particle.
//!
//! The vertices of a step are the particles 0, 1, 2 …: one list of them, as long as the step with the most particles, serves all steps.

use std::ffi::OsStr;

use aqueduct_comm::Comm;
use aqueduct_object::Object;

use super::ROOT;
use super::series_fields::{
    STEPS, STEPS_PER_CHUNK, SeriesField, chunked, define_field, extend_to, field_part, find_fields,
    find_steps, match_fields, publish_step, rows_of,
};
use crate::conventions::point_field::{FieldElements, PointField};
use crate::error::{Error, Kind, Result};
use crate::hdf5::{
    DatasetId, Datatype, Hdf5Attribute, Hdf5Compression, Hdf5CreateOptions, Hdf5Definitions, Hdf5File,
    Hdf5OpenOptions,
};

/// The kinds of cells of `PolyData`, in the order of the offsets of steps; the particles are of the first.
const CELLS: [&str; 4] = ["Vertices", "Lines", "Polygons", "Strips"];
/// Particles of a chunk: as many as the first step has, in these limits.
const CHUNK: [u64; 2] = [1 << 10, 1 << 16];

/// Particles over time that are being written by all ranks.
///
/// The number of particles may differ from step to step and from rank to rank; they are stored in the order of the ranks.
#[derive(Debug)]
pub struct ParticleSeries {
    file: Hdf5File,
    steps: u64,
    /// The particles of the longest step so far.
    most: u64,
    /// Where the particles of the next step begin.
    end: u64,
    columns: StepColumns,
    state: Option<ParticleDatasets>,
    compression: Option<Hdf5Compression>,
}

/// Datasets with one row per step.
#[derive(Clone, Debug)]
struct StepColumns {
    times: DatasetId,
    part_counts: DatasetId,
    part_offsets: DatasetId,
    point_offsets: DatasetId,
    point_counts: DatasetId,
    /// Of each kind of cells: how many there are, and how many points they have.
    cell_counts: Vec<[DatasetId; 2]>,
    /// Where the cells of each kind begin, and where the points of their cells do.
    cell_offsets: [DatasetId; 2],
}

/// Datasets with one row per particle: their types are known with the first step.
#[derive(Clone, Debug)]
struct ParticleDatasets {
    points: DatasetId,
    coordinate: Datatype,
    fields: Vec<SeriesField>,
    /// Rows of a chunk.
    chunk: u64,
    /// The lists of vertices: the points of cells, and where those of each cell begin.
    vertices: [DatasetId; 2],
}

impl StepColumns {
    fn all(&self) -> impl Iterator<Item = DatasetId> {
        let single = [self.times, self.part_counts, self.part_offsets, self.point_offsets, self.point_counts];
        single.into_iter().chain(self.cell_counts.iter().flatten().copied()).chain(self.cell_offsets)
    }

    fn define(file: &mut Hdf5Definitions<'_>) -> Result<Self> {
        let mut column = |path: &str| file.extendible::<i64>(path, &[0], &[STEPS_PER_CHUNK]);
        let part_counts = column(&format!("{STEPS}/NumberOfParts"))?;
        let part_offsets = column(&format!("{STEPS}/PartOffsets"))?;
        let point_offsets = column(&format!("{STEPS}/PointOffsets"))?;
        let point_counts = column(&format!("{ROOT}/NumberOfPoints"))?;
        let mut cell_counts = Vec::new();
        for kind in CELLS {
            let count = column(&format!("{ROOT}/{kind}/NumberOfCells"))?;
            cell_counts.push([count, column(&format!("{ROOT}/{kind}/NumberOfConnectivityIds"))?]);
        }
        let mut wide =
            |name: &str| file.extendible::<i64>(&format!("{STEPS}/{name}"), &[0, 4], &[STEPS_PER_CHUNK, 4]);
        let cell_offsets = [wide("CellOffsets")?, wide("ConnectivityIdOffsets")?];
        let times = file.extendible::<f64>(&format!("{STEPS}/Values"), &[0], &[STEPS_PER_CHUNK])?;
        for kind in &CELLS[1..] {
            file.dataset::<i64>(&format!("{ROOT}/{kind}/Connectivity"), &[0])?;
            // The end of the cells before the first one: 0.
            file.dataset::<i64>(&format!("{ROOT}/{kind}/Offsets"), &[1])?;
        }
        Ok(Self { times, part_counts, part_offsets, point_offsets, point_counts, cell_counts, cell_offsets })
    }

    fn find(file: &Hdf5File) -> Result<Self> {
        let step = |name: &str| file.dataset(&format!("{STEPS}/{name}"));
        let count = |kind: &str, name: &str| file.dataset(&format!("{ROOT}/{kind}/{name}"));
        let both = |kind: &&str| Ok([count(kind, "NumberOfCells")?, count(kind, "NumberOfConnectivityIds")?]);
        Ok(Self {
            times: step("Values")?,
            part_counts: step("NumberOfParts")?,
            part_offsets: step("PartOffsets")?,
            point_offsets: step("PointOffsets")?,
            point_counts: file.dataset(&format!("{ROOT}/NumberOfPoints"))?,
            cell_counts: CELLS.iter().map(both).collect::<Result<_>>()?,
            cell_offsets: [step("CellOffsets")?, step("ConnectivityIdOffsets")?],
        })
    }
}

impl ParticleSeries {
    /// Creates a file. One that exists is refused: [`replace`](Self::replace) replaces it. Collective.
    pub fn create(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().create(comm, name)?)
    }

    /// Creates a file in place of the one of this name, if there is one. Collective.
    pub fn replace(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        Self::define(Hdf5CreateOptions::new().replace().create(comm, name)?)
    }

    fn define(mut file: Hdf5File) -> Result<Self> {
        let columns = file.define(|file| {
            file.group(&format!("{ROOT}/PointData"))?;
            file.attribute(ROOT, "Version", [2i64, 2])?;
            file.attribute(ROOT, "Type", Hdf5Attribute::fixed("PolyData"))?;
            let columns = StepColumns::define(file)?;
            file.group(&format!("{STEPS}/PointDataOffsets"))?;
            file.attribute(STEPS, "NSteps", 0i64)?;
            Ok(columns)
        })?;
        Ok(Self { file, steps: 0, most: 0, end: 0, columns, state: None, compression: None })
    }

    /// Opens a file of this library to append steps. Collective.
    pub fn open(comm: &Comm, name: impl AsRef<OsStr>) -> Result<Self> {
        let file = Hdf5OpenOptions::new().writable().open(comm, name)?;
        let steps = find_steps(&file, "PolyData")?;
        let columns = StepColumns::find(&file)?;
        let points = file.dataset(&format!("{ROOT}/Points")).ok();
        let mut series = Self { file, steps, most: 0, end: 0, columns, state: None, compression: None };
        let Some(points) = points else { return Ok(series) };
        let dataset = series.file.describe(points)?;
        let (coordinate, chunk) = (dataset.datatype.clone(), dataset.chunk().map_or(1, |chunk| chunk[0]));
        let is_compressed = !dataset.filters().is_empty();
        let fields = find_fields(&series.file, 1)?;
        let list = |name: &str| series.file.dataset(&format!("{ROOT}/Vertices/{name}"));
        let vertices = [list("Connectivity")?, list("Offsets")?];
        series.state = Some(ParticleDatasets { points, coordinate, fields, chunk, vertices });
        let read = |id| series.file.at(id, 0..steps).all().read_vec::<i64>();
        let (starts, counts) = (read(series.columns.point_offsets)?, read(series.columns.point_counts)?);
        let ends = starts.iter().zip(&counts).map(|(start, count)| start.saturating_add(*count) as u64);
        series.end = ends.max().unwrap_or(0);
        series.most = counts.iter().max().map_or(0, |most| *most as u64);
        // Steps of compressed particles begin with a chunk.
        series.compression = is_compressed.then(Hdf5Compression::default);
        Ok(series)
    }

    /// Compresses positions and fields of a new file.
    #[must_use]
    pub fn compressed(mut self, compression: Hdf5Compression) -> Self {
        self.compression = self.compression.or(Some(compression)).filter(|_| self.steps == 0);
        self
    }

    /// Adds a step: the particles of this rank, with coordinates of `f32` or `f64`. Every step has the fields of the first one. A rank may have no
    /// particles. Collective.
    pub fn write<T: Object>(
        &mut self,
        time: f64,
        positions: &[[T; 3]],
        fields: &[PointField<'_>],
    ) -> Result<()> {
        let points = PointField::new("Points", positions);
        let known = self.state.as_ref().map(|state| &state.fields[..]);
        let elements = match_fields(self.file.name(), known, fields, points.count());
        let elements = elements.and_then(|elements| Ok((points.elements(self.file.name())?, elements)));
        let elements = elements.and_then(|(points, fields)| {
            let same = self.state.as_ref().is_none_or(|state| state.coordinate == points.datatype);
            if matches!(points.datatype, Datatype::Float(_)) && same {
                return Ok((points, fields));
            }
            let detail =
                format!("coordinates of {}; they are f32 or f64, the same in all steps", points.datatype);
            Err(Error::new(Kind::WrongType, "write", self.file.name(), detail))
        });
        let (point_elements, elements) = self.file.agree("write", elements)?;
        let (first, total) = self.file.rank_share("write", points.count())?;
        let state = match self.state.take() {
            Some(state) => state,
            None => self.define_particles(&point_elements.datatype, fields, &elements, total)?,
        };
        let fields = state.fields.iter().zip(&elements);
        let fields = fields.map(|(field, elements)| (field.values, elements));
        let writes: Vec<_> = fields.chain([(state.points, &point_elements)]).collect();
        let outcome = self.write_step(time, &state, (first, points.count(), total), &writes);
        self.state = Some(state);
        outcome
    }

    /// Defines what has one row per particle.
    fn define_particles(
        &mut self,
        coordinate: &Datatype,
        given: &[PointField<'_>],
        elements: &[FieldElements<'_>],
        total: u64,
    ) -> Result<ParticleDatasets> {
        let (chunk, compression) = (total.clamp(CHUNK[0], CHUNK[1]), self.compression);
        self.file.define(|file| {
            let options = chunked(&[chunk, 3], compression);
            let points =
                file.dataset_with_as(&format!("{ROOT}/Points"), coordinate.clone(), &[0, 3], &options)?;
            let fields = given.iter().zip(elements).map(|(field, elements)| {
                define_field(file, field.name(), elements, &[0], &[chunk], compression)
            });
            let fields = fields.collect::<Result<_>>()?;
            let mut list =
                |name: &str| file.extendible::<i64>(&format!("{ROOT}/Vertices/{name}"), &[0], &[chunk]);
            let vertices = [list("Connectivity")?, list("Offsets")?];
            Ok(ParticleDatasets { points, coordinate: coordinate.clone(), fields, chunk, vertices })
        })
    }

    /// Writes a step of `total` particles, `count` from number `first` on by this rank. Collective.
    fn write_step(
        &mut self,
        time: f64,
        state: &ParticleDatasets,
        (first, count, total): (u64, u64, u64),
        writes: &[(DatasetId, &FieldElements<'_>)],
    ) -> Result<()> {
        // A chunk with filters has particles of one step, so that none is written again.
        let start =
            if self.compression.is_some() { self.end.next_multiple_of(state.chunk) } else { self.end };
        let (step, rows, end, most) = (self.steps, self.steps + 1, start + total, self.most.max(total));
        let offsets = state.fields.iter().map(|field| (field.offsets, rows));
        let values = state.fields.iter().map(|field| (field.values, end)).chain([(state.points, end)]);
        let lists = [(state.vertices[0], most), (state.vertices[1], most + 1)];
        let wanted = self.columns.all().map(|id| (id, rows)).chain(offsets).chain(values).chain(lists);
        let wanted = wanted.map(|(id, rows)| Ok((id, rows_of(&self.file, id)?, rows)));
        let wanted = wanted.collect::<Result<Vec<_>>>()?;
        self.file.define(|file| extend_to(file, &wanted))?;
        // New vertices: each rank writes those of its particles.
        let own = first.max(self.most)..(first + count).max(self.most);
        let numbers: Vec<i64> = own.clone().map(|number| number as i64).collect();
        let ends: Vec<i64> = own.clone().map(|number| number as i64 + 1).collect();
        let (times, begin, number) = ([time], [start as i64], [step as i64]);
        let (one, none, all, wide) = ([1i64], [0i64], [total as i64], [0i64; 4]);
        let columns = &self.columns;
        let mut queue = self.file.queue();
        for (id, elements) in writes {
            let part = field_part(&[start + first], &[count], elements.components);
            queue.put_bytes(*id, part, elements.bytes);
        }
        queue.put(state.vertices[0], own.clone(), &numbers);
        queue.put(state.vertices[1], own.start + 1..own.end + 1, &ends);
        if self.file.is_root() {
            let step = step..rows;
            queue.put(columns.times, step.clone(), &times);
            queue.put(columns.part_counts, step.clone(), &one).put(
                columns.part_offsets,
                step.clone(),
                &number,
            );
            queue.put(columns.point_offsets, step.clone(), &begin);
            queue.put(columns.point_counts, step.clone(), &all);
            for (kind, ids) in columns.cell_counts.iter().enumerate() {
                let values = if kind == 0 { &all } else { &none };
                queue.put(ids[0], step.clone(), values).put(ids[1], step.clone(), values);
            }
            for id in columns.cell_offsets {
                queue.put(id, [step.clone(), 0..4], &wide);
            }
            for field in &state.fields {
                queue.put(field.offsets, step.clone(), &begin);
            }
        }
        queue.run_all()?;
        publish_step(&mut self.file, rows)?;
        (self.steps, self.end, self.most) = (rows, end, most);
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
