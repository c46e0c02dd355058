//! A running simulation: the state of a rank, and a time step.

mod exact_number;
mod time_step;
mod totals;

use anyhow::{Result, ensure};
use aqueduct::comm::{Comm, Op};
use aqueduct_decomposition::halo::{self, Neighbour};
use aqueduct_decomposition::{Decomposition, DecompositionMethod};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::exchange::{self, GhostPlan};
use crate::neighbour_list::NeighbourList;
use crate::particle_set::ParticleSet;
use crate::quantity::{QuantityTable, scalar, vector};
use crate::right_hand_side::{Arrangement, Equations};
use crate::scene::Scene;

pub use totals::Totals;

/// How far a run has come; with the particles it is the whole state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeState {
    /// Steps that were done.
    pub step: u64,
    /// Simulated time.
    #[serde(with = "exact_number")]
    pub time: f64,
    /// The length of the next step.
    #[serde(with = "exact_number")]
    pub timestep: f64,
    /// The next free id.
    pub next_id: u64,
    /// Layers of diesel that have entered the nozzle.
    pub layers: u64,
}

/// The state of one rank.
pub struct SphSimulation<'w> {
    world: &'w Comm,
    config: Config,
    scene: Scene,
    table: QuantityTable,
    equations: Equations,
    decomposition: Decomposition,
    neighbours: Vec<Neighbour>,
    particles: ParticleSet,
    arrangement: Arrangement,
    state: TimeState,
    /// Steps that were repeated with a shorter length.
    rejected: u64,
}

impl<'w> SphSimulation<'w> {
    /// The initial state of a configuration. Collective.
    pub fn new(world: &'w Comm, config: &Config) -> Result<Self> {
        let scene = Scene::new(config)?;
        let particles = scene.particles(world.rank(), world.size());
        let state = TimeState { step: 0, time: 0.0, timestep: 0.0, next_id: scene.sites(), layers: 0 };
        let mut simulation = Self::with_particles(world, config, scene, particles, state)?;
        simulation.evaluate()?;
        simulation.state.timestep = simulation.first_timestep()?;
        Ok(simulation)
    }

    /// Continues from particles on any ranks. Collective.
    pub fn resume(
        world: &'w Comm,
        config: &Config,
        particles: ParticleSet,
        state: TimeState,
    ) -> Result<Self> {
        Self::with_particles(world, config, Scene::new(config)?, particles, state)
    }

    fn with_particles(
        world: &'w Comm,
        config: &Config,
        scene: Scene,
        particles: ParticleSet,
        state: TimeState,
    ) -> Result<Self> {
        let mut simulation = Self {
            world,
            config: config.clone(),
            table: config.quantities(),
            equations: Equations::new(config),
            decomposition: Decomposition::regular(&scene.grid, world.size()),
            neighbours: Vec::new(),
            scene,
            particles,
            arrangement: Arrangement::default(),
            state,
            rejected: 0,
        };
        let here = |x: &[f64; 3]| {
            x.iter().zip(simulation.scene.grid.length).all(|(x, length)| (0.0..=length).contains(x))
        };
        let outside = simulation.particles.vectors[vector::POSITION].iter().position(|x| !here(x));
        let outside = outside.map_or(u64::MAX, |at| simulation.particles.ids[at]);
        let outside = world.allreduce_one(Op::Min, outside)?;
        ensure!(
            outside == u64::MAX,
            "particle {outside} is outside of the box {:?}",
            simulation.scene.grid.length
        );
        if config.decomposition == DecompositionMethod::Kd {
            let weights = vec![1; simulation.particles.len()];
            simulation.decomposition = simulation.kd_decomposition(&weights)?;
        }
        simulation.arrange()?;
        Ok(simulation)
    }

