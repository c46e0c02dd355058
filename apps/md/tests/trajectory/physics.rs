//! Physics: forces against a simple model, conservation laws, independence of the number of ranks.

use crate::liquid::{ARGON, begin, gather, liquid, on};
use aqueduct::checkpoint::Molecule;
use aqueduct_md::decomposition::DecompositionMethod;
use aqueduct_md::decomposition::grid::SimulationGrid;
use aqueduct_md::force::potential::{LennardJonesCentre, Potential};
use aqueduct_md::simulation::{Model, Simulation, Thermostat};
use proptest::prelude::*;

/// Force and half energy of each molecule, from all pairs and all periodic images.
fn all_pairs(length: [f64; 3], potential: &Potential, molecules: &[Molecule]) -> Vec<([f64; 3], f64)> {
    let images = || (-1..=1).flat_map(|x| (-1..=1).flat_map(move |y| (-1..=1).map(move |z| [x, y, z])));
    let on_one = |a: &Molecule| {
        let (mut force, mut energy) = ([0.0; 3], 0.0);
        for (b, image) in molecules.iter().flat_map(|b| images().map(move |image| (b, image))) {
            let pair = potential.row(a.component as usize)[b.component as usize];
            let d: [f64; 3] = std::array::from_fn(|axis| {
                a.position[axis] - (b.position[axis] + f64::from(image[axis]) * length[axis])
            });
            let r2 = d.iter().map(|x| x * x).sum::<f64>();
            if r2 < pair.cutoff2 && (a.id != b.id || image != [0; 3]) {
                let action = pair.at(r2);
                (0..3).for_each(|axis| force[axis] += action.force * d[axis]);
                energy += 0.5 * action.energy;
            }
        }
        (force, energy)
    };
    molecules.iter().map(on_one).collect()
}

/// Molecules on a perturbed grid, so that none overlap much.
fn scattered(length: [f64; 3], noise: &[[f64; 4]]) -> Vec<Molecule> {
    let edge = (noise.len() as f64).cbrt().ceil() as usize;
    let place = |(id, noise): (usize, &[f64; 4])| {
        let at = [id % edge, id / edge % edge, id / edge / edge];
        let position =
            std::array::from_fn(|axis| (at[axis] as f64 + noise[axis]) * length[axis] / edge as f64);
        Molecule {
            component: u64::from(noise[3] > 0.6) + u64::from(noise[3] > 0.9),
            ..Molecule::new(id as u64, position, [0.0; 3])
        }
    };
    noise.iter().enumerate().map(place).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn forces_equal_the_sum_over_all_pairs(
        length in prop::array::uniform3(1.6..9.0f64),
        noise in prop::collection::vec(prop::array::uniform4(0.1..0.9f64), 1..90),
        ranks in 1usize..8,
        kd in any::<bool>(),
    ) {
        let molecules = scattered(length, &noise);
        let other = LennardJonesCentre { mass: 2.0, epsilon: 0.4, sigma: 0.8, shifted: false };
        let potential = Potential::new(vec![Some(ARGON), Some(other), None], 1.5, |_, _| (0.9, 1.05));
        let expected = all_pairs(length, &potential, &molecules);
        let grid = SimulationGrid::new(length, 1.5, molecules.len() as u64).unwrap();
        let method = if kd { DecompositionMethod::Kd } else { DecompositionMethod::Regular };
        let model = Model { grid, potential, timestep: 1e-3, thermostat: None, decomposition_method: method, rebalance: 1 };
        on(ranks, |world| {
            let mine = molecules.iter().filter(|molecule| molecule.id as usize % ranks == world.rank());
            let simulation = Simulation::new(world, model.clone(), mine.copied().collect(), 0, 0.0)?;
            assert_eq!(simulation.molecules().len(), simulation.forces().len());
            for (molecule, acting_force) in simulation.molecules().iter().zip(simulation.forces()) {
                let (force, energy) = expected[molecule.id as usize];
                let scale = force.iter().fold(energy.abs().max(1.0), |most, part| most.max(part.abs()));
                for axis in 0..3 {
                    assert!((acting_force.force[axis] - force[axis]).abs() <= 1e-11 * scale, "{acting_force:?} {force:?}");
                }
                assert!((acting_force.energy - energy).abs() <= 1e-11 * scale, "{acting_force:?} {energy}");
            }
            assert_eq!(gather(world, simulation.molecules())?.len(), molecules.len());
            Ok(())
        });
    }
}

