//! Initial states: the box with its cells, lattices of particles, the walls of a chamber and its nozzle.

use std::f64::consts::TAU;

use anyhow::{Context, Result};
use aqueduct_decomposition::grid::SimulationGrid;

use crate::config::{Config, SceneKind};
use crate::fluid::Fluid;
use crate::kernel::Kernel;
use crate::particle_set::ParticleSet;
use crate::quantity::{scalar, vector};
use crate::right_hand_side::LIST_MARGIN;

/// The fewest layers of particles of a wall.
const WALL_LAYERS: usize = 3;

/// The geometry of a run.
#[derive(Clone, Debug)]
pub struct Scene {
    config: Config,
    /// The box and its cells.
    pub grid: SimulationGrid,
    /// The radius of neighbour lists: the support of the kernel and twice how far a particle may move in a step.
    pub list_radius: f64,
    /// The chamber inside the walls, if there are any.
    pub chamber: Option<Chamber>,
    /// Lattice sites along each axis.
    sites: [usize; 3],
    /// Particles per volume of the lattice, as the kernel sums them.
    number_density: f64,
}

/// A chamber with walls and a nozzle.
#[derive(Clone, Debug)]
pub struct Chamber {
    /// Its lowest corner.
    pub low: [f64; 3],
    /// Its highest corner.
    pub high: [f64; 3],
    /// Layers of the walls.
    pub layers: usize,
    /// The sites of a layer of diesel in the nozzle, as y and z.
    pub nozzle: Vec<[f64; 2]>,
}

impl Scene {
    /// The scene of a configuration.
    pub fn new(config: &Config) -> Result<Self> {
        let kernel = Kernel::new(config.kernel, config.dimensions);
        let h = config.smoothing_length();
        let list_radius = h * (kernel.support() + 2.0 * LIST_MARGIN);
        let layers = match config.scene {
            SceneKind::Jet => WALL_LAYERS.max((kernel.support() * config.smoothing).ceil() as usize),
            _ => 0,
        };
        let (mut sites, mut length) = ([1usize; 3], [1.001 * list_radius; 3]);
        for axis in 0..config.dimensions {
            sites[axis] = config.cells[axis] + 2 * layers;
            length[axis] = sites[axis] as f64 * config.spacing;
            // Behind the walls there is nothing, so that both sides of the box do not see each other.
            if layers > 0 {
                length[axis] += list_radius;
            }
        }
        let count = sites.iter().product::<usize>() as u64;
        let grid = SimulationGrid::new(length, list_radius, count)
            .context("the scene is smaller than the support of the kernel; increase cells")?;
        let number_density = kernel.lattice_sum(config.spacing, h);
        let chamber = (layers > 0).then(|| Chamber::new(config, layers));
        Ok(Self { config: config.clone(), grid, list_radius, chamber, sites, number_density })
    }

    /// The number of lattice sites, and so of the first id that is free.
    pub fn sites(&self) -> u64 {
        self.sites.iter().product::<usize>() as u64
    }

    /// The particles of a share of the lattice sites.
    pub fn particles(&self, rank: usize, ranks: usize) -> ParticleSet {
        let mut particles = ParticleSet::new(&self.config.quantities());
        let total = self.sites();
        let border = |rank: usize| (u128::from(total) * rank as u128 / ranks as u128) as u64;
        for id in border(rank)..border(rank + 1) {
            let (x, y) = (id as usize % self.sites[0], id as usize / self.sites[0] % self.sites[1]);
            let z = id as usize / (self.sites[0] * self.sites[1]);
            self.place(id, [x, y, z], &mut particles);
        }
        particles
    }

