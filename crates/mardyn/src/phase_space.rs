//! What a phase-space file says about all of its molecules.

use aqueduct_checkpoint::{Molecule, SpatialRegion};

use crate::component::Component;

/// The head of a phase-space file.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseSpace {
    /// The version of the format, a date: `20120726`.
    pub version: u32,
    /// Simulated time.
    pub time: f64,
    /// Temperature, where the file says one.
    pub temperature: Option<f64>,
    /// The edges of the box.
    pub length: [f64; 3],
    /// Thermostats: their number and target temperature.
    pub thermostats: Vec<(i64, f64)>,
    /// Which component (from 1, as the files count) belongs to which thermostat.
    pub component_thermostats: Vec<(i64, i64)>,
    /// Thermostats that leave the directed motion alone.
    pub undirected: Vec<i64>,
    /// The kinds of molecules; none where the file does not say (XML headers do not).
    pub components: Vec<Component>,
    /// ξ and η of each pair of components i < j: (1,2), (1,3), … (2,3), …
    pub mixing: Vec<[f64; 2]>,
    /// ε of the reaction field.
    pub epsilon_rf: f64,
    /// How many molecules the file has. Writers count for themselves.
    pub molecules: u64,
    /// What is stored of a molecule.
    pub molecule_format: MoleculeFormat,
}

/// What is stored of a molecule: identity, component, position (R), velocity, orientation (Q), angular momentum (D).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MoleculeFormat {
    /// Everything.
    #[default]
    Icrvqd,
    /// No orientation and no angular momentum.
    Icrv,
    /// Nor a component: there is only one.
    Irv,
}

/// The version that is written.
pub const VERSION: u32 = 20_120_726;

impl PhaseSpace {
    /// A box of this length with these components, at time 0.
    pub fn new(length: [f64; 3], components: Vec<Component>) -> Self {
        let pairs = components.len() * components.len().saturating_sub(1) / 2;
        Self {
            version: VERSION,
            time: 0.0,
            temperature: None,
            length,
            thermostats: Vec::new(),
            component_thermostats: Vec::new(),
            undirected: Vec::new(),
            components,
            mixing: vec![[1.0, 1.0]; pairs],
            epsilon_rf: 1e10,
            molecules: 0,
            molecule_format: MoleculeFormat::Icrvqd,
        }
    }

    /// Why a molecule cannot be one of this phase space, if it cannot.
    pub(crate) fn find_defect(&self, molecule: &Molecule) -> Option<String> {
        let id = molecule.id;
        if !self.components.is_empty() && molecule.component >= self.components.len() as u64 {
            let (component, most) = (molecule.component + 1, self.components.len());
            return Some(format!("molecule {id} is of component {component}, but there are {most}"));
        }
        let (position, length) = (molecule.position, self.length);
        (!SpatialRegion::of(length).contains_closed(position))
            .then(|| format!("molecule {id} at {position:?} is outside of the box {length:?}"))
    }
}

impl MoleculeFormat {
    /// The name in the files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Icrvqd => "ICRVQD",
            Self::Icrv => "ICRV",
            Self::Irv => "IRV",
        }
    }

    /// The rows of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Icrvqd, Self::Icrv, Self::Irv].into_iter().find(|rows| rows.name() == name)
    }

    /// Bytes of a row in binary files.
    pub fn size(self) -> usize {
        match self {
            Self::Icrvqd => 116,
            Self::Icrv => 60,
            Self::Irv => 56,
        }
    }

    /// How many words the line of a molecule has.
    pub(crate) fn words(self) -> usize {
        self.numbers() + if self == Self::Irv { 1 } else { 2 }
    }

    /// How many of the thirteen numbers of a molecule are stored.
    pub(crate) fn numbers(self) -> usize {
        if self == Self::Icrvqd { 13 } else { 6 }
    }
}
