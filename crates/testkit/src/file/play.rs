//! The byte oracle for files: random accesses of all ranks against a plain vector of bytes that every rank keeps for itself.
//!
//! All ranks throw the same dice, so each knows what the others do. Writes of one step are disjoint; a barrier ends each step.

mod bundle;
mod settings;

use aqueduct_file::{Access, File, Mode};

use super::form::Form;
use super::memory::{Memory, Way};
use super::seen::{Common, Seen};
use super::{Bench, Entry, Named, first_seed};
use crate::seeded::Seeded;

pub(super) const CASES: &[Entry] = &[("random accesses against a vector of bytes", random)];

/// Random sequences, and the steps of each.
const SEQUENCES: u64 = 16;
const STEPS: usize = 30;

/// Where an access begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    At,
    Next,
    Shared,
}

/// What one rank does in a step.
#[derive(Clone, Debug)]
struct Want {
    /// For explicit offsets.
    offset: u64,
    /// None: one after the other.
    memory: Option<Form>,
    etypes: u64,
}

/// A sequence of steps on one file.
struct Play<'a> {
    bench: &'a Bench<'a>,
    file: File,
    /// The same file, opened a second time to look at it.
    witness: File,
    dice: Seeded,
    model: Vec<u8>,
    common: Common,
    /// What each rank sees, and where its pointer is.
    seen: Vec<Seen>,
    pointers: Vec<u64>,
    shared: u64,
    step: usize,
}

fn random(bench: &Bench<'_>) {
    let first = first_seed(bench.world);
    for seed in first..first + SEQUENCES {
        let _named = Named { case: format!("AQUEDUCT_SEED={seed}"), rank: bench.rank() };
        let mut play = Play::new(bench, seed);
        for step in 0..STEPS {
            play.step = step;
            play.play_step();
            play.compare();
        }
        let Play { file, witness, .. } = play;
        witness.close().expect("closing the witness");
        file.close().expect("closing the file");
    }
}

