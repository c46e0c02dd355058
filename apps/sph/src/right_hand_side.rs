//! The terms of the right-hand side: number density, equations of state, velocity gradient, pressure force, viscous stress.
//!
//! With n the number density, W the kernel and h the mean smoothing length of a pair, sums over the neighbours j of particle i are
//!
//! | | |
//! |---|---|
//! | number density | nᵢ = Σ W, and ρᵢ = mᵢnᵢ; or integrated: dρᵢ/dt = mᵢ Σ (vᵢ − vⱼ)·∇W |
//! | pressure force | −Σ (pᵢ/nᵢ² + pⱼ/nⱼ²) ∇W |
//! | velocity gradient | Σ (vⱼ − vᵢ) ∇W / nⱼ |
//! | viscous force | Σ (σᵢ/nᵢ² + σⱼ/nⱼ²)·∇W, σ the stress tensor |
//!
//! Number density: F. Ott, E. Schnetter, [A modified SPH approach for fluids with large density
//! differences](https://arxiv.org/abs/physics/0303112), 2003. Stress tensor: O. Flebbe et al., [Smoothed particle hydrodynamics: Physical
//! viscosity and the simulation of accretion disks](https://doi.org/10.1086/174526), 1994.
//!
//! Both sides of a pair are computed, each in the order of its own neighbours, so that sums do not depend on the decomposition.

use anyhow::Result;
use aqueduct::comm::Comm;

use crate::config::{Config, DensityMethod};
use crate::exchange::GhostPlan;
use crate::fluid::{Fluid, Materials};
use crate::kernel::Kernel;
use crate::neighbour_list::NeighbourList;
use crate::particle_set::ParticleSet;
use crate::quantity::{scalar, vector};

/// A symmetric tensor: xx, yy, zz, xy, xz, yz.
type Stress = [f64; 6];

/// The constant parameters of the right-hand side.
#[derive(Clone, Debug)]
pub struct Equations {
    /// The kernel.
    pub kernel: Kernel,
    /// The material constants.
    pub materials: Materials,
    density: DensityMethod,
    artificial: [f64; 2],
    gravity: [f64; 3],
    courant: f64,
    dimensions: usize,
}

/// Particles with their ghosts: what sums over neighbours need, own particles first.
#[derive(Debug, Default)]
struct LocalState {
    position: Vec<[f64; 3]>,
    velocity: Vec<[f64; 3]>,
    mass: Vec<f64>,
    h: Vec<f64>,
    density: Vec<f64>,
    number_density: Vec<f64>,
    energy: Vec<f64>,
    fluid: Vec<Fluid>,
    sound: Vec<f64>,
    /// p/n², and mass² times that for `standard`.
    pressure_term: Vec<f64>,
    stress_term: Vec<Stress>,
}

/// The arrangement of particles: who exchanges ghosts, and the neighbours of each particle.
#[derive(Debug, Default)]
pub struct Arrangement {
    /// The exchange of ghosts.
    pub ghosts: GhostPlan,
    /// The neighbours.
    pub neighbours: NeighbourList,
    /// The particles that move with constant velocity: walls, and diesel in the nozzle.
    pub held: Vec<bool>,
}

/// The number of values of a ghost.
const WIDTH: usize = 11;

/// A pair of particles: what all sums need.
struct Pair {
    other: usize,
    /// ∇W with respect to the first particle.
    gradient: [f64; 3],
    /// Position of the first minus that of the second.
    apart: [f64; 3],
    square: f64,
    h: f64,
}

impl Equations {
    /// The equations of a configuration.
    pub fn new(config: &Config) -> Self {
        Self {
            kernel: Kernel::new(config.kernel, config.dimensions),
            materials: config.materials(),
            density: config.density,
            artificial: config.artificial,
            gravity: config.gravity,
            courant: config.courant,
            dimensions: config.dimensions,
        }
    }

