//! Streams as variables of a netCDF file: any program that knows netCDF reads them.

use std::ops::Range;
use std::sync::Arc;

use aqueduct_comm::{Comm, Op};
use aqueduct_format::netcdf::{Create, Dataset, Definitions, DimensionId, Queue, Slab, Type, VariableId};

use super::{Parcel, Supply, Target};
use crate::declared::Declared;
use crate::description::{About, Region};
use crate::error::{Error, Kind, Result, agree};
use crate::stream::Reduction;
use crate::value::{ValueKind, by_kind};

/// A netCDF file (CDF-5) that is being written.
///
/// A stream of the whole domain is a variable of its name, each of its cuboids one with its number behind the name (`corner.0`), points one, with their
/// numbers in the global array in another (`probes.points`). What is stored more than once has the unlimited dimension `step`: record t holds what step
/// t stored, and zeros where it stored nothing. Lists of items have no place in such a file and are refused.
///
/// Each parcel is committed durably: what is visible is durable too.
///
/// ```
/// use aqueduct_comm::Launch;
/// use aqueduct_format::netcdf;
/// use aqueduct_stage::target::NetcdfTarget;
/// use aqueduct_stage::{Options, Stream, Streams};
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
///     let file = netcdf::Open::new().open(world, "memfs:level.nc")?;
///     let last = file.at(file.variable("level")?, netcdf::Slab::record(3)).read_vec::<f32>()?;
///     assert_eq!(last, [3.0; 6]);
///     file.close()?;
///     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// })?;
/// # Ok::<(), aqueduct_comm::Error>(())
/// ```
pub struct NetcdfTarget {
    name: Arc<str>,
    comm: Comm,
    declared: Arc<Declared>,
    dataset: Dataset,
    /// Of each stream, one for each of its boxes; of points, one. None where there is nothing to store.
    variables: Vec<Vec<Option<VariableId>>>,
}

/// Values of this rank that lie in one block of a variable.
#[derive(Clone, Debug)]
struct Segment {
    variable: VariableId,
    record: Option<u64>,
    kind: ValueKind,
    start: Vec<u64>,
    shape: Vec<u64>,
}

/// Values on their way, aligned for their kind.
struct Portion {
    segment: Segment,
    words: Vec<u64>,
    bytes: usize,
}

impl NetcdfTarget {
    /// Creates the file, or replaces it. Collective.
    pub fn create(comm: &Comm, name: &str, declared: &Arc<Declared>) -> Result<Self> {
        if let Some(list) = declared.streams().iter().find(|about| about.region == Region::List) {
            let detail =
                format!("stream {:?} is a list, which netCDF cannot hold; use a stream file", list.name);
            return Err(Error::new(Kind::Unsupported, "create", name, detail));
        }
        let mut dataset = Create::new().replace().create(comm, name)?;
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
                let slab = Slab::block([before], [mine.len() as u64]);
                dataset.at(variable, slab).all().write(mine)?;
            }
        }
        dataset.commit()?;
        Ok(Self { name: name.into(), comm: comm.clone(), declared: Arc::clone(declared), dataset, variables })
    }

    /// Where this rank's values of a parcel lie, in their order.
    fn segments(&self, parcel: &Parcel) -> Vec<Segment> {
        let mut segments = Vec::new();
        for entry in &parcel.entries {
            let about = &self.declared.streams()[entry.stream];
            let record = is_recorded(about).then_some(parcel.step);
            let variables = &self.variables[entry.stream];
            let mut add = |variable: usize, start, shape| {
                if let Some(variable) = variables[variable] {
                    segments.push(Segment { variable, record, kind: about.stored(), start, shape });
                }
            };
            if let Region::Points(_) = about.region {
                let (points, before) = self.declared.points(entry.stream);
                add(0, vec![before], vec![points.len() as u64]);
            }
            let boxes = about.boxes();
            for (number, part) in self.declared.parts(entry.stream) {
                add(*number, part.relative_to(&boxes[*number]).start, part.shape.clone());
            }
        }
        segments
    }
}

/// Whether a stream is stored more than once.
fn is_recorded(about: &About) -> bool {
    about.reduction == Reduction::None || about.every.is_some()
}

type Defined<T> = aqueduct_format::Result<T>;

/// Defines the variables of a stream.
fn variables(
    file: &mut Definitions<'_>,
    about: &About,
    step: DimensionId,
) -> Defined<Vec<Option<VariableId>>> {
    let shapes: Vec<Vec<u64>> = match about.region {
        Region::Points(count) => vec![vec![count]],
        _ => about.boxes().into_iter().map(|one| one.shape).collect(),
    };
    let mut variables = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        // A length of 0 means another thing there.
        if shape.contains(&0) {
            variables.push(None);
            continue;
        }
        let name = match about.region {
            Region::Cuboids(_) => format!("{}.{number}", about.name),
            _ => about.name.clone(),
        };
        let mut dimensions: Vec<DimensionId> = is_recorded(about).then_some(step).into_iter().collect();
        for (axis, size) in shape.iter().enumerate() {
            dimensions.push(file.dimension(&format!("{name}.axis{axis}"), *size)?);
        }
        variables.push(Some(file.variable(&name, kind_of(about.stored()), &dimensions)?));
    }
    Ok(variables)
}

/// Defines the variable that tells which points a stream has.
fn points(file: &mut Definitions<'_>, about: &About) -> Defined<Option<VariableId>> {
    let Region::Points(count @ 1..) = about.region else { return Ok(None) };
    let name = format!("{}.points", about.name);
    let dimension = file.dimension(&name, count)?;
    file.variable(&name, Type::UInt64, &[dimension]).map(Some)
}

