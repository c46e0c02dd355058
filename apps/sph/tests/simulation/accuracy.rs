//! Waves with known solutions, a contact at rest, and the control of the error.

use std::f64::consts::TAU;

use aqueduct_sph::particle_set::ParticleSet;
use aqueduct_sph::quantity::{scalar, vector};

use crate::run;

/// The coefficients of sine and cosine of the velocity along x, for a wave number along an axis.
fn fourier(particles: &ParticleSet, axis: usize, length: f64) -> (f64, f64) {
    let k = TAU / length;
    let places = particles.vectors[vector::POSITION].iter().zip(&particles.vectors[vector::VELOCITY]);
    let count = particles.len() as f64;
    places.fold((0.0, 0.0), |(sine, cosine), (x, v)| {
        let phase = k * x[axis];
        (sine + 2.0 * v[0] * phase.sin() / count, cosine + 2.0 * v[0] * phase.cos() / count)
    })
}

#[test]
fn a_sound_wave_moves_with_the_speed_of_sound() {
    for density in ["number", "integrated"] {
        let text = format!(
            "scene sound\ndimensions 1\ncells 100 1 1\nspacing 0.01\nkernel quintic\nintegrator rk4\ndensity {density}\n\
             velocity 0.003\nair_sound 3\n"
        );
        // A quarter of a period, so that the phase says whether the wave moves to the right, and how far.
        let (particles, _, time) = run(&text, 2, 0.25 / 3.0, 0);
        let (sine, cosine) = fourier(&particles, 0, 1.0);
        // sin(k(x - ct)) = sin kx cos kct - cos kx sin kct
        let speed = (-cosine).atan2(sine) / (TAU * time);
        assert!((speed / 3.0 - 1.0).abs() < 0.02, "{density}: {speed} m/s instead of 3");
        let amplitude = sine.hypot(cosine);
        assert!((amplitude / 0.003 - 1.0).abs() < 0.05, "{density}: amplitude {amplitude}");
    }
}

#[test]
fn a_shear_wave_decays_with_the_viscosity() {
    // The pressure is low: lattices that slide along each other are elastic in proportion to it.
    let viscosity = 0.02;
    let text = format!(
        "scene shear\ndimensions 2\ncells 10 40 1\nspacing 0.025\nkernel quintic\nintegrator leapfrog\n\
         density integrated\nvelocity 0.02\nair_sound 0.4\nshear_viscosity {viscosity} 0\n"
    );
    let (particles, _, time) = run(&text, 2, 0.6, 0);
    let (sine, cosine) = fourier(&particles, 1, 1.0);
    let rate = -(sine.hypot(cosine) / 0.02).ln() / time;
    let exact = viscosity * TAU * TAU;
    assert!((rate / exact - 1.0).abs() < 0.05, "rate {rate}, exact {exact}");
}

#[test]
fn a_contact_of_one_to_a_hundred_is_at_rest_with_number_densities_only() {
    let speed = |density: &str| {
        let text = format!(
            "scene contact\ndimensions 2\ncells 24 8 1\nspacing 0.1\nkernel cubic\nintegrator leapfrog\ndensity {density}\n\
             density_ratio 100\nair_sound 3\ndiesel_sound 3\n"
        );
        run(&text, 2, 0.0, 40).1.speed
    };
    for density in ["number", "integrated"] {
        let found = speed(density);
        assert!(found < 1e-3 * 3.0, "{density}: {found} m/s");
    }
    let found = speed("standard");
    assert!(found > 1e-1 * 3.0, "standard: {found} m/s");
}

/// The largest distance of particles in two states.
fn distance(one: &ParticleSet, other: &ParticleSet) -> f64 {
    let places = one.vectors[vector::POSITION].iter().zip(&other.vectors[vector::POSITION]);
    places.flat_map(|(a, b)| (0..3).map(move |axis| (a[axis] - b[axis]).abs())).fold(0.0, f64::max)
}

#[test]
fn an_eighth_of_the_tolerance_gives_about_an_eighth_of_the_error() {
    for (integrator, coarse) in [("bogacki-shampine", 2e-5), ("cash-karp", 2e-6)] {
        let state = |tolerance: f64, steps: u64, exact: f64| {
            let text = format!(
                "scene random\ndimensions 2\ncells 8 8 1\nkernel quintic\nsmoothing 1.2\nintegrator {integrator}\ndensity number\n\
                 energy on\ndisplacement 0.1\nvelocity 0.3\nair_sound 1\ndiesel_sound 2\ndensity_ratio 4\ncourant 4\n\
                 timestep {exact}\ntolerance {tolerance} {tolerance}\n"
            );
            run(&text, 1, 0.0, steps)
        };
        // The error after 12 steps, against many short steps to the same time, and per time: steps are longer with the larger tolerance.
        let error = |tolerance: f64| {
            let (particles, _, time) = state(tolerance, 12, 0.01);
            let (reference, reached) = until(time);
            assert!((reached - time).abs() < 1e-12);
            distance(&particles, &reference) / time
        };
        let ratio = error(coarse) / error(coarse / 8.0);
        assert!(
            (3.0..22.0).contains(&ratio),
            "{integrator}: an eighth of the tolerance reduces the error by {ratio}"
        );
    }
}

/// The state of the same problem at exactly this time, by many steps of equal length of the fourth-order method.
fn until(time: f64) -> (ParticleSet, f64) {
    let steps = 800u32;
    let text = format!(
        "scene random\ndimensions 2\ncells 8 8 1\nkernel quintic\nsmoothing 1.2\nintegrator rk4\ndensity number\n\
         energy on\ndisplacement 0.1\nvelocity 0.3\nair_sound 1\ndiesel_sound 2\ndensity_ratio 4\ntimestep {}\n",
        time / f64::from(steps)
    );
    let (particles, _, reached) = run(&text, 1, 0.0, u64::from(steps));
    (particles, reached)
}

#[test]
fn more_than_twenty_quantities_are_computed() {
    let text = "scene random\ncells 6 6 6\nintegrator rk2\ndensity integrated\nenergy on\ndisplacement 0.3\nvelocity 0.2\n\
                shear_viscosity 0.1 0.2\nbulk_viscosity 0.05 0.1\ngravity 0 0 -1\n";
    let (particles, ..) = run(text, 2, 0.0, 2);
    let varies = |values: &[f64]| {
        values.iter().any(|value| *value != 0.0) && values.iter().all(|value| value.is_finite())
    };
    assert!(particles.scalars.iter().all(|values| varies(values)));
    for (number, values) in particles.vectors.iter().enumerate() {
        let flat: Vec<f64> = values.iter().flatten().copied().collect();
        assert!(varies(&flat), "vector {number}");
    }
    assert!(particles.scalars.len() + particles.vectors.len() > 20);
    let (masses, volume) = (&particles.scalars[scalar::MASS], &particles.vectors[vector::VOLUME_FORCE]);
    assert!(masses.iter().zip(volume).all(|(mass, force)| *force == [0.0, 0.0, -mass]));
}
