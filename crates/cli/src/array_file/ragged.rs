//! Variable-size objects as arrays: the values of all objects one after another, and how many each object has, as the contiguous ragged
//! arrays of the CF conventions (section 9.3.3). The attribute `sample_dimension` of the counts names the dimension of the values.

use std::ops::Range;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct::object::schema::{ColumnKind, ObjectColumn, ObjectColumns, Type};
use aqueduct::object::{DynObjectFile, FileProvenance, Schema};

use super::{
    Array, ArrayFile, ArrayPart, AttributeValue, ElementType, Finding, NamedAttribute, NumberType,
    SharedDimension, VerifyDepth, object,
};
use crate::parallel::agree;

/// Objects that are read at once.
const OBJECTS_AT_ONCE: u64 = 256;
/// The dimension of the objects.
const INSTANCES: &str = "object";
const SAMPLE_DIMENSION: &str = "sample_dimension";

/// An object file of variable-size objects as arrays.
pub(super) struct RaggedArrayFile {
    file: DynObjectFile,
    columns: ObjectColumns,
    objects: u64,
    arrays: Vec<Array>,
    sources: Vec<RaggedSource>,
    /// By column: the number of values before each block of [`OBJECTS_AT_ONCE`] objects, and their number at the end.
    before: Vec<Vec<u64>>,
}

/// What an array has.
#[derive(Clone, Copy, Debug)]
struct RaggedSource {
    values: RaggedValues,
    /// Elements that are one value: the numbers of an array.
    inner: u64,
}

/// What the values of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RaggedValues {
    /// One value of each object, of this column.
    Single(usize),
    /// All values of all objects.
    List(usize),
    /// The number of values of each object.
    Counts(usize, NumberType),
}

impl RaggedArrayFile {
    /// Counts the values of all objects; the ranks share the work. Collective.
    pub(super) fn new(world: &Comm, file: DynObjectFile) -> Result<Self> {
        let columns = ObjectColumns::of(file.schema());
        let objects = file.count()?;
        let (before, most) = agree(world, count_values(world, &file, &columns, objects))?;
        let mut ragged = Self { file, columns, objects, arrays: Vec::new(), sources: Vec::new(), before };
        for (at, column) in ragged.columns.columns().to_vec().iter().enumerate() {
            ragged.add_arrays(at, column, most[at]);
        }
        ensure!(!ragged.arrays.is_empty(), "no field of its objects can be stored as an array");
        Ok(ragged)
    }

    fn add_arrays(&mut self, at: usize, column: &ObjectColumn, most: u64) {
        let joint = if column.name.is_empty() { "" } else { "." };
        let name = format!("objects{joint}{}", column.name);
        let (element, inner) = match column.kind {
            ColumnKind::Text => (ElementType::number(NumberType::Char), None),
            ColumnKind::Single | ColumnKind::List => element_of(&column.value),
        };
        let mut add =
            |name: &str, (element, inner): (ElementType, Option<u64>), length, dimension: &str, values| {
                let component = inner.map(|_| format!("{name}.component"));
                self.sources.push(RaggedSource { values, inner: inner.unwrap_or(1) });
                self.arrays.push(Array {
                    dimensions: [dimension.to_owned()].into_iter().chain(component).collect(),
                    ..Array::new(name, element, [length].into_iter().chain(inner).collect())
                });
            };
        if column.kind == ColumnKind::Single {
            return add(&name, (element, inner), self.objects, INSTANCES, RaggedValues::Single(at));
        }
        let number = if i32::try_from(most).is_ok() { NumberType::I32 } else { NumberType::I64 };
        let samples = format!("{name}.sample");
        let length = self.before[at].last().copied().unwrap_or(0);
        let counts = (ElementType::number(number), None);
        add(&format!("{name}.count"), counts, self.objects, INSTANCES, RaggedValues::Counts(at, number));
        add(&name, (element, inner), length, &samples, RaggedValues::List(at));
        let counts = self.arrays.len() - 2;
        let named = NamedAttribute::new(SAMPLE_DIMENSION, AttributeValue::Text(samples));
        self.arrays[counts].attributes.push(named);
    }

    /// Calls `take` with the number of values and the bytes of a column of each of these objects.
    fn for_each(&self, column: usize, objects: Range<u64>, mut take: impl FnMut(u64, &[u8])) -> Result<()> {
        let mut next = objects.start;
        while next < objects.end {
            let until = objects.end.min(next + OBJECTS_AT_ONCE);
            for (number, bytes) in (next..).zip(self.file.read_each(next..until)?) {
                let of_column = |at: usize, count: u64, bytes: &[u8]| {
                    if at == column {
                        take(count, bytes);
                    }
                };
                self.columns.split(&bytes, of_column).with_context(|| format!("object {number}"))?;
            }
            next = until;
        }
        Ok(())
    }

