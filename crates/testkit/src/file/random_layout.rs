//! Random layouts, each built twice: by the constructors under test, and as a plain list of the offset of every data byte.

use aqueduct_file::hyperslab::Hyperslab;
use aqueduct_file::layout::{Basic, Distributed, Distribution, Layout, Member, Order, Vector};

use crate::rng::SeededRng;

/// A layout and what it must mean.
#[derive(Clone, Debug)]
pub(super) struct RandomLayout {
    pub(super) layout: Layout,
    /// The offset of each data byte, in order.
    pub(super) bytes: Vec<i64>,
    /// The bounds of a copy.
    lower: i64,
    upper: i64,
}

/// Data bytes of the largest layout; enough for every border, and quick.
const MOST: usize = 160;

impl RandomLayout {
    /// `count` values of a kind, the next copy `stretch` times as far away as it needs to be.
    pub(super) fn element(basic: Basic, count: u64, stretch: u64) -> Self {
        let size = (basic.size() * count) as i64;
        let layout = Layout::from(basic).contiguous(count).unwrap();
        let upper = size * stretch as i64;
        let layout = if stretch > 1 { layout.resized(0, upper).unwrap() } else { layout };
        Self { layout, bytes: (0..size).collect(), lower: 0, upper }
    }

    pub(super) fn extent(&self) -> i64 {
        self.upper - self.lower
    }

    /// Where data byte `n` of copies without end lies.
    pub(super) fn offset(&self, n: u64) -> i64 {
        let size = self.bytes.len() as u64;
        (n / size) as i64 * self.extent() + self.bytes[(n % size) as usize]
    }

    /// A layout over `element`, with offsets that only go up.
    pub(super) fn random(dice: &mut SeededRng, element: &Self, depth: usize) -> Self {
        let mut form = element.clone();
        for _ in 0..dice.below(depth + 1) {
            let grown = form.grow(dice);
            if !grown.bytes.is_empty() && grown.bytes.len() <= MOST {
                form = grown;
            }
        }
        let (size, bytes) = (form.layout.size(), form.bytes.len() as u64);
        assert_eq!((form.layout.extent(), size), (form.extent(), bytes), "{:?}", form.layout);
        form
    }

    /// A layout for memory: in any order, as long as no byte is there twice.
    pub(super) fn random_in_memory(dice: &mut SeededRng, element: &Self) -> Self {
        let form = Self::random(dice, element, 3);
        if dice.below(3) > 0 {
            return form;
        }
        // The later copy first.
        let at = [form.upper, 0];
        let layout = form.layout.hindexed_block(1, at).unwrap();
        form.copies(layout, &at)
    }

    /// Copies at these places, described by `layout`.
    fn copies(&self, layout: Layout, at: &[i64]) -> Self {
        let bytes = at.iter().flat_map(|at| self.bytes.iter().map(move |byte| at + byte)).collect();
        let lower = at.iter().map(|at| at + self.lower).min().unwrap_or(0);
        let upper = at.iter().map(|at| at + self.upper).max().unwrap_or(0);
        Self { layout, bytes, lower, upper }
    }

    fn grow(&self, dice: &mut SeededRng) -> Self {
        match dice.below(8) {
            0 => self.contiguous(1 + dice.below(4) as i64),
            1 => self.vector(dice),
            2 => self.indexed(dice),
            3 => self.structure(dice),
            4 => self.subarray(dice),
            5 => self.darray(dice),
            6 => self.resized(dice),
            _ => Self { layout: self.layout.dup(), ..self.clone() },
        }
    }

    fn contiguous(&self, count: i64) -> Self {
        let at: Vec<i64> = (0..count).map(|copy| copy * self.extent()).collect();
        self.copies(self.layout.contiguous(count as u64).unwrap(), &at)
    }

