//! Initial states: a lattice of molecules with random velocities, generated in parallel, the same for any number of ranks.

use std::f64::consts::TAU;

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;

use crate::decomposition::Decomposition;
use crate::decomposition::grid::SimulationGrid;
use crate::force::exact_sum::ExactSum;
use aqueduct::checkpoint::Molecule;

/// The greatest number of molecules, for which the arithmetic of lattice sites does not overflow.
const MOST: u64 = 1 << 48;

/// The lattice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lattice {
    /// Face-centred cubic, the lattice of solid argon.
    Fcc,
    /// One molecule in the middle of each cube.
    Cubic,
}

/// Molecules of one component in a cube.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LatticeGenerator {
    /// The lattice.
    pub lattice: Lattice,
    /// The number of molecules.
    pub molecules: u64,
    /// Molecules per volume.
    pub density: f64,
    /// The temperature of the velocities.
    pub temperature: f64,
    /// The seed of the velocities.
    pub seed: u64,
}

impl LatticeGenerator {
    /// The edge of the box.
    pub fn length(&self) -> Result<f64> {
        ensure!(self.molecules > 0, "the generator needs at least one molecule");
        ensure!(
            self.molecules <= MOST,
            "the generator supports at most {MOST} molecules, not {}",
            self.molecules
        );
        ensure!(
            self.density.is_finite() && self.density > 0.0,
            "the density {} must be positive",
            self.density
        );
        let warm = self.temperature.is_finite() && self.temperature >= 0.0;
        ensure!(warm, "the temperature {} must not be negative", self.temperature);
        Ok((self.molecules as f64 / self.density).cbrt())
    }

    /// The molecules of this rank, at rest. Unoccupied sites are distributed evenly.
    pub fn place(&self, grid: &SimulationGrid, decomposition: &Decomposition, rank: usize) -> Vec<Molecule> {
        let offsets: &[[f64; 3]] = match self.lattice {
            Lattice::Fcc => &[[0.25, 0.25, 0.25], [0.75, 0.75, 0.25], [0.75, 0.25, 0.75], [0.25, 0.75, 0.75]],
            Lattice::Cubic => &[[0.5; 3]],
        };
        let cubes = cube_root(self.molecules.div_ceil(offsets.len() as u64)) as i64;
        let sites = (cubes * cubes * cubes) as u64 * offsets.len() as u64;
        // The site of an id is computed, so that the ranks need not communicate.
        let id_before =
            |site: u64| (u128::from(site) * u128::from(self.molecules) / u128::from(sites)) as u64;
        let cell_box = decomposition.cell_box(rank);
        let range = |axis: usize| {
            let cube = |cell: i64| cell * cubes / grid.shape[axis];
            (cube(cell_box.low[axis]) - 1).max(0)..(cube(cell_box.high[axis]) + 2).min(cubes)
        };
        let mut placed = Vec::new();
        for z in range(2) {
            for (y, x) in range(1).flat_map(|y| range(0).map(move |x| (y, x))) {
                let cube = ((z * cubes + y) * cubes + x) as u64;
                for (place, offset) in offsets.iter().enumerate() {
                    let site = cube * offsets.len() as u64 + place as u64;
                    let at = [x as f64 + offset[0], y as f64 + offset[1], z as f64 + offset[2]];
                    let position = std::array::from_fn(|axis| at[axis] * (grid.length[axis] / cubes as f64));
                    let taken = id_before(site + 1) > id_before(site);
                    if taken && cell_box.contains(grid.cell_of(position)) {
                        placed.push(Molecule::new(id_before(site), position, [0.0; 3]));
                    }
                }
            }
        }
        placed
    }

    /// Sets the velocities of the molecules of all ranks, each of this mass: exactly the temperature, and no total momentum. Collective.
    pub fn set_velocities(&self, world: &Comm, mass: f64, molecules: &mut [Molecule]) -> Result<()> {
        for molecule in &mut *molecules {
            molecule.velocity = gaussian(self.seed, molecule.id);
        }
        let count = self.molecules as f64;
        let mut sums = [ExactSum::default(); 3];
        for molecule in &*molecules {
            sums.iter_mut().zip(molecule.velocity).for_each(|(sum, speed)| sum.add(speed));
        }
        let drift: Vec<f64> =
            ExactSum::allreduce(world, &sums)?.iter().map(|sum| sum.value() / count).collect();
        let mut squares = [ExactSum::default()];
        for molecule in &mut *molecules {
            molecule.velocity = std::array::from_fn(|axis| molecule.velocity[axis] - drift[axis]);
            squares[0].add(molecule.velocity.iter().map(|speed| speed * speed).sum());
        }
        let square = ExactSum::allreduce(world, &squares)?[0].value();
        let factor =
            if square > 0.0 { (3.0 * count * self.temperature / (mass * square)).sqrt() } else { 0.0 };
        for molecule in molecules {
            molecule.velocity = molecule.velocity.map(|speed| speed * factor);
        }
        Ok(())
    }
}

