//! Streams as variables of a netCDF file.

use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_formats::netcdf::{
    DimensionId, NcType, NetcdfCreateOptions, NetcdfDefinitions, NetcdfFile, NetcdfOpenOptions, NetcdfQueue,
    Selection, Values, VariableId,
};

use super::array_blocks::{ArraySegment, BlockPortion, array_blocks, block_portions};
use super::point_table::write_points;
use super::row_numbering::{RowNumbering, arrays, is_recorded};
use super::{ChunkSource, OutputTarget, StepBatch};
use crate::declare::array_storage::StreamAttribute;
use crate::declare::declaration::Declaration;
use crate::declare::stream_info::{StreamInfo, StreamRegion};
use crate::error::{Error, Kind, Result, agree};
use crate::value::{ValueKind, by_kind};

/// A netCDF file (CDF-5) that is being written.
///
/// A stream of the whole array is a variable of its name. Each of its boxes is a variable with its number after the
/// name (`corner.0`). Points are one variable, and their numbers in the global array another one (`probes.points`). A
/// stream that is stored more than once has the unlimited dimension `step`: record t has the data of the t-th sampled
/// step, and zeros if that step stored none. The program can give other names, leading dimensions and attributes
/// ([`Stream::paths`](crate::Stream::paths) and the methods after it). Lists of items cannot be stored in such a file and
/// are refused.
///
/// Each batch is committed durably: visible steps are durable. If the [number of steps](crate::Options::steps) is known,
/// a step needs no sync, and the file counts the records that were synced.
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
        check_arrays(name, declared)?;
        if let Some(step) = declared.resumes_at() {
            let file = NetcdfOpenOptions::new().writable().open(comm, name)?;
            return Self::resume(comm, file, declared, step);
        }
        let create = if declared.replaces() {
            NetcdfCreateOptions::new().replace()
        } else {
            NetcdfCreateOptions::new()
        };
        Self::define(comm, create.create(comm, name)?, declared)
    }

    /// Writes into a file that the program has created or opened, beside what it holds: it gets the variables of the
    /// streams, or has them if the output [continues](Declaration::resumes_at). Collective.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions};
    /// # use aqueduct_stream::target::NetcdfTarget;
    /// # use aqueduct_stream::{Options, Stream, Streams};
    /// # Launch::threads(2).run(|world| {
    /// # let mut streams = Streams::new();
    /// let p = streams.add::<f32>(Stream::array("p", [2, 100]).block([world.rank() as u64, 0], [1, 100]));
    /// let mut output = Options::new().create_on(world, "memfs:with_mesh.nc", &streams, |comm, declared| {
    ///     let mut file = NetcdfCreateOptions::new().create(comm, "memfs:with_mesh.nc")?;
    ///     file.define(|file| {
    ///         let axis = file.dimension("x", 100)?;
    ///         file.variable("mesh", NcType::Double, &[axis])
    ///     })?;
    ///     Ok(Box::new(NetcdfTarget::write_into(comm, file, declared)?))
    /// })?;
    /// output.step()?.put(p, &[0.5; 100]).commit()?;
    /// # output.finish()?;
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn write_into(comm: &Comm, file: NetcdfFile, declared: &Arc<Declaration>) -> Result<Self> {
        check_arrays(file.name(), declared)?;
        match declared.resumes_at() {
            Some(step) => Self::resume(comm, file, declared, step),
            None => Self::define(comm, file, declared),
        }
    }

    /// Defines the variables of all streams, and writes the numbers of points. Collective.
    fn define(comm: &Comm, mut dataset: NetcdfFile, declared: &Arc<Declaration>) -> Result<Self> {
        let name: Arc<str> = dataset.name().into();
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
                write_points(comm, &name, declared, stream, |start, mine| {
                    let slab = Selection::block([start], [mine.len() as u64]);
                    dataset.at(variable, slab).all().write(mine)
                })?;
            }
        }
        dataset.commit()?;
        Ok(Self::new(comm, dataset, declared, variables))
    }

    /// Continues a file after this number of steps; takes back the records that follow them. Collective.
    fn resume(comm: &Comm, file: NetcdfFile, declared: &Arc<Declaration>, step: u64) -> Result<Self> {
        let name: Arc<str> = file.name().into();
        let refuse = |kind, detail: String| Err(Error::new(kind, "resume", &*name, detail));
        let (mut variables, mut records) = (Vec::new(), 0);
        for about in declared.streams() {
            let mut found = Vec::new();
            for (array, shape) in arrays(about) {
                if shape.contains(&0) {
                    found.push(None);
                    continue;
                }
                let id = file.variable(&variable_name(&array))?;
                let there = file.shape(id)?;
                let inner = there.get(there.len().saturating_sub(shape.len())..);
                if inner != Some(&shape[..]) || file.describe(id)?.kind != kind_of(about.stored()) {
                    let detail = format!(
                        "variable {array:?} has the shape {there:?}; the streams declare {shape:?} {:?}",
                        about.stored()
                    );
                    return refuse(Kind::BadArgument, detail);
                }
                found.push(Some(id));
            }
            if is_recorded(about) && found.iter().any(Option::is_some) {
                records = records.max(RowNumbering::EveryStep.complete_rows(about, step));
            }
            variables.push(found);
        }
        if file.records() < records {
            let there = file.records();
            let detail = format!(
                "the file has {there} complete records of the {records} of the first {step} steps; flush the output before a checkpoint counts"
            );
            return refuse(Kind::Incomplete, detail);
        }
        file.take_back(records)?;
        Ok(Self::new(comm, file, declared, variables))
    }

    fn new(
        comm: &Comm,
        file: NetcdfFile,
        declared: &Arc<Declaration>,
        variables: Vec<Vec<Option<VariableId>>>,
    ) -> Self {
        Self {
            name: file.name().into(),
            comm: comm.clone(),
            declaration: Arc::clone(declared),
            file,
            variables,
        }
    }
}