    fn vector(&self, dice: &mut SeededRng) -> Self {
        let (count, block) = (1 + dice.below(3) as i64, 1 + dice.below(3) as i64);
        let stride = block + dice.below(3) as i64;
        let at: Vec<i64> = (0..count)
            .flat_map(|row| (0..block).map(move |copy| row * stride + copy))
            .map(|copy| copy * self.extent())
            .collect();
        let (vector_count, vector_block) = (count as u64, block as u64);
        let vector = |stride| Vector { count: vector_count, block: vector_block, stride };
        let layout = if dice.below(2) == 0 {
            self.layout.vector(vector(stride))
        } else {
            self.layout.hvector(vector(stride * self.extent()))
        };
        self.copies(layout.unwrap(), &at)
    }

    fn indexed(&self, dice: &mut SeededRng) -> Self {
        let (mut blocks, mut at, mut place) = (Vec::new(), Vec::new(), 0);
        for _ in 0..=dice.below(4) {
            // Blocks of length zero are allowed and mean nothing.
            let length = dice.below(3) as i64;
            place += dice.below(3) as i64;
            blocks.push((length as u64, place));
            at.extend((place..place + length).map(|copy| copy * self.extent()));
            place += length;
        }
        let layout = if dice.below(2) == 0 {
            self.layout.indexed(blocks)
        } else {
            self.layout.hindexed(blocks.iter().map(|(length, place)| (*length, place * self.extent())))
        };
        self.copies(layout.unwrap(), &at)
    }

    fn structure(&self, dice: &mut SeededRng) -> Self {
        let first = self.contiguous(1 + dice.below(2) as i64);
        let gap = first.upper + dice.below(3) as i64 * self.extent();
        let members = [
            Member { count: 1, displacement: 0, layout: first.layout.clone() },
            Member { count: 0, displacement: 7, layout: first.layout.clone() },
            Member { count: 2, displacement: gap, layout: self.layout.clone() },
        ];
        let layout = Layout::structure(members).unwrap();
        let second = self.copies(layout, &[gap, gap + self.extent()]);
        let lower = first.lower.min(second.lower);
        Self { bytes: [first.bytes, second.bytes].concat(), lower, ..second }
    }

    fn subarray(&self, dice: &mut SeededRng) -> Self {
        let mut side = || {
            let (count, start) = (1 + dice.below(3) as u64, dice.below(3) as u64);
            (start + count + dice.below(2) as u64, start..start + count)
        };
        let [(height, rows), (width, columns)] = [side(), side()];
        let (shape, part) = ([height, width], Hyperslab::from([rows.clone(), columns.clone()]));
        let fortran = dice.below(2) == 0;
        let (slow, fast, row_length) = if fortran { (columns, rows, height) } else { (rows, columns, width) };
        let at: Vec<i64> = slow
            .flat_map(|row| fast.clone().map(move |column| row * row_length + column))
            .map(|copy| copy as i64 * self.extent())
            .collect();
        let order = if fortran { Order::Fortran } else { Order::C };
        let part = self.copies(self.layout.subarray(&shape, &part, order).unwrap(), &at);
        Self { lower: 0, upper: (height * width) as i64 * self.extent(), ..part }
    }

    fn darray(&self, dice: &mut SeededRng) -> Self {
        let (block, processes) = (1 + dice.below(3) as u64, 1 + dice.below(3) as u64);
        let (size, rank) = (1 + dice.below(9) as u64, dice.below(processes as usize) as u64);
        let dealt = Distributed { size, distribution: Distribution::CyclicOf(block), processes };
        let mine = (0..size).filter(|element| element / block % processes == rank);
        let at: Vec<i64> = mine.map(|element| element as i64 * self.extent()).collect();
        let part = self.copies(self.layout.darray(rank, &[dealt], Order::C).unwrap(), &at);
        Self { lower: 0, upper: size as i64 * self.extent(), ..part }
    }

    fn resized(&self, dice: &mut SeededRng) -> Self {
        let upper = self.upper + dice.below(3) as i64 * self.extent();
        Self { layout: self.layout.resized(0, upper).unwrap(), upper, lower: 0, bytes: self.bytes.clone() }
    }
}
