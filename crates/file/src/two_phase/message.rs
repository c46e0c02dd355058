//! What ranks and aggregators send each other.

use std::ops::Range;

use crate::layout::Pattern;

/// Runs of the file, in ascending order.
pub(crate) struct Runs(Vec<[u64; 2]>);

impl Runs {
    /// The runs of a window of data bytes.
    pub(crate) fn of(pattern: &Pattern, window: Range<u64>) -> Self {
        if window.is_empty() {
            return Self(Vec::new());
        }
        Self(pattern.runs(window).map(|run| [run.offset as u64, run.len]).collect())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|[start, len]| *start..start + len)
    }

    /// Number of runs, runs, data. A rank that has none says nothing at all.
    pub(crate) fn encode(&self, data: &[u8]) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut bytes = Vec::with_capacity(8 + 16 * self.0.len() + data.len());
        bytes.extend_from_slice(&(self.0.len() as u64).to_ne_bytes());
        bytes.extend_from_slice(bytemuck::cast_slice(&self.0));
        bytes.extend_from_slice(data);
        bytes
    }

    /// The runs, and the data behind them.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let Some((count, rest)) = bytes.split_first_chunk() else { return Some((Self(Vec::new()), &[])) };
        let count = usize::try_from(u64::from_ne_bytes(*count)).ok()?;
        let (runs, data) = rest.split_at_checked(count.checked_mul(16)?)?;
        let runs = Self(bytemuck::pod_collect_to_vec(runs));
        let total: u64 = runs.0.iter().map(|[_, len]| *len).sum();
        (data.is_empty() || data.len() as u64 == total).then_some((runs, data))
    }
}

/// The data of `runs`, picked out of what was read from `start` on, as far as the file goes.
pub(crate) fn pick(runs: &Runs, start: u64, there: &[u8]) -> Vec<u8> {
    let mut picked = Vec::new();
    for run in runs.iter() {
        let from = ((run.start - start) as usize).min(there.len());
        let until = ((run.end - start) as usize).min(there.len());
        picked.extend_from_slice(&there[from..until]);
    }
    picked
}
