//! Slabs: which part of a variable or dataset. Pure.

use std::ops::Range;

use smallvec::SmallVec;

/// One for each dimension: few, mostly, which need no memory of their own.
pub(crate) type PerDimension<T> = SmallVec<[T; 4]>;

/// A part of a variable or dataset: all of it, a block, or a block with strides.
///
/// ```
/// use aqueduct_formats::netcdf::Hyperslab;
///
/// let whole = Hyperslab::whole();
/// let block = Hyperslab::from([0..1, 10..20]);
/// assert_eq!(block, Hyperslab::block([0, 10], [1, 10]));
/// // Every second of them.
/// let every_second = Hyperslab::block([0, 10], [1, 5]).stride([1, 2]);
/// # let _ = (whole, every_second);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hyperslab(HyperslabSelection);

#[derive(Clone, Debug, PartialEq, Eq)]
enum HyperslabSelection {
    Whole,
    Record(u64),
    Block { start: PerDimension<u64>, count: PerDimension<u64>, stride: Option<PerDimension<u64>> },
}

impl Hyperslab {
    /// All of it. Of a variable with records: as many as there are, or, written, as many as there are values for.
    pub fn whole() -> Self {
        Self(HyperslabSelection::Whole)
    }

    /// One record.
    pub fn record(number: u64) -> Self {
        Self(HyperslabSelection::Record(number))
    }

    /// One value.
    pub fn value(at: impl Into<Vec<u64>>) -> Self {
        let start = PerDimension::from_vec(at.into());
        let count = PerDimension::from_elem(1, start.len());
        Self(HyperslabSelection::Block { start, count, stride: None })
    }

    /// A block: where it starts and how many there are in each dimension. No values are a part too.
    pub fn block(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        let (start, count) = (PerDimension::from_vec(start.into()), PerDimension::from_vec(count.into()));
        Self(HyperslabSelection::Block { start, count, stride: None })
    }

    /// The same number of values of a block, so far apart in each dimension. All of a variable has no strides.
    #[must_use]
    pub fn stride(self, strides: impl Into<Vec<u64>>) -> Self {
        let strides = PerDimension::from_vec(strides.into());
        Self(match self.0 {
            HyperslabSelection::Block { start, count, .. } => {
                HyperslabSelection::Block { start, count, stride: Some(strides) }
            }
            // Refused when it is used: the variable is known then.
            _ => HyperslabSelection::Block {
                start: PerDimension::new(),
                count: PerDimension::new(),
                stride: Some(strides),
            },
        })
    }
}

/// Of a variable with one dimension.
impl From<Range<u64>> for Hyperslab {
    fn from(range: Range<u64>) -> Self {
        Self::from([range])
    }
}

impl<const N: usize> From<[Range<u64>; N]> for Hyperslab {
    fn from(ranges: [Range<u64>; N]) -> Self {
        Self::from(&ranges[..])
    }
}

impl From<&[Range<u64>]> for Hyperslab {
    fn from(ranges: &[Range<u64>]) -> Self {
        let start = ranges.iter().map(|range| range.start).collect();
        let count = ranges.iter().map(|range| range.end.saturating_sub(range.start)).collect();
        Self(HyperslabSelection::Block { start, count, stride: None })
    }
}

/// What a part is cut from.
#[derive(Clone, Copy)]
pub(crate) struct ArrayBounds<'a> {
    /// A variable or a dataset.
    pub(crate) what: &'static str,
    pub(crate) name: &'a str,
    /// How far it may be accessed in each dimension.
    pub(crate) lengths: &'a [u64],
    /// Whether its first dimension grows with what is written.
    pub(crate) extendible: bool,
}

/// A part with all its numbers, inside its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedHyperslab {
    pub(crate) start: PerDimension<u64>,
    pub(crate) count: PerDimension<u64>,
    pub(crate) stride: PerDimension<u64>,
}

impl ResolvedHyperslab {
    /// How many values it has, if that is a number.
    fn values(&self) -> Option<u64> {
        self.count.iter().try_fold(1u64, |all, count| all.checked_mul(*count))
    }

    /// Behind the last of the first dimension.
    pub(crate) fn rows(&self) -> u64 {
        match (self.start.first(), self.count.first(), self.stride.first()) {
            (Some(start), Some(count), Some(stride)) if *count > 0 => start + (count - 1) * stride + 1,
            (None, ..) => 1,
            _ => 0,
        }
    }
}

