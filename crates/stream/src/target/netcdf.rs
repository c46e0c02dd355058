//! Streams as variables of a netCDF file.

use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_formats::netcdf::{
    DimensionId, NcType, NetcdfCreateOptions, NetcdfDefinitions, NetcdfFile, NetcdfQueue, Selection,
    VariableId,
};

use super::array_blocks::{ArraySegment, BlockPortion, array_blocks, arrays, block_portions, is_recorded};
use super::{ChunkSource, OutputTarget, StepBatch};
use crate::declare::declaration::Declaration;
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result, agree};
use crate::value::{ValueKind, by_kind};

/// A netCDF file (CDF-5) that is being written.
///
/// A stream of the whole array is a variable of its name. Each of its boxes is a variable with its number after the
/// name (`corner.0`). Points are one variable, and their numbers in the global array another one (`probes.points`). A
/// stream that is stored more than once has the unlimited dimension `step`: record t has the data of step t, and
/// zeros if that step stored none. Lists of items cannot be stored in such a file and are refused.
///
/// Each batch is committed durably: visible steps are durable.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_formats::netcdf;
/// use aqueduct_stream::target::NetcdfTarget;
/// use aqueduct_stream::{Options, Stream, Streams};
///
/// Launch::threads(2).run(|world| {
///     let mut streams = Streams::new();
///     let level = streams.add::<f32>(Stream::array("level", [2, 3]).block([world.rank() as u64, 0], [1, 3]));
///     let mut output = Options::new().create_on(world, "memfs:level.nc", &streams, |comm, declared| {
///         Ok(Box::new(NetcdfTarget::create(comm, "memfs:level.nc", declared)?))
///     })?;
///     for step in 0..4 {
///         output.step()?.put(level, &[step as f32; 3]).commit()?;
///     }
///     output.finish()?;
///     let file = netcdf::NetcdfOpenOptions::new().open(world, "memfs:level.nc")?;
///     let last = file.at(file.variable("level")?, netcdf::Selection::record(3)).read_vec::<f32>()?;
///     assert_eq!(last, [3.0; 6]);
///     file.close()?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct NetcdfTarget {
    name: Arc<str>,
    comm: Comm,
    declaration: Arc<Declaration>,
    file: NetcdfFile,
    /// The variables of each stream, one for each of its boxes; one for points. None for one without elements.
    variables: Vec<Vec<Option<VariableId>>>,
}

/// Values of a chunk, aligned for their kind.
struct AlignedValues {
    segment: ArraySegment<VariableId>,
    words: Vec<u64>,
    bytes: usize,
}

impl AlignedValues {
    fn new(portion: BlockPortion<'_, VariableId>) -> Self {
        let bytes = portion.bytes.len();
        let mut words = vec![0u64; bytes.div_ceil(8)];
        bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes].copy_from_slice(portion.bytes);
        Self { segment: portion.block, words, bytes }
    }
}

impl NetcdfTarget {
    /// Creates the file. Fails if it exists, unless the output [replaces](Declaration::replaces) it. Collective.
    pub fn create(comm: &Comm, name: &str, declared: &Arc<Declaration>) -> Result<Self> {
        if let Some(list) = declared.streams().iter().find(|about| about.region == StreamRegion::List) {
            let detail =
                format!("stream {:?} is a list, which netCDF cannot hold; use a stream file", list.name);
            return Err(Error::new(Kind::Unsupported, "create", name, detail));
        }
        let create = if declared.replaces() {
            NetcdfCreateOptions::new().replace()
        } else {
            NetcdfCreateOptions::new()
        };
        let mut dataset = create.create(comm, name)?;
        let (variables, points) = dataset.define(|file| {
            let step = file.unlimited("step")?;
            let streams = declared.streams();
            let variables =
                streams.iter().map(|about| variables(file, about, step)).collect::<Result<Vec<_>, _>>()?;
            let points = streams.iter().map(|about| points(file, about)).collect::<Result<Vec<_>, _>>()?;
            Ok((variables, points))
        })?;
        for (stream, variable) in points.into_iter().enumerate() {
            if let Some(variable) = variable {
                let (mine, before) = declared.points(stream);
                let slab = Selection::block([before], [mine.len() as u64]);
                dataset.at(variable, slab).all().write(mine)?;
            }
        }
        dataset.commit()?;
        Ok(Self {
            name: name.into(),
            comm: comm.clone(),
            declaration: Arc::clone(declared),
            file: dataset,
            variables,
        })
    }
}

type NetcdfDefineResult<T> = aqueduct_formats::Result<T>;

/// Defines the variables of a stream.
fn variables(
    file: &mut NetcdfDefinitions<'_>,
    about: &StreamInfo,
    step: DimensionId,
) -> NetcdfDefineResult<Vec<Option<VariableId>>> {
    let mut variables = Vec::new();
    for (name, shape) in arrays(about) {
        // A dimension of length 0 is the unlimited one.
        if shape.contains(&0) {
            variables.push(None);
            continue;
        }
        let mut dimensions: Vec<DimensionId> = is_recorded(about).then_some(step).into_iter().collect();
        for (axis, size) in shape.iter().enumerate() {
            dimensions.push(file.dimension(&format!("{name}.axis{axis}"), *size)?);
        }
        variables.push(Some(file.variable(&name, kind_of(about.stored()), &dimensions)?));
    }
    Ok(variables)
}

/// Defines the variable of the points of a stream.
fn points(file: &mut NetcdfDefinitions<'_>, about: &StreamInfo) -> NetcdfDefineResult<Option<VariableId>> {
    let StreamRegion::Points(count @ 1..) = about.region else { return Ok(None) };
    let name = format!("{}.points", about.name);
    let dimension = file.dimension(&name, count)?;
    file.variable(&name, NcType::UInt64, &[dimension]).map(Some)
}

fn kind_of(kind: ValueKind) -> NcType {
    match kind {
        ValueKind::I8 => NcType::Byte,
        ValueKind::I16 => NcType::Short,
        ValueKind::I32 => NcType::Int,
        ValueKind::I64 => NcType::Int64,
        ValueKind::U8 => NcType::UByte,
        ValueKind::U16 => NcType::UShort,
        ValueKind::U32 => NcType::UInt,
        ValueKind::U64 => NcType::UInt64,
        ValueKind::F32 => NcType::Float,
        ValueKind::F64 => NcType::Double,
    }
}

fn put<'q, T: aqueduct_formats::netcdf::NetcdfValue>(queue: &mut NetcdfQueue<'q>, values: &'q AlignedValues) {
    let (start, shape) = values.segment.block();
    let bytes: &[T] = bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&values.words)[..values.bytes]);
    queue.put(values.segment.array, Selection::block(start, shape), bytes);
}

impl OutputTarget for NetcdfTarget {
    fn write(&mut self, batch: &StepBatch, source: &mut dyn ChunkSource) -> Result<()> {
        let lost = |error: aqueduct_comm::Error| Error::from_comm("write", &self.name, &error);
        let rounds = self.comm.allreduce_one(Op::Max, source.chunks()).map_err(lost)?;
        let (segments, mut done) = (array_blocks(&self.declaration, batch, &self.variables), 0);
        for _ in 0..rounds {
            let chunk = agree(&self.comm, "write", &self.name, source.next())?;
            let aligned: Vec<AlignedValues> =
                block_portions(&segments, done, chunk).into_iter().map(AlignedValues::new).collect();
            done += chunk.len() as u64;
            let mut queue = self.file.queue();
            for values in &aligned {
                by_kind!(values.segment.kind, put(&mut queue, values));
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
        self.file.commit()?;
        self.file.close()
    }
}
