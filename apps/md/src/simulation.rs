//! A running simulation: the state of a rank, and a time step.

pub mod exchange;

use anyhow::{Result, bail, ensure};
use aqueduct::comm::{Comm, Op};

use crate::decomposition::cell_box::CellBox;
use crate::decomposition::grid::SimulationGrid;
use crate::decomposition::halo::{self, Neighbour};
use crate::decomposition::{Decomposition, DecompositionMethod};
use crate::force::energy::Energies;
use crate::force::linked_cells::{self, LinkedCells};
use crate::force::pair_forces::{self, Force};
use crate::force::potential::Potential;
use aqueduct::checkpoint::Molecule;

/// The constant parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Model {
    /// The box and its cells.
    pub grid: SimulationGrid,
    /// The potential between molecules.
    pub potential: Potential,
    /// Length of a time step.
    pub timestep: f64,
    /// The thermostat, if there is one.
    pub thermostat: Option<Thermostat>,
    /// The method of decomposition.
    pub decomposition_method: DecompositionMethod,
    /// Steps between two load balancings of the k-d decomposition.
    pub rebalance: u64,
}

/// A thermostat that scales velocities to a temperature.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Thermostat {
    /// The temperature.
    pub temperature: f64,
    /// Steps between two scalings.
    pub every: u64,
}

/// The state of one rank.
pub struct Simulation<'w> {
    world: &'w Comm,
    model: Model,
    decomposition: Decomposition,
    neighbours: Vec<Neighbour>,
    molecules: Vec<Molecule>,
    forces: Vec<Force>,
    step: u64,
    time: f64,
}

impl<'w> Simulation<'w> {
    /// Starts from molecules on any ranks: each is sent to its owner. Collective.
    pub fn new(
        world: &'w Comm,
        model: Model,
        molecules: Vec<Molecule>,
        step: u64,
        time: f64,
    ) -> Result<Self> {
        for molecule in &molecules {
            let (id, at) = (molecule.id, molecule.position);
            let inside = at.iter().zip(model.grid.length).all(|(x, length)| (0.0..=length).contains(x));
            ensure!(inside, "molecule {id} at {at:?} is outside of the box {:?}", model.grid.length);
            let known = (molecule.component as usize) < model.potential.components();
            ensure!(
                known,
                "molecule {id} is of component {}, which the phase space does not define",
                molecule.component + 1
            );
        }
        let decomposition = Decomposition::regular(&model.grid, world.size());
        let mut simulation = Self {
            world,
            model,
            decomposition,
            neighbours: Vec::new(),
            molecules,
            forces: Vec::new(),
            step,
            time,
        };
        for molecule in &mut simulation.molecules {
            molecule.position = simulation.model.grid.wrap(molecule.position);
        }
        simulation.redistribute()?;
        simulation.compute_forces()?;
        Ok(simulation)
    }

    /// One leapfrog step: half a kick, a drift, forces, half a kick. Collective.
    pub fn advance(&mut self) -> Result<()> {
        self.kick();
        self.drift()?;
        let due = self.model.decomposition_method == DecompositionMethod::Kd
            && (self.step + 1).is_multiple_of(self.model.rebalance.max(1));
        if due {
            self.redistribute()?;
        } else {
            let grid = &self.model.grid;
            exchange::migrate(self.world, grid, &self.decomposition, &self.neighbours, &mut self.molecules)?;
        }
        self.compute_forces()?;
        self.kick();
        self.step += 1;
        self.time += self.model.timestep;
        self.apply_thermostat()
    }

    /// Half a step of the velocities.
    fn kick(&mut self) {
        for (molecule, acting_force) in self.molecules.iter_mut().zip(&self.forces) {
            if let Some(centre) = self.model.potential.centre(molecule.component as usize) {
                let share = 0.5 * self.model.timestep / centre.mass;
                (0..3).for_each(|axis| molecule.velocity[axis] += share * acting_force.force[axis]);
            }
        }
    }

