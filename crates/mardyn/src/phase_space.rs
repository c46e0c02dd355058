//! The header of a phase-space file as a value.

use aqueduct_checkpoint::{Molecule, SpatialRegion};

use crate::component::MoleculeComponent;

/// The header of a phase-space file.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseSpace {
    /// The version of the format, a date: `20120726`.
    pub version: u32,
    /// Simulated time.
    pub time: f64,
    /// Temperature, if the file has one.
    pub temperature: Option<f64>,
    /// The edges of the box.
    pub length: [f64; 3],
    /// Thermostats: their number and target temperature.
    pub thermostats: Vec<(i64, f64)>,
    /// Pairs of a component (counted from 1, as in the files) and its thermostat.
    pub component_thermostats: Vec<(i64, i64)>,
    /// Thermostats that do not scale the directed motion.
    pub undirected: Vec<i64>,
    /// The components; empty if the file has none (XML headers never do).
    pub components: Vec<MoleculeComponent>,
    /// ξ and η of each pair of components i < j: (1,2), (1,3), … (2,3), …
    pub mixing: Vec<[f64; 2]>,
    /// ε of the reaction field.
    pub epsilon_rf: f64,
    /// The number of molecules in the file. Writers ignore it and count the molecules.
    pub molecules: u64,
    /// The values of a molecule that are stored.
    pub molecule_format: MoleculeFormat,
}

/// The values of a molecule that are stored: id (I), component (C), position (R), velocity (V), orientation (Q), angular momentum (D).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MoleculeFormat {
    /// All values.
    #[default]
    Icrvqd,
    /// No orientation and no angular momentum.
    Icrv,
    /// No orientation, no angular momentum, no component: there is only one.
    Irv,
}

/// The version that is written.
pub const VERSION: u32 = 20_120_726;

impl PhaseSpace {
    /// A box of this length with these components, at time 0.
    pub fn new(length: [f64; 3], components: Vec<MoleculeComponent>) -> Self {
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

    /// Why a molecule is not valid in this phase space.
    pub(crate) fn find_defect(&self, molecule: &Molecule) -> Option<String> {
        let id = molecule.id;
        if !self.components.is_empty() && molecule.component >= self.components.len() as u64 {
            let (component, most) = (molecule.component + 1, self.components.len());
            return Some(format!(
                "molecule {id} is of component {component}, but the header has {most} components"
            ));
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

    /// The format of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Icrvqd, Self::Icrv, Self::Irv].into_iter().find(|rows| rows.name() == name)
    }

    /// Size of a row in binary files, in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Icrvqd => 116,
            Self::Icrv => 60,
            Self::Irv => 56,
        }
    }

    /// The number of words in the line of a molecule.
    pub(crate) fn words(self) -> usize {
        self.numbers() + if self == Self::Irv { 1 } else { 2 }
    }

    /// How many of the thirteen values of a molecule are stored.
    pub(crate) fn numbers(self) -> usize {
        if self == Self::Icrvqd { 13 } else { 6 }
    }
}