/// Fails if a stream has no place in a netCDF file.
fn check_arrays(name: &str, declared: &Declaration) -> Result<()> {
    let list = declared.streams().iter().find(|about| about.region == StreamRegion::List);
    if let Some(list) = list {
        let detail = format!("stream {:?} is a list, which netCDF cannot hold; use a stream file", list.name);
        return Err(Error::new(Kind::Unsupported, "create", name, detail));
    }
    let has_no_type = |kind: ValueKind| kind.is_complex() || kind == ValueKind::F16;
    let foreign = declared.streams().iter().find(|about| has_no_type(about.stored()));
    foreign.map_or(Ok(()), |about| {
        let (stream, kind) = (&about.name, about.stored());
        let detail = format!(
            "stream {stream:?} has values {kind:?}, for which netCDF has no type; use a stream file, or HDF5"
        );
        Err(Error::new(Kind::Unsupported, "create", name, detail))
    })
}

/// The name of an array that the program names by a path.
fn variable_name(path: &str) -> String {
    path.trim_matches('/').replace('/', ".")
}

type NetcdfDefineResult<T> = aqueduct_formats::Result<T>;

/// Defines the variables of a stream.
fn variables(
    file: &mut NetcdfDefinitions<'_>,
    about: &StreamInfo,
    step: DimensionId,
) -> NetcdfDefineResult<Vec<Option<VariableId>>> {
    if about.storage.chunk.is_some() || about.storage.deflate.is_some() {
        let detail =
            format!("stream {:?} has chunks or compression, which netCDF cannot store; use HDF5", about.name);
        return Err(Error::new(Kind::Unsupported, "create", "a netCDF file", detail));
    }
    let mut variables = Vec::new();
    for (path, shape) in arrays(about) {
        let name = variable_name(&path);
        // A dimension of length 0 is the unlimited one.
        if shape.contains(&0) {
            variables.push(None);
            continue;
        }
        let mut dimensions: Vec<DimensionId> = is_recorded(about).then_some(step).into_iter().collect();
        // The unlimited dimension is the first.
        let leading = if is_recorded(about) { 0 } else { about.storage.leading };
        for (axis, size) in std::iter::repeat_n(&1, leading).chain(&shape).enumerate() {
            dimensions.push(file.dimension(&format!("{name}.axis{axis}"), *size)?);
        }
        let variable = file.variable(&name, kind_of(about.stored()), &dimensions)?;
        for (name, value) in &about.storage.attributes {
            file.attribute_of(variable, name, attribute_of(value))?;
        }
        variables.push(Some(variable));
    }
    Ok(variables)
}

fn attribute_of(value: &StreamAttribute) -> Values {
    match value {
        StreamAttribute::Text(text) | StreamAttribute::FixedText(text) => text.as_str().into(),
        StreamAttribute::Unsigned(numbers) => numbers.as_slice().into(),
        StreamAttribute::Signed(numbers) => numbers.as_slice().into(),
        StreamAttribute::Real(numbers) => numbers.as_slice().into(),
    }
}

/// Defines the variable of the points of a stream.
fn points(file: &mut NetcdfDefinitions<'_>, about: &StreamInfo) -> NetcdfDefineResult<Option<VariableId>> {
    let StreamRegion::Points(count @ 1..) = about.region else { return Ok(None) };
    if !about.storage.paths.is_empty() {
        return Ok(None);
    }
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
        ValueKind::U8 | ValueKind::Bool => NcType::UByte,
        // There are no values `F16` here.
        ValueKind::U16 | ValueKind::F16 => NcType::UShort,
        ValueKind::U32 => NcType::UInt,
        ValueKind::U64 => NcType::UInt64,
        // There are no complex values here.
        ValueKind::F32 | ValueKind::Complex64 => NcType::Float,
        ValueKind::F64 | ValueKind::Complex128 => NcType::Double,
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
        let (segments, mut done) =
            (array_blocks(&self.declaration, batch, &self.variables, RowNumbering::EveryStep), 0);
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
        // Of a known number of steps, records are counted by syncs.
        if self.declaration.steps().is_some() { Ok(()) } else { self.file.commit() }
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
