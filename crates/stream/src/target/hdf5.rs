//! Streams as datasets of an HDF5 file.

use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_formats::Selection;
use aqueduct_formats::hdf5::{DatasetId, Hdf5Compression, Hdf5CreateOptions, Hdf5File, Hdf5OpenOptions};

use super::array_blocks::{array_blocks, block_portions, point_block};
use super::hdf5_arrays::{
    Hdf5DefineResult, check_arrays, check_stored, define_arrays, define_points, numbering, stored_arrays,
};
use super::point_exchange::PointExchange;
use super::point_table::write_points;
use super::row_numbering::{RowNumbering, is_recorded};
use super::{ChunkSource, OutputTarget, StepBatch};
use crate::declare::declaration::Declaration;
use crate::error::{Error, Kind, Result, agree};

/// An HDF5 file that is being written; with the feature `hdf5`.
///
/// A stream of the whole array is a dataset of its name. Each of its boxes is a dataset with its number after the
/// name (`corner.0`), whose attribute `start` is its position in the array. Points are one dataset, and their numbers
/// in the global array another one (`probes.points`). A stream that is stored more than once has the step as its
/// first dimension, which is extended: row t has the data of the t-th sampled step, and zeros if that step stored none.
/// Attributes have the reduction, the first sampled step, and every how many steps a stream is stored. The program can
/// give other names, leading dimensions, attributes, chunks and compression ([`Stream::paths`](crate::Stream::paths) and
/// the methods after it). Lists of items cannot be stored in such a file and are refused.
///
/// The attribute `aqueduct_complete` of each dataset is its number of complete rows. Each batch is committed durably:
/// visible steps are durable. If the [number of steps](crate::Options::steps) is known, datasets have their full size from
/// the start, in one piece, with rows for stored steps only; a step then needs no definition and no sync, and the
/// attribute counts rows that were synced.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_formats::{Selection, hdf5};
/// use aqueduct_stream::target::Hdf5Target;
/// use aqueduct_stream::{Options, Stream, Streams};
///
/// Launch::threads(2).run(|world| {
///     let mut streams = Streams::new();
///     let level = streams.add::<f32>(Stream::array("level", [2, 3]).block([world.rank() as u64, 0], [1, 3]));
///     let mut output = Options::new().create_on(world, "memfs:level.h5", &streams, |comm, declared| {
///         Ok(Box::new(Hdf5Target::create(comm, "memfs:level.h5", declared)?))
///     })?;
///     for step in 0..4 {
///         output.step()?.put(level, &[step as f32; 3]).commit()?;
///     }
///     output.finish()?;
///     let file = hdf5::Hdf5OpenOptions::new().open(world, "memfs:level.h5")?;
///     let level = file.dataset("/level")?;
///     assert_eq!((file.complete(level)?, file.is_complete()), (Some(4), Some(true)));
///     assert_eq!(file.at(level, Selection::record(3)).all().read_vec::<f32>()?, [3.0; 6]);
///     file.close()?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct Hdf5Target {
    name: Arc<str>,
    comm: Comm,
    declaration: Arc<Declaration>,
    file: Hdf5File,
    /// The arrays of each stream; none for one without elements.
    datasets: Vec<Vec<Option<DatasetId>>>,
    scattered: PointExchange,
}

