//! Streams as datasets of an HDF5 file.

use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_formats::Selection;
use aqueduct_formats::hdf5::{
    DatasetId, Datatype, Hdf5Compression, Hdf5CreateOptions, Hdf5DatasetOptions, Hdf5Definitions, Hdf5File,
};

use super::array_blocks::{array_blocks, arrays, block_portions, is_recorded};
use super::{ChunkSource, OutputTarget, StepBatch};
use crate::declare::declaration::Declaration;
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result, agree};
use crate::value::{ValueKind, by_kind};

/// Bytes of the smallest chunk of small rows.
const CHUNK: u64 = 1 << 16;
/// Bytes of the largest chunk: HDF5 limits chunks to less than 4 GiB.
const LARGEST_CHUNK: u64 = 1 << 30;

/// Rows of fewer bytes are not compressed: a chunk has one row, so that no step writes a chunk of another one again.
const SMALLEST_COMPRESSED: u64 = 1 << 10;

/// An HDF5 file that is being written; with the feature `hdf5`.
///
/// A stream of the whole array is a dataset of its name. Each of its boxes is a dataset with its number after the
/// name (`corner.0`), whose attribute `start` is its position in the array. Points are one dataset, and their numbers
/// in the global array another one (`probes.points`). A stream that is stored more than once has the step as its
/// first dimension, which is extended: row t has the data of step t, and zeros if that step stored none. Attributes
/// have the reduction, and every how many steps a stream is stored. Lists of items cannot be stored in such a file
/// and are refused.
///
/// Each batch is committed durably: visible steps are durable. The attribute `aqueduct_complete` of each dataset is
/// its number of complete rows.
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
        if let Some(list) = declared.streams().iter().find(|about| about.region == StreamRegion::List) {
            let detail = format!(
                "stream {:?} is a list, which has no place in a file of arrays; use a stream file, or an object file",
                list.name
            );
            return Err(Error::new(Kind::Unsupported, "create", name, detail));
        }
        let create =
            if declared.replaces() { Hdf5CreateOptions::new().replace() } else { Hdf5CreateOptions::new() };
        let mut container = create.create(comm, name)?;
        let (datasets, points) = container.define(|file| {
            let streams = declared.streams();
            let datasets = streams
                .iter()
                .map(|about| datasets(file, about, compression))
                .collect::<Hdf5DefineResult<Vec<_>>>()?;
            let points =
                streams.iter().map(|about| points(file, about)).collect::<Hdf5DefineResult<Vec<_>>>()?;
            Ok((datasets, points))
        })?;
        for (stream, dataset) in points.into_iter().enumerate() {
            if let Some(dataset) = dataset {
                let (mine, before) = declared.points(stream);
                container.at(dataset, Selection::block([before], [mine.len() as u64])).all().write(mine)?;
            }
        }
        container.commit()?;
        Ok(Self {
            name: name.into(),
            comm: comm.clone(),
            declaration: Arc::clone(declared),
            file: container,
            datasets,
        })
    }

    /// Extends all datasets of a batch by the row of its step. Collective.
    fn extend(&mut self, batch: &StepBatch) -> Result<()> {
        let recorded =
            batch.entries.iter().filter(|entry| is_recorded(&self.declaration.streams()[entry.stream]));
        let ids = recorded.flat_map(|entry| self.datasets[entry.stream].iter().flatten().copied());
        let rows = batch.step + 1;
        let short = |id: &DatasetId| {
            let dataset = self.file.describe(*id);
            dataset.is_ok_and(|dataset| dataset.shape.first().is_some_and(|there| *there < rows))
        };
        let short: Vec<DatasetId> = ids.filter(short).collect();
        if short.is_empty() {
            return Ok(());
        }
        self.file.define(|file| short.iter().try_for_each(|id| file.extend(*id, rows)))
    }
}

type Hdf5DefineResult<T> = aqueduct_formats::Result<T>;

fn datatype<T: aqueduct_object::Object>() -> Datatype {
    Datatype::of::<T>().expect("every number has a type in HDF5")
}

