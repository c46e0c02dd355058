//! Conservation, symmetry, and the expansion that is known exactly.

use aqueduct::comm::Launch;
use aqueduct_fmm::config::FmmConfig;
use aqueduct_fmm::packet::MassPacket;
use aqueduct_fmm::run::{FmmSettings, run};
use aqueduct_fmm::scene::ball;
use aqueduct_fmm::simulation::FmmSimulation;

fn config(text: &str) -> FmmConfig {
    FmmConfig::parse("test", text).unwrap()
}

/// Runs on one rank and calls `watch` after every step.
fn simulate<const D: usize>(
    config: &FmmConfig,
    packets: &[MassPacket<D>],
    steps: u64,
    watch: impl Fn(&FmmSimulation<'_, D>) + Sync,
) {
    Launch::threads(1)
        .run(|world| {
            let mut simulation = FmmSimulation::new(world, config.method, packets.to_vec(), 0).unwrap();
            watch(&simulation);
            for _ in 0..steps {
                simulation.advance().unwrap();
                watch(&simulation);
            }
            Ok::<_, aqueduct::comm::Error>(())
        })
        .unwrap();
}

/// The largest deviation of the total energy in the time 0.4, on points that stay where they are.
fn energy_error(steps: u64) -> f64 {
    let mut config = config("packets 60\ngamma 1.4");
    config.method.timestep = 0.4 / steps as f64;
    // The points of one layout cover all of the time.
    config.method.relay = steps;
    let (first, most) = (std::sync::OnceLock::new(), std::sync::Mutex::new(0.0f64));
    simulate(&config, &ball::<2>(60, 1.4).unwrap(), steps - 1, |simulation| {
        let total = simulation.energies().total();
        let mut most = most.lock().unwrap();
        *most = most.max((total - first.get_or_init(|| total)).abs());
    });
    most.into_inner().unwrap()
}

#[test]
fn energy_is_conserved_to_the_order_of_the_integrator() {
    let errors = [20, 40, 80].map(energy_error);
    assert!(errors[0] < 1e-3, "{errors:?}");
    assert!(errors[0] / errors[1] > 3.4 && errors[1] / errors[2] > 3.4, "second order: {errors:?}");
}

#[test]
fn momentum_and_symmetry_are_kept_to_round_off() {
    let config = config("packets 60\ngamma 1.4");
    simulate(&config, &ball::<2>(60, 1.4).unwrap(), 100, |simulation| {
        let momentum = simulation.momentum();
        assert!(momentum.iter().all(|part| part.abs() < 1e-13), "{momentum:?}");
        let packets = simulation.packets();
        // The image of each packet in the point 0 is a packet.
        for packet in packets {
            let distance = |other: &MassPacket<2>| {
                (0..2).map(|axis| (packet.position[axis] + other.position[axis]).abs()).sum::<f64>()
            };
            let nearest = packets.iter().map(distance).fold(f64::MAX, f64::min);
            assert!(nearest < 1e-12, "{nearest:e}");
        }
    });
}

#[test]
fn friction_turns_motion_into_heat_and_keeps_the_energy() {
    let mut packets = ball::<2>(60, 1.4).unwrap();
    // The left and the right half run into one another.
    packets.iter_mut().for_each(|packet| packet.velocity[0] = -packet.position[0].signum());
    let run = |friction: f64, steps: u64| {
        let mut config = config("packets 60\ngamma 1.4");
        config.method.timestep = 0.2 / steps as f64;
        config.method.gas.friction = friction;
        config.method.relay = steps;
        let seen = std::sync::Mutex::new(Vec::new());
        simulate(&config, &packets, steps - 1, |simulation| {
            seen.lock().unwrap().push((simulation.energies().total(), simulation.entropy()));
        });
        let seen = seen.into_inner().unwrap();
        let error = seen.iter().map(|(total, _)| (total / seen[0].0 - 1.0).abs()).fold(0.0, f64::max);
        (seen, error)
    };
    let (with, error) = run(5.0, 100);
    assert!(with.windows(2).all(|pair| pair[1].1 > pair[0].1), "entropy grows");
    let finer = run(5.0, 200).1;
    assert!(error < 1e-3 && finer < 0.6 * error, "the error vanishes with the step: {error:e}, {finer:e}");
    let (without, error) = run(0.0, 100);
    assert!(without.iter().all(|(_, entropy)| *entropy == 0.0), "reversible");
    assert!(error < 1e-3, "{error:e}");
}

#[test]
fn a_gas_with_two_degrees_of_freedom_expands_quadratically() {
    // With d(γ − 1) = 2 the second moment is I + 2Et², whatever the profile.
    let config = config("packets 120\ngamma 2\ntimestep 0.01");
    let first = std::sync::OnceLock::new();
    simulate(&config, &ball::<2>(120, 2.0).unwrap(), 300, |simulation| {
        let (moment, energy) =
            *first.get_or_init(|| (simulation.second_moment(), simulation.energies().total()));
        let exact = moment + 2.0 * energy * simulation.time().powi(2);
        let error = (simulation.second_moment() / exact - 1.0).abs();
        assert!(error < 2e-3, "time {}: {error:e}", simulation.time());
    });
}

#[test]
fn the_profile_expands_self_similarly() {
    let config = config("packets 120\ngamma 1.4\ntimestep 0.01");
    let state = std::sync::Mutex::new(None::<(f64, f64, f64, f64)>);
    simulate(&config, &ball::<2>(120, 1.4).unwrap(), 300, |simulation| {
        let mut state = state.lock().unwrap();
        let moment = simulation.second_moment();
        // R̈ = A / R^(d(γ−1)+1) with A = d(γ−1)V/I, integrated with the same steps.
        let (first, factor, radius, rate) =
            state.get_or_insert_with(|| (moment, 0.8 * simulation.energies().internal / moment, 1.0, 0.0));
        let error = (moment / *first / (*radius * *radius) - 1.0).abs();
        assert!(error < 1e-2, "time {}: {error:e}", simulation.time());
        let acceleration = |radius: f64| *factor / radius.powf(1.8);
        *rate += 0.005 * acceleration(*radius);
        *radius += 0.01 * *rate;
        *rate += 0.005 * acceleration(*radius);
    });
}

#[test]
fn the_result_is_bitwise_the_same_on_any_number_of_ranks() {
    for text in ["packets 60\nfriction 0.5\nrelay 7", "packets 32\ndimension 3\nrelay 3"] {
        let settings = FmmSettings::new(config(text), 15);
        let results = [1, 2, 3, 5, 7].map(|ranks| {
            let run =
                |world: &aqueduct::comm::Comm| run(world, &settings).map_err(|error| format!("{error:#}"));
            let outcome = Launch::threads(ranks).run(run).unwrap().swap_remove(0);
            [outcome.kinetic, outcome.internal, outcome.entropy].map(f64::to_bits)
        });
        assert!(results.iter().all(|result| *result == results[0]), "{text}: {results:?}");
    }
}