impl Hyperslab {
    /// How many values this part has, to be read.
    pub(crate) fn values(&self, target: ArrayBounds<'_>) -> Result<u64, String> {
        let values = self.resolve(target, false, 0)?.values();
        values.ok_or_else(|| format!("the part of {} {:?} is larger than memory", target.what, target.name))
    }

    /// This part, which is to have so many values.
    pub(crate) fn resolve_checked(
        &self,
        target: ArrayBounds<'_>,
        writes: bool,
        values: u64,
    ) -> Result<ResolvedHyperslab, String> {
        let ArrayBounds { what, name, lengths, .. } = target;
        let block = self.resolve(target, writes, values)?;
        for (dimension, length) in lengths.iter().enumerate() {
            let (start, count, stride) =
                (block.start[dimension], block.count[dimension], block.stride[dimension]);
            check(start, count, stride, *length).map_err(|why| {
                let (start, count, shape) = (&block.start, &block.count, shown_shape(target, writes));
                format!(
                    "the block of {count:?} from {start:?} on is not inside of {what} {name:?} of shape {shape}: dimension {dimension}: {why}"
                )
            })?;
        }
        let wanted = block.values();
        if wanted != Some(values) {
            let wanted = wanted.map_or("more than memory holds".to_owned(), |wanted| wanted.to_string());
            let count = &block.count;
            return Err(format!(
                "the part of {what} {name:?} has {wanted} values ({count:?}), {values} were given"
            ));
        }
        Ok(block)
    }

    /// Start, count and stride in each dimension.
    fn resolve(
        &self,
        target: ArrayBounds<'_>,
        writes: bool,
        values: u64,
    ) -> Result<ResolvedHyperslab, String> {
        let ArrayBounds { what, name, lengths, extendible: grows } = target;
        let rank = lengths.len();
        let (start, count) = match &self.0 {
            HyperslabSelection::Whole => {
                let mut count = PerDimension::from_slice(lengths);
                if grows && writes {
                    let record = lengths[1..].iter().try_fold(1u64, |all, length| all.checked_mul(*length));
                    count[0] = values.div_ceil(record.unwrap_or(u64::MAX).max(1));
                }
                (PerDimension::from_elem(0, rank), count)
            }
            HyperslabSelection::Record(_) if !grows => {
                return Err(format!("{what} {name:?} has no records: its first dimension is not unlimited"));
            }
            HyperslabSelection::Record(number) => {
                let mut start = PerDimension::from_elem(0, rank);
                let mut count = PerDimension::from_slice(lengths);
                (start[0], count[0]) = (*number, 1);
                (start, count)
            }
            HyperslabSelection::Block { start, count, .. } => (start.clone(), count.clone()),
        };
        let stride = match &self.0 {
            HyperslabSelection::Block { stride: Some(stride), .. } => stride.clone(),
            _ => PerDimension::from_elem(1, rank),
        };
        if [start.len(), count.len(), stride.len()] != [rank; 3] {
            return Err(format!(
                "{what} {name:?} has {rank} dimensions; give as many starts, counts and strides"
            ));
        }
        Ok(ResolvedHyperslab { start, count, stride })
    }
}

/// The shape for people: what grows when it is written has no length of its own.
fn shown_shape(target: ArrayBounds<'_>, writes: bool) -> String {
    let length = |(at, length): (usize, &u64)| {
        if at == 0 && target.extendible && writes { "unlimited".to_owned() } else { length.to_string() }
    };
    format!("[{}]", target.lengths.iter().enumerate().map(length).collect::<Vec<_>>().join(", "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_outside_of_the_array_is_named_with_the_array_and_its_shape() {
        let target = ArrayBounds { what: "variable", name: "field", lengths: &[4, 6], extendible: false };
        // Whatever the number of values that come with it.
        for values in [4, 8] {
            let error = Hyperslab::block([3, 2], [2, 2]).resolve_checked(target, true, values).unwrap_err();
            let expected = "the block of [2, 2] from [3, 2] on is not inside of variable \"field\" of shape [4, 6]: \
                            dimension 0: 2 from 3 on reach over its length of 4";
            assert_eq!(error, expected);
        }
        let grows = ArrayBounds { extendible: true, lengths: &[u64::MAX, 6], ..target };
        let error = Hyperslab::block([0, 5], [1, 2]).resolve_checked(grows, true, 2).unwrap_err();
        assert!(error.contains("of shape [unlimited, 6]: dimension 1"), "{error}");
        let error = Hyperslab::block([0, 0], [2, 2]).resolve_checked(target, true, 8).unwrap_err();
        assert!(error.contains("has 4 values ([2, 2]), 8 were given"), "{error}");
    }
}
