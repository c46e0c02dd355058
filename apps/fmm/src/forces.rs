//! Fields at the quadrature points, and the exact forces of the energy that they give.
//!
//! 1. Each packet adds its mass, entropy and mass flux to the fields at its points.
//! 2. At each point alone: velocity, energy, temperature.
//! 3. Each packet sums the forces of the fields at its points.
//!
//! The internal energy is V = Σ αₖ ε(ρ(aₖ), s(aₖ)) with ε = ρ^γ e^(s/ρ)/(γ − 1). The forces are the exact derivatives of this sum with respect to positions and
//! deformation matrices, so that energy is conserved however few points there are.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use aqueduct::comm::Comm;

use crate::exact_sum::FixedPointSums;
use crate::matrix::{Matrix, apply, apply_transposed, invert};
use crate::packet::MassPacket;
use crate::quadrature::QuadratureGrid;
use crate::shape;

/// The gas, and the friction between packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gas {
    /// The ratio of specific heats γ.
    pub gamma: f64,
    /// The friction r: the force density on a packet is −r ρᵢ(vᵢ − v).
    pub friction: f64,
}

/// What acts on the packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Forces<const D: usize> {
    /// The force on each centre.
    pub force: Vec<[f64; D]>,
    /// The moment on each deformation matrix.
    pub moment: Vec<Matrix<D>>,
    /// The rate of the entropy of each packet.
    pub heating: Vec<f64>,
    /// The internal energy V.
    pub internal: f64,
    /// The time that this rank spent in the global sum.
    pub sum_time: Duration,
}

/// The fields at a point.
#[derive(Clone, Copy)]
struct PointFields<const D: usize> {
    density: f64,
    entropy: f64,
    /// The mass flux; after phase 2 the velocity.
    flux: [f64; D],
}

/// What the packets need of the fields at a point.
#[derive(Clone, Copy)]
struct PointForces<const D: usize> {
    /// ∂ε/∂ρ.
    by_density: f64,
    /// ∂ε/∂s: the temperature.
    temperature: f64,
    velocity: [f64; D],
}

/// A packet with what its points have in common.
struct PacketFrame<'p, const D: usize> {
    packet: &'p MassPacket<D>,
    inverse: Matrix<D>,
    /// 1 / det H.
    scale: f64,
}

impl<'p, const D: usize> PacketFrame<'p, D> {
    fn new(packet: &'p MassPacket<D>) -> Result<Self> {
        let inverted = invert(&packet.deformation);
        let (determinant, inverse) = inverted.ok_or_else(|| {
            anyhow!(
                "a packet at {:?} has a singular deformation matrix; choose a smaller time step",
                packet.position
            )
        })?;
        Ok(Self { packet, inverse, scale: 1.0 / determinant.abs() })
    }

    /// The velocity of the packet at coordinates y.
    #[inline]
    fn velocity(&self, y: &[f64; D]) -> [f64; D] {
        let deformation = apply(&self.packet.deformation_rate, y);
        std::array::from_fn(|axis| self.packet.velocity[axis] + deformation[axis])
    }
}

impl<const D: usize> Forces<D> {
    /// The numbers that are summed for each packet: force, moment, dissipation and the sum that it is divided by.
    const SUMS: usize = D + D * D + 2;

    /// The forces on all packets; each rank sums over the points of its rows. Collective: all ranks pass the same packets and grid.
    pub fn compute(
        world: &Comm,
        gas: &Gas,
        packets: &[MassPacket<D>],
        grid: &QuadratureGrid<D>,
        rows: &Range<usize>,
    ) -> Result<Self> {
        let frames = packets.iter().filter(|packet| packet.is_active()).map(PacketFrame::new);
        let frames: Result<Vec<_>> = frames.collect();
        // Every rank has the same packets, so that all of them fail here or none.
        let frames = frames?;
        let mut sums = FixedPointSums::new(frames.len() * Self::SUMS + 1);
        let fields = accumulate(&frames, grid, rows);
        let points = evaluate(gas, &fields, grid, &mut sums, frames.len() * Self::SUMS);
        integrate(gas, &frames, grid, rows, &points, &mut sums);
        let start = Instant::now();
        let sums = sums.allreduce(world)?;
        Ok(Self { sum_time: start.elapsed(), ..Self::unpack(packets, &sums) })
    }

    fn unpack(packets: &[MassPacket<D>], sums: &[f64]) -> Self {
        let count = packets.len();
        let mut forces = Self {
            force: vec![[0.0; D]; count],
            moment: vec![[[0.0; D]; D]; count],
            heating: vec![0.0; count],
            internal: sums.last().copied().unwrap_or(0.0),
            sum_time: Duration::ZERO,
        };
        let active = (0..count).filter(|at| packets[*at].is_active());
        for (at, sums) in active.zip(sums.chunks_exact(Self::SUMS)) {
            forces.force[at].copy_from_slice(&sums[..D]);
            for row in 0..D {
                forces.moment[at][row].copy_from_slice(&sums[D + row * D..D + (row + 1) * D]);
            }
            let (dissipation, capacity) = (sums[D + D * D], sums[D + D * D + 1]);
            forces.heating[at] = if capacity > 0.0 { dissipation / capacity } else { 0.0 };
        }
        forces
    }
}