    /// Sends particles to their owners, sorts them, and finds their neighbours. Collective.
    fn arrange(&mut self) -> Result<()> {
        let (world, grid) = (self.world, &self.scene.grid);
        let owners: Vec<usize> = self.particles.vectors[vector::POSITION]
            .iter()
            .map(|x| self.decomposition.owner(grid.cell_of(*x)))
            .collect();
        exchange::send_to_owners(world, &mut self.particles, |at| owners[at])?;
        let cell_box = self.decomposition.cell_box(world.rank());
        let positions = &self.particles.vectors[vector::POSITION];
        let (order, starts) = exchange::cell_order(grid, &cell_box, positions, &self.particles.ids);
        self.particles.select(&order);
        self.neighbours = halo::neighbours(grid, &self.decomposition, world.rank());
        let ghosts = GhostPlan::new(world, &cell_box, &self.neighbours, &starts)?;
        let own = &self.particles.vectors[vector::POSITION];
        let arrived = ghosts.exchange(world, 3, |at, shift, values| {
            values.extend((0..3).map(|axis| own[at][axis] + shift[axis]));
        })?;
        let positions = [own.as_slice(), arrived.as_chunks().0].concat();
        let neighbours =
            NeighbourList::new(&cell_box, &starts, &positions, &ghosts.cells, self.scene.list_radius);
        let held = self.particles.fluids.iter().zip(own).map(|(fluid, x)| self.scene.is_held(*fluid, *x));
        self.arrangement = Arrangement { ghosts, neighbours, held: held.collect() };
        Ok(())
    }

    fn evaluate(&mut self) -> Result<()> {
        self.equations.evaluate(self.world, &self.arrangement, &mut self.particles)
    }

    /// Computes a new k-d decomposition if the load, counted as pairs of neighbours, is not balanced; the largest load divided by the mean
    /// before. Collective.
    pub fn balance(&mut self) -> Result<f64> {
        let weights: Vec<u64> =
            (0..self.particles.len()).map(|at| 1 + self.arrangement.neighbours.of(at).len() as u64).collect();
        let loads = self.world.allgather(&[weights.iter().sum::<u64>()])?;
        let mean = loads.iter().sum::<u64>() as f64 / loads.len() as f64;
        let imbalance = loads.iter().max().map_or(1.0, |most| *most as f64 / mean.max(1.0));
        if self.config.decomposition == DecompositionMethod::Kd && imbalance > self.config.imbalance {
            let next = self.kd_decomposition(&weights)?;
            if next != self.decomposition {
                self.decomposition = next;
                self.arrange()?;
            }
        }
        Ok(imbalance)
    }

    fn kd_decomposition(&self, weights: &[u64]) -> Result<Decomposition> {
        let grid = &self.scene.grid;
        let mut load = vec![0u64; grid.cells()];
        for (x, weight) in self.particles.vectors[vector::POSITION].iter().zip(weights) {
            load[grid.index(grid.cell_of(*x))] += weight;
        }
        self.world.allreduce_in_place(Op::Sum, &mut load)?;
        Ok(Decomposition::kd(grid, self.world.size(), &load))
    }

    /// The longest stable step of all particles. Collective.
    fn stable_timestep(&self) -> Result<f64> {
        let limits = &self.particles.scalars[scalar::STEP_LIMIT];
        let least = limits.iter().copied().fold(f64::MAX, f64::min);
        Ok(self.world.allreduce_one(Op::Min, least)?)
    }

    fn first_timestep(&self) -> Result<f64> {
        let stable = self.stable_timestep()?;
        Ok(match self.config.timestep {
            0.0 => stable,
            given if self.config.integrator.controls_error() => given.min(stable),
            given => given,
        })
    }

    /// The particles of this rank, by cell and id.
    pub fn particles(&self) -> &ParticleSet {
        &self.particles
    }

    /// How far the run has come.
    pub fn state(&self) -> TimeState {
        self.state
    }

    /// The configuration.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The quantities of the particles.
    pub fn quantities(&self) -> &QuantityTable {
        &self.table
    }

    /// The geometry.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The communicator.
    pub fn world(&self) -> &'w Comm {
        self.world
    }

    /// Steps that were repeated with a shorter length.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }
}