    /// Computes all dependent quantities and the rates from positions, velocities, densities (if integrated) and energies. Collective.
    pub fn evaluate(
        &self,
        world: &Comm,
        arrangement: &Arrangement,
        particles: &mut ParticleSet,
    ) -> Result<()> {
        let plan = &arrangement.ghosts;
        let mut local = Self::local_state(world, plan, particles)?;
        if self.density != DensityMethod::Integrated {
            self.sum_densities(&arrangement.neighbours, particles.len(), &mut local);
            let densities = &local.density;
            let arrived = plan.exchange(world, 1, |at, _, values| values.push(densities[at]))?;
            local.density.extend(arrived);
        }
        self.apply_state(particles, &mut local);
        self.compute_gradients(&arrangement.neighbours, particles, &local);
        if self.materials.is_viscous() {
            self.compute_stress(particles, &mut local);
            let stress = &local.stress_term;
            let arrived = plan.exchange(world, 6, |at, _, values| values.extend(stress[at]))?;
            local.stress_term.extend(arrived.as_chunks().0);
        }
        self.compute_rates(arrangement, particles, &local);
        Ok(())
    }

    fn local_state(world: &Comm, plan: &GhostPlan, particles: &ParticleSet) -> Result<LocalState> {
        let (scalars, vectors) = (&particles.scalars, &particles.vectors);
        let mut local = LocalState {
            position: vectors[vector::POSITION].clone(),
            velocity: vectors[vector::VELOCITY].clone(),
            mass: scalars[scalar::MASS].clone(),
            h: scalars[scalar::SMOOTHING_LENGTH].clone(),
            density: scalars[scalar::DENSITY].clone(),
            energy: scalars[scalar::INTERNAL_ENERGY].clone(),
            fluid: particles.fluids.clone(),
            ..LocalState::default()
        };
        let arrived = plan.exchange(world, WIDTH, |at, shift, values| {
            let x = vectors[vector::POSITION][at];
            values.extend((0..3).map(|axis| x[axis] + shift[axis]));
            values.extend(vectors[vector::VELOCITY][at]);
            values.extend(
                [scalar::MASS, scalar::SMOOTHING_LENGTH, scalar::DENSITY, scalar::INTERNAL_ENERGY]
                    .map(|number| scalars[number][at]),
            );
            values.push(f64::from(particles.fluids[at].code()));
        })?;
        for ghost in arrived.as_chunks::<WIDTH>().0 {
            let [x, y, z, u, v, w, mass, h, density, energy, fluid] = *ghost;
            local.position.push([x, y, z]);
            local.velocity.push([u, v, w]);
            local.mass.push(mass);
            local.h.push(h);
            local.density.push(density);
            local.energy.push(energy);
            local.fluid.push(Fluid::from_code(fluid as u8).unwrap_or_default());
        }
        Ok(local)
    }

    /// Sums kernels for the densities of own particles; those of ghosts are removed.
    fn sum_densities(&self, neighbours: &NeighbourList, own: usize, local: &mut LocalState) {
        let standard = self.density == DensityMethod::Standard;
        let sum = |at: usize| {
            let weight = |other: usize| if standard { local.mass[other] } else { local.mass[at] };
            let mut density = weight(at) * self.kernel.value(0.0, local.h[at]);
            for other in neighbours.of(at).iter().map(|other| *other as usize) {
                let r =
                    crate::neighbour_list::distance_square(local.position[at], local.position[other]).sqrt();
                density += weight(other) * self.kernel.value(r, 0.5 * (local.h[at] + local.h[other]));
            }
            density
        };
        local.density = (0..own).map(sum).collect();
    }

    /// Number density, pressure, sound speed and temperature of particles and ghosts.
    fn apply_state(&self, particles: &mut ParticleSet, local: &mut LocalState) {
        let (own, standard) = (particles.len(), self.density == DensityMethod::Standard);
        for at in 0..local.position.len() {
            let (density, mass, fluid) = (local.density[at], local.mass[at], local.fluid[at]);
            let state = self.materials.state(fluid, density, local.energy[at]);
            let n = density / mass;
            local.number_density.push(n);
            local.sound.push(state.sound);
            let divisor = if standard { density * density } else { n * n };
            local.pressure_term.push(state.pressure / divisor);
            if at < own {
                let (shear, bulk) = self.materials.viscosity(fluid);
                let values = [
                    (scalar::DENSITY, density),
                    (scalar::NUMBER_DENSITY, n),
                    (scalar::PRESSURE, state.pressure),
                    (scalar::SOUND_SPEED, state.sound),
                    (scalar::TEMPERATURE, state.temperature),
                    (scalar::SHEAR_VISCOSITY, shear),
                    (scalar::BULK_VISCOSITY, bulk),
                ];
                values.into_iter().for_each(|(number, value)| particles.scalars[number][at] = value);
            }
        }
    }

