//! Forces are the exact derivatives of the energy, and change it by as much as they do work.

use aqueduct::comm::{Comm, Launch};
use aqueduct_fmm::forces::{Forces, Gas};
use aqueduct_fmm::matrix::{apply, inner_product, invert};
use aqueduct_fmm::packet::MassPacket;
use aqueduct_fmm::quadrature::QuadratureGrid;
use aqueduct_fmm::scene::ball;
use aqueduct_fmm::shape;
use aqueduct_testkit::rng::SeededRng;

/// A ball whose packets are displaced, deformed, and move through one another.
fn disturbed<const D: usize>(count: usize) -> Vec<MassPacket<D>> {
    let mut packets = ball::<D>(count, 1.4).unwrap();
    let mut numbers = SeededRng::new(12345);
    let mut random = || (numbers.number() >> 33) as f64 / (1u64 << 31) as f64 * 2.0 - 1.0;
    for packet in &mut packets {
        let size = packet.deformation[0][0];
        packet.entropy = packet.mass * (0.3 + 0.1 * random());
        for row in 0..D {
            packet.position[row] += 0.2 * size * random();
            packet.velocity[row] = random();
            for column in 0..D {
                packet.deformation[row][column] += 0.2 * size * random();
                packet.deformation_rate[row][column] = size * random();
            }
        }
    }
    packets
}

fn compute<const D: usize>(
    world: &Comm,
    gas: &Gas,
    packets: &[MassPacket<D>],
    grid: &QuadratureGrid<D>,
) -> Forces<D> {
    let rows = grid.rows_of(packets, world.rank(), world.size());
    Forces::compute(world, gas, packets, grid, &rows).unwrap()
}

fn difference_quotients<const D: usize>(count: usize) {
    Launch::threads(1)
        .run(|world| {
            let gas = Gas { gamma: 1.4, friction: 0.0 };
            let packets = disturbed::<D>(count);
            let grid = QuadratureGrid::cover(&packets, 0.05).unwrap();
            let forces = compute(world, &gas, &packets, &grid);
            let step = 1e-5;
            let energy = |change: &dyn Fn(&mut MassPacket<D>, f64), at: usize, step: f64| {
                let mut changed = packets.clone();
                change(&mut changed[at], step);
                compute(world, &gas, &changed, &grid).internal
            };
            let largest = forces.force.iter().flatten().fold(0.0, |most: f64, force| most.max(force.abs()));
            for at in [0, count / 2, count - 1] {
                for row in 0..D {
                    let shift = |packet: &mut MassPacket<D>, step: f64| packet.position[row] += step;
                    let quotient = (energy(&shift, at, -step) - energy(&shift, at, step)) / (2.0 * step);
                    let error = (quotient - forces.force[at][row]).abs() / largest;
                    assert!(error < 1e-6, "force on packet {at}: {error:e}");
                    for column in 0..D {
                        let deform =
                            |packet: &mut MassPacket<D>, step: f64| packet.deformation[row][column] += step;
                        let quotient =
                            (energy(&deform, at, -step) - energy(&deform, at, step)) / (2.0 * step);
                        let error = (quotient - forces.moment[at][row][column]).abs() / largest;
                        assert!(error < 1e-6, "moment on packet {at}: {error:e}");
                    }
                }
            }
            Ok::<_, aqueduct::comm::Error>(())
        })
        .unwrap();
}

#[test]
fn forces_and_moments_are_difference_quotients_of_the_energy() {
    difference_quotients::<2>(60);
    difference_quotients::<3>(8);
}

/// The fields at a point and their rates, from the definition.
fn rates_at<const D: usize>(packets: &[MassPacket<D>], point: [f64; D]) -> [f64; 4] {
    let mut sums = [0.0; 4];
    for packet in packets {
        let (determinant, inverse) = invert(&packet.deformation).unwrap();
        let from = std::array::from_fn(|axis| point[axis] - packet.position[axis]);
        let y = apply(&inverse, &from);
        let (value, gradient) = shape::value_and_gradient(&y);
        // ẏ = −H⁻¹(q̇ + Ḣy), and det H changes by its trace of H⁻¹Ḣ.
        let deformation = apply(&packet.deformation_rate, &y);
        let velocity = std::array::from_fn(|axis| packet.velocity[axis] + deformation[axis]);
        let rate = apply(&inverse, &velocity);
        let trace: f64 = (0..D)
            .map(|row| (0..D).map(|at| inverse[row][at] * packet.deformation_rate[at][row]).sum::<f64>())
            .sum();
        let change = -(0..D).map(|axis| gradient[axis] * rate[axis]).sum::<f64>() - value * trace;
        for (sum, amount) in [(0, packet.mass), (1, packet.entropy)] {
            sums[sum] += amount * value / determinant.abs();
            sums[sum + 2] += amount * change / determinant.abs();
        }
    }
    sums
}

#[test]
fn the_work_of_the_forces_is_the_change_of_the_internal_energy_to_round_off() {
    for friction in [0.0, 0.7] {
        Launch::threads(2)
            .run(|world| {
                let gas = Gas { gamma: 1.4, friction };
                let packets = disturbed::<2>(60);
                let grid = QuadratureGrid::cover(&packets, 0.05).unwrap();
                let forces = compute(world, &gas, &packets, &grid);
                let work: f64 = packets
                    .iter()
                    .enumerate()
                    .map(|(at, packet)| {
                        let of_centre: f64 =
                            (0..2).map(|row| forces.force[at][row] * packet.velocity[row]).sum();
                        of_centre + inner_product(&forces.moment[at], &packet.deformation_rate)
                    })
                    .sum();
                // dV/dt at the points, from the rates of the fields and the heat of friction.
                let (mut change, mut magnitude) = (0.0, 0.0);
                for row in 0..grid.cells[1] {
                    for cell in 0..grid.cells[0] {
                        let point = [grid.coordinate(0, cell), grid.coordinate(1, row)];
                        let [density, entropy, density_rate, mut entropy_rate] = rates_at(&packets, point);
                        if density <= 0.0 {
                            continue;
                        }
                        for (packet, heating) in packets.iter().zip(&forces.heating) {
                            let (determinant, inverse) = invert(&packet.deformation).unwrap();
                            let from = [point[0] - packet.position[0], point[1] - packet.position[1]];
                            entropy_rate +=
                                heating * shape::value(&apply(&inverse, &from)) / determinant.abs();
                        }
                        let per_mass = entropy / density;
                        let temperature = density.powf(0.4) * per_mass.exp() / 0.4;
                        let rate = temperature * ((1.4 - per_mass) * density_rate + entropy_rate);
                        change += rate * grid.weight();
                        magnitude += rate.abs() * grid.weight();
                    }
                }
                let error = (work + change).abs() / magnitude;
                assert!(error < 1e-12, "friction {friction}: work {work}, change {change}, error {error:e}");
                assert!(forces.heating.iter().all(|heating| (*heating > 0.0) == (friction > 0.0)));
                Ok::<_, aqueduct::comm::Error>(())
            })
            .unwrap();
    }
}
