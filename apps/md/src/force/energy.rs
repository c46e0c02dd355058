//! Energies, temperature and pressure of a state.

use anyhow::Result;
use aqueduct::comm::Comm;

use crate::force::exact_sum::ExactSum;
use crate::force::pair_forces::Force;
use crate::force::potential::Potential;
use aqueduct::checkpoint::Molecule;

/// Sums over the molecules of all ranks, bitwise the same for every decomposition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Energies {
    /// Kinetic energy, ½ Σ m v².
    pub kinetic: f64,
    /// Potential energy of all pairs.
    pub potential: f64,
    /// Virial: Σ over pairs of force times distance.
    pub virial: f64,
    /// Momentum, Σ m v.
    pub momentum: [f64; 3],
    /// The number of molecules that move.
    pub moving: u64,
}

impl Energies {
    /// Sums over the molecules of all ranks. Collective.
    pub fn measure(
        world: &Comm,
        potential: &Potential,
        molecules: &[Molecule],
        forces: &[Force],
    ) -> Result<Self> {
        let mut sums = [ExactSum::default(); 7];
        for (molecule, acting_force) in molecules.iter().zip(forces) {
            let Some(centre) = potential.centre(molecule.component as usize) else { continue };
            let [x, y, z] = molecule.velocity;
            let terms =
                [0.5 * centre.mass * (x * x + y * y + z * z), acting_force.energy, acting_force.virial];
            let momentum = molecule.velocity.map(|speed| centre.mass * speed);
            let terms = terms.into_iter().chain(momentum).chain([1.0]);
            sums.iter_mut().zip(terms).for_each(|(sum, term)| sum.add(term));
        }
        let sums = ExactSum::allreduce(world, &sums)?;
        let [kinetic, potential, virial, x, y, z, moving] = std::array::from_fn(|at| sums[at].value());
        Ok(Self { kinetic, potential, virial, momentum: [x, y, z], moving: moving as u64 })
    }

    /// The sum of kinetic and potential energy.
    pub fn total(&self) -> f64 {
        self.kinetic + self.potential
    }

    /// The temperature, from the kinetic energy of three degrees of freedom per molecule; Boltzmann's constant is 1.
    pub fn temperature(&self) -> f64 {
        if self.moving == 0 { 0.0 } else { 2.0 * self.kinetic / (3.0 * self.moving as f64) }
    }

    /// The pressure in a box of this volume.
    pub fn pressure(&self, volume: f64) -> f64 {
        (2.0 * self.kinetic + self.virial) / (3.0 * volume)
    }
}
