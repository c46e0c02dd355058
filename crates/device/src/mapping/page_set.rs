//! A concurrent set of pages that only grows.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// One bit for each page.
#[derive(Debug)]
pub(super) struct PageSet(Box<[AtomicU64]>);

impl PageSet {
    pub(super) fn new(pages: usize) -> Self {
        Self((0..pages.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(super) fn add(&self, pages: &Range<usize>) {
        for (word, bits) in words(pages) {
            self.0[word].fetch_or(bits, Ordering::Relaxed);
        }
    }

    /// Whether all of these were added.
    pub(super) fn contains(&self, pages: &Range<usize>) -> bool {
        words(pages).all(|(word, bits)| self.0[word].load(Ordering::Relaxed) & bits == bits)
    }
}

/// The words that a range touches, and its bits in each.
fn words(pages: &Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    let pages = pages.clone();
    (pages.start / 64..pages.end.div_ceil(64)).map(move |word| {
        let first = pages.start.max(word * 64) % 64;
        let len = pages.end.min(word * 64 + 64) - pages.start.max(word * 64);
        (word, (u64::MAX >> (64 - len)) << first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_contains_exactly_the_added_pages() {
        let set = PageSet::new(300);
        let mut model = [false; 300];
        for range in [3..5, 60..70, 64..128, 130..131, 190..300] {
            set.add(&range);
            model[range].fill(true);
        }
        for start in 0..300 {
            for end in start + 1..=300 {
                let expected = model[start..end].iter().all(|page| *page);
                assert_eq!(set.contains(&(start..end)), expected, "{start}..{end}");
            }
        }
    }
}