    fn place(&self, id: u64, site: [usize; 3], particles: &mut ParticleSet) {
        let config = &self.config;
        let mut position: [f64; 3] = std::array::from_fn(|axis| {
            if axis < config.dimensions { (site[axis] as f64 + 0.5) * config.spacing } else { 0.0 }
        });
        let (mut fluid, mut velocity, mut compression) = (Fluid::Air, [0.0; 3], 0.0);
        match (config.scene, &self.chamber) {
            (SceneKind::Jet, Some(chamber)) => {
                fluid = chamber.fluid(position, config.dimensions);
                if fluid == Fluid::Diesel {
                    velocity[0] = config.velocity;
                }
            }
            (SceneKind::Sound, _) => {
                let k = TAU / self.grid.length[0];
                let amplitude = config.velocity / config.air_sound;
                velocity[0] = config.velocity * (k * position[0]).sin();
                compression = amplitude * (k * position[0]).sin();
                position[0] += amplitude / k * (k * position[0]).cos();
            }
            (SceneKind::Shear, _) => {
                velocity[0] = config.velocity * (TAU * position[1] / self.grid.length[1]).sin();
            }
            (SceneKind::Contact, _) if site[0] < self.sites[0] / 2 => fluid = Fluid::Diesel,
            (SceneKind::Random, _) => {
                let mut dice = SplitMix64(config.seed ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                fluid = if dice.unit() < 0.3 { Fluid::Diesel } else { Fluid::Air };
                for axis in 0..config.dimensions {
                    position[axis] += config.displacement * config.spacing * (dice.unit() - 0.5);
                    velocity[axis] = 2.0 * config.velocity * (dice.unit() - 0.5);
                }
            }
            _ => {}
        }
        let position = self.grid.wrap(position);
        self.add(particles, id, fluid, position, velocity, compression);
    }

    /// Adds a particle at rest density, or denser by a part `compression`.
    fn add(
        &self,
        particles: &mut ParticleSet,
        id: u64,
        fluid: Fluid,
        position: [f64; 3],
        velocity: [f64; 3],
        compression: f64,
    ) {
        let materials = self.config.materials();
        let density = materials.rest_density(fluid);
        let at = particles.push(id, fluid);
        particles.scalars[scalar::MASS][at] = density / self.number_density;
        particles.scalars[scalar::DENSITY][at] = density * (1.0 + compression);
        particles.scalars[scalar::SMOOTHING_LENGTH][at] = self.config.smoothing_length();
        particles.scalars[scalar::INTERNAL_ENERGY][at] = materials.rest_energy();
        particles.vectors[vector::POSITION][at] = position;
        particles.vectors[vector::VELOCITY][at] = velocity;
    }

    /// The number of layers of diesel that have entered the nozzle until a time, without the first ones.
    pub fn layers_due(&self, time: f64) -> u64 {
        let travelled = self.config.velocity * time / self.config.spacing;
        if self.chamber.is_some() { travelled.floor() as u64 } else { 0 }
    }

    /// Adds those particles of layer `layer` (from 1 on) that `mine` accepts; `first_id` is that of the first particle of the layer.
    pub fn add_layer(
        &self,
        layer: u64,
        time: f64,
        first_id: u64,
        particles: &mut ParticleSet,
        mine: impl Fn([f64; 3]) -> bool,
    ) {
        let Some(chamber) = &self.chamber else { return };
        let (spacing, speed) = (self.config.spacing, self.config.velocity);
        // The last of the first layers began half a spacing from the back of the nozzle.
        let x = 0.5 * spacing + speed * time - layer as f64 * spacing;
        for (id, [y, z]) in (first_id..).zip(&chamber.nozzle) {
            let position = [x, *y, *z];
            if mine(position) {
                self.add(particles, id, Fluid::Diesel, position, [speed, 0.0, 0.0], 0.0);
            }
        }
    }

    /// Whether a particle moves with constant velocity: walls, and diesel in the nozzle.
    pub fn is_held(&self, fluid: Fluid, position: [f64; 3]) -> bool {
        let inlet = self.chamber.as_ref().is_some_and(|chamber| position[0] < chamber.low[0]);
        fluid == Fluid::Wall || (fluid == Fluid::Diesel && inlet)
    }
}

impl Chamber {
    fn new(config: &Config, layers: usize) -> Self {
        let spacing = config.spacing;
        let bound = |axis: usize, cells: usize| {
            if axis < config.dimensions { (layers + cells) as f64 * spacing } else { 0.0 }
        };
        let low = std::array::from_fn(|axis| bound(axis, 0));
        let high = std::array::from_fn(|axis| bound(axis, config.cells[axis]));
        let mut chamber = Self { low, high, layers, nozzle: Vec::new() };
        let radius = config.nozzle * spacing;
        let along = |axis: usize| -> Vec<f64> {
            if axis >= config.dimensions {
                return vec![0.0];
            }
            (0..config.cells[axis]).map(|cell| ((layers + cell) as f64 + 0.5) * spacing).collect()
        };
        let sites = along(2).into_iter().flat_map(|z| along(1).into_iter().map(move |y| [y, z]));
        let inside = |site: &[f64; 2]| chamber.axis_distance(*site) <= radius;
        let nozzle = sites.filter(inside).collect();
        chamber.nozzle = nozzle;
        chamber
    }