/// The smallest number whose cube is at least this.
fn cube_root(number: u64) -> u64 {
    // The floating-point root may be rounded down.
    let guess = (number as f64).cbrt() as u64;
    (guess..guess + 2).find(|root| root * root * root >= number).unwrap_or(guess + 2)
}

/// Three normally distributed numbers that depend only on seed and id.
fn gaussian(seed: u64, id: u64) -> [f64; 3] {
    let mut state = scramble(seed ^ scramble(id));
    let mut uniform = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        // Never 0, since its logarithm is taken.
        ((scramble(state) >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    };
    [(); 3].map(|()| {
        let (radius, angle) = ((-2.0 * uniform().ln()).sqrt(), TAU * uniform());
        radius * angle.cos()
    })
}

/// The finaliser of `SplitMix64`.
fn scramble(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use aqueduct::comm::Launch;

    use super::*;

    #[test]
    fn every_molecule_is_generated_once_on_any_number_of_ranks() {
        for (lattice, molecules, ranks) in
            [(Lattice::Fcc, 1, 1), (Lattice::Fcc, 500, 7), (Lattice::Fcc, 1234, 5), (Lattice::Cubic, 1001, 6)]
        {
            let start = LatticeGenerator { lattice, molecules, density: 0.8, temperature: 1.0, seed: 1 };
            let length = start.length().unwrap();
            let grid = SimulationGrid::new([length; 3], (length / 4.1).min(2.5), molecules).unwrap();
            let decomposition = Decomposition::regular(&grid, ranks);
            let mut all: Vec<Molecule> =
                (0..ranks).flat_map(|rank| start.place(&grid, &decomposition, rank)).collect();
            all.sort_by_key(|molecule| molecule.id);
            let ids: Vec<u64> = all.iter().map(|molecule| molecule.id).collect();
            assert_eq!(ids, (0..molecules).collect::<Vec<_>>());
        }
    }

    #[test]
    fn too_many_molecules_are_an_error() {
        let start = LatticeGenerator {
            lattice: Lattice::Cubic,
            molecules: u64::MAX,
            density: 0.8,
            temperature: 1.0,
            seed: 1,
        };
        assert!(start.length().unwrap_err().to_string().contains("the generator supports at most"));
    }

    #[test]
    fn velocities_have_the_temperature_and_no_drift() {
        let start = LatticeGenerator {
            lattice: Lattice::Fcc,
            molecules: 4000,
            density: 0.8,
            temperature: 0.7,
            seed: 5,
        };
        Launch::threads(3)
            .run(|world| {
                let grid = SimulationGrid::new([start.length()?; 3], 2.5, 4000)?;
                let mut mine = start.place(&grid, &Decomposition::regular(&grid, 3), world.rank());
                start.set_velocities(world, 2.0, &mut mine)?;
                let mut sums = [ExactSum::default(); 2];
                for molecule in &mine {
                    sums[0].add(molecule.velocity.iter().map(|speed| speed * speed).sum());
                    sums[1].add(molecule.velocity[0]);
                }
                let sums = ExactSum::allreduce(world, &sums)?;
                let temperature = 2.0 * sums[0].value() / (3.0 * 4000.0);
                assert!((temperature - 0.7).abs() < 1e-12, "{temperature}");
                assert!(sums[1].value().abs() < 1e-10);
                // As in a normal distribution, 2/3 are within one standard deviation.
                let near =
                    mine.iter().filter(|molecule| molecule.velocity[0].abs() < (0.35f64).sqrt()).count();
                let share = near as f64 / mine.len() as f64;
                assert!((0.63..0.73).contains(&share), "{share}");
                anyhow::Ok(())
            })
            .unwrap();
    }
}
