//! The Lennard-Jones potential between molecules of given components.

/// A molecule with one Lennard-Jones centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LennardJonesCentre {
    /// Mass of the molecule.
    pub mass: f64,
    /// Depth of the potential.
    pub epsilon: f64,
    /// Distance at which it is zero.
    pub sigma: f64,
    /// Whether it is shifted to be zero at the cutoff.
    pub shifted: bool,
}

/// The potential of a pair: 4ε((σ/r)¹² − (σ/r)⁶) + shift, 0 from the cutoff on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PairPotential {
    /// The square of the cutoff; 0 for pairs without forces.
    pub cutoff2: f64,
    /// σ².
    pub sigma2: f64,
    /// 24 ε.
    pub epsilon24: f64,
    /// The shift of the potential.
    pub shift: f64,
}

impl PairPotential {
    /// The potential of two centres; ξ scales the mean depth, η the mean size.
    pub fn new(a: &LennardJonesCentre, b: &LennardJonesCentre, xi: f64, eta: f64, cutoff: f64) -> Self {
        let epsilon = xi * (a.epsilon * b.epsilon).sqrt();
        let sigma = eta * 0.5 * (a.sigma + b.sigma);
        let mut pair =
            Self { cutoff2: cutoff * cutoff, sigma2: sigma * sigma, epsilon24: 24.0 * epsilon, shift: 0.0 };
        if a.shifted && b.shifted {
            pair.shift = -pair.at(pair.cutoff2).energy;
        }
        pair
    }

    /// Energy and force at the distance whose square is given, without the cutoff.
    #[inline]
    pub fn at(&self, r2: f64) -> PairInteraction {
        let inverse = 1.0 / r2;
        let s2 = self.sigma2 * inverse;
        let s6 = s2 * s2 * s2;
        let s12 = s6 * s6;
        PairInteraction {
            energy: self.epsilon24 * (1.0 / 6.0) * (s12 - s6) + self.shift,
            force: self.epsilon24 * inverse * (s12 + s12 - s6),
        }
    }
}

/// Energy and force of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairInteraction {
    /// Energy of the pair.
    pub energy: f64,
    /// Force divided by the distance: the force is this number times the vector between the two.
    pub force: f64,
}

/// The potentials of all pairs of components. A component that is not a single Lennard-Jones centre has no forces and does not move.
#[derive(Clone, Debug, PartialEq)]
pub struct Potential {
    pairs: Vec<PairPotential>,
    centres: Vec<Option<LennardJonesCentre>>,
}

impl Potential {
    /// `mixing(i, j)` gives ξ and η of two components, i < j.
    pub fn new(
        centres: Vec<Option<LennardJonesCentre>>,
        cutoff: f64,
        mixing: impl Fn(usize, usize) -> (f64, f64),
    ) -> Self {
        let count = centres.len();
        let pair = |(i, j): (usize, usize)| {
            let (Some(a), Some(b)) = (&centres[i], &centres[j]) else { return PairPotential::default() };
            let (xi, eta) = if i == j { (1.0, 1.0) } else { mixing(i.min(j), i.max(j)) };
            PairPotential::new(a, b, xi, eta, cutoff)
        };
        let pairs = (0..count).flat_map(|i| (0..count).map(move |j| (i, j))).map(pair).collect();
        Self { pairs, centres }
    }

    /// The potentials of this component with all components.
    pub fn row(&self, component: usize) -> &[PairPotential] {
        let count = self.centres.len();
        &self.pairs[component * count..(component + 1) * count]
    }

    /// The centre of a component, if it has forces.
    pub fn centre(&self, component: usize) -> Option<&LennardJonesCentre> {
        self.centres[component].as_ref()
    }

    /// The number of components.
    pub fn components(&self) -> usize {
        self.centres.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARGON: LennardJonesCentre =
        LennardJonesCentre { mass: 1.0, epsilon: 1.0, sigma: 1.0, shifted: false };

    #[test]
    fn the_minimum_is_at_the_sixth_root_of_two_sigma() {
        let pair = PairPotential::new(&ARGON, &ARGON, 1.0, 1.0, 2.5);
        let lowest = pair.at(2f64.powf(1.0 / 3.0));
        assert!((lowest.energy + 1.0).abs() < 1e-14 && lowest.force.abs() < 1e-13);
        assert!(pair.at(1.0).energy.abs() < 1e-15);
    }

    #[test]
    fn the_force_is_the_negative_derivative() {
        let pair = PairPotential::new(
            &ARGON,
            &LennardJonesCentre { epsilon: 0.3, sigma: 1.4, ..ARGON },
            0.9,
            1.1,
            3.0,
        );
        for r in [0.9f64, 1.2, 1.7, 2.9] {
            let h = 1e-6;
            let slope = (pair.at((r + h).powi(2)).energy - pair.at((r - h).powi(2)).energy) / (2.0 * h);
            let force = pair.at(r * r).force * r;
            assert!((slope + force).abs() < 1e-5 * force.abs().max(1.0), "{r}: {slope} {force}");
        }
    }

    #[test]
    fn the_shifted_potential_is_zero_at_the_cutoff() {
        let shifted = LennardJonesCentre { shifted: true, ..ARGON };
        assert_eq!(PairPotential::new(&shifted, &shifted, 1.0, 1.0, 2.5).at(6.25).energy, 0.0);
        assert!(PairPotential::new(&shifted, &ARGON, 1.0, 1.0, 2.5).at(6.25).energy < 0.0);
    }

    #[test]
    fn other_components_have_no_forces() {
        let potential = Potential::new(vec![Some(ARGON), None], 2.5, |_, _| (1.0, 1.0));
        assert_eq!(potential.row(0)[1], PairPotential::default());
        assert!(potential.row(0)[0].cutoff2 > 0.0 && potential.centre(1).is_none());
    }
}
