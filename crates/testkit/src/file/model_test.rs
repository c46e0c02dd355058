//! The byte oracle for files: random accesses of all ranks against a plain vector of bytes that every rank keeps for itself.
//!
//! All ranks use the same random numbers, so each knows what the others do. Writes of one step are disjoint; a barrier ends each step.

mod concurrent_requests;
mod settings;

use aqueduct_file::{Access, File, Mode};

use super::expected_view::{ExpectedView, ViewParameters};
use super::memory::{AccessMethod, TestMemory};
use super::random_layout::RandomLayout;
use super::{Entry, FileCaseGuard, Fixture, first_seed};
use crate::rng::SeededRng;

pub(super) const CASES: &[Entry] = &[("random accesses against a vector of bytes", random)];

/// Random sequences, and the steps of each.
const SEQUENCES: u64 = 16;
const STEPS: usize = 30;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModelPointer {
    At,
    Next,
    Shared,
}

/// What one rank does in a step.
#[derive(Clone, Debug)]
struct AccessRequest {
    /// For explicit offsets.
    offset: u64,
    /// None: one after the other.
    memory: Option<RandomLayout>,
    etypes: u64,
}

/// A sequence of steps on one file.
struct FileModelTest<'a> {
    fixture: &'a Fixture<'a>,
    file: File,
    /// The same file, opened a second time to look at it.
    witness: File,
    dice: SeededRng,
    model: Vec<u8>,
    common: ViewParameters,
    /// What each rank sees, and where its pointer is.
    views: Vec<ExpectedView>,
    pointers: Vec<u64>,
    shared: u64,
    step: usize,
}

fn random(bench: &Fixture<'_>) {
    let first = first_seed(bench.world);
    for seed in first..first + SEQUENCES {
        let _named = FileCaseGuard { case: format!("AQUEDUCT_SEED={seed}"), rank: bench.rank() };
        let mut play = FileModelTest::new(bench, seed);
        for step in 0..STEPS {
            play.step = step;
            play.play_step();
            play.compare();
        }
        let FileModelTest { file, witness, .. } = play;
        witness.close().expect("closing the witness");
        file.close().expect("closing the file");
    }
}