fn datatype_of(kind: ValueKind) -> Datatype {
    by_kind!(kind, datatype())
}

/// Defines the datasets of a stream.
fn datasets(
    file: &mut Hdf5Definitions<'_>,
    about: &StreamInfo,
    compression: Option<Hdf5Compression>,
) -> Hdf5DefineResult<Vec<Option<DatasetId>>> {
    let mut datasets = Vec::new();
    let boxes = about.boxes();
    for (number, (name, shape)) in arrays(about).into_iter().enumerate() {
        if shape.contains(&0) {
            datasets.push(None);
            continue;
        }
        let (path, kind) = (format!("/{name}"), datatype_of(about.stored()));
        let rows = [&[0], &shape[..]].concat();
        let mut chunk = chunk(&shape, about.stored().width());
        let bytes = shape.iter().fold(about.stored().width(), |bytes, side| bytes.saturating_mul(*side));
        let compression = compression.filter(|_| bytes >= SMALLEST_COMPRESSED);
        if compression.is_some() {
            chunk[0] = 1;
        }
        let options = |chunk: &[u64]| {
            let options = Hdf5DatasetOptions::new().chunk(chunk);
            compression.map_or(options.clone(), |compression| options.compress(compression))
        };
        let dataset = match (is_recorded(about), compression) {
            (true, _) => file.dataset_with_as(&path, kind, &rows, &options(&chunk).extendible())?,
            (false, Some(_)) => file.dataset_with_as(&path, kind, &shape, &options(&chunk[1..]))?,
            (false, None) => file.dataset_as(&path, kind, &shape)?,
        };
        let reduction = format!("{:?}", about.reduction).to_lowercase();
        file.attribute(&path, "reduction", reduction.as_str())?;
        if let Some(every) = about.every {
            file.attribute(&path, "every", every)?;
        }
        if let (StreamRegion::Cuboids(_), Some(one)) = (&about.region, boxes.get(number)) {
            file.attribute(&path, "start", one.start.as_slice())?;
        }
        datasets.push(Some(dataset));
    }
    Ok(datasets)
}

/// Chunks of one row, of several small rows, or of a part of a very large one.
fn chunk(shape: &[u64], width: u64) -> Vec<u64> {
    let bytes = |sides: &[u64]| sides.iter().fold(width, |all, side| all.saturating_mul(*side));
    let mut chunk = shape.to_vec();
    while let (true, Some(side)) = (bytes(&chunk) > LARGEST_CHUNK, chunk.iter_mut().find(|side| **side > 1)) {
        *side = side.div_ceil(2);
    }
    let rows = (CHUNK / bytes(&chunk)).clamp(1, 1024);
    [&[rows], &chunk[..]].concat()
}

/// Defines the dataset of the points of a stream.
fn points(file: &mut Hdf5Definitions<'_>, about: &StreamInfo) -> Hdf5DefineResult<Option<DatasetId>> {
    let StreamRegion::Points(count @ 1..) = about.region else { return Ok(None) };
    file.dataset::<u64>(&format!("/{}.points", about.name), &[count]).map(Some)
}

impl OutputTarget for Hdf5Target {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        let rounds = self.comm.allreduce_one(Op::Max, source.chunks()).map_err(lost)?;
        self.extend(batch)?;
        let (segments, mut done) = (array_blocks(&self.declaration, batch, &self.datasets), 0);
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
        self.file.commit()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_rows_and_stay_below_the_limit() {
        assert_eq!(chunk(&[4, 5], 8), [409, 4, 5]);
        assert_eq!(chunk(&[3], 1), [1024, 3]);
        assert_eq!(chunk(&[1000, 1000], 4), [1, 1000, 1000]);
        assert_eq!(chunk(&[1 << 12, 1 << 12, 1 << 12], 8), [1, 8, 1 << 12, 1 << 12]);
        assert_eq!(chunk(&[u64::MAX, 1 << 40], 8)[1..], [1, 1 << 27]);
    }
}
