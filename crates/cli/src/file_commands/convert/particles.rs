//! Particles as VTKHDF: records with positions, or positions in an array of their own, over time if there are steps.

use std::ffi::OsStr;

use anyhow::{Context, Result, bail};
use aqueduct::comm::Comm;
use aqueduct::formats::Hyperslab;
use aqueduct::formats::vtkhdf::{ParticleSeries, PointField};
use aqueduct::hdf5::Datatype;

use super::ConvertArguments;
use crate::array_file::{self, Array, ArrayFile, ArrayPart, FieldArray, NumberType, extension_of, fields_of};
use crate::parallel::agree;
use crate::terminal::progress_bar;

/// Names of fields with positions, and of fields with one coordinate each.
const POSITIONS: [&str; 5] = ["position", "positions", "pos", "coordinates", "points"];
const COORDINATES: [&str; 3] = ["x", "y", "z"];
/// The most numbers of a particle in an array of numbers: a tensor.
const MOST_COMPONENTS: u64 = 9;

/// A step: its time, its first particle, counted from that of the first step, and the number of its particles.
type ParticleStep = (f64, u64, u64);

/// A field of particles.
struct ParticleField {
    /// The index of its array.
    array: usize,
    field: FieldArray,
    name: String,
    /// The numbers that a particle has.
    width: u64,
}

/// Particles of a file.
pub(super) struct Particles<'f> {
    from: &'f dyn ArrayFile,
    steps: Vec<ParticleStep>,
    /// Up to three fields with the coordinates, one after another.
    positions: Vec<ParticleField>,
    fields: Vec<ParticleField>,
    lost: Vec<String>,
}

/// The steps of an array, and how many of its elements are one particle; none if it has no particles.
fn steps_of(from: &dyn ArrayFile, at: usize) -> Option<(Vec<ParticleStep>, u64)> {
    let array = &from.arrays()[at];
    let lists = from.list_steps(at).map(|steps| {
        let step =
            |(number, rows): (u64, std::ops::Range<u64>)| (number as f64, rows.start, rows.end - rows.start);
        steps.into_iter().map(step).collect::<Vec<_>>()
    });
    let regular =
        |steps: u64, count: u64| (0..steps).map(|step| (step as f64, step * count, count)).collect();
    let is_small = |width: u64| (2..=MOST_COMPONENTS).contains(&width);
    match (&array.shape[..], lists) {
        ([_], Some(lists)) => Some((lists, 1)),
        ([_, width], Some(lists)) => is_small(*width).then_some((lists, *width)),
        ([count], None) => Some((vec![(0.0, 0, *count)], 1)),
        ([steps, count], None) if array.grows => Some((regular(*steps, *count), 1)),
        ([count, width], None) => is_small(*width).then(|| (vec![(0.0, 0, *count)], *width)),
        ([steps, count, width], None) if array.grows && is_small(*width) => {
            Some((regular(*steps, *count), *width))
        }
        _ => None,
    }
}

/// The last part of the name of a field.
fn last_name(name: &str) -> &str {
    name.rsplit(['.', '/']).next().unwrap_or(name)
}

impl ParticleField {
    fn is_float(&self) -> bool {
        matches!(self.field.number, NumberType::F32 | NumberType::F64)
    }

    fn is_called(&self, wanted: &str) -> bool {
        let own = self.field.array.name.trim_matches('/');
        own == wanted.trim_matches('/') || self.name == wanted
    }

    /// Whether two fields belong to the same particles: of one array of records, or of arrays with the same named dimension.
    fn is_beside(&self, other: &Self) -> bool {
        let dimension = |field: &Self| field.field.array.dimensions.first().cloned().unwrap_or_default();
        self.array == other.array || (!dimension(self).is_empty() && dimension(self) == dimension(other))
    }
}

