//! The steps of a model test without accesses: hints, views, sizes, pointers, atomic mode.

use aqueduct_file::{Info, Whence};

use super::super::expected_view::{ExpectedView, ViewParameters};
use super::FileModelTest;

impl FileModelTest<'_> {
    /// Hints that force each strategy, with buffers smaller than anything sensible.
    pub(super) fn new_hints(&mut self) {
        let mut one_of = |words: &[&str]| words[self.dice.below(words.len())].to_owned();
        let toggles = ["enable", "disable", "automatic"];
        let sizes = ["7", "64", "500", "100000"];
        let info = Info::from([
            (
                "aqueduct_strategy",
                one_of(&["direct", "list", "sieve", "map", "two-phase", "two-phase", "by cost"]),
            ),
            ("romio_cb_read", one_of(&toggles)),
            ("romio_cb_write", one_of(&toggles)),
            ("romio_ds_read", one_of(&toggles)),
            ("romio_ds_write", one_of(&toggles)),
            ("cb_nodes", one_of(&["1", "2", "3", "100"])),
            ("cb_buffer_size", one_of(&sizes)),
            ("ind_rd_buffer_size", one_of(&sizes)),
            ("ind_wr_buffer_size", one_of(&sizes)),
            ("striping_unit", one_of(&["1", "3", "16", "100", "no"])),
        ]);
        self.file.set_info(&info).expect("hints");
    }

    /// A new view on every rank; apart, for writing, or overlapping, for reading.
    pub(super) fn new_views(&mut self, apart: bool) {
        self.common = ViewParameters::random(&mut self.dice, apart);
        let size = self.fixture.size();
        self.views =
            (0..size).map(|rank| ExpectedView::random(&mut self.dice, &self.common, rank, size)).collect();
        self.file.set_view(&self.views[self.fixture.rank()].view).expect("a view");
        self.pointers.fill(0);
        self.shared = 0;
        let (seen, offset) = (&self.views[self.fixture.rank()], self.dice.below(100) as u64);
        let byte = self.file.byte_offset(offset).expect("a byte of the view");
        assert_eq!(byte, seen.offset(offset * seen.etype), "etype {offset} of {:?}", seen.view);
    }

    pub(super) fn new_size(&mut self) {
        let size = self.dice.below(self.model.len() * 2 + 10);
        if self.dice.below(2) == 0 {
            self.file.set_size(size as u64).expect("a size");
            self.model.resize(size, 0);
        } else {
            self.file.preallocate(size as u64).expect("space");
            self.model.resize(self.model.len().max(size), 0);
        }
        assert_eq!(self.file.size().expect("the size"), self.model.len() as u64);
    }

    /// Every rank seeks its own way.
    pub(super) fn seek(&mut self) {
        for rank in 0..self.fixture.size() {
            let (base, whence) = self.base(rank, self.pointers[rank]);
            let to = self.dice.below(40) as u64;
            self.pointers[rank] = to;
            if rank == self.fixture.rank() {
                let moved = self.file.seek(to as i64 - base as i64, whence).expect("a seek");
                assert_eq!(moved, to, "a seek from {whence:?}");
                assert_eq!(self.file.position().expect("the position"), to);
            }
        }
    }

    pub(super) fn seek_shared(&mut self) {
        // From the end, ranks with different views would seek to different places.
        let (base, whence) = match self.dice.below(2) {
            0 => (0, Whence::Start),
            _ => (self.shared, Whence::Current),
        };
        self.shared = self.dice.below(40) as u64;
        let moved = self.file.seek_shared(self.shared as i64 - base as i64, whence).expect("a seek");
        assert_eq!(moved, self.shared, "a shared seek from {whence:?}");
        assert_eq!(self.file.position_shared().expect("the position"), self.shared);
        self.fixture.barrier();
    }

    pub(super) fn set_atomic(&mut self) {
        let atomic = self.dice.below(2) == 0;
        self.file.set_atomic(atomic).expect("atomic mode");
        assert_eq!(self.file.is_atomic(), atomic);
    }

    /// Where a seek of a rank counts from.
    fn base(&mut self, rank: usize, here: u64) -> (u64, Whence) {
        match self.dice.below(3) {
            0 => (0, Whence::Start),
            1 => (here, Whence::Current),
            _ => (self.views[rank].etypes_before(self.model.len()), Whence::End),
        }
    }
}