    /// The bytes of these values of a list: those of the objects that have them.
    fn list_values(&self, column: usize, values: Range<u64>, size: u64) -> Result<Vec<u8>> {
        let before = &self.before[column];
        let block = |value: u64| before.partition_point(|first| *first <= value).saturating_sub(1) as u64;
        let (first, last) = (block(values.start), block(values.end.saturating_sub(1)));
        let skipped = before.get(first as usize).copied().unwrap_or(0);
        let mut wanted = (values.start - skipped) * size..(values.end - skipped) * size;
        let objects = first * OBJECTS_AT_ONCE..self.objects.min((last + 1) * OBJECTS_AT_ONCE);
        let mut found = Vec::with_capacity((wanted.end - wanted.start) as usize);
        self.for_each(column, objects, |_, bytes| {
            let length = bytes.len() as u64;
            found.extend_from_slice(
                &bytes[wanted.start.min(length) as usize..wanted.end.min(length) as usize],
            );
            wanted = wanted.start.saturating_sub(length)..wanted.end.saturating_sub(length);
        })?;
        Ok(found)
    }
}

/// The elements of values of a type, and how many one value has, if it is an array of numbers.
fn element_of(ty: &Type) -> (ElementType, Option<u64>) {
    if let Type::Array { of, len } = ty {
        let number = object::element(&Schema::new((**of).clone()));
        if number.as_number().is_some() && *len > 0 {
            return (number, Some(*len));
        }
    }
    (object::element(&Schema::new(ty.clone())), None)
}

/// By column, the numbers of values before each block, and the largest number of an object. Collective.
fn count_values(
    world: &Comm,
    file: &DynObjectFile,
    columns: &ObjectColumns,
    objects: u64,
) -> Result<(Vec<Vec<u64>>, Vec<u64>)> {
    let width = columns.columns().len();
    let blocks = objects.div_ceil(OBJECTS_AT_ONCE);
    let share = blocks.div_ceil(world.size() as u64);
    let mine = (world.rank() as u64 * share).min(blocks)..((world.rank() as u64 + 1) * share).min(blocks);
    // One after another: the numbers of values of each column in a block.
    let (mut sums, mut most) = (Vec::new(), vec![0; width]);
    let mut count = || {
        for block in mine.clone() {
            let objects = block * OBJECTS_AT_ONCE..objects.min((block + 1) * OBJECTS_AT_ONCE);
            let mut of_block = vec![0u64; width];
            for (number, bytes) in objects.clone().zip(file.read_each(objects)?) {
                let add = |at: usize, count: u64, _: &[u8]| {
                    of_block[at] += count;
                    most[at] = count.max(most[at]);
                };
                columns.split(&bytes, add).with_context(|| format!("object {number}"))?;
            }
            sums.extend(of_block);
        }
        anyhow::Ok(())
    };
    let counted = count();
    agree(world, counted)?;
    let sums = world.allgather_varied(&sums)?.concat();
    let most =
        most.iter().map(|most| world.allreduce_one(Op::Max, *most)).collect::<Result<Vec<u64>, _>>()?;
    let of_column = |column: usize| {
        let mut total = 0;
        let counts = sums.iter().skip(column).step_by(width.max(1));
        let ends = counts.map(|count| {
            total += count;
            total
        });
        std::iter::once(0).chain(ends).collect()
    };
    Ok(((0..width).map(of_column).collect(), most))
}

impl ArrayFile for RaggedArrayFile {
    fn format(&self) -> String {
        "object file, fields as arrays".to_owned()
    }

    fn arrays(&self) -> &[Array] {
        &self.arrays
    }

    fn dimensions(&self) -> Vec<SharedDimension> {
        let shared =
            |(name, length): (&String, u64)| SharedDimension { name: name.clone(), length, grows: false };
        let mut all: Vec<SharedDimension> = Vec::new();
        for array in &self.arrays {
            for dimension in array.dimensions.iter().zip(array.shape.iter().copied()).map(shared) {
                if !all.contains(&dimension) {
                    all.push(dimension);
                }
            }
        }
        all
    }

    fn omissions(&self) -> Vec<String> {
        let why = "it has lists in lists, variants with fields, or contains itself";
        self.columns.omitted().iter().map(|field| format!("the field {field:?} is omitted: {why}")).collect()
    }

    fn written_by(&self) -> Option<FileProvenance> {
        self.file.written_by()
    }

    fn read(&self, array: usize, part: &ArrayPart) -> Result<Vec<u8>> {
        let RaggedSource { values, inner } = self.sources[array];
        let element = self.arrays[array].element.size;
        let wanted = part.elements();
        let of_values = wanted.start / inner..wanted.end.div_ceil(inner);
        let skipped = ((wanted.start - of_values.start * inner) * element) as usize;
        let mut bytes = Vec::with_capacity((part.count * element) as usize);
        match values {
            RaggedValues::Counts(column, number) => self.for_each(column, of_values, |count, _| {
                bytes.extend_from_slice(&count.to_le_bytes()[..number.size() as usize]);
            })?,
            RaggedValues::Single(column) => {
                self.for_each(column, of_values, |_, value| bytes.extend_from_slice(value))?;
            }
            RaggedValues::List(column) => bytes = self.list_values(column, of_values, inner * element)?,
        }
        let found = bytes.get(skipped..skipped + (part.count * element) as usize);
        Ok(found.with_context(|| format!("{} has changed", self.arrays[array].name))?.to_vec())
    }

    fn has_checksums(&self) -> bool {
        true
    }

    fn findings(&self, _: VerifyDepth) -> Result<Vec<Finding>> {
        Ok(Vec::new())
    }
}