/// Takes the fields with the coordinates out: a field of two or three numbers, or x, y and z.
fn take_positions(all: &mut Vec<ParticleField>, wanted: Option<&str>) -> Vec<ParticleField> {
    let is_position = |field: &ParticleField| match wanted {
        Some(wanted) => field.is_called(wanted),
        None => {
            let name = last_name(&field.name).to_lowercase();
            field.width > 1 && POSITIONS.contains(&name.as_str())
        }
    };
    let found = all.iter().position(|field| field.width <= 3 && field.is_float() && is_position(field));
    if let Some(at) = found {
        return vec![all.remove(at)];
    }
    if wanted.is_some() {
        return Vec::new();
    }
    let coordinate = |name: &str, beside: Option<&ParticleField>| {
        let fits = |field: &&ParticleField| {
            field.width == 1
                && field.is_float()
                && last_name(&field.name) == name
                && beside
                    .is_none_or(|other| field.is_beside(other) && field.field.number == other.field.number)
        };
        all.iter().find(fits)
    };
    let Some(x) = coordinate(COORDINATES[0], None) else { return Vec::new() };
    let names: Vec<String> = COORDINATES
        .iter()
        .map_while(|name| Some(coordinate(name, Some(x))?.field.array.name.clone()))
        .collect();
    if names.len() < 2 {
        return Vec::new();
    }
    let (mut positions, others) = std::mem::take(all)
        .into_iter()
        .partition::<Vec<_>, _>(|field| names.contains(&field.field.array.name));
    *all = others;
    positions.sort_by_key(|field| names.iter().position(|name| *name == field.field.array.name));
    positions
}

