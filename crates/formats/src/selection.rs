//! Selections: the values of a variable or dataset that an access reads or writes. Pure.

use std::ops::Range;

use aqueduct_file::hyperslab::{Hyperslab, volume};
use smallvec::SmallVec;

/// One value per dimension; up to four need no allocation.
pub(crate) type PerDimension<T> = SmallVec<[T; 4]>;

/// The values of a variable or dataset that an access reads or writes: all of them, a record, or a
/// [`Hyperslab`], with strides if needed.
///
/// ```
/// use aqueduct_formats::netcdf::Selection;
///
/// let whole = Selection::whole();
/// let block = Selection::from([0..1, 10..20]);
/// assert_eq!(block, Selection::block([0, 10], [1, 10]));
/// // Every second value.
/// let every_second = Selection::block([0, 10], [1, 5]).stride([1, 2]);
/// # let _ = (whole, every_second);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection(SelectionKind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SelectionKind {
    Whole,
    Record(u64),
    Block(Hyperslab, Option<PerDimension<u64>>),
}

impl Selection {
    /// All values. Of a variable with records: all records that exist, or, in a write, the number of
    /// records that the values fill.
    pub fn whole() -> Self {
        Self(SelectionKind::Whole)
    }

    /// One record.
    pub fn record(number: u64) -> Self {
        Self(SelectionKind::Record(number))
    }

    /// One value.
    pub fn value(at: impl Into<Vec<u64>>) -> Self {
        let start = at.into();
        let count = vec![1; start.len()];
        Self::from(Hyperslab { start, count })
    }

    /// A hyperslab: its start and count in each dimension. It may be empty.
    pub fn block(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self::from(Hyperslab::new(start, count))
    }

    /// The same with all of one more dimension, the last one; none for a record.
    #[cfg(feature = "hdf5")]
    pub(crate) fn with_dimension(self, length: u64) -> Option<Self> {
        match self.0 {
            SelectionKind::Whole => Some(self),
            SelectionKind::Record(_) => None,
            SelectionKind::Block(mut slab, strides) => {
                slab.start.push(0);
                slab.count.push(length);
                let strides = strides.map(|strides| strides.into_iter().chain([1]).collect());
                Some(Self(SelectionKind::Block(slab, strides)))
            }
        }
    }

    /// The same number of values, this distance apart in each dimension. Only a block has strides.
    #[must_use]
    pub fn stride(self, strides: impl Into<Vec<u64>>) -> Self {
        let strides = Some(PerDimension::from_vec(strides.into()));
        Self(match self.0 {
            SelectionKind::Block(slab, _) => SelectionKind::Block(slab, strides),
            // The access returns the error, because it knows the variable.
            _ => SelectionKind::Block(Hyperslab::default(), strides),
        })
    }
}

impl From<Hyperslab> for Selection {
    fn from(slab: Hyperslab) -> Self {
        Self(SelectionKind::Block(slab, None))
    }
}

/// Of a variable with one dimension.
impl From<Range<u64>> for Selection {
    fn from(range: Range<u64>) -> Self {
        Self::from([range])
    }
}

impl<const N: usize> From<[Range<u64>; N]> for Selection {
    fn from(ranges: [Range<u64>; N]) -> Self {
        Self::from(Hyperslab::from(ranges))
    }
}

impl From<&[Range<u64>]> for Selection {
    fn from(ranges: &[Range<u64>]) -> Self {
        Self::from(Hyperslab::from(ranges))
    }
}

/// The variable or dataset that values are selected from.
#[derive(Clone, Copy)]
pub(crate) struct ArrayBounds<'a> {
    /// `variable` or `dataset`.
    pub(crate) what: &'static str,
    pub(crate) name: &'a str,
    /// The length that may be accessed in each dimension.
    pub(crate) lengths: &'a [u64],
    /// Whether writes extend its first dimension.
    pub(crate) extendible: bool,
}

/// The values in memory of an access: their number, and their shape if they are an array.
#[derive(Clone, Copy)]
pub(crate) struct ValueExtent<'a> {
    pub(crate) values: u64,
    pub(crate) shape: Option<&'a [usize]>,
}

impl From<usize> for ValueExtent<'_> {
    fn from(values: usize) -> Self {
        Self { values: values as u64, shape: None }
    }
}

#[cfg(any(test, feature = "hdf5"))]
impl From<u64> for ValueExtent<'_> {
    fn from(values: u64) -> Self {
        Self { values, shape: None }
    }
}

#[cfg(feature = "ndarray")]
impl<'a, T, D: ndarray::Dimension> From<&'a ndarray::ArrayRef<T, D>> for ValueExtent<'a> {
    fn from(array: &'a ndarray::ArrayRef<T, D>) -> Self {
        Self { values: array.len() as u64, shape: Some(array.shape()) }
    }
}

/// The start, count and stride of a selection, inside its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedSelection {
    pub(crate) start: PerDimension<u64>,
    pub(crate) count: PerDimension<u64>,
    pub(crate) stride: PerDimension<u64>,
}

impl ResolvedSelection {
    /// One past the last index of the first dimension.
    pub(crate) fn rows(&self) -> u64 {
        self.rows_along(0)
    }

    /// One past the last index of a dimension.
    pub(crate) fn rows_along(&self, dimension: usize) -> u64 {
        match (self.start.get(dimension), self.count.get(dimension), self.stride.get(dimension)) {
            (Some(start), Some(count), Some(stride)) if *count > 0 => start + (count - 1) * stride + 1,
            (None, ..) => 1,
            _ => 0,
        }
    }
}

