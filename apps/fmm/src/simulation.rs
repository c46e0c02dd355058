//! The motion of the packets: velocity Verlet with forces summed over all ranks.

use std::ops::Range;
use std::time::Duration;

use anyhow::Result;
use aqueduct::comm::Comm;

use crate::forces::{Forces, Gas};
use crate::packet::MassPacket;
use crate::quadrature::QuadratureGrid;
use crate::shape::SECOND_MOMENT;

/// The numerical parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Method {
    /// The gas.
    pub gas: Gas,
    /// The length of a step.
    pub timestep: f64,
    /// Steps after which the quadrature points are laid anew; 0 never.
    pub relay: u64,
}

/// The energies of all packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PacketEnergies {
    /// Of centres and deformations.
    pub kinetic: f64,
    /// The sum over the quadrature points.
    pub internal: f64,
}

impl PacketEnergies {
    /// The sum of both.
    pub fn total(&self) -> f64 {
        self.kinetic + self.internal
    }
}

/// A run in progress. Every rank has all packets, and a part of the quadrature points.
pub struct FmmSimulation<'w, const D: usize> {
    world: &'w Comm,
    method: Method,
    packets: Vec<MassPacket<D>>,
    grid: QuadratureGrid<D>,
    rows: Range<usize>,
    forces: Forces<D>,
    step: u64,
    /// The time in the global sums of this rank.
    pub sum_time: Duration,
}

impl<'w, const D: usize> FmmSimulation<'w, D> {
    /// Begins with these packets, the same on all ranks. Collective.
    pub fn new(world: &'w Comm, method: Method, packets: Vec<MassPacket<D>>, step: u64) -> Result<Self> {
        let grid = QuadratureGrid::cover(&packets, ahead(&method))?;
        let rows = grid.rows_of(&packets, world.rank(), world.size());
        let forces = Forces::compute(world, &method.gas, &packets, &grid, &rows)?;
        Ok(Self { world, method, packets, grid, rows, forces, step, sum_time: Duration::ZERO })
    }

    /// All packets.
    pub fn packets(&self) -> &[MassPacket<D>] {
        &self.packets
    }

    /// The forces on them.
    pub fn forces(&self) -> &Forces<D> {
        &self.forces
    }

    /// The number of steps since the start.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The time since the start.
    pub fn time(&self) -> f64 {
        self.step as f64 * self.method.timestep
    }

    /// The quadrature points.
    pub fn grid(&self) -> &QuadratureGrid<D> {
        &self.grid
    }

    /// Lays the quadrature points anew, as a restart from the current packets does. Collective.
    pub fn lay_points(&mut self) -> Result<()> {
        self.grid = QuadratureGrid::cover(&self.packets, ahead(&self.method))?;
        self.rows = self.grid.rows_of(&self.packets, self.world.rank(), self.world.size());
        self.compute_forces()
    }

    fn compute_forces(&mut self) -> Result<()> {
        self.forces = Forces::compute(self.world, &self.method.gas, &self.packets, &self.grid, &self.rows)?;
        self.sum_time += self.forces.sum_time;
        Ok(())
    }

    /// Half a step of the velocities, and of the entropy.
    fn kick(&mut self) {
        let half = self.method.timestep / 2.0;
        for (at, packet) in self.packets.iter_mut().enumerate().filter(|(_, packet)| packet.is_active()) {
            let (force, moment) = (&self.forces.force[at], &self.forces.moment[at]);
            let (of_centre, of_deformation) = (half / packet.mass, half / (packet.mass * SECOND_MOMENT));
            add(&mut packet.velocity, of_centre, force);
            for (rate, moment) in packet.deformation_rate.iter_mut().zip(moment) {
                add(rate, of_deformation, moment);
            }
            packet.entropy += half * self.forces.heating[at];
        }
    }

    fn drift(&mut self) {
        let step = self.method.timestep;
        for packet in self.packets.iter_mut().filter(|packet| packet.is_active()) {
            add(&mut packet.position, step, &packet.velocity);
            for (deformation, rate) in packet.deformation.iter_mut().zip(&packet.deformation_rate) {
                add(deformation, step, rate);
            }
        }
    }

    /// One step. Collective.
    pub fn advance(&mut self) -> Result<()> {
        self.kick();
        self.drift();
        self.compute_forces()?;
        self.kick();
        self.step += 1;
        if self.method.relay > 0 && self.step.is_multiple_of(self.method.relay) {
            // After the step, from nothing but the packets: a restart continues with the same bits.
            self.lay_points()?;
        }
        Ok(())
    }

    /// The energies of all packets; the same on all ranks.
    pub fn energies(&self) -> PacketEnergies {
        let kinetic = self.packets.iter().map(MassPacket::kinetic_energy).sum();
        PacketEnergies { kinetic, internal: self.forces.internal }
    }

    /// The momentum of all packets.
    pub fn momentum(&self) -> [f64; D] {
        let of_axis =
            |axis: usize| self.packets.iter().map(|packet| packet.mass * packet.velocity[axis]).sum();
        std::array::from_fn(of_axis)
    }

    /// The entropy of all packets.
    pub fn entropy(&self) -> f64 {
        self.packets.iter().map(|packet| packet.entropy).sum()
    }

    /// The second moment of the mass.
    pub fn second_moment(&self) -> f64 {
        self.packets.iter().map(MassPacket::second_moment).sum()
    }
}

/// Adds a multiple of a vector.
fn add<const D: usize>(to: &mut [f64; D], factor: f64, vector: &[f64; D]) {
    to.iter_mut().zip(vector).for_each(|(to, part)| *to += factor * part);
}

/// The time for which the points must cover the packets.
fn ahead(method: &Method) -> f64 {
    2.0 * method.timestep * method.relay.max(1) as f64
}
