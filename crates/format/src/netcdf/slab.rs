//! Slabs: which part of a variable.

use std::ops::Range;

use super::geometry::Extent;
use super::header::Variable;
use super::region::{Region, Step};

/// A part of a variable: all of it, a block, or a block with strides.
///
/// ```
/// use aqueduct_format::netcdf::Slab;
///
/// let whole = Slab::whole();
/// let block = Slab::from([0..1, 10..20]);
/// assert_eq!(block, Slab::block([0, 10], [1, 10]));
/// // Every second of them.
/// let every_second = Slab::block([0, 10], [1, 5]).stride([1, 2]);
/// # let _ = (whole, every_second);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slab(Part);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Record(u64),
    Block { start: Vec<u64>, count: Vec<u64>, stride: Option<Vec<u64>> },
}

impl Slab {
    /// All of it. Of a variable with records: as many as there are, or, written, as many as there are values for.
    pub fn whole() -> Self {
        Self(Part::Whole)
    }

    /// One record.
    pub fn record(number: u64) -> Self {
        Self(Part::Record(number))
    }

    /// One value.
    pub fn value(at: impl Into<Vec<u64>>) -> Self {
        let start = at.into();
        let count = vec![1; start.len()];
        Self(Part::Block { start, count, stride: None })
    }

    /// A block: where it starts and how many there are in each dimension. No values are a part too.
    pub fn block(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self(Part::Block { start: start.into(), count: count.into(), stride: None })
    }

    /// The same number of values of a block, so far apart in each dimension. All of a variable has no strides.
    #[must_use]
    pub fn stride(self, strides: impl Into<Vec<u64>>) -> Self {
        let strides = strides.into();
        Self(match self.0 {
            Part::Block { start, count, .. } => Part::Block { start, count, stride: Some(strides) },
            // Refused when it is used: the variable is known then.
            _ => Part::Block { start: Vec::new(), count: Vec::new(), stride: Some(strides) },
        })
    }
}

/// Of a variable with one dimension.
impl From<Range<u64>> for Slab {
    fn from(range: Range<u64>) -> Self {
        Self::from([range])
    }
}

impl<const N: usize> From<[Range<u64>; N]> for Slab {
    fn from(ranges: [Range<u64>; N]) -> Self {
        Self::from(&ranges[..])
    }
}

impl From<&[Range<u64>]> for Slab {
    fn from(ranges: &[Range<u64>]) -> Self {
        let start: Vec<u64> = ranges.iter().map(|range| range.start).collect();
        let count: Vec<u64> = ranges.iter().map(|range| range.end.saturating_sub(range.start)).collect();
        Self::block(start, count)
    }
}

/// A variable and what is known of it.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) variable: &'a Variable,
    pub(crate) extent: &'a Extent,
    /// From one record to the next.
    pub(crate) record: u64,
    /// How many records may be accessed: those there are, or all there could be.
    pub(crate) records: u64,
}

/// A part of a variable as bytes of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    /// None without values.
    pub(crate) region: Option<Region>,
    /// The number of records that there are at least if it is written.
    pub(crate) records: u64,
}

impl Slab {
    /// How many values this part has, to be read.
    pub(crate) fn values(&self, target: Target<'_>) -> Result<u64, String> {
        let (_, count, _) = self.resolve(target, false, 0)?;
        let values = count.iter().try_fold(1u64, |all, count| all.checked_mul(*count));
        values.ok_or_else(|| format!("the part of variable {:?} is larger than memory", target.variable.name))
    }

