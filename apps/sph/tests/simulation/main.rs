//! The physics of the method, and trajectories that do not depend on the number of ranks.
#![allow(clippy::float_cmp)]

mod accuracy;
mod conservation;
mod jet;
mod reproducible;

use aqueduct::comm::Launch;
use aqueduct_sph::config::Config;
use aqueduct_sph::particle_set::ParticleSet;
use aqueduct_sph::simulation::{SphSimulation, Totals};

/// The particles of all ranks, sorted by id.
pub(crate) fn sorted(parts: Vec<ParticleSet>) -> ParticleSet {
    let mut parts = parts.into_iter();
    let mut all = parts.next().expect("at least one rank");
    for part in parts {
        let mut words = Vec::new();
        (0..part.len()).for_each(|at| part.pack_row(at, &mut words));
        all.unpack_rows(&words);
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_unstable_by_key(|at| all.ids[*at]);
    all.select(&order);
    all
}

/// Runs a configuration until a time or, if that is zero, for a number of steps; the particles by id, the totals and the time.
pub(crate) fn run(text: &str, ranks: usize, until: f64, steps: u64) -> (ParticleSet, Totals, f64) {
    let config = Config::parse("test", text).unwrap();
    let ends = Launch::threads(ranks)
        .run(|world| {
            let work = || {
                let mut simulation = SphSimulation::new(world, &config)?;
                while simulation.state().time < until * (1.0 - 1e-9) || simulation.state().step < steps {
                    simulation.advance()?;
                    simulation.balance()?;
                }
                Ok((simulation.particles().clone(), simulation.totals()?, simulation.state().time))
            };
            work().map_err(|error: anyhow::Error| format!("{error:#}"))
        })
        .unwrap();
    let (totals, time) = (ends[0].1, ends[0].2);
    (sorted(ends.into_iter().map(|(particles, ..)| particles).collect()), totals, time)
}
