//! The jet of diesel into a chamber of air.

use aqueduct::comm::Launch;
use aqueduct_sph::config::Config;
use aqueduct_sph::simulation::SphSimulation;

#[test]
fn the_front_moves_on_and_compresses_the_air_before_it() {
    let text = "cells 16 10 10\nnozzle 1.8\n";
    let config = Config::parse("jet", text).unwrap();
    let ends = Launch::threads(2).run(|world| {
        let work = || {
            let mut simulation = SphSimulation::new(world, &config)?;
            let (mut before, mut most) = (simulation.totals()?, 0.0f64);
            while simulation.state().time < 6.0 {
                for _ in 0..10 {
                    simulation.advance()?;
                }
                simulation.balance()?;
                let now = simulation.totals()?;
                anyhow::ensure!(now.front > before.front, "the front stopped at {}", now.front);
                anyhow::ensure!(now.diesel >= before.diesel && now.particles >= before.particles);
                most = most.max(now.compression);
                before = now;
            }
            Ok((simulation.state(), before, most, simulation.scene().sites()))
        };
        work().map_err(|error: anyhow::Error| format!("{error:#}"))
    });
    let (state, totals, compression, sites) = ends.unwrap()[0];
    assert!(state.layers >= 5, "{state:?}");
    assert_eq!(state.next_id, totals.particles, "no particle is lost or doubled");
    assert!(totals.particles > sites && totals.front > 3.0, "{totals:?}");
    assert!(compression > 1.05, "the air is at most {compression} times as dense as at rest");
}
