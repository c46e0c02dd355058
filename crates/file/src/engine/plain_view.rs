//! The short path: accesses of a file whose view shows one contiguous range, without buffering, locks or hints that choose a strategy.
//!
//! What such an access needs of the view is in one atomic word: it is resolved without a lock and without an allocation.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::view::View;

/// Bits of the word: the displacement, the size of the etype above it, whether runs may be mapped on top. The word 0 has an etype of
/// no bytes: accesses do not take the short path.
const DISPLACEMENT_BITS: u32 = 48;
const ETYPE_BITS: u32 = 15;
const MAPS: u64 = 1 << (DISPLACEMENT_BITS + ETYPE_BITS);

/// The view of the short path, if the file has one.
#[derive(Debug, Default)]
pub(crate) struct PlainView(AtomicU64);

/// An access on the short path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainRun {
    /// The offset in the file.
    pub(crate) start: u64,
    /// True if its pages may be mapped.
    pub(crate) maps: bool,
}

/// The short path of a file at the time of an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainWord(u64);

impl PlainView {
    /// Sets the view of the short path; none if accesses do not take it.
    pub(crate) fn set(&self, view: Option<&View>, maps: bool) {
        let word = view.and_then(|view| encode(view, maps)).unwrap_or(0);
        self.0.store(word, Ordering::Release);
    }

    /// The view; none if accesses do not take the short path.
    pub(crate) fn get(&self) -> Option<PlainWord> {
        let word = self.0.load(Ordering::Acquire);
        (word != 0).then_some(PlainWord(word))
    }
}

impl PlainWord {
    /// How many etypes so many bytes are; none if they are not whole ones.
    pub(crate) fn etypes(self, bytes: u64) -> Option<u64> {
        match self.etype() {
            1 => Some(bytes),
            etype => bytes.is_multiple_of(etype).then(|| bytes / etype),
        }
    }

    /// The access of so many bytes from an etype on; none if it exceeds the maximum file size.
    pub(crate) fn run(self, etype: u64, bytes: u64) -> Option<PlainRun> {
        let displacement = self.0 & ((1 << DISPLACEMENT_BITS) - 1);
        let start = etype.checked_mul(self.etype())?.checked_add(displacement)?;
        let end = start.checked_add(bytes)?;
        i64::try_from(end).is_ok().then_some(PlainRun { start, maps: self.0 & MAPS != 0 })
    }

    fn etype(self) -> u64 {
        (self.0 >> DISPLACEMENT_BITS) & ((1 << ETYPE_BITS) - 1)
    }
}

/// The word of a view; none if the view has gaps or another representation, or its numbers are too large for the word.
fn encode(view: &View, maps: bool) -> Option<u64> {
    let (displacement, etype) = (view.byte_offset(0)?, view.etype().size());
    let fits = displacement < 1 << DISPLACEMENT_BITS && (1..1 << ETYPE_BITS).contains(&etype);
    let plain = fits && view.representation().is_native() && view.pattern().is_contiguous();
    plain.then_some(displacement | etype << DISPLACEMENT_BITS | if maps { MAPS } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Basic, Layout};

    fn word(view: &View) -> Option<PlainWord> {
        let plain = PlainView::default();
        plain.set(Some(view), true);
        plain.get()
    }

    #[test]
    fn runs_are_those_of_the_view() {
        let double = Layout::from(Basic::F64);
        for displacement in [0, 5, (1 << DISPLACEMENT_BITS) - 1] {
            let view = View::new(displacement, &double, &double).unwrap();
            let word = word(&view).unwrap();
            for etype in [0, 1, 1000, 1 << 40] {
                let expected = PlainRun { start: view.byte_offset(etype).unwrap(), maps: true };
                assert_eq!(word.run(etype, 16), Some(expected));
            }
            assert_eq!((word.etypes(24), word.etypes(25), word.etypes(0)), (Some(3), None, Some(0)));
            assert_eq!(word.run(1 << 60, 8), None);
            assert_eq!(word.run(u64::MAX, 0), None);
        }
        assert_eq!(word(&View::default()).unwrap().etypes(77), Some(77));
    }

    #[test]
    fn views_with_gaps_and_large_numbers_do_not_take_the_short_path() {
        let byte = Layout::from(Basic::Byte);
        let sparse = byte.resized(0, 3).unwrap();
        assert!(word(&View::new(0, &byte, &sparse).unwrap()).is_none());
        assert!(word(&View::new(1 << DISPLACEMENT_BITS, &byte, &byte).unwrap()).is_none());
        let large = Layout::bytes(1 << ETYPE_BITS).unwrap();
        assert!(word(&View::new(0, &large, &large).unwrap()).is_none());
        assert!(PlainView::default().get().is_none());
    }
}
