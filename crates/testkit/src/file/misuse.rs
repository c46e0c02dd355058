//! x
use super::Entry;
pub(super) const CASES: &[Entry] = &[];