    /// The pairs of a particle inside the support of the kernel.
    #[inline]
    fn pairs<'a>(
        &'a self,
        neighbours: &'a NeighbourList,
        local: &'a LocalState,
        at: usize,
    ) -> impl Iterator<Item = Pair> + 'a {
        let (here, h_here) = (local.position[at], local.h[at]);
        neighbours.of(at).iter().filter_map(move |other| {
            let other = *other as usize;
            let there = local.position[other];
            let apart: [f64; 3] = std::array::from_fn(|axis| here[axis] - there[axis]);
            let square = apart[0] * apart[0] + apart[1] * apart[1] + apart[2] * apart[2];
            let h = 0.5 * (h_here + local.h[other]);
            let reach = self.kernel.support() * h;
            if square >= reach * reach || square == 0.0 {
                return None;
            }
            let r = square.sqrt();
            let slope = self.kernel.slope(r, h) / r;
            Some(Pair { other, gradient: apart.map(|x| slope * x), apart, square, h })
        })
    }

    /// The velocity gradient and its trace, and the rate of the density.
    fn compute_gradients(&self, neighbours: &NeighbourList, particles: &mut ParticleSet, local: &LocalState) {
        for at in 0..particles.len() {
            let (mut gradient, mut inflow) = ([[0.0f64; 3]; 3], 0.0);
            for Pair { other, gradient: slope, .. } in self.pairs(neighbours, local, at) {
                let volume = 1.0 / local.number_density[other];
                let apart: [f64; 3] =
                    std::array::from_fn(|a| local.velocity[other][a] - local.velocity[at][a]);
                for (row, apart) in gradient.iter_mut().zip(apart) {
                    (0..3).for_each(|b| row[b] += volume * apart * slope[b]);
                }
                inflow -= apart[0] * slope[0] + apart[1] * slope[1] + apart[2] * slope[2];
            }
            for (row, values) in gradient.iter().enumerate() {
                particles.vectors[vector::VELOCITY_GRADIENT + row][at] = *values;
            }
            let divergence = gradient[0][0] + gradient[1][1] + gradient[2][2];
            particles.scalars[scalar::DIVERGENCE][at] = divergence;
            particles.scalars[scalar::DENSITY_RATE][at] = local.mass[at] * inflow;
        }
    }

    /// The stress tensors of own particles, divided by n².
    fn compute_stress(&self, particles: &ParticleSet, local: &mut LocalState) {
        let standard = self.density == DensityMethod::Standard;
        local.stress_term = (0..particles.len())
            .map(|at| {
                let row = |a: usize| particles.vectors[vector::VELOCITY_GRADIENT + a][at];
                let (x, y, z) = (row(0), row(1), row(2));
                let (shear, bulk) = self.materials.viscosity(particles.fluids[at]);
                let divergence = particles.scalars[scalar::DIVERGENCE][at];
                let trace = (bulk - shear * 2.0 / self.dimensions as f64) * divergence;
                let divisor = if standard { local.density[at] } else { local.number_density[at] };
                let factor = 1.0 / (divisor * divisor);
                // The trace belongs to the dimensions that exist; in the others positions are zero, and so are gradients.
                [
                    2.0 * shear * x[0] + trace,
                    2.0 * shear * y[1] + trace,
                    2.0 * shear * z[2] + trace,
                    shear * (x[1] + y[0]),
                    shear * (x[2] + z[0]),
                    shear * (y[2] + z[1]),
                ]
                .map(|stress| factor * stress)
            })
            .collect();
    }

    /// Forces, accelerations, rates and the step limit.
    fn compute_rates(&self, arrangement: &Arrangement, particles: &mut ParticleSet, local: &LocalState) {
        for at in 0..particles.len() {
            let sums = self.sum_forces(&arrangement.neighbours, local, at);
            let (mass, held) = (local.mass[at], arrangement.held[at]);
            let volume = self.gravity.map(|g| mass * g);
            let acceleration: [f64; 3] =
                std::array::from_fn(|a| (sums.pressure[a] + sums.viscous[a] + volume[a]) / mass);
            let acceleration = if held { [0.0; 3] } else { acceleration };
            let vectors = [
                (vector::PRESSURE_FORCE, sums.pressure),
                (vector::VISCOUS_FORCE, sums.viscous),
                (vector::VOLUME_FORCE, volume),
                (vector::ACCELERATION, acceleration),
            ];
            vectors.into_iter().for_each(|(number, value)| particles.vectors[number][at] = value);
            let inlet = held && local.fluid[at] == Fluid::Diesel;
            if inlet {
                particles.scalars[scalar::DENSITY_RATE][at] = 0.0;
            }
            let heats = self.materials.energy && !held;
            particles.scalars[scalar::ENERGY_RATE][at] = if heats { sums.work / mass } else { 0.0 };
            particles.scalars[scalar::STEP_LIMIT][at] = self.step_limit(local, at, acceleration);
        }
    }

    fn sum_forces(&self, neighbours: &NeighbourList, local: &LocalState, at: usize) -> ForceSums {
        let (standard, viscous) = (self.density == DensityMethod::Standard, !local.stress_term.is_empty());
        let [alpha, beta] = self.artificial;
        let (mut sums, velocity) = (ForceSums::default(), local.velocity[at]);
        for pair in self.pairs(neighbours, local, at) {
            let other = pair.other;
            let apart: [f64; 3] = std::array::from_fn(|a| velocity[a] - local.velocity[other][a]);
            let approach = dot(apart, pair.gradient);
            let masses = local.mass[at] * local.mass[other];
            let factor = if standard { masses } else { 1.0 };
            let pressure = factor * (local.pressure_term[at] + local.pressure_term[other]);
            (0..3).for_each(|a| sums.pressure[a] -= pressure * pair.gradient[a]);
            sums.work += factor * local.pressure_term[at] * approach;
            if viscous {
                let (mine, theirs) = (local.stress_term[at], local.stress_term[other]);
                let both: Stress = std::array::from_fn(|part| factor * (mine[part] + theirs[part]));
                let force = contract(both, pair.gradient);
                (0..3).for_each(|a| sums.viscous[a] += force[a]);
                sums.work -= factor * dot(contract(mine, pair.gradient), apart);
            }
            let closing = dot(apart, pair.apart);
            if closing < 0.0 && alpha + beta > 0.0 {
                // J. J. Monaghan 1992, equations 4.1 and 4.2.
                let mu = pair.h * closing / (pair.square + 0.01 * pair.h * pair.h);
                let sound = 0.5 * (local.sound[at] + local.sound[other]);
                let density = 0.5 * (local.density[at] + local.density[other]);
                let term = masses * (beta * mu * mu - alpha * sound * mu) / density;
                (0..3).for_each(|a| sums.viscous[a] -= term * pair.gradient[a]);
                sums.work += 0.5 * term * approach;
            }
        }
        sums
    }

    /// The longest stable step: sound, acceleration and viscosity; and no particle moves further than neighbour lists allow.
    fn step_limit(&self, local: &LocalState, at: usize, acceleration: [f64; 3]) -> f64 {
        let (h, density) = (local.h[at], local.density[at]);
        let (speed, force) =
            (dot(local.velocity[at], local.velocity[at]).sqrt(), dot(acceleration, acceleration).sqrt());
        let (shear, bulk) = self.materials.viscosity(local.fluid[at]);
        let mut limit = self.courant * h / (local.sound[at] + speed);
        if force > 0.0 {
            limit = limit.min(self.courant * (h / force).sqrt());
        }
        if shear + bulk > 0.0 {
            limit = limit.min(0.5 * self.courant * h * h * density / shear.max(bulk));
        }
        if speed > 0.0 {
            limit = limit.min(0.8 * LIST_MARGIN * h / speed);
        }
        limit
    }
}

/// How far a particle may move during a step before neighbour lists miss pairs, in units of h.
pub const LIST_MARGIN: f64 = 0.1;

/// The sums over the neighbours of a particle.
#[derive(Default)]
struct ForceSums {
    pressure: [f64; 3],
    viscous: [f64; 3],
    /// The rate of the internal energy of the particle.
    work: f64,
}

#[inline]
fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// A symmetric tensor times a vector.
#[inline]
fn contract(s: Stress, v: [f64; 3]) -> [f64; 3] {
    [
        s[0] * v[0] + s[3] * v[1] + s[4] * v[2],
        s[3] * v[0] + s[1] * v[1] + s[5] * v[2],
        s[4] * v[0] + s[5] * v[1] + s[2] * v[2],
    ]
}