    /// A step of the positions.
    fn drift(&mut self) -> Result<()> {
        let (grid, step) = (&self.model.grid, self.step);
        let edge = grid.cell_length();
        for molecule in &mut self.molecules {
            if self.model.potential.centre(molecule.component as usize).is_none() {
                continue;
            }
            for (axis, edge) in edge.into_iter().enumerate() {
                let way = self.model.timestep * molecule.velocity[axis];
                if way.is_nan() || way.abs() >= edge {
                    let (id, speed) = (molecule.id, molecule.velocity);
                    bail!(
                        "step {step}: molecule {id} with velocity {speed:?} crosses more than a cell in one step; \
                         use a shorter timestepLength, or an initial state without overlaps"
                    );
                }
                molecule.position[axis] += way;
            }
            molecule.position = grid.wrap(molecule.position);
        }
        Ok(())
    }

    /// Computes a new decomposition and sends every molecule to its owner.
    fn redistribute(&mut self) -> Result<()> {
        let (world, grid) = (self.world, &self.model.grid);
        self.decomposition = match self.model.decomposition_method {
            DecompositionMethod::Regular => Decomposition::regular(grid, world.size()),
            DecompositionMethod::Kd => {
                let mut load = vec![0u64; grid.cells()];
                self.molecules
                    .iter()
                    .for_each(|molecule| load[grid.index(grid.cell_of(molecule.position))] += 1);
                world.allreduce_in_place(Op::Sum, &mut load)?;
                Decomposition::kd(grid, world.size(), &load)
            }
        };
        self.neighbours = halo::neighbours(grid, &self.decomposition, world.rank());
        let owner = |molecule: &Molecule| self.decomposition.owner(grid.cell_of(molecule.position));
        self.molecules = exchange::send_to_owners(world, owner, &self.molecules)?;
        Ok(())
    }

    fn compute_forces(&mut self) -> Result<()> {
        let (grid, cell_box) = (&self.model.grid, self.cell_box());
        let starts = linked_cells::sort(grid, &cell_box, &mut self.molecules);
        let ghosts = exchange::ghosts(self.world, &cell_box, &self.neighbours, &self.molecules, &starts)?;
        let cells = LinkedCells::new(grid, &cell_box, &self.molecules, &ghosts);
        self.forces = pair_forces::forces(&cell_box, &cells, &self.model.potential);
        let finite = |acting_force: &Force| acting_force.force.iter().all(|force| force.is_finite());
        if let Some(at) = self.forces.iter().position(|acting_force| !finite(acting_force)) {
            let Molecule { id, position, .. } = self.molecules[at];
            bail!(
                "step {}: the force on molecule {id} at {position:?} is not finite: another molecule has the same position",
                self.step
            );
        }
        Ok(())
    }

    fn apply_thermostat(&mut self) -> Result<()> {
        let Some(Thermostat { temperature, every }) = self.model.thermostat else { return Ok(()) };
        if !self.step.is_multiple_of(every.max(1)) {
            return Ok(());
        }
        let now = self.energies()?.temperature();
        if now > 0.0 {
            let factor = (temperature / now).sqrt();
            for molecule in &mut self.molecules {
                if self.model.potential.centre(molecule.component as usize).is_some() {
                    molecule.velocity = molecule.velocity.map(|speed| speed * factor);
                }
            }
        }
        Ok(())
    }

    /// The energies of the state. Collective.
    pub fn energies(&self) -> Result<Energies> {
        Energies::measure(self.world, &self.model.potential, &self.molecules, &self.forces)
    }

    /// The cells of this rank.
    pub fn cell_box(&self) -> CellBox {
        self.decomposition.cell_box(self.world.rank())
    }

    /// The decomposition.
    pub fn decomposition(&self) -> &Decomposition {
        &self.decomposition
    }

    /// The molecules of this rank, by cell and id.
    pub fn molecules(&self) -> &[Molecule] {
        &self.molecules
    }

    /// The forces on these molecules.
    pub fn forces(&self) -> &[Force] {
        &self.forces
    }

    /// The constant parameters.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The communicator.
    pub fn world(&self) -> &'w Comm {
        self.world
    }

    /// Steps taken since the start of the trajectory.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Simulated time.
    pub fn time(&self) -> f64 {
        self.time
    }
}