impl<'a> FileModelTest<'a> {
    fn new(bench: &'a Fixture<'a>, seed: u64) -> Self {
        let name = bench.name();
        let file = bench.open(&name, Mode::read_write().create().delete_on_close()).expect("a new file");
        let witness = bench.open(&name, Mode::read_only()).expect("the same file again");
        let mut dice = SeededRng::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(17));
        let mut play = Self {
            fixture: bench,
            file,
            witness,
            common: ViewParameters::random(&mut dice, true),
            dice,
            model: Vec::new(),
            views: vec![ExpectedView::everything(); bench.size()],
            pointers: vec![0; bench.size()],
            shared: 0,
            step: 0,
        };
        play.new_hints();
        play.new_views(true);
        play
    }

    fn play_step(&mut self) {
        match self.dice.below(16) {
            0 => self.new_hints(),
            1 => self.new_views(true),
            2 => self.new_views(false),
            3 => self.new_size(),
            4 => self.seek(),
            5 => self.seek_shared(),
            6 => self.set_atomic(),
            7 | 8 => self.concurrent_requests(),
            _ => self.access(),
        }
    }

    /// Panics unless the file holds what the model holds.
    fn compare(&mut self) {
        if self.file.buffering().is_some() {
            // The witness sees what is synced; in between, writes meet in the buffers.
            if self.step % 5 != 4 {
                return self.fixture.barrier();
            }
            self.file.sync().expect("sync");
        }
        self.fixture.barrier();
        // Not every rank each time: that would be most of the work.
        if self.step % self.fixture.size() == self.fixture.rank() {
            let size = self.witness.size().expect("the size");
            assert_eq!(size, self.model.len() as u64, "the size after step {}", self.step);
            let mut bytes = vec![0xEE; self.model.len() + 5];
            let count = self.witness.at(0).read(&mut bytes).expect("all bytes").bytes();
            assert_eq!(count, size, "all bytes after step {}", self.step);
            let differ = bytes.iter().zip(&self.model).position(|(got, wanted)| got != wanted);
            assert_eq!(differ, None, "the first wrong byte of the file after step {}", self.step);
        }
        self.fixture.barrier();
    }

    fn wants(&mut self, most: usize) -> Vec<AccessRequest> {
        let element = self.common.element();
        let mut wants = Vec::with_capacity(self.fixture.size());
        for _ in 0..self.fixture.size() {
            let laid_out = self.dice.below(2) == 0;
            let memory = laid_out.then(|| RandomLayout::random_in_memory(&mut self.dice, &element));
            let each = memory.as_ref().map_or(1, |form| form.bytes.len() as u64 / self.views[0].etype);
            let copies = self.dice.below((most as u64 / each) as usize + 1) as u64;
            wants.push(AccessRequest { offset: self.dice.below(60) as u64, memory, etypes: copies * each });
        }
        wants
    }

    /// One access by every rank, one of the thirty.
    fn access(&mut self) {
        let position = [ModelPointer::At, ModelPointer::Next, ModelPointer::Shared][self.dice.below(3)];
        let way = AccessMethod::ALL[self.dice.below(5)];
        let write = self.common.apart && self.dice.below(2) == 0;
        let wants = self.wants(50);
        // At the shared pointer alone, ranks come in an order that all of them know.
        let in_turn = position == ModelPointer::Shared && !way.collective;
        let first = if in_turn { self.dice.below(wants.len()) } else { 0 };
        let order: Vec<usize> = (0..wants.len()).map(|turn| (turn + first) % wants.len()).collect();
        let starts = self.starts(position, &wants, &order);
        let context = format!("step {}, {position:?} {way:?} write {write} of {starts:?}", self.step);
        if write {
            self.note_writes(&starts, &wants);
        }
        for rank in order {
            if rank == self.fixture.rank() {
                let want = &wants[rank];
                if write {
                    self.write(position, way, starts[rank], want, &context);
                } else {
                    self.read(position, way, starts[rank], want, &context);
                }
            }
            if in_turn {
                self.fixture.barrier();
            }
        }
    }

    /// Where each rank's access begins, in etypes; pointers move on.
    fn starts(&mut self, position: ModelPointer, wants: &[AccessRequest], order: &[usize]) -> Vec<u64> {
        let mut starts = vec![0; wants.len()];
        for rank in order {
            let (start, etypes) = (&mut starts[*rank], wants[*rank].etypes);
            match position {
                ModelPointer::At => *start = wants[*rank].offset,
                ModelPointer::Next => {
                    *start = self.pointers[*rank];
                    self.pointers[*rank] += etypes;
                }
                ModelPointer::Shared => {
                    *start = self.shared;
                    self.shared += etypes;
                }
            }
        }
        starts
    }

    fn place(&self, position: ModelPointer, start: u64) -> Access<'_> {
        match position {
            ModelPointer::At => self.file.at(start),
            ModelPointer::Next => self.file.at_pointer(),
            ModelPointer::Shared => self.file.shared(),
        }
    }

    /// What a rank writes, from etype `start` on.
    fn data(&self, rank: usize, start: u64, etypes: u64) -> Vec<u8> {
        let key = self.step as u64 * 131 + rank as u64 * 17 + start * 7;
        (0..etypes * self.views[rank].etype).map(|n| (1 + (key + n * 11) % 251) as u8).collect()
    }

    /// Puts into the model what all ranks write.
    fn note_writes(&mut self, starts: &[u64], wants: &[AccessRequest]) {
        for (rank, (start, want)) in starts.iter().zip(wants).enumerate() {
            let data = self.data(rank, *start, want.etypes);
            let seen = &self.views[rank];
            for (at, byte) in seen.offsets(start * seen.etype, data.len() as u64).zip(&data) {
                self.model.resize(self.model.len().max(at + 1), 0);
                self.model[at] = *byte;
            }
        }
    }

    /// What a read of so many etypes from `start` on gives: less at the end of the file.
    fn expected(&self, rank: usize, start: u64, etypes: u64) -> Vec<u8> {
        let seen = &self.views[rank];
        let offsets = seen.offsets(start * seen.etype, etypes * seen.etype);
        offsets.map_while(|at| self.model.get(at).copied()).collect()
    }

    fn write(
        &self,
        position: ModelPointer,
        way: AccessMethod,
        start: u64,
        want: &AccessRequest,
        context: &str,
    ) {
        let data = self.data(self.fixture.rank(), start, want.etypes);
        let memory = TestMemory::holding(want.memory.as_ref(), &data);
        let count = way.write(self.place(position, start), memory);
        let count = count.unwrap_or_else(|error| panic!("{error}: {context}"));
        assert_eq!(count.bytes(), data.len() as u64, "the count of a write: {context}");
    }

    fn read(
        &self,
        position: ModelPointer,
        way: AccessMethod,
        start: u64,
        want: &AccessRequest,
        context: &str,
    ) {
        let rank = self.fixture.rank();
        let len = (want.etypes * self.views[rank].etype) as usize;
        let memory = TestMemory::empty(want.memory.as_ref(), len);
        let outcome = way.read(self.place(position, start), memory);
        let (memory, count) = outcome.unwrap_or_else(|error| panic!("{error}: {context}"));
        let expected = self.expected(rank, start, want.etypes);
        assert_eq!(count.bytes(), expected.len() as u64, "the count of a read: {context}");
        memory.check(want.memory.as_ref(), &expected, context);
    }
}
