//! Components: kinds of molecules with their sites.

/// A kind of molecule: its sites and its moments of inertia.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MoleculeComponent {
    /// Lennard-Jones centres.
    pub lennard_jones: Vec<LennardJones>,
    /// Point charges.
    pub charges: Vec<Charge>,
    /// Point dipoles.
    pub dipoles: Vec<AxialSite>,
    /// Point quadrupoles.
    pub quadrupoles: Vec<AxialSite>,
    /// Tersoff centres.
    pub tersoff: Vec<Tersoff>,
    /// Principal moments of inertia; 0 means that they are computed from the sites.
    pub inertia: [f64; 3],
}

/// A Lennard-Jones centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LennardJones {
    /// Position relative to the centre of mass.
    pub position: [f64; 3],
    /// Mass.
    pub mass: f64,
    /// Depth of the potential.
    pub epsilon: f64,
    /// Distance at which the potential is zero.
    pub sigma: f64,
    /// Cutoff of the truncated potential; 0 if the file has none.
    pub cutoff: f64,
    /// Whether the potential is shifted to be zero at the cutoff; a number in the files, 0 if a file has none.
    pub shift: f64,
}

/// A point charge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Charge {
    /// Position relative to the centre of mass.
    pub position: [f64; 3],
    /// Mass.
    pub mass: f64,
    /// Charge.
    pub charge: f64,
}

/// A dipole or quadrupole: a direction and a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AxialSite {
    /// Position relative to the centre of mass.
    pub position: [f64; 3],
    /// Direction of the axis.
    pub direction: [f64; 3],
    /// Its moment.
    pub moment: f64,
}

/// A Tersoff centre.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tersoff {
    /// Position relative to the centre of mass.
    pub position: [f64; 3],
    /// Mass.
    pub mass: f64,
    /// A, B, λ, μ, R, S, c, d, h, n, β.
    pub parameters: [f64; 11],
}

impl MoleculeComponent {
    /// A single Lennard-Jones centre at the centre of mass.
    pub fn single(mass: f64, epsilon: f64, sigma: f64) -> Self {
        let centre = LennardJones { position: [0.0; 3], mass, epsilon, sigma, cutoff: 0.0, shift: 0.0 };
        Self { lennard_jones: vec![centre], ..Self::default() }
    }

    /// The mass of all sites.
    pub fn mass(&self) -> f64 {
        let lennard_jones = self.lennard_jones.iter().map(|site| site.mass);
        let charges = self.charges.iter().map(|site| site.mass);
        lennard_jones.chain(charges).chain(self.tersoff.iter().map(|site| site.mass)).sum()
    }
}