impl Hdf5Target {
    /// Creates the file. Fails if it exists, unless the output [replaces](Declaration::replaces) it. Collective.
    pub fn create(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Self> {
        Self::create_with(comm, name, declared, None)
    }

    /// Creates a file whose datasets are compressed, each chunk by a rank that writes a part of it. Fails as
    /// [`create`](Self::create). Collective.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::hdf5::Hdf5Compression;
    /// # use aqueduct_stream::target::Hdf5Target;
    /// # use aqueduct_stream::{Options, Stream, Streams};
    /// # Launch::threads(2).run(|world| {
    /// # let mut streams = Streams::new();
    /// # let block = [world.rank() as u64, 0];
    /// # let level = streams.add::<f32>(Stream::array("level", [2, 1000]).block(block, [1, 1000]));
    /// let mut output = Options::new().create_on(world, "memfs:compressed.h5", &streams, |comm, declared| {
    ///     let compression = Hdf5Compression::Deflate(4);
    ///     Ok(Box::new(Hdf5Target::compress(comm, "memfs:compressed.h5", declared, compression)?))
    /// })?;
    /// output.step()?.put(level, &[0.5; 1000]).commit()?;
    /// # output.finish()?;
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn compress(
        comm: &Comm,
        name: &str,
        declared: &Arc<Declaration>,
        compression: Hdf5Compression,
    ) -> Result<Self> {
        Self::create_with(comm, name, declared, Some(compression))
    }

    fn create_with(
        comm: &Comm,
        name: &str,
        declared: &Arc<Declaration>,
        compression: Option<Hdf5Compression>,
    ) -> Result<Self> {
        check_arrays(name, declared)?;
        if let Some(step) = declared.resumes_at() {
            let file = Hdf5OpenOptions::new().writable().open(comm, name)?;
            return Self::resume(comm, file, declared, step);
        }
        let create =
            if declared.replaces() { Hdf5CreateOptions::new().replace() } else { Hdf5CreateOptions::new() };
        Self::define(comm, create.create(comm, name)?, declared, compression)
    }

    /// Writes into a file that the program has created or opened, beside what it holds: it gets the datasets of the
    /// streams, or has them if the output [continues](Declaration::resumes_at). Collective.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_formats::hdf5::Hdf5CreateOptions;
    /// # use aqueduct_stream::target::Hdf5Target;
    /// # use aqueduct_stream::{Options, Stream, Streams};
    /// # Launch::threads(2).run(|world| {
    /// # let mut streams = Streams::new();
    /// let stream = Stream::array("p", [2, 100]).block([world.rank() as u64, 0], [1, 100]);
    /// let p = streams.add::<f32>(stream.paths(["/p/1"]).attribute("data_type", "float"));
    /// let mut output = Options::new().steps(3).create_on(world, "memfs:with_grid.h5", &streams, |comm, declared| {
    ///     let mut file = Hdf5CreateOptions::new().create(comm, "memfs:with_grid.h5")?;
    ///     let size = file.define(|file| file.dataset::<u64>("/Nx", &[1, 1, 1]))?;
    ///     file.at(size, [0..1, 0..1, 0..1]).all().write(if comm.rank() == 0 { &[100u64][..] } else { &[] }).ok();
    ///     Ok(Box::new(Hdf5Target::write_into(comm, file, declared)?))
    /// })?;
    /// for _ in 0..3 {
    ///     output.step()?.put(p, &[0.5; 100]).commit()?;
    /// }
    /// # output.finish()?;
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn write_into(comm: &Comm, file: Hdf5File, declared: &Arc<Declaration>) -> Result<Self> {
        check_arrays(file.name(), declared)?;
        match declared.resumes_at() {
            Some(step) => Self::resume(comm, file, declared, step),
            None => Self::define(comm, file, declared, None),
        }
    }

    /// Defines the datasets of all streams, and writes the numbers of points. Collective.
    fn define(
        comm: &Comm,
        mut file: Hdf5File,
        declared: &Arc<Declaration>,
        compression: Option<Hdf5Compression>,
    ) -> Result<Self> {
        let streams = declared.streams();
        let (datasets, points) = file.define(|file| {
            let define = |about| define_arrays(file, about, declared.steps(), compression);
            let datasets = streams.iter().map(define).collect::<Hdf5DefineResult<Vec<_>>>()?;
            let points = streams.iter().map(|about| define_points(file, about));
            Ok((datasets, points.collect::<Hdf5DefineResult<Vec<_>>>()?))
        })?;
        for (stream, dataset) in points.into_iter().enumerate() {
            if let Some(dataset) = dataset {
                write_points(comm, file.name(), declared, stream, |start, mine| {
                    file.at(dataset, Selection::block([start], [mine.len() as u64])).all().write(mine)
                })?;
            }
        }
        file.commit()?;
        Self::new(comm, file, declared, datasets)
    }

    /// Continues a file after this number of steps; takes back the rows that follow them. Collective.
    fn resume(comm: &Comm, mut file: Hdf5File, declared: &Arc<Declaration>, step: u64) -> Result<Self> {
        let rows = numbering(declared.steps());
        let (mut datasets, mut kept) = (Vec::new(), Vec::new());
        for about in declared.streams() {
            let mut found = Vec::new();
            for array in stored_arrays(about, declared.steps()) {
                let Some(array) = array else {
                    found.push(None);
                    continue;
                };
                let id = file.dataset(&array.path)?;
                check_stored(&file, id, &array, about, declared.steps().is_some())?;
                let complete = if is_recorded(about) { rows.complete_rows(about, step) } else { 0 };
                if let Some(there) = file.complete(id)?.filter(|there| *there < complete) {
                    let detail = format!(
                        "dataset {:?} has {there} complete rows of the {complete} of the first {step} steps; flush the output before a checkpoint counts",
                        array.path
                    );
                    return Err(Error::new(Kind::Incomplete, "resume", file.name(), detail));
                }
                kept.push((id, complete));
                found.push(Some(id));
            }
            datasets.push(found);
        }
        file.take_back(&kept)?;
        Self::new(comm, file, declared, datasets)
    }

    fn new(
        comm: &Comm,
        file: Hdf5File,
        declared: &Arc<Declaration>,
        datasets: Vec<Vec<Option<DatasetId>>>,
    ) -> Result<Self> {
        let scattered = PointExchange::new(comm, declared)
            .map_err(|error| Error::from_comm("create", file.name(), &error))?;
        Ok(Self {
            name: file.name().into(),
            comm: comm.clone(),
            declaration: Arc::clone(declared),
            file,
            datasets,
            scattered,
        })
    }

    /// Writes the bytes of this rank of a whole batch, those of scattered points after an exchange. Collective.
    fn write_whole(&self, batch: &StepBatch, mut bytes: &[u8]) -> Result<()> {
        let rows = numbering(self.declaration.steps());
        let (mut segments, mut portions, mut exchanged) = (Vec::new(), Vec::new(), Vec::new());
        for entry in &batch.entries {
            let width = self.declaration.streams()[entry.stream].stored().width();
            let (mine, later) = bytes.split_at(((entry.items * width) as usize).min(bytes.len()));
            bytes = later;
            if self.scattered.includes(entry.stream) {
                exchanged.push((entry.stream, width, mine));
                continue;
            }
            let alone = StepBatch { entries: vec![*entry], ..*batch };
            segments.push((array_blocks(&self.declaration, &alone, &self.datasets, rows), mine));
        }
        for (segments, bytes) in &segments {
            portions.extend(block_portions(segments, 0, bytes));
        }
        let pieces = self.scattered.exchange(&self.comm, &exchanged);
        let pieces = pieces.map_err(|error| Error::from_comm("write", &self.name, &error))?;
        let mut queue = self.file.queue();
        for portion in &portions {
            let (start, shape) = portion.block.block();
            queue.put_bytes(portion.block.array, Selection::block(start, shape), portion.bytes);
        }
        for piece in pieces.iter().filter(|piece| piece.count > 0) {
            let about = &self.declaration.streams()[piece.stream];
            let Some(array) = self.datasets[piece.stream][0] else { continue };
            let (start, shape) = point_block(about, rows, batch.step, piece.start, piece.count);
            queue.put_bytes(array, Selection::block(start, shape), &piece.bytes);
        }
        queue.run_all()
    }

    /// Extends all datasets of a batch by the row of its step. Collective.
    fn extend(&mut self, batch: &StepBatch) -> Result<()> {
        let recorded =
            batch.entries.iter().filter(|entry| is_recorded(&self.declaration.streams()[entry.stream]));
        let ids = recorded.flat_map(|entry| {
            let rows = RowNumbering::EveryStep.row(&self.declaration.streams()[entry.stream], batch.step) + 1;
            self.datasets[entry.stream].iter().flatten().map(move |id| (*id, rows))
        });
        let short = |(id, rows): &(DatasetId, u64)| {
            let dataset = self.file.describe(*id);
            dataset.is_ok_and(|dataset| dataset.shape.first().is_some_and(|there| there < rows))
        };
        let short: Vec<(DatasetId, u64)> = ids.filter(short).collect();
        if short.is_empty() {
            return Ok(());
        }
        self.file.define(|file| short.iter().try_for_each(|(id, rows)| file.extend(*id, *rows)))
    }
}

impl OutputTarget for Hdf5Target {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        let rounds = self.comm.allreduce_one(Op::Max, source.chunks()).map_err(lost)?;
        let steps = self.declaration.steps();
        match steps {
            Some(steps) if batch.step >= steps => {
                let detail = format!(
                    "step {} of a file for {steps} steps; give Options::steps all of them",
                    batch.step
                );
                return Err(Error::new(Kind::BadArgument, "write", &self.name, detail));
            }
            Some(_) => {}
            None => self.extend(batch)?,
        }
        let is_scattered = batch.entries.iter().any(|entry| self.scattered.includes(entry.stream));
        // Of a batch of several chunks, the points of a chunk are any part of the list.
        let is_whole = is_scattered && rounds == 1;
        if is_whole {
            let chunk = agree(&self.comm, "write", &self.name, source.next())?;
            self.write_whole(batch, chunk)?;
        }
        let rounds = if is_whole { 0 } else { rounds };
        let segments = match rounds {
            0 => Vec::new(),
            _ => array_blocks(&self.declaration, batch, &self.datasets, numbering(steps)),
        };
        let mut done = 0;
        for _ in 0..rounds {
            let chunk = agree(&self.comm, "write", &self.name, source.next())?;
            let portions = block_portions(&segments, done, chunk);
            done += chunk.len() as u64;
            let mut queue = self.file.queue();
            for portion in &portions {
                let (start, shape) = portion.block.block();
                queue.put_bytes(portion.block.array, Selection::block(start, shape), portion.bytes);
            }
            queue.run_all()?;
        }
        // Of a fixed number of steps, rows are marked as complete by syncs.
        if steps.is_some() { Ok(()) } else { self.file.commit() }
    }

    fn is_persistent(&self) -> bool {
        self.file.is_persistent()
    }

    fn sync(&mut self) -> Result<()> {
        self.file.commit()
    }

    fn finish(self: Box<Self>, _steps: u64) -> Result<()> {
        self.file.close()
    }
}
