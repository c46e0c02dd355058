//! The quantities of a particle: names and units, and their numbers in the lists of scalars and vectors.

use serde::{Deserialize, Serialize};

/// Numbers of the scalars.
pub mod scalar {
    /// Mass.
    pub const MASS: usize = 0;
    /// Number density.
    pub const NUMBER_DENSITY: usize = 1;
    /// Mass density.
    pub const DENSITY: usize = 2;
    /// Pressure.
    pub const PRESSURE: usize = 3;
    /// Sound speed.
    pub const SOUND_SPEED: usize = 4;
    /// Smoothing length.
    pub const SMOOTHING_LENGTH: usize = 5;
    /// Internal energy per mass.
    pub const INTERNAL_ENERGY: usize = 6;
    /// Temperature.
    pub const TEMPERATURE: usize = 7;
    /// Shear viscosity.
    pub const SHEAR_VISCOSITY: usize = 8;
    /// Bulk viscosity.
    pub const BULK_VISCOSITY: usize = 9;
    /// Divergence of the velocity.
    pub const DIVERGENCE: usize = 10;
    /// Rate of the density.
    pub const DENSITY_RATE: usize = 11;
    /// Rate of the internal energy.
    pub const ENERGY_RATE: usize = 12;
    /// The longest stable time step.
    pub const STEP_LIMIT: usize = 13;
    /// The number of scalars without those of integrators.
    pub const COUNT: usize = 14;
}

/// Numbers of the vectors.
pub mod vector {
    /// Position.
    pub const POSITION: usize = 0;
    /// Velocity.
    pub const VELOCITY: usize = 1;
    /// Acceleration.
    pub const ACCELERATION: usize = 2;
    /// Pressure force.
    pub const PRESSURE_FORCE: usize = 3;
    /// Viscous force.
    pub const VISCOUS_FORCE: usize = 4;
    /// Volume force.
    pub const VOLUME_FORCE: usize = 5;
    /// The first of three rows of the velocity gradient: row a has the derivatives of component a.
    pub const VELOCITY_GRADIENT: usize = 6;
    /// The number of vectors without those of integrators.
    pub const COUNT: usize = 9;
}

/// A quantity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quantity {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
}

/// Names and units of all quantities of a run, in the order of the records. Their number depends on the integrator and the equations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuantityTable {
    /// The scalars.
    pub scalars: Vec<Quantity>,
    /// The vectors.
    pub vectors: Vec<Quantity>,
    /// The number of stages of the integrator.
    pub stages: usize,
    /// Whether scalars have rates of the density for each stage.
    pub density_stages: bool,
    /// Whether scalars have rates of the internal energy for each stage.
    pub energy_stages: bool,
}

const SCALARS: [(&str, &str); scalar::COUNT] = [
    ("mass", "kg"),
    ("number density", "m-3"),
    ("density", "kg m-3"),
    ("pressure", "Pa"),
    ("sound speed", "m s-1"),
    ("smoothing length", "m"),
    ("internal energy", "J kg-1"),
    ("temperature", "K"),
    ("shear viscosity", "Pa s"),
    ("bulk viscosity", "Pa s"),
    ("divergence of velocity", "s-1"),
    ("rate of density", "kg m-3 s-1"),
    ("rate of internal energy", "J kg-1 s-1"),
    ("step limit", "s"),
];

const VECTORS: [(&str, &str); vector::COUNT] = [
    ("position", "m"),
    ("velocity", "m s-1"),
    ("acceleration", "m s-2"),
    ("pressure force", "N"),
    ("viscous force", "N"),
    ("volume force", "N"),
    ("gradient of velocity x", "s-1"),
    ("gradient of velocity y", "s-1"),
    ("gradient of velocity z", "s-1"),
];

impl QuantityTable {
    /// The quantities of an integrator with so many stages, for integrated densities and energies or without.
    pub fn new(stages: usize, density_stages: bool, energy_stages: bool) -> Self {
        let quantity = |name: &str, unit: &str| Quantity { name: name.to_owned(), unit: unit.to_owned() };
        let known = |list: &[(&str, &str)]| -> Vec<Quantity> {
            list.iter().map(|(name, unit)| quantity(name, unit)).collect()
        };
        let (mut scalars, mut vectors) = (known(&SCALARS), known(&VECTORS));
        for stage in 0..stages {
            vectors.push(quantity(&format!("stage {stage}: rate of position"), "m s-1"));
            vectors.push(quantity(&format!("stage {stage}: rate of velocity"), "m s-2"));
        }
        let stage_scalars =
            [(density_stages, "density", "kg m-3 s-1"), (energy_stages, "internal energy", "J kg-1 s-1")];
        for (_, name, unit) in stage_scalars.into_iter().filter(|(wanted, ..)| *wanted) {
            scalars
                .extend((0..stages).map(|stage| quantity(&format!("stage {stage}: rate of {name}"), unit)));
        }
        Self { scalars, vectors, stages, density_stages, energy_stages }
    }

    /// The number of the vector with the rate of the position in a stage; that of the velocity follows.
    pub fn stage_vector(&self, stage: usize) -> usize {
        vector::COUNT + 2 * stage
    }

    /// The number of the scalar with the rate of the density in a stage.
    pub fn stage_density(&self, stage: usize) -> Option<usize> {
        self.density_stages.then_some(scalar::COUNT + stage)
    }

    /// The number of the scalar with the rate of the internal energy in a stage.
    pub fn stage_energy(&self, stage: usize) -> Option<usize> {
        let before = if self.density_stages { self.stages } else { 0 };
        self.energy_stages.then_some(scalar::COUNT + before + stage)
    }

    /// Bytes of a record with lists: two lengths, scalars, vectors, id and fluid.
    pub fn record_bytes(&self) -> usize {
        8 + 8 * self.scalars.len() + 8 + 24 * self.vectors.len() + 8 + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_particle_with_six_stages_has_644_bytes() {
        let table = QuantityTable::new(6, false, false);
        assert_eq!((table.scalars.len(), table.vectors.len(), table.record_bytes()), (14, 21, 644));
    }

    #[test]
    fn stages_have_numbers_of_their_own() {
        let table = QuantityTable::new(4, true, true);
        assert_eq!(table.scalars.len(), 22);
        assert_eq!(table.scalars[table.stage_density(3).unwrap()].name, "stage 3: rate of density");
        assert_eq!(table.scalars[table.stage_energy(0).unwrap()].name, "stage 0: rate of internal energy");
        assert_eq!(table.vectors[table.stage_vector(2)].name, "stage 2: rate of position");
        assert_eq!(QuantityTable::new(4, false, true).stage_energy(1), Some(15));
    }
}
