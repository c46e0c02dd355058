//! Bounds: where a layout begins and ends for the purpose of placing copies side by side.

use super::error::Problem;
use super::pattern::Pattern;

/// Lower and upper bound of a layout.
///
/// Bounds are *natural* (they follow from the data) or *marked* (a resize set them). Marks outlive nesting, as the standard has it with its
/// marker types: where one part of a structure is marked, only the marked parts count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bounds {
    pub(crate) lower: i64,
    pub(crate) upper: i64,
    pub(crate) marked: bool,
}

impl Bounds {
    /// The bounds that follow from the data: its ends, rounded up so that copies side by side stay aligned.
    pub(crate) fn natural(pattern: &Pattern) -> Result<Self, Problem> {
        let (lower, upper) = (pattern.lowest(), pattern.highest());
        let extent = upper.checked_sub(lower).ok_or(Problem::TooLarge)?;
        let padding = (pattern.alignment() - extent % pattern.alignment()) % pattern.alignment();
        let upper = upper.checked_add(padding).ok_or(Problem::TooLarge)?;
        upper.checked_sub(lower).ok_or(Problem::TooLarge)?;
        Ok(Self { lower, upper, marked: false })
    }

    /// Bounds that were set explicitly.
    pub(crate) fn marked(lower: i64, upper: i64) -> Result<Self, Problem> {
        upper.checked_sub(lower).ok_or(Problem::TooLarge)?;
        Ok(Self { lower, upper, marked: true })
    }

    pub(crate) fn extent(self) -> i64 {
        self.upper - self.lower
    }
}

/// The lowest and the highest displacement of the copies of a layout; nothing if there is no copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PlaceBounds(Option<(i128, i128)>);

impl PlaceBounds {
    /// Adds `count` copies from `displacement` on, `step` apart.
    pub(crate) fn add(&mut self, displacement: i128, count: u64, step: i64) {
        if count > 0 {
            let last = displacement + i128::from(count - 1) * i128::from(step);
            let (low, high) = (displacement.min(last), displacement.max(last));
            self.0 = Some(self.0.map_or((low, high), |(l, h)| (l.min(low), h.max(high))));
        }
    }

    /// Marked bounds at these places; nothing if there is no place or nothing is marked.
    pub(crate) fn marked(self, bounds: Bounds) -> Result<Option<Bounds>, Problem> {
        let Some((low, high)) = self.0.filter(|_| bounds.marked) else {
            return Ok(None);
        };
        let fit = |value: i128| i64::try_from(value).map_err(|_| Problem::TooLarge);
        let lower = fit(low + i128::from(bounds.lower))?;
        Bounds::marked(lower, fit(high + i128::from(bounds.upper))?).map(Some)
    }
}