    /// The bytes of this part, which is to have so many values.
    pub(crate) fn cut(&self, target: Target<'_>, writes: bool, values: u64) -> Result<Cut, String> {
        let Target { variable, extent, .. } = target;
        let name = &variable.name;
        let (start, count, stride) = self.resolve(target, writes, values)?;
        let wanted = count.iter().try_fold(1u64, |all, count| all.checked_mul(*count));
        if wanted != Some(values) {
            let wanted = wanted.map_or("more than memory holds".to_owned(), |wanted| wanted.to_string());
            return Err(format!(
                "the part of variable {name:?} has {wanted} values ({count:?}), {values} were given"
            ));
        }
        let unlimited = extent.is_record.then_some(target.records);
        let lengths = unlimited.into_iter().chain(extent.lengths.iter().copied());
        for (dimension, length) in lengths.enumerate() {
            let (start, count, stride) = (start[dimension], count[dimension], stride[dimension]);
            check(start, count, stride, length)
                .map_err(|what| format!("dimension {dimension} of variable {name:?}: {what}"))?;
        }
        if values == 0 {
            return Ok(Cut { region: None, records: 0 });
        }
        let strides = strides_of(variable.kind.size(), extent, target.record);
        let offset = start.iter().zip(&strides).try_fold(variable.begin, |at, (start, stride)| {
            at.checked_add(start.checked_mul(*stride)?).filter(|at| i64::try_from(*at).is_ok())
        });
        let steps: Option<Vec<Step>> = (0..count.len())
            .map(|at| Some(Step { count: count[at], stride: strides[at].checked_mul(stride[at])? }))
            .collect();
        let region = offset.zip(steps).and_then(|(offset, steps)| {
            let mut last = offset;
            for step in &steps {
                last = last.checked_add((step.count - 1).checked_mul(step.stride)?)?;
            }
            last.checked_add(variable.kind.size()).filter(|last| *last < i64::MAX as u64)?;
            Region::new(offset, steps, variable.kind.size())
        });
        let region =
            region.ok_or_else(|| format!("the part of variable {name:?} reaches behind every file"))?;
        let records = if extent.is_record { start[0] + (count[0] - 1) * stride[0] + 1 } else { 0 };
        Ok(Cut { region: Some(region), records })
    }

    /// Start, count and stride in each dimension.
    #[expect(clippy::type_complexity, reason = "three lists, taken apart at once")]
    fn resolve(
        &self,
        target: Target<'_>,
        writes: bool,
        values: u64,
    ) -> Result<(Vec<u64>, Vec<u64>, Vec<u64>), String> {
        let Target { variable, extent, records, .. } = target;
        let (name, rank) = (&variable.name, variable.dimensions.len());
        let per_record = extent.size / variable.kind.size();
        let (start, count) = match &self.0 {
            Part::Whole => {
                let records = if writes { values.div_ceil(per_record) } else { records };
                let records = extent.is_record.then_some(records);
                (vec![0; rank], records.into_iter().chain(extent.lengths.iter().copied()).collect())
            }
            Part::Record(_) if !extent.is_record => {
                return Err(format!(
                    "variable {name:?} has no records: its first dimension is not unlimited"
                ));
            }
            Part::Record(number) => {
                let start = std::iter::once(*number).chain(extent.lengths.iter().map(|_| 0)).collect();
                (start, std::iter::once(1).chain(extent.lengths.iter().copied()).collect())
            }
            Part::Block { start, count, .. } => (start.clone(), count.clone()),
        };
        let stride = match &self.0 {
            Part::Block { stride: Some(stride), .. } => stride.clone(),
            _ => vec![1; rank],
        };
        if [start.len(), count.len(), stride.len()] != [rank; 3] {
            return Err(format!(
                "variable {name:?} has {rank} dimensions; give as many starts, counts and strides"
            ));
        }
        Ok((start, count, stride))
    }
}

fn check(start: u64, count: u64, stride: u64, length: u64) -> Result<(), String> {
    if stride == 0 {
        return Err("a stride of 0 takes one value again and again; it is at least 1".to_owned());
    }
    let last = count.saturating_sub(1).checked_mul(stride).and_then(|by| start.checked_add(by));
    let inside = if count == 0 { start <= length } else { last.is_some_and(|last| last < length) };
    if inside {
        return Ok(());
    }
    let by = if stride == 1 { String::new() } else { format!(", every {stride}th") };
    Err(format!("{count} from {start} on{by} reach over its length of {length}"))
}

/// Bytes from one to the next in each dimension.
fn strides_of(size: u64, extent: &Extent, record: u64) -> Vec<u64> {
    let mut strides = vec![size; extent.lengths.len()];
    for at in (1..extent.lengths.len()).rev() {
        strides[at - 1] = strides[at] * extent.lengths[at];
    }
    if extent.is_record {
        strides.insert(0, record);
    }
    strides
}