impl<'a> Play<'a> {
    fn new(bench: &'a Bench<'a>, seed: u64) -> Self {
        let name = bench.name();
        let file = bench.open(&name, Mode::read_write().create().delete_on_close()).expect("a new file");
        let witness = bench.open(&name, Mode::read_only()).expect("the same file again");
        let mut dice = Seeded::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(17));
        let mut play = Self {
            bench,
            file,
            witness,
            common: Common::random(&mut dice, true),
            dice,
            model: Vec::new(),
            seen: vec![Seen::everything(); bench.size()],
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
            7 | 8 => self.bundle(),
            _ => self.access(),
        }
    }

    /// Panics unless the file holds what the model holds.
    fn compare(&mut self) {
        if self.file.buffering().is_some() {
            // The witness sees what is synced; in between, writes meet in the buffers.
            if self.step % 5 != 4 {
                return self.bench.barrier();
            }
            self.file.sync().expect("sync");
        }
        self.bench.barrier();
        // Not every rank each time: that would be most of the work.
        if self.step % self.bench.size() == self.bench.rank() {
            let size = self.witness.size().expect("the size");
            assert_eq!(size, self.model.len() as u64, "the size after step {}", self.step);
            let mut bytes = vec![0xEE; self.model.len() + 5];
            let count = self.witness.at(0).read(&mut bytes).expect("all bytes").bytes();
            assert_eq!(count, size, "all bytes after step {}", self.step);
            let differ = bytes.iter().zip(&self.model).position(|(got, wanted)| got != wanted);
            assert_eq!(differ, None, "the first wrong byte of the file after step {}", self.step);
        }
        self.bench.barrier();
    }

    fn wants(&mut self, most: usize) -> Vec<Want> {
        let element = self.common.element();
        let mut wants = Vec::with_capacity(self.bench.size());
        for _ in 0..self.bench.size() {
            let laid_out = self.dice.below(2) == 0;
            let memory = laid_out.then(|| Form::random_in_memory(&mut self.dice, &element));
            let each = memory.as_ref().map_or(1, |form| form.bytes.len() as u64 / self.seen[0].etype);
            let copies = self.dice.below((most as u64 / each) as usize + 1) as u64;
            wants.push(Want { offset: self.dice.below(60) as u64, memory, etypes: copies * each });
        }
        wants
    }

    /// One access by every rank, one of the thirty.
    fn access(&mut self) {
        let position = [Position::At, Position::Next, Position::Shared][self.dice.below(3)];
        let way = Way::ALL[self.dice.below(5)];
        let write = self.common.apart && self.dice.below(2) == 0;
        let wants = self.wants(50);
        // At the shared pointer alone, ranks come in an order that all of them know.
        let in_turn = position == Position::Shared && !way.together;
        let first = if in_turn { self.dice.below(wants.len()) } else { 0 };
        let order: Vec<usize> = (0..wants.len()).map(|turn| (turn + first) % wants.len()).collect();
        let starts = self.starts(position, &wants, &order);
        let context = format!("step {}, {position:?} {way:?} write {write} of {starts:?}", self.step);
        if write {
            self.note_writes(&starts, &wants);
        }
        for rank in order {
            if rank == self.bench.rank() {
                let want = &wants[rank];
                if write {
                    self.write(position, way, starts[rank], want, &context);
                } else {
                    self.read(position, way, starts[rank], want, &context);
                }
            }
            if in_turn {
                self.bench.barrier();
            }
        }
    }

    /// Where each rank's access begins, in etypes; pointers move on.
    fn starts(&mut self, position: Position, wants: &[Want], order: &[usize]) -> Vec<u64> {
        let mut starts = vec![0; wants.len()];
        for rank in order {
            let (start, etypes) = (&mut starts[*rank], wants[*rank].etypes);
            match position {
                Position::At => *start = wants[*rank].offset,
                Position::Next => {
                    *start = self.pointers[*rank];
                    self.pointers[*rank] += etypes;
                }
                Position::Shared => {
                    *start = self.shared;
                    self.shared += etypes;
                }
            }
        }
        starts
    }

    fn place(&self, position: Position, start: u64) -> Access<'_> {
        match position {
            Position::At => self.file.at(start),
            Position::Next => self.file.next(),
            Position::Shared => self.file.shared(),
        }
    }

    /// What a rank writes, from etype `start` on.
    fn data(&self, rank: usize, start: u64, etypes: u64) -> Vec<u8> {
        let key = self.step as u64 * 131 + rank as u64 * 17 + start * 7;
        (0..etypes * self.seen[rank].etype).map(|n| (1 + (key + n * 11) % 251) as u8).collect()
    }

    /// Puts into the model what all ranks write.
    fn note_writes(&mut self, starts: &[u64], wants: &[Want]) {
        for (rank, (start, want)) in starts.iter().zip(wants).enumerate() {
            let data = self.data(rank, *start, want.etypes);
            let seen = &self.seen[rank];
            for (at, byte) in seen.offsets(start * seen.etype, data.len() as u64).zip(&data) {
                self.model.resize(self.model.len().max(at + 1), 0);
                self.model[at] = *byte;
            }
        }
    }

    /// What a read of so many etypes from `start` on gives: less at the end of the file.
    fn expected(&self, rank: usize, start: u64, etypes: u64) -> Vec<u8> {
        let seen = &self.seen[rank];
        let offsets = seen.offsets(start * seen.etype, etypes * seen.etype);
        offsets.map_while(|at| self.model.get(at).copied()).collect()
    }

    fn write(&self, position: Position, way: Way, start: u64, want: &Want, context: &str) {
        let data = self.data(self.bench.rank(), start, want.etypes);
        let memory = Memory::holding(want.memory.as_ref(), &data);
        let count = way.write(self.place(position, start), memory);
        let count = count.unwrap_or_else(|error| panic!("{error}: {context}"));
        assert_eq!(count.bytes(), data.len() as u64, "the count of a write: {context}");
    }

    fn read(&self, position: Position, way: Way, start: u64, want: &Want, context: &str) {
        let rank = self.bench.rank();
        let len = (want.etypes * self.seen[rank].etype) as usize;
        let memory = Memory::empty(want.memory.as_ref(), len);
        let outcome = way.read(self.place(position, start), memory);
        let (memory, count) = outcome.unwrap_or_else(|error| panic!("{error}: {context}"));
        let expected = self.expected(rank, start, want.etypes);
        assert_eq!(count.bytes(), expected.len() as u64, "the count of a read: {context}");
        memory.check(want.memory.as_ref(), &expected, context);
    }
}