fn kind_of(kind: ValueKind) -> Type {
    match kind {
        ValueKind::I8 => Type::Byte,
        ValueKind::I16 => Type::Short,
        ValueKind::I32 => Type::Int,
        ValueKind::I64 => Type::Int64,
        ValueKind::U8 => Type::UByte,
        ValueKind::U16 => Type::UShort,
        ValueKind::U32 => Type::UInt,
        ValueKind::U64 => Type::UInt64,
        ValueKind::F32 => Type::Float,
        ValueKind::F64 => Type::Double,
    }
}

/// The values of number `range` of a block, in the order of its elements, as blocks.
fn blocks(start: &[u64], shape: &[u64], range: Range<u64>, out: &mut Vec<(Vec<u64>, Vec<u64>)>) {
    let all: u64 = shape.iter().product();
    if range.is_empty() {
        return;
    }
    if range == (0..all) || shape.len() < 2 {
        let mut block = (start.to_vec(), shape.to_vec());
        if let (Some(first), Some(size)) = (block.0.first_mut(), block.1.first_mut())
            && range != (0..all)
        {
            *first += range.start;
            *size = range.end - range.start;
        }
        out.push(block);
        return;
    }
    let slice = all / shape[0];
    // What is left of the slice it begins in, whole slices, and the beginning of the one it ends in.
    let (first, last) = (range.start.div_ceil(slice), range.end / slice);
    let inside = |number: u64, range: Range<u64>, out: &mut Vec<_>| {
        let mut inner = Vec::new();
        blocks(&start[1..], &shape[1..], range, &mut inner);
        let outer = |(at, size): (Vec<u64>, Vec<u64>)| {
            ([&[start[0] + number], &at[..]].concat(), [&[1], &size[..]].concat())
        };
        out.extend(inner.into_iter().map(outer));
    };
    if first > last {
        return inside(last, range.start - last * slice..range.end - last * slice, out);
    }
    if range.start < first * slice {
        inside(first - 1, range.start - (first - 1) * slice..slice, out);
    }
    if first < last {
        let (mut at, mut size) = (start.to_vec(), shape.to_vec());
        (at[0], size[0]) = (start[0] + first, last - first);
        out.push((at, size));
    }
    inside(last, 0..range.end - last * slice, out);
}

/// The parts of a chunk, which begins behind `done` bytes of the segments.
fn portions(segments: &[Segment], done: u64, chunk: &[u8]) -> Vec<Portion> {
    let (mut portions, mut before, mut rest) = (Vec::new(), 0, chunk);
    for segment in segments {
        let width = segment.kind.width();
        let bytes = segment.shape.iter().product::<u64>() * width;
        let first = (done.max(before) - before).min(bytes);
        let here = (bytes - first).min(rest.len() as u64);
        let mut parts = Vec::new();
        blocks(&segment.start, &segment.shape, first / width..(first + here) / width, &mut parts);
        for (start, shape) in parts {
            let length = (shape.iter().product::<u64>() * width) as usize;
            let (now, later) = rest.split_at(length);
            rest = later;
            let mut words = vec![0u64; length.div_ceil(8)];
            bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..length].copy_from_slice(now);
            portions.push(Portion {
                segment: Segment { start, shape, ..segment.clone() },
                words,
                bytes: length,
            });
        }
        before += bytes;
    }
    portions
}

fn put<'q, T: aqueduct_format::netcdf::Value>(queue: &mut Queue<'q>, portion: &'q Portion) {
    let Segment { variable, record, start, shape, .. } = &portion.segment;
    let (mut at, mut size): (Vec<u64>, Vec<u64>) = record.map(|record| (record, 1)).into_iter().unzip();
    at.extend(start);
    size.extend(shape);
    let values: &[T] =
        bytemuck::cast_slice(&bytemuck::cast_slice::<u64, u8>(&portion.words)[..portion.bytes]);
    queue.put(*variable, Slab::block(at, size), values);
}

impl Target for NetcdfTarget {
    fn write(&mut self, parcel: &Parcel, supply: &mut dyn Supply) -> Result<()> {
        let talk = |error: aqueduct_comm::Error| Error::talk("write", &self.name, &error);
        let rounds = self.comm.allreduce_one(Op::Max, supply.chunks()).map_err(talk)?;
        let (segments, mut done) = (self.segments(parcel), 0);
        for _ in 0..rounds {
            let chunk = agree(&self.comm, "write", &self.name, supply.next())?;
            let portions = portions(&segments, done, chunk);
            done += chunk.len() as u64;
            let mut queue = self.dataset.queue();
            for portion in &portions {
                by_kind!(portion.segment.kind, put(&mut queue, portion));
            }
            queue.run_all()?;
        }
        Ok(self.dataset.commit()?)
    }

    fn sync(&mut self) -> Result<()> {
        Ok(self.dataset.commit()?)
    }

    fn finish(self: Box<Self>, _steps: u64) -> Result<()> {
        self.dataset.commit()?;
        Ok(self.dataset.close()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_of_a_block_is_cut_into_blocks_in_its_order() {
        let (start, shape) = ([2, 0, 5], [3, 4, 2]);
        let element = |number: u64| [2 + number / 8, number / 2 % 4, 5 + number % 2];
        for first in 0..=24 {
            for last in first..=24 {
                let mut out = Vec::new();
                blocks(&start, &shape, first..last, &mut out);
                assert!(out.len() <= 5, "{out:?}");
                let mut found = Vec::new();
                for (at, size) in out {
                    for z in at[0]..at[0] + size[0] {
                        for y in at[1]..at[1] + size[1] {
                            found.extend((at[2]..at[2] + size[2]).map(|x| [z, y, x]));
                        }
                    }
                }
                assert_eq!(found, (first..last).map(element).collect::<Vec<_>>(), "{first}..{last}");
            }
        }
    }
}