impl<'f> Particles<'f> {
    /// The particles of these arrays, if the new file is a VTKHDF file and one of them has positions.
    pub(super) fn find(
        from: &'f dyn ArrayFile,
        chosen: &[usize],
        arguments: &ConvertArguments,
    ) -> Result<Option<Self>> {
        let wanted = arguments.positions.as_deref();
        if extension_of(&arguments.to) != "vtkhdf" {
            return match wanted {
                None => Ok(None),
                Some(_) => bail!("--positions is for files of VTKHDF: choose a name that ends with .vtkhdf"),
            };
        }
        let mut all: Vec<ParticleField> = Vec::new();
        for at in chosen {
            let array = &from.arrays()[*at];
            let Some((_, inner)) = steps_of(from, *at).filter(|_| array.element.parts.is_some()) else {
                continue;
            };
            for field in fields_of(array).into_iter().filter(|field| field.number != NumberType::Char) {
                let (width, whole) = (inner * field.components(), &field.array.name);
                // One array of records: the names of its fields are enough.
                let short = whole.strip_prefix(&format!("{}.", array.name)).filter(|_| chosen.len() == 1);
                let name = short.unwrap_or(whole).trim_matches('/').replace('/', ".");
                all.push(ParticleField { array: *at, field, name, width });
            }
        }
        let positions = take_positions(&mut all, wanted);
        let Some(first) = positions.first() else {
            return match wanted {
                None => Ok(None),
                Some(wanted) => bail!("{wanted:?} is no field of one to three f32 or f64 for each particle"),
            };
        };
        let steps = steps_of(from, first.array).map(|(steps, _)| steps).unwrap_or_default();
        let (fields, others): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|field| steps_of(from, field.array).is_some_and(|(own, _)| own == steps));
        let mut lost = from.omissions();
        let omitted =
            |name: &str| format!("the array {name:?} is omitted: it has no value for each particle");
        lost.extend(others.iter().map(|field| omitted(&field.field.array.name)));
        let is_used =
            |at: &usize| fields.iter().chain(&positions).chain(&others).any(|field| field.array == *at);
        let unused = chosen.iter().filter(|at| !is_used(at));
        lost.extend(unused.map(|at| omitted(&from.arrays()[*at].name)));
        if chosen.iter().any(|at| !from.arrays()[*at].attributes.is_empty()) {
            lost.push("fields of VTKHDF have no attributes: all are omitted".to_owned());
        }
        Ok(Some(Self { from, steps, positions, fields, lost }))
    }

    /// Writes the file; what is lost, a line each. A step is in the memory of the ranks together. Collective.
    pub(super) fn write(self, world: &Comm, to: &OsStr) -> Result<Vec<String>> {
        agree(world, self.from.prepare())?;
        let mut series = ParticleSeries::create(world, to)?;
        let written = self.write_steps(world, &mut series);
        let closed = written.and_then(|()| agree(world, series.close().map_err(anyhow::Error::from)));
        if closed.is_err() && world.rank() == 0 {
            let _ = aqueduct::file::delete(to);
        }
        closed.with_context(|| format!("writing {}", to.display()))?;
        Ok(self.lost)
    }

    fn write_steps(&self, world: &Comm, series: &mut ParticleSeries) -> Result<()> {
        let bar = progress_bar(world, self.steps.iter().map(|(_, _, count)| count).sum());
        let readers = self.from.readers().clamp(1, world.size()) as u64;
        let rank = (world.rank() as u64).min(readers);
        for (time, first, count) in &self.steps {
            let share = |rank: u64| first + count * rank / readers;
            let mine = (share(rank), share((rank + 1).min(readers)) - share(rank));
            let read = agree(world, self.read(mine))?;
            let (positions, values) = read.split_at(self.positions.len());
            let fields: Vec<PointField<'_>> = self
                .fields
                .iter()
                .zip(values)
                .map(|(field, bytes)| {
                    let number = array_file::as_datatype(field.field.number);
                    let datatype =
                        if field.width > 1 { Datatype::Array(Box::new(number), field.width) } else { number };
                    PointField::of_bytes(&field.name, datatype, bytes)
                })
                .collect();
            let is_double = self.positions.iter().any(|field| field.field.number == NumberType::F64);
            if is_double {
                series.write(*time, &self.points(positions, f64::from_le_bytes), &fields)?;
            } else {
                series.write(*time, &self.points(positions, f32::from_le_bytes), &fields)?;
            }
            bar.inc(*count);
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// The values of the positions and of the fields of some particles.
    fn read(&self, (first, count): (u64, u64)) -> Result<Vec<Vec<u8>>> {
        let mut last: Option<(usize, Vec<u8>)> = None;
        let mut values = Vec::new();
        for field in self.positions.iter().chain(&self.fields) {
            let array = &self.from.arrays()[field.array];
            // The fields of an array of records follow one another.
            let bytes = match last.take() {
                Some((at, bytes)) if at == field.array => bytes,
                _ if count == 0 => Vec::new(),
                _ => self.from.read(field.array, &part_of(array, field, first, count))?,
            };
            values.push(field.field.extract(&bytes, array.element.size));
            last = Some((field.array, bytes));
        }
        Ok(values)
    }

    /// Positions of three coordinates; missing ones are 0.
    fn points<T: Default + Copy, const N: usize>(
        &self,
        values: &[Vec<u8>],
        number: impl Fn([u8; N]) -> T,
    ) -> Vec<[T; 3]> {
        let widths: Vec<usize> = self.positions.iter().map(|field| field.width as usize).collect();
        let count = values.first().zip(widths.first()).map_or(0, |(bytes, width)| bytes.len() / (N * width));
        let mut points = vec![[T::default(); 3]; count];
        let mut component = 0;
        for (bytes, width) in values.iter().zip(widths) {
            for (point, numbers) in points.iter_mut().zip(bytes.as_chunks::<N>().0.chunks_exact(width)) {
                for (to, from) in point[component..].iter_mut().zip(numbers) {
                    *to = number(*from);
                }
            }
            component += width;
        }
        points
    }
}

/// The part of an array that has some particles of one step.
fn part_of(array: &Array, field: &ParticleField, first: u64, count: u64) -> ArrayPart {
    // Numbers of a particle that are elements of their own.
    let inner = field.width / field.field.components();
    let shape = &array.shape;
    let particles = if inner > 1 { shape.len() - 1 } else { shape.len() };
    let (mut start, mut counts) = match particles {
        1 => (vec![first], vec![count]),
        _ => (vec![first / shape[1], first % shape[1]], vec![1, count]),
    };
    if inner > 1 {
        start.push(0);
        counts.push(inner);
    }
    ArrayPart { slab: Hyperslab { start, count: counts }, first: first * inner, count: count * inner }
}
