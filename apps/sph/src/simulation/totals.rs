//! Sums over all particles.

use anyhow::Result;
use aqueduct::comm::Op;

use super::SphSimulation;
use crate::fluid::Fluid;
use crate::quantity::{scalar, vector};

/// Sums over all particles without walls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// The number of particles, with walls.
    pub particles: u64,
    /// The number of diesel particles.
    pub diesel: u64,
    /// The sum of the momenta.
    pub momentum: [f64; 3],
    /// The sum of the sizes of the momenta.
    pub momentum_scale: f64,
    /// Kinetic energy.
    pub kinetic: f64,
    /// Internal energy.
    pub internal: f64,
    /// The largest velocity.
    pub speed: f64,
    /// The largest x of diesel, from the wall with the nozzle on.
    pub front: f64,
    /// The largest density of the air divided by that at rest.
    pub compression: f64,
}

impl SphSimulation<'_> {
    /// The sums of the present state. Collective.
    pub fn totals(&self) -> Result<Totals> {
        let particles = self.particles();
        let low = self.scene().chamber.as_ref().map_or(0.0, |chamber| chamber.low[0]);
        let mut sums = [0.0f64; 8];
        let mut most = [0.0f64, f64::MIN, 0.0];
        sums[0] = particles.len() as f64;
        for at in (0..particles.len()).filter(|at| particles.fluids[*at] != Fluid::Wall) {
            let (mass, velocity) =
                (particles.scalars[scalar::MASS][at], particles.vectors[vector::VELOCITY][at]);
            let square: f64 = velocity.iter().map(|v| v * v).sum();
            (0..3).for_each(|axis| sums[2 + axis] += mass * velocity[axis]);
            sums[5] += mass * square.sqrt();
            sums[6] += 0.5 * mass * square;
            sums[7] += mass * particles.scalars[scalar::INTERNAL_ENERGY][at];
            most[0] = most[0].max(square.sqrt());
            if particles.fluids[at] == Fluid::Diesel {
                sums[1] += 1.0;
                most[1] = most[1].max(particles.vectors[vector::POSITION][at][0] - low);
            } else {
                let rest = self.config().air_density;
                most[2] = most[2].max(particles.scalars[scalar::DENSITY][at] / rest);
            }
        }
        let sums = self.world().allreduce(Op::Sum, &sums)?;
        let most = self.world().allreduce(Op::Max, &most)?;
        Ok(Totals {
            particles: sums[0] as u64,
            diesel: sums[1] as u64,
            momentum: [sums[2], sums[3], sums[4]],
            momentum_scale: sums[5],
            kinetic: sums[6],
            internal: sums[7],
            speed: most[0],
            front: most[1],
            compression: most[2],
        })
    }
}
