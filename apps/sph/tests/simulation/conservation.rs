//! Momentum and energy.

use aqueduct::comm::Launch;
use aqueduct_sph::config::Config;
use aqueduct_sph::simulation::SphSimulation;

use crate::run;

const BOX: &str = "scene random\ndimensions 3\ncells 6 6 6\nkernel quintic\nsmoothing 1.1\ndensity number\ndisplacement 0.3\nvelocity 0.3\n\
                   air_sound 1\ndiesel_sound 2\ndensity_ratio 10\n";

#[test]
fn momentum_is_conserved_to_rounding() {
    for extra in ["density number", "density integrated", "density standard\nartificial 1 2"] {
        let text = format!(
            "{BOX}\nintegrator rk4\nenergy on\nshear_viscosity 0.05 0.1\nbulk_viscosity 0.02 0.1\n{extra}\n"
        );
        let before = run(&text, 3, 0.0, 0).1;
        let after = run(&text, 3, 0.0, 20).1;
        for axis in 0..3 {
            let change = (after.momentum[axis] - before.momentum[axis]).abs() / before.momentum_scale;
            assert!(change < 1e-12, "{extra}, axis {axis}: {change}");
        }
    }
}

/// The largest change of the sum of kinetic and internal energy until time 0.32, in so many steps.
fn energy_change(integrator: &str, steps: u32) -> f64 {
    let text = format!("{BOX}\nintegrator {integrator}\nenergy on\ntimestep {}\n", 0.32 / f64::from(steps));
    let config = Config::parse("box", &text).unwrap();
    let changes = Launch::threads(2).run(|world| {
        let work = || {
            let mut simulation = SphSimulation::new(world, &config)?;
            let (before, mut change) = (simulation.totals()?, 0.0f64);
            for _ in 0..steps {
                simulation.advance()?;
                let now = simulation.totals()?;
                let sum = (now.kinetic - before.kinetic) + (now.internal - before.internal);
                change = change.max(sum.abs() / before.kinetic);
            }
            Ok(change)
        };
        work().map_err(|error: anyhow::Error| format!("{error:#}"))
    });
    changes.unwrap()[0]
}

#[test]
fn energy_is_conserved_to_the_order_of_the_integrator() {
    for (integrator, steps, least) in [("leapfrog", 32, 1.6), ("rk2", 32, 1.6), ("rk4", 8, 3.4)] {
        let (coarse, fine) = (energy_change(integrator, steps), energy_change(integrator, 2 * steps));
        let order = (coarse / fine).log2();
        assert!(order > least, "{integrator}: order {order}, changes {coarse} and {fine}");
    }
}

#[test]
fn viscous_heating_takes_the_kinetic_energy() {
    let text = format!(
        "{BOX}\nintegrator rk4\nenergy on\nshear_viscosity 0.2 0.1\nbulk_viscosity 0.1 0\nartificial 0.5 1\n"
    );
    let (before, after) = (run(&text, 2, 0.0, 0).1, run(&text, 2, 0.0, 25).1);
    let loss = before.kinetic - after.kinetic;
    assert!(loss > 0.2 * before.kinetic, "{before:?} {after:?}");
    let gain = after.internal - before.internal;
    assert!((gain / loss - 1.0).abs() < 1e-3, "heat {gain}, loss of kinetic energy {loss}");
}
