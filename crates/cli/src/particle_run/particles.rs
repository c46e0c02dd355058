//! Particles in the field of their own density: attracted to the middle, repelled by crowds. Sums over particles are sums of whole numbers, so
//! that a run has the same bits on any number of ranks.

use std::ops::Range;

use aqueduct::prelude::Object;

/// Particles.
pub(super) const COUNT: u64 = 40_000;
/// Cells of the density in each dimension.
pub(super) const GRID: usize = 96;
const TIME_STEP: f64 = 0.02;
const REPULSION: f64 = 2e-4;

#[derive(Object, Clone, Copy, Debug, PartialEq)]
pub(super) struct FieldParticle {
    id: u64,
    position: [f64; 2],
    velocity: [f64; 2],
}

/// The particles of a rank.
pub(super) struct ParticleSimulation {
    /// The number of its first particle.
    pub(super) first: u64,
    pub(super) particles: Vec<FieldParticle>,
    /// Steps that were done.
    pub(super) step: u64,
}

/// The part of `count` things that a rank has.
pub(super) fn part(count: u64, rank: u64, ranks: u64) -> Range<u64> {
    count * rank / ranks..count * (rank + 1) / ranks
}

impl FieldParticle {
    /// Number `id` at the beginning.
    fn new(id: u64) -> Self {
        // SplitMix64, https://doi.org/10.1145/2714064.2660195
        let uniform = |salt: u64| {
            let mut word = id.wrapping_mul(4).wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((word ^ (word >> 31)) >> 11) as f64 / (1u64 << 53) as f64
        };
        let position = [0.3 + 0.4 * uniform(0), 0.3 + 0.4 * uniform(1)];
        // A slow rotation about the middle.
        let velocity = [0.5 - position[1], position[0] - 0.5];
        Self { id, position, velocity }
    }

    fn cell(&self) -> [usize; 2] {
        self.position.map(|coordinate| ((coordinate * GRID as f64) as usize).min(GRID - 1))
    }
}

impl ParticleSimulation {
    pub(super) fn new(rank: u64, ranks: u64) -> Self {
        let own = part(COUNT, rank, ranks);
        Self { first: own.start, particles: own.map(FieldParticle::new).collect(), step: 0 }
    }

    /// The particles of this rank in each cell.
    pub(super) fn counts(&self) -> Vec<i64> {
        let mut counts = vec![0; GRID * GRID];
        for particle in &self.particles {
            let [column, row] = particle.cell();
            counts[row * GRID + column] += 1;
        }
        counts
    }

    /// One step in the density of all ranks.
    pub(super) fn advance(&mut self, counts: &[i64]) {
        self.step += 1;
        let at = |row: usize, column: usize| counts[row * GRID + column];
        for particle in &mut self.particles {
            let [column, row] = particle.cell();
            let slope = [
                at(row, (column + 1).min(GRID - 1)) - at(row, column.saturating_sub(1)),
                at((row + 1).min(GRID - 1), column) - at(row.saturating_sub(1), column),
            ];
            for (axis, slope) in slope.into_iter().enumerate() {
                let force = (0.5 - particle.position[axis]) - REPULSION * slope as f64;
                particle.velocity[axis] += TIME_STEP * force;
                particle.position[axis] =
                    (particle.position[axis] + TIME_STEP * particle.velocity[axis]).clamp(0.0, 1.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_on_any_number_of_ranks_have_the_same_bits() {
        let run = |ranks: u64| {
            let mut all: Vec<ParticleSimulation> =
                (0..ranks).map(|rank| ParticleSimulation::new(rank, ranks)).collect();
            for _ in 0..5 {
                let mut counts = vec![0; GRID * GRID];
                for simulation in &all {
                    counts.iter_mut().zip(simulation.counts()).for_each(|(sum, count)| *sum += count);
                }
                all.iter_mut().for_each(|simulation| simulation.advance(&counts));
            }
            all.into_iter().flat_map(|simulation| simulation.particles).collect::<Vec<_>>()
        };
        let one = run(1);
        assert!(one.iter().any(|particle| *particle != FieldParticle::new(particle.id)), "they move");
        assert!(run(3) == one);
    }
}
