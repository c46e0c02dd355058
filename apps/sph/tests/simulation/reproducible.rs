//! Trajectories are the same to the bit on any number of ranks, for both decompositions.

use aqueduct_sph::particle_set::ParticleSet;

use crate::run;

fn assert_same(one: &ParticleSet, other: &ParticleSet, what: &str) {
    assert_eq!(one.ids, other.ids, "{what}");
    let words = |set: &ParticleSet| {
        let mut words = Vec::new();
        (0..set.len()).for_each(|at| set.pack_row(at, &mut words));
        words
    };
    assert!(words(one) == words(other), "{what}: quantities differ");
}

#[test]
fn a_jet_is_the_same_on_one_to_seven_ranks() {
    let text = |decomposition: &str| {
        format!(
            "cells 6 5 5\nnozzle 1.3\nshear_viscosity 0.01 0.02\nartificial 0.5 1\nvelocity 2\nimbalance 1.01\n\
             decomposition {decomposition}\n"
        )
    };
    let (expected, totals, time) = run(&text("regular"), 1, 0.0, 16);
    assert!(totals.diesel > 15, "layers entered: {totals:?} at {time}");
    for ranks in 2..=7 {
        for decomposition in ["regular", "kd"] {
            let (found, _, reached) = run(&text(decomposition), ranks, 0.0, 16);
            assert_eq!(reached, time);
            assert_same(&found, &expected, &format!("{ranks} ranks, {decomposition}"));
        }
    }
}

#[test]
fn every_kernel_integrator_and_density_is_the_same_on_three_ranks() {
    let kernels = ["cubic", "quartic", "quintic", "gauss", "wendland", "cubic"];
    let integrators = ["euler", "leapfrog", "rk2", "rk4", "bogacki-shampine", "cash-karp"];
    let densities = ["number", "integrated", "standard"];
    for (number, (kernel, integrator)) in kernels.into_iter().zip(integrators).enumerate() {
        let text = format!(
            "scene random\ndimensions 3\ncells 5 5 5\nkernel {kernel}\nsmoothing 1.2\nintegrator {integrator}\n\
             density {}\nenergy {}\ndisplacement 0.4\nvelocity 0.5\ngravity 0 -0.1 0\ntolerance 1e-3 1e-3\n",
            densities[number % 3],
            if number % 2 == 0 { "on" } else { "off" },
        );
        let (expected, _, time) = run(&text, 1, 0.0, 5);
        let (found, _, reached) = run(&text, 3, 0.0, 5);
        assert_eq!(reached, time);
        assert_same(&found, &expected, &text);
    }
}