impl Selection {
    /// The number of values that a read of this selection returns.
    pub(crate) fn values(&self, target: ArrayBounds<'_>) -> Result<u64, String> {
        let values = volume(&self.resolve(target, false, 0)?.count);
        values.ok_or_else(|| {
            format!("the selection of {} {:?} is larger than memory", target.what, target.name)
        })
    }

    /// The resolved selection; an error if it is not inside the target or does not have this number of
    /// values.
    pub(crate) fn resolve_checked(
        &self,
        target: ArrayBounds<'_>,
        writes: bool,
        ValueExtent { values, shape }: ValueExtent<'_>,
    ) -> Result<ResolvedSelection, String> {
        let ArrayBounds { what, name, lengths, .. } = target;
        let block = self.resolve(target, writes, values)?;
        for (dimension, length) in lengths.iter().enumerate() {
            let (start, count, stride) =
                (block.start[dimension], block.count[dimension], block.stride[dimension]);
            check(start, count, stride, *length).map_err(|why| {
                let (start, count, shape) = (&block.start, &block.count, shown_shape(target, writes));
                format!(
                    "the block of {count:?} from {start:?} on is not inside {what} {name:?} of shape {shape}: dimension {dimension}: {why}"
                )
            })?;
        }
        let is_equal = |(one, other): (&usize, &u64)| *one as u64 == *other;
        if let Some(shape) = shape
            && !(shape.len() == block.count.len() && shape.iter().zip(&block.count).all(is_equal))
        {
            let count = &block.count;
            return Err(format!(
                "the selection of {what} {name:?} has the shape {count:?}, the array in memory has the shape {shape:?}; they must be equal"
            ));
        }
        let wanted = volume(&block.count);
        if wanted != Some(values) {
            let wanted = wanted.map_or("more than memory holds".to_owned(), |wanted| wanted.to_string());
            let count = &block.count;
            return Err(format!(
                "the selection of {what} {name:?} has {wanted} values ({count:?}), {values} were given"
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
    ) -> Result<ResolvedSelection, String> {
        let ArrayBounds { what, name, lengths, extendible: grows } = target;
        let rank = lengths.len();
        let (start, count) = match &self.0 {
            SelectionKind::Whole => {
                let mut count = PerDimension::from_slice(lengths);
                if grows && writes {
                    let record = volume(&lengths[1..]);
                    count[0] = values.div_ceil(record.unwrap_or(u64::MAX).max(1));
                }
                (PerDimension::from_elem(0, rank), count)
            }
            SelectionKind::Record(_) if !grows => {
                return Err(format!("{what} {name:?} has no records: its first dimension is not unlimited"));
            }
            SelectionKind::Record(number) => {
                let mut start = PerDimension::from_elem(0, rank);
                let mut count = PerDimension::from_slice(lengths);
                (start[0], count[0]) = (*number, 1);
                (start, count)
            }
            SelectionKind::Block(slab, _) => {
                (PerDimension::from_slice(&slab.start), PerDimension::from_slice(&slab.count))
            }
        };
        let stride = match &self.0 {
            SelectionKind::Block(_, Some(stride)) => stride.clone(),
            _ => PerDimension::from_elem(1, rank),
        };
        if [start.len(), count.len(), stride.len()] != [rank; 3] {
            return Err(format!(
                "{what} {name:?} has {rank} dimensions; give as many starts, counts and strides"
            ));
        }
        Ok(ResolvedSelection { start, count, stride })
    }
}

/// The shape in an error message. The length of a dimension that a write extends is `unlimited`.
fn shown_shape(target: ArrayBounds<'_>, writes: bool) -> String {
    let length = |(at, length): (usize, &u64)| {
        if at == 0 && target.extendible && writes { "unlimited".to_owned() } else { length.to_string() }
    };
    format!("[{}]", target.lengths.iter().enumerate().map(length).collect::<Vec<_>>().join(", "))
}

fn check(start: u64, count: u64, stride: u64, length: u64) -> Result<(), String> {
    if stride == 0 {
        return Err("a stride of 0 selects one value repeatedly; give at least 1".to_owned());
    }
    let last = count.saturating_sub(1).checked_mul(stride).and_then(|by| start.checked_add(by));
    let inside = if count == 0 { start <= length } else { last.is_some_and(|last| last < length) };
    if inside {
        return Ok(());
    }
    let by = if stride == 1 { String::new() } else { format!(", every {stride}th") };
    Err(format!("{count} from {start} on{by} exceed its length of {length}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_block_outside_the_array_names_the_array_and_its_shape() {
        let target = ArrayBounds { what: "variable", name: "field", lengths: &[4, 6], extendible: false };
        // The number of values does not matter.
        for values in [4, 8] {
            let error = Selection::block([3, 2], [2, 2])
                .resolve_checked(target, true, u64::into(values))
                .unwrap_err();
            let expected = "the block of [2, 2] from [3, 2] on is not inside variable \"field\" of shape [4, 6]: \
                            dimension 0: 2 from 3 on exceed its length of 4";
            assert_eq!(error, expected);
        }
        let grows = ArrayBounds { extendible: true, lengths: &[u64::MAX, 6], ..target };
        let error = Selection::block([0, 5], [1, 2]).resolve_checked(grows, true, 2_u64.into()).unwrap_err();
        assert!(error.contains("of shape [unlimited, 6]: dimension 1"), "{error}");
        let error = Selection::block([0, 0], [2, 2]).resolve_checked(target, true, 8_u64.into()).unwrap_err();
        assert!(error.contains("has 4 values ([2, 2]), 8 were given"), "{error}");
    }
}