#[test]
fn trajectories_are_bitwise_the_same_for_every_decomposition() {
    let thermostat = Some(Thermostat { temperature: 0.9, every: 7 });
    let run = |ranks: usize, method: DecompositionMethod| {
        let (start, model) = liquid(1000, 0.75, method, thermostat);
        on(ranks, |world| {
            let mut simulation = begin(world, &start, &model)?;
            (0..30).try_for_each(|_| simulation.advance())?;
            Ok((gather(world, simulation.molecules())?, simulation.energies()?))
        })
    };
    let (molecules, energies) = run(1, DecompositionMethod::Regular);
    assert_eq!(molecules.len(), 1000);
    for ranks in 1..=7 {
        for method in [DecompositionMethod::Regular, DecompositionMethod::Kd] {
            let (others, same) = run(ranks, method);
            let bytes: &[u8] = bytemuck::cast_slice(&others);
            assert!(bytes == bytemuck::cast_slice::<_, u8>(&molecules), "{ranks} ranks, {method:?}");
            assert_eq!(energies, same);
        }
    }
}

#[test]
fn energy_and_momentum_are_conserved() {
    let (start, model) = liquid(864, 0.7, DecompositionMethod::Kd, None);
    let drift = |timestep: f64| {
        let model = Model { timestep, ..model.clone() };
        on(2, |world| {
            let mut simulation = begin(world, &start, &model)?;
            let before = simulation.energies()?;
            let mut worst = 0.0f64;
            for _ in 0..(0.8 / timestep) as usize {
                simulation.advance()?;
                let now = simulation.energies()?;
                worst = worst.max((now.total() - before.total()).abs() / before.kinetic);
                assert!(now.momentum.iter().all(|part| part.abs() < 1e-9), "{now:?}");
            }
            let moved = simulation.energies()?.potential - before.potential;
            assert!(moved.abs() > 0.05 * before.kinetic, "the kinetic energy hardly changes: {moved}");
            Ok(worst)
        })
    };
    let (coarse, fine) = (drift(0.004), drift(0.002));
    assert!(coarse < 2e-3 && fine < coarse / 2.0, "{coarse} {fine}");
}

#[test]
fn the_thermostat_sets_its_temperature() {
    let (start, model) =
        liquid(500, 0.6, DecompositionMethod::Regular, Some(Thermostat { temperature: 2.0, every: 1 }));
    on(3, |world| {
        let mut simulation = begin(world, &start, &model)?;
        for _ in 0..20 {
            simulation.advance()?;
            let temperature = simulation.energies()?.temperature();
            assert!((temperature - 2.0).abs() < 1e-12, "{temperature}");
        }
        Ok(())
    });
}

#[test]
fn molecules_of_several_centres_do_not_move() {
    let (start, mut model) =
        liquid(500, 0.5, DecompositionMethod::Kd, Some(Thermostat { temperature: 0.8, every: 2 }));
    model.potential = Potential::new(vec![Some(ARGON), None], 2.5, |_, _| (1.0, 1.0));
    on(3, |world| {
        let simulation = begin(world, &start, &model)?;
        let turned = |molecule: &Molecule| Molecule {
            component: molecule.id % 2,
            orientation: [0.5; 4],
            angular_momentum: [1.0, 2.0, molecule.id as f64],
            ..*molecule
        };
        let mine: Vec<Molecule> = simulation.molecules().iter().map(turned).collect();
        let before = gather(world, &mine)?;
        let mut simulation = Simulation::new(world, model.clone(), mine, 0, 0.0)?;
        (0..10).try_for_each(|_| simulation.advance())?;
        let after = gather(world, simulation.molecules())?;
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before == after, before.component == 1, "{before:?} {after:?}");
            assert_eq!(before.angular_momentum, after.angular_momentum);
        }
        Ok(())
    });
}

#[test]
fn errors_name_the_invalid_molecule() {
    let (_, model) = liquid(500, 0.5, DecompositionMethod::Regular, None);
    let refused = |molecules: Vec<Molecule>| {
        on(1, |world| {
            let mut simulation = match Simulation::new(world, model.clone(), molecules.clone(), 0, 0.0) {
                Ok(simulation) => simulation,
                Err(error) => return Ok(error.to_string()),
            };
            Ok(simulation.advance().unwrap_err().to_string())
        })
    };
    let at = |id, x| Molecule::new(id, [x, 1.0, 1.0], [0.0; 3]);
    assert!(refused(vec![at(7, -1.0)]).contains("molecule 7 at [-1.0, 1.0, 1.0] is outside"));
    assert!(refused(vec![at(1, f64::NAN)]).contains("molecule 1"));
    assert!(refused(vec![Molecule { component: 3, ..at(2, 1.0) }]).contains("component 4"));
    assert!(refused(vec![at(1, 1.0), at(2, 1.0)]).contains("not finite"));
    assert!(refused(vec![at(1, 1.0), at(2, 1.01)]).contains("shorter timestepLength"));
}
