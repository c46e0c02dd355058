//! A phase space for the tests.

use aqueduct_mardyn::{AxialSite, Charge, MoleculeComponent, PhaseSpace, Tersoff};

use crate::fixture::{COMPONENTS, LENGTH};

/// A phase space with every field of a header, for the molecules of the fixture.
pub(crate) fn full_phase_space() -> PhaseSpace {
    let axial = |moment| AxialSite { position: [0.1, 0.2, 0.3], direction: [0.0, 0.0, 1.0], moment };
    let mut water = MoleculeComponent::single(0.016, 1e-4, 5.9);
    water.charges = vec![Charge { position: [0.0, -0.1, 0.0], mass: 0.0, charge: -1.04 }; 2];
    water.inertia = [0.1, 0.2, 1.0 / 3.0];
    let parameters = std::array::from_fn(|index| index as f64 + 0.1);
    let other = MoleculeComponent {
        dipoles: vec![axial(2.5)],
        quadrupoles: vec![axial(-3.5), axial(1e-300)],
        tersoff: vec![Tersoff { position: [0.5; 3], mass: 12.0, parameters }],
        ..MoleculeComponent::default()
    };
    let mut space = PhaseSpace::new(LENGTH, vec![water.clone(), other, water]);
    assert_eq!(space.components.len() as u64, COMPONENTS);
    space.mixing = vec![[1.0, 0.9], [0.8, 0.7], [0.6, 0.5]];
    space.time = 91.183_499_999_907_2;
    space.temperature = Some(0.7);
    space.thermostats = vec![(1, 0.7), (2, 0.9)];
    space.component_thermostats = vec![(1, 1), (-1, 2)];
    space.undirected = vec![1];
    space
}
