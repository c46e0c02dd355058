//! Molecules, ways to share them out among ranks, and the bytes of files.
#![allow(dead_code, reason = "each test uses some of it")]

use aqueduct_checkpoint::mardyn::{AxialSite, Charge, Component, PhaseSpace, Tersoff};
use aqueduct_checkpoint::{CellGrid, Molecule, Result, SpatialRegion};
use aqueduct_comm::Comm;
use aqueduct_file::{File, OpenOptions};
use aqueduct_testkit::rng::SeededRng;

/// A head that has everything.
pub(crate) fn space() -> PhaseSpace {
    let axial = |moment| AxialSite { position: [0.1, 0.2, 0.3], direction: [0.0, 0.0, 1.0], moment };
    let mut water = Component::single(0.016, 1e-4, 5.9);
    water.charges = vec![Charge { position: [0.0, -0.1, 0.0], mass: 0.0, charge: -1.04 }; 2];
    water.inertia = [0.1, 0.2, 1.0 / 3.0];
    let parameters = std::array::from_fn(|index| index as f64 + 0.1);
    let other = Component {
        dipoles: vec![axial(2.5)],
        quadrupoles: vec![axial(-3.5), axial(1e-300)],
        tersoff: vec![Tersoff { position: [0.5; 3], mass: 12.0, parameters }],
        ..Component::default()
    };
    let mut space = PhaseSpace::new([10.0, 20.0, 1.0 / 3.0], vec![water.clone(), other, water]);
    space.mixing = vec![[1.0, 0.9], [0.8, 0.7], [0.6, 0.5]];
    space.time = 91.183_499_999_907_2;
    space.temperature = Some(0.7);
    space.thermostats = vec![(1, 0.7), (2, 0.9)];
    space.component_thermostats = vec![(1, 1), (-1, 2)];
    space.undirected = vec![1];
    space
}

/// Molecules at random, with all the digits that doubles have, some of them on faces of the box; in the order of their ids.
pub(crate) fn molecules(count: u64, seed: u64, space: &PhaseSpace) -> Vec<Molecule> {
    let mut random = SeededRng::new(seed);
    let mut unit = move || (random.number() >> 11) as f64 / (1_u64 << 53) as f64;
    let one = |id: u64| {
        let mut at = || match (unit() * 50.0) as u64 {
            0 => 0.0,
            1 => 1.0,
            2 => 0.5,
            _ => unit(),
        };
        let position = std::array::from_fn(|d| at() * space.length[d]);
        Molecule {
            id: 3 * id + 1,
            component: id % space.components.len().max(1) as u64,
            position,
            velocity: std::array::from_fn(|_| (unit() - 0.5) * 1e-3),
            orientation: std::array::from_fn(|_| unit() * 2.0 - 1.0),
            angular_momentum: std::array::from_fn(|_| (unit() - 0.5) * 1e9),
        }
    };
    (0..count).map(one).collect()
}

/// How a domain is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decomposition {
    /// A regular grid of ranks: the box of a rank is a cell.
    Regular,
    /// A tree of cuts at the borders of small bricks, which are the cells.
    Tree,
}

pub(crate) const BOTH: [Decomposition; 2] = [Decomposition::Regular, Decomposition::Tree];

/// Bricks along each dimension.
const BRICKS: u64 = 6;

impl Decomposition {
    /// The cells, and for each rank its box of cells: from, up to.
    fn boxes(self, ranks: usize, length: [f64; 3]) -> (CellGrid, Vec<[[u64; 3]; 2]>) {
        match self {
            Self::Regular => {
                let n = factors(ranks as u64);
                let at = |rank: u64| [rank % n[0], rank / n[0] % n[1], rank / n[0] / n[1]];
                let boxes = (0..ranks as u64).map(|rank| [at(rank), at(rank).map(|index| index + 1)]);
                (CellGrid::new(length, n).unwrap(), boxes.collect())
            }
            Self::Tree => {
                let mut boxes = Vec::new();
                cut([[0; 3], [BRICKS; 3]], ranks as u64, &mut boxes);
                (CellGrid::new(length, [BRICKS; 3]).unwrap(), boxes)
            }
        }
    }

    pub(crate) fn grid(self, ranks: usize, length: [f64; 3]) -> CellGrid {
        self.boxes(ranks, length).0
    }

    pub(crate) fn region(self, ranks: usize, rank: usize, length: [f64; 3]) -> SpatialRegion {
        let (grid, boxes) = self.boxes(ranks, length);
        let corner =
            |cell: [u64; 3]| std::array::from_fn(|d| length[d] * cell[d] as f64 / grid.cells()[d] as f64);
        SpatialRegion::new(corner(boxes[rank][0]), corner(boxes[rank][1]))
    }

    /// Those of the molecules that lie in cells of this rank, in no order.
    pub(crate) fn mine(self, ranks: usize, rank: usize, all: &[Molecule], length: [f64; 3]) -> Vec<Molecule> {
        let (grid, boxes) = self.boxes(ranks, length);
        let [low, high] = boxes[rank];
        let [nx, ny, _] = grid.cells();
        let here = |molecule: &&Molecule| {
            let cell = grid.cell_of(molecule.position);
            let at = [cell % nx, cell / nx % ny, cell / nx / ny];
            (0..3).all(|d| (low[d]..high[d]).contains(&at[d]))
        };
        all.iter().filter(here).copied().collect()
    }
}

fn factors(ranks: u64) -> [u64; 3] {
    let mut best = [ranks, 1, 1];
    for x in (1..=ranks).filter(|x| ranks.is_multiple_of(*x)) {
        for y in (1..=ranks / x).filter(|y| (ranks / x).is_multiple_of(*y)) {
            let sides = [x, y, ranks / x / y];
            if sides.iter().sum::<u64>() < best.iter().sum() {
                best = sides;
            }
        }
    }
    best
}

fn cut([low, high]: [[u64; 3]; 2], ranks: u64, boxes: &mut Vec<[[u64; 3]; 2]>) {
    if ranks == 1 {
        boxes.push([low, high]);
        return;
    }
    let longest = (0..3).max_by_key(|&d| high[d] - low[d]).unwrap();
    let left = ranks / 2;
    let width = high[longest] - low[longest];
    let middle = low[longest] + (width * left / ranks).clamp(1, width - 1);
    let (mut below, mut above) = (high, low);
    below[longest] = middle;
    above[longest] = middle;
    cut([low, below], left, boxes);
    cut([above, high], ranks - left, boxes);
}

/// In the order of their ids.
pub(crate) fn by_id(molecules: impl IntoIterator<Item = Molecule>) -> Vec<Molecule> {
    let mut molecules: Vec<Molecule> = molecules.into_iter().collect();
    molecules.sort_by_key(|molecule| molecule.id);
    molecules
}

/// The same to the bit.
pub(crate) fn same(a: &[Molecule], b: &[Molecule]) -> bool {
    bytemuck::cast_slice::<Molecule, u8>(a) == bytemuck::cast_slice::<Molecule, u8>(b)
}

/// All of a file.
pub(crate) fn bytes_of(world: &Comm, name: &str) -> Result<Vec<u8>> {
    let file = File::open(world, name)?;
    let mut bytes = vec![0; file.size()? as usize];
    file.at(0).read(&mut bytes)?;
    file.close()?;
    Ok(bytes)
}

/// A file of these bytes, instead of what was there.
pub(crate) fn put_bytes(world: &Comm, name: &str, bytes: &[u8]) -> Result<()> {
    let file = OpenOptions::new().write(true).create(true).open(world, name)?;
    file.set_size(0)?;
    file.at(0).write(bytes)?;
    file.close()
}