    /// The distance from the axis of the nozzle.
    fn axis_distance(&self, [y, z]: [f64; 2]) -> f64 {
        let middle = |axis: usize| 0.5 * (self.low[axis] + self.high[axis]);
        (y - middle(1)).hypot(z - middle(2))
    }

    fn fluid(&self, position: [f64; 3], dimensions: usize) -> Fluid {
        let inside = |axis: usize| position[axis] > self.low[axis] && position[axis] < self.high[axis];
        let in_nozzle = |site: &[f64; 2]| {
            (site[0] - position[1]).abs() + (site[1] - position[2]).abs() < 1e-9 * self.high[0]
        };
        if (0..dimensions).all(inside) {
            Fluid::Air
        } else if position[0] < self.low[0] && self.nozzle.iter().any(in_nozzle) {
            Fluid::Diesel
        } else {
            Fluid::Wall
        }
    }

    /// Reflects a particle that has left the chamber: its position, and the axes along which its velocity changes sign.
    pub fn reflect(&self, position: [f64; 3], dimensions: usize) -> ([f64; 3], [bool; 3]) {
        let (mut reflected, mut flips) = (position, [false; 3]);
        for axis in 0..dimensions {
            let bound = if position[axis] < self.low[axis] { self.low[axis] } else { self.high[axis] };
            if position[axis] < self.low[axis] || position[axis] > self.high[axis] {
                reflected[axis] = 2.0 * bound - position[axis];
                flips[axis] = true;
            }
        }
        (reflected, flips)
    }
}

/// Random numbers for a particle: Steele, Lea and Flood 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_site_has_one_particle_and_walls_surround_the_chamber() {
        let config = Config { cells: [8, 6, 6], nozzle: 1.5, ..Config::default() };
        let scene = Scene::new(&config).unwrap();
        let whole = scene.particles(0, 1);
        assert_eq!(whole.len() as u64, scene.sites());
        let parts: Vec<u64> = (0..3).flat_map(|rank| scene.particles(rank, 3).ids).collect();
        assert_eq!(parts, whole.ids);
        let count = |fluid: Fluid| whole.fluids.iter().filter(|found| **found == fluid).count();
        assert_eq!(count(Fluid::Air), 8 * 6 * 6);
        let chamber = scene.chamber.as_ref().unwrap();
        assert_eq!((chamber.layers, chamber.nozzle.len()), (3, 4));
        assert_eq!(count(Fluid::Diesel), 3 * 4);
    }

    #[test]
    fn layers_enter_at_the_back_of_the_nozzle() {
        let scene = Scene::new(&Config { velocity: 2.0, ..Config::default() }).unwrap();
        assert_eq!([scene.layers_due(0.49), scene.layers_due(0.5), scene.layers_due(1.7)], [0, 1, 3]);
        let mut added = ParticleSet::new(&Config::default().quantities());
        scene.add_layer(1, 0.5, 100, &mut added, |_| true);
        assert_eq!(added.ids[0], 100);
        assert!((added.vectors[vector::POSITION][0][0] - 0.5).abs() < 1e-12);
    }

    #[test]
    fn particles_beyond_a_wall_are_reflected() {
        let chamber = Scene::new(&Config::default()).unwrap().chamber.unwrap();
        let (position, flips) = chamber.reflect([chamber.high[0] + 0.25, 8.0, 2.5], 3);
        assert_eq!((position, flips), ([chamber.high[0] - 0.25, 8.0, 3.5], [true, false, true]));
    }
}
