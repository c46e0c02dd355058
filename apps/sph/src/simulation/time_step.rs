//! A time step: the stages of an integrator, the control of the step size, walls, and new particles from the nozzle.

use anyhow::{Result, bail, ensure};
use aqueduct::comm::Op;

use super::SphSimulation;
use crate::fluid::Fluid;
use crate::integrator::IntegratorKind;
use crate::quantity::{scalar, vector};
use crate::right_hand_side::LIST_MARGIN;

/// How often a step is repeated with a shorter length before it is an error.
const MOST_REPEATS: u32 = 40;

/// The integrated variables at the beginning of a step.
struct BaseState {
    position: Vec<[f64; 3]>,
    velocity: Vec<[f64; 3]>,
    density: Vec<f64>,
    energy: Vec<f64>,
}

impl SphSimulation<'_> {
    /// One time step. Afterwards all quantities belong to the new state; with leapfrog, dependent ones to its prediction. Collective.
    pub fn advance(&mut self) -> Result<()> {
        let base = self.base_state();
        self.save_stage(0);
        let (timestep, factor) = self.take_step(&base)?;
        self.state.step += 1;
        self.state.time += timestep;
        self.apply_boundaries();
        self.inject();
        self.arrange()?;
        self.evaluate()?;
        if self.config.integrator == IntegratorKind::Leapfrog {
            self.correct(timestep);
        }
        self.state.timestep = match self.config.timestep {
            given if given > 0.0 && !self.config.integrator.controls_error() => given,
            _ => (timestep * factor).min(self.stable_timestep()?),
        };
        Ok(())
    }

    fn base_state(&self) -> BaseState {
        let (scalars, vectors) = (&self.particles.scalars, &self.particles.vectors);
        BaseState {
            position: vectors[vector::POSITION].clone(),
            velocity: vectors[vector::VELOCITY].clone(),
            density: scalars[scalar::DENSITY].clone(),
            energy: scalars[scalar::INTERNAL_ENERGY].clone(),
        }
    }

    /// Keeps the present rates as those of a stage.
    fn save_stage(&mut self, stage: usize) {
        let (table, particles) = (&self.table, &mut self.particles);
        let at = table.stage_vector(stage);
        particles.vectors[at] = particles.vectors[vector::VELOCITY].clone();
        particles.vectors[at + 1] = particles.vectors[vector::ACCELERATION].clone();
        if let Some(number) = table.stage_density(stage) {
            particles.scalars[number] = particles.scalars[scalar::DENSITY_RATE].clone();
        }
        if let Some(number) = table.stage_energy(stage) {
            particles.scalars[number] = particles.scalars[scalar::ENERGY_RATE].clone();
        }
    }

    /// Computes the state at the end of the step, with shorter lengths until it is acceptable; the length, and the factor of the next one.
    fn take_step(&mut self, base: &BaseState) -> Result<(f64, f64)> {
        let tableau = self.config.integrator.tableau();
        let mut timestep = self.state.timestep;
        for _ in 0..MOST_REPEATS {
            let error = if self.config.integrator == IntegratorKind::Leapfrog {
                self.predict(base, timestep);
                0.0
            } else {
                for stage in 1..tableau.stages.len() {
                    self.move_from(base, timestep, tableau.stages[stage]);
                    self.evaluate()?;
                    self.save_stage(stage);
                }
                self.move_from(base, timestep, tableau.weights);
                self.error(timestep)
            };
            let moved = self.largest_move(base);
            let [error, moved] = self.world.allreduce(Op::Max, &[finite(error), finite(moved)])?[..] else {
                bail!("a reduction of two numbers has two results")
            };
            if error <= 1.0 && moved <= 1.0 {
                return Ok((
                    timestep,
                    if tableau.embedded.is_some() { tableau.step_factor(error) } else { f64::MAX },
                ));
            }
            let fixed = self.config.timestep > 0.0 && !self.config.integrator.controls_error();
            ensure!(
                !fixed,
                "step {}: a particle moves by more than {LIST_MARGIN} smoothing lengths, or its rates are not finite; \
                 use a shorter timestep",
                self.state.step
            );
            self.rejected += 1;
            timestep *= if error > 1.0 { tableau.step_factor(error).min(0.5) } else { 0.5 };
        }
        bail!(
            "step {}: no step length down to {timestep} s is acceptable; the state is not stable or the tolerance is too small",
            self.state.step
        )
    }

    /// The state at a stage: the base and the weighted rates of earlier stages.
    fn move_from(&mut self, base: &BaseState, timestep: f64, weights: &[f64]) {
        let (table, particles) = (&self.table, &mut self.particles);
        let stages: Vec<(usize, f64)> = weights
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight != 0.0)
            .map(|(stage, weight)| (stage, timestep * weight))
            .collect();
        let held = &self.arrangement.held;
        let moved = |values: &[[f64; 3]], rates: &[Vec<[f64; 3]>], part: usize, only_free: bool| {
            let one = |at: usize| -> [f64; 3] {
                if only_free && held[at] {
                    return values[at];
                }
                std::array::from_fn(|axis| {
                    let term = |(stage, weight): &(usize, f64)| {
                        weight * rates[table.stage_vector(*stage) + part][at][axis]
                    };
                    values[at][axis] + stages.iter().map(term).sum::<f64>()
                })
            };
            (0..values.len()).map(one).collect::<Vec<_>>()
        };
        let position = moved(&base.position, &particles.vectors, 0, false);
        let velocity = moved(&base.velocity, &particles.vectors, 1, true);
        particles.vectors[vector::POSITION] = position;
        particles.vectors[vector::VELOCITY] = velocity;
        let scalar = |values: &[f64], rates: &[Vec<f64>], number: &dyn Fn(usize) -> Option<usize>| {
            let term = |at: usize| {
                let rate = |(stage, weight): &(usize, f64)| {
                    number(*stage).map_or(0.0, |number| weight * rates[number][at])
                };
                values[at] + stages.iter().map(rate).sum::<f64>()
            };
            (0..values.len()).map(term).collect::<Vec<_>>()
        };
        let density = scalar(&base.density, &particles.scalars, &|stage| table.stage_density(stage));
        let energy = scalar(&base.energy, &particles.scalars, &|stage| table.stage_energy(stage));
        particles.scalars[scalar::DENSITY] = density;
        particles.scalars[scalar::INTERNAL_ENERGY] = energy;
    }

    /// Leapfrog: positions of second order, and predicted velocities, densities and energies.
    fn predict(&mut self, base: &BaseState, timestep: f64) {
        self.move_from(base, timestep, &[1.0]);
        let rates = self.particles.vectors[self.table.stage_vector(0) + 1].clone();
        let positions = &mut self.particles.vectors[vector::POSITION];
        for (position, acceleration) in positions.iter_mut().zip(&rates) {
            for axis in 0..3 {
                position[axis] += 0.5 * timestep * timestep * acceleration[axis];
            }
        }
    }

    /// Leapfrog: replaces half of the rates before the step by those after it.
    fn correct(&mut self, timestep: f64) {
        let (table, particles, held) = (&self.table, &mut self.particles, &self.arrangement.held);
        let rates = table.stage_vector(0) + 1;
        for at in (0..particles.len()).filter(|at| !held[*at]) {
            for axis in 0..3 {
                let change =
                    particles.vectors[vector::ACCELERATION][at][axis] - particles.vectors[rates][at][axis];
                particles.vectors[vector::VELOCITY][at][axis] += 0.5 * timestep * change;
            }
        }
        let scalars = [
            (table.stage_density(0), scalar::DENSITY, scalar::DENSITY_RATE),
            (table.stage_energy(0), scalar::INTERNAL_ENERGY, scalar::ENERGY_RATE),
        ];
        for (stage, value, rate) in scalars {
            let Some(stage) = stage else { continue };
            for at in 0..particles.len() {
                let change = particles.scalars[rate][at] - particles.scalars[stage][at];
                particles.scalars[value][at] += 0.5 * timestep * change;
            }
        }
    }

    /// The largest difference of both results of the tableau, divided by the tolerance. Positions are compared with the smoothing length.
    fn error(&self, timestep: f64) -> f64 {
        let tableau = self.config.integrator.tableau();
        if tableau.embedded.is_none() {
            return 0.0;
        }
        let [absolute, relative] = self.config.tolerance;
        let (table, particles) = (&self.table, &self.particles);
        let weights: Vec<f64> =
            (0..table.stages).map(|stage| timestep * tableau.error_weight(stage)).collect();
        let mut largest = 0.0f64;
        let mut compare = |difference: f64, value: f64| {
            let error = difference.abs() / (absolute + relative * value.abs());
            largest = if error.is_nan() { f64::INFINITY } else { largest.max(error) };
        };
        for at in 0..particles.len() {
            let h = particles.scalars[scalar::SMOOTHING_LENGTH][at];
            for axis in 0..3 {
                let sum = |part: usize| -> f64 {
                    let term = |(stage, weight): (usize, &f64)| {
                        weight * particles.vectors[table.stage_vector(stage) + part][at][axis]
                    };
                    weights.iter().enumerate().map(term).sum()
                };
                compare(sum(0), h);
                compare(sum(1), particles.vectors[vector::VELOCITY][at][axis]);
            }
            let sum = |number: &dyn Fn(usize) -> Option<usize>| -> f64 {
                let rate = |stage: usize| number(stage).map_or(0.0, |number| particles.scalars[number][at]);
                weights.iter().enumerate().map(|(stage, weight)| weight * rate(stage)).sum()
            };
            compare(sum(&|stage| table.stage_density(stage)), particles.scalars[scalar::DENSITY][at]);
            compare(sum(&|stage| table.stage_energy(stage)), particles.scalars[scalar::INTERNAL_ENERGY][at]);
        }
        largest
    }

    /// The longest way of a particle, in units of what neighbour lists allow.
    fn largest_move(&self, base: &BaseState) -> f64 {
        let positions = self.particles.vectors[vector::POSITION].iter().zip(&base.position);
        let h = &self.particles.scalars[scalar::SMOOTHING_LENGTH];
        let mut largest = 0.0f64;
        for ((now, before), h) in positions.zip(h) {
            let way = (0..3).map(|axis| (now[axis] - before[axis]).powi(2)).sum::<f64>().sqrt();
            largest = if way.is_nan() { f64::INFINITY } else { largest.max(way / (LIST_MARGIN * h)) };
        }
        largest
    }

    /// Reflects particles at walls, or moves them across the periodic boundary.
    fn apply_boundaries(&mut self) {
        let dimensions = self.config.dimensions;
        let (table, grid) = (&self.table, &self.scene.grid);
        let particles = &mut self.particles;
        for at in 0..particles.len() {
            let x = particles.vectors[vector::POSITION][at];
            let Some(chamber) = &self.scene.chamber else {
                particles.vectors[vector::POSITION][at] = grid.wrap(x);
                continue;
            };
            let inlet = particles.fluids[at] == Fluid::Diesel && self.arrangement.held[at];
            if particles.fluids[at] == Fluid::Wall || inlet {
                continue;
            }
            let (x, flips) = chamber.reflect(x, dimensions);
            particles.vectors[vector::POSITION][at] = x;
            let rates = (0..table.stages)
                .flat_map(|stage| [table.stage_vector(stage), table.stage_vector(stage) + 1]);
            for number in rates.chain([vector::VELOCITY]) {
                for axis in (0..3).filter(|axis| flips[*axis]) {
                    particles.vectors[number][at][axis] = -particles.vectors[number][at][axis];
                }
            }
        }
    }

    /// Adds the layers of diesel that have entered the nozzle; each rank those in its box.
    fn inject(&mut self) {
        let due = self.scene.layers_due(self.state.time);
        let (grid, rank) = (&self.scene.grid, self.world.rank());
        let per_layer = self.scene.chamber.as_ref().map_or(0, |chamber| chamber.nozzle.len() as u64);
        while self.state.layers < due {
            self.state.layers += 1;
            let mine = |x: [f64; 3]| self.decomposition.owner(grid.cell_of(x)) == rank;
            self.scene.add_layer(
                self.state.layers,
                self.state.time,
                self.state.next_id,
                &mut self.particles,
                mine,
            );
            self.state.next_id += per_layer;
        }
    }
}

/// A number for a maximum over ranks, in which NaN would be lost.
fn finite(value: f64) -> f64 {
    if value.is_nan() { f64::INFINITY } else { value }
}
