//! The potential of the components of a phase space.

use anyhow::{Result, ensure};
use aqueduct::mardyn::{MoleculeComponent, PhaseSpace};

use crate::force::potential::{LennardJonesCentre, Potential};

/// The potential between the molecules of a phase space.
pub fn potential(space: &PhaseSpace, cutoff: f64) -> Result<Potential> {
    ensure!(
        !space.components.is_empty(),
        "the header of the phase space has no components; add a line `components <file>` to the configuration, \
         with an OldStyle file that has them"
    );
    let centres = space.components.iter().map(single_centre).collect::<Vec<_>>();
    for (number, centre) in centres.iter().enumerate() {
        let sound =
            |centre: &LennardJonesCentre| centre.mass > 0.0 && centre.epsilon >= 0.0 && centre.sigma >= 0.0;
        ensure!(
            centre.as_ref().is_none_or(sound),
            "component {}: mass {:?} must be positive, epsilon and sigma not negative",
            number + 1,
            centre.map(|centre| centre.mass).unwrap_or_default()
        );
    }
    let count = centres.len();
    let mixing = |i: usize, j: usize| {
        let pair = space.mixing.get(i * count - i * (i + 1) / 2 + (j - i - 1));
        pair.map_or((1.0, 1.0), |[xi, eta]| (*xi, *eta))
    };
    Ok(Potential::new(centres, cutoff, mixing))
}

/// The centre of a component with a single Lennard-Jones centre.
fn single_centre(component: &MoleculeComponent) -> Option<LennardJonesCentre> {
    let others = component.charges.len()
        + component.dipoles.len()
        + component.quadrupoles.len()
        + component.tersoff.len();
    match component.lennard_jones.as_slice() {
        [site] if others == 0 && site.position == [0.0; 3] => {
            let shifted = site.shift != 0.0;
            Some(LennardJonesCentre { mass: site.mass, epsilon: site.epsilon, sigma: site.sigma, shifted })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_mixed_in_the_order_of_the_files() {
        let mut components =
            [1.0, 4.0, 9.0].map(|epsilon| MoleculeComponent::single(1.0, epsilon, 1.0)).to_vec();
        components.push(MoleculeComponent::default());
        let mut space = PhaseSpace::new([10.0; 3], components);
        space.mixing = (0..6).map(|pair| [f64::from(pair + 1), 1.0]).collect();
        let potential = potential(&space, 2.5).unwrap();
        let depth = |i: usize, j: usize| potential.row(i)[j].epsilon24 / 24.0;
        assert_eq!(
            [depth(0, 1), depth(1, 0), depth(0, 2), depth(1, 2), depth(1, 1)],
            [2.0, 2.0, 6.0, 24.0, 4.0]
        );
        assert!(potential.centre(3).is_none() && potential.row(0)[3].cutoff2 == 0.0);
    }

    #[test]
    fn a_component_without_mass_is_an_error() {
        let space = PhaseSpace::new([10.0; 3], vec![MoleculeComponent::single(0.0, 1.0, 1.0)]);
        assert!(potential(&space, 2.5).unwrap_err().to_string().contains("component 1: mass 0.0"));
        let space = PhaseSpace::new([10.0; 3], Vec::new());
        assert!(potential(&space, 2.5).unwrap_err().to_string().contains("components <file>"));
    }
}