/// Phase 1: the fields at the points of these rows.
fn accumulate<const D: usize>(
    frames: &[PacketFrame<'_, D>],
    grid: &QuadratureGrid<D>,
    rows: &Range<usize>,
) -> Vec<PointFields<D>> {
    let empty = PointFields { density: 0.0, entropy: 0.0, flux: [0.0; D] };
    let mut fields = vec![empty; rows.len() * grid.cells[0]];
    for frame in frames {
        let (mass, entropy) = (frame.packet.mass * frame.scale, frame.packet.entropy * frame.scale);
        grid.for_each_segment(frame.packet, &frame.inverse, rows, |segment| {
            let start = (segment.row - rows.start) * grid.cells[0];
            for cell in segment.cells.clone() {
                let y = segment.coordinates(cell);
                let (value, velocity) = (shape::value(&y), frame.velocity(&y));
                let field = &mut fields[start + cell];
                field.density += mass * value;
                field.entropy += entropy * value;
                (0..D).for_each(|axis| field.flux[axis] += mass * value * velocity[axis]);
            }
        });
    }
    fields
}

/// Phase 2: velocity and derivatives of the energy at each point; the internal energy is sum number `internal`.
fn evaluate<const D: usize>(
    gas: &Gas,
    fields: &[PointFields<D>],
    grid: &QuadratureGrid<D>,
    sums: &mut FixedPointSums,
    internal: usize,
) -> Vec<PointForces<D>> {
    let weight = grid.weight();
    let mut points = Vec::with_capacity(fields.len());
    for row in fields.chunks(grid.cells[0]) {
        let mut energy_of_row = 0.0;
        for field in row {
            // Far out the density underflows, and there is nothing that could be pushed.
            if field.density <= f64::MIN_POSITIVE {
                points.push(PointForces { by_density: 0.0, temperature: 0.0, velocity: [0.0; D] });
                continue;
            }
            let per_mass = field.entropy / field.density;
            let temperature = field.density.powf(gas.gamma - 1.0) * per_mass.exp() / (gas.gamma - 1.0);
            let velocity = field.flux.map(|flux| flux / field.density);
            let by_density = temperature * (gas.gamma - per_mass);
            energy_of_row += field.density * temperature;
            points.push(PointForces { by_density, temperature, velocity });
        }
        // A sum for each row: rows are not divided among ranks, so that it is the same on any number of them.
        sums.add(internal, energy_of_row * weight);
    }
    points
}

/// Phase 3: the forces on the packets.
fn integrate<const D: usize>(
    gas: &Gas,
    frames: &[PacketFrame<'_, D>],
    grid: &QuadratureGrid<D>,
    rows: &Range<usize>,
    points: &[PointForces<D>],
    sums: &mut FixedPointSums,
) {
    for (number, frame) in frames.iter().enumerate() {
        let first = number * Forces::<D>::SUMS;
        let weight = grid.weight() * frame.scale;
        let (mass, entropy) = (frame.packet.mass, frame.packet.entropy);
        grid.for_each_segment(frame.packet, &frame.inverse, rows, |segment| {
            let start = (segment.row - rows.start) * grid.cells[0];
            // In the coordinates of the packet; turned into those of space at the end of the row.
            let (mut force, mut moment, mut trace) = ([0.0; D], [[0.0; D]; D], 0.0);
            let (mut drag, mut drag_moment) = ([0.0; D], [[0.0; D]; D]);
            let (mut dissipation, mut capacity) = (0.0, 0.0);
            for cell in segment.cells.clone() {
                let point = &points[start + cell];
                let y = segment.coordinates(cell);
                let (value, gradient) = shape::value_and_gradient(&y);
                let potential = (mass * point.by_density + entropy * point.temperature) * weight;
                trace += potential * value;
                for row in 0..D {
                    force[row] += potential * gradient[row];
                    (0..D).for_each(|column| moment[row][column] += potential * gradient[row] * y[column]);
                }
                if gas.friction > 0.0 {
                    let velocity = frame.velocity(&y);
                    let friction = gas.friction * mass * value * weight;
                    let mut square = 0.0;
                    for row in 0..D {
                        let relative = velocity[row] - point.velocity[row];
                        square += relative * relative;
                        drag[row] += friction * relative;
                        (0..D).for_each(|column| drag_moment[row][column] += friction * relative * y[column]);
                    }
                    dissipation += friction * square;
                    capacity += value * weight * point.temperature;
                }
            }
            // F = H⁻ᵀ Σ w∇ψ and M = H⁻ᵀ (Σ wψ + Σ w∇ψ yᵀ), each minus the friction.
            let force = apply_transposed(&frame.inverse, &force);
            (0..D).for_each(|axis| sums.add(first + axis, force[axis] - drag[axis]));
            for column in 0..D {
                let of_column =
                    std::array::from_fn(|row| moment[row][column] + if row == column { trace } else { 0.0 });
                let of_column = apply_transposed(&frame.inverse, &of_column);
                for row in 0..D {
                    let place = first + D + row * D + column;
                    sums.add(place, of_column[row] - drag_moment[row][column]);
                }
            }
            if gas.friction > 0.0 {
                sums.add(first + D + D * D, dissipation);
                sums.add(first + D + D * D + 1, capacity);
            }
        });
    }
}
