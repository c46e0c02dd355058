//! Particles as objects for files and messages: with lists, whose lengths are known at run time, or with arrays.

use anyhow::{Result, ensure};
use aqueduct::object::Object;

use crate::fluid::Fluid;
use crate::particle_set::ParticleSet;
use crate::quantity::{QuantityTable, scalar, vector};

/// A particle of any number of quantities: an object of variable size.
#[derive(Object, Clone, Debug, Default, PartialEq)]
pub struct ParticleRecord {
    /// The scalars, in the order of the [`QuantityTable`].
    pub scalars: Vec<f64>,
    /// The vectors.
    pub vectors: Vec<[f64; 3]>,
    /// Its number.
    pub id: u64,
    /// What it consists of.
    pub fluid: Fluid,
}

/// A particle whose numbers of quantities the compiler knows: an object of constant size.
#[derive(Object, Clone, Debug, PartialEq)]
pub struct PackedParticle<const S: usize, const V: usize> {
    /// The scalars, in the order of the [`QuantityTable`].
    pub scalars: [f64; S],
    /// The vectors.
    pub vectors: [[f64; 3]; V],
    /// Its number.
    pub id: u64,
    /// What it consists of.
    pub fluid: Fluid,
}

/// The form of records.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum RecordForm {
    /// [`ParticleRecord`].
    #[default]
    Lists,
    /// [`PackedParticle`].
    Arrays,
}

/// A form of record.
pub trait StoredParticle: Object + Clone + Send + 'static {
    /// A record of zeros.
    fn zeroed(table: &QuantityTable) -> Self;

    /// Its parts.
    fn parts(&self) -> (u64, Fluid, &[f64], &[[f64; 3]]);

    /// Its parts, to be changed.
    fn parts_mut(&mut self) -> (&mut u64, &mut Fluid, &mut [f64], &mut [[f64; 3]]);
}

impl StoredParticle for ParticleRecord {
    fn zeroed(table: &QuantityTable) -> Self {
        let (scalars, vectors) = (vec![0.0; table.scalars.len()], vec![[0.0; 3]; table.vectors.len()]);
        Self { scalars, vectors, ..Self::default() }
    }

    fn parts(&self) -> (u64, Fluid, &[f64], &[[f64; 3]]) {
        (self.id, self.fluid, &self.scalars, &self.vectors)
    }

    fn parts_mut(&mut self) -> (&mut u64, &mut Fluid, &mut [f64], &mut [[f64; 3]]) {
        (&mut self.id, &mut self.fluid, &mut self.scalars, &mut self.vectors)
    }
}

impl<const S: usize, const V: usize> StoredParticle for PackedParticle<S, V> {
    fn zeroed(_: &QuantityTable) -> Self {
        Self { scalars: [0.0; S], vectors: [[0.0; 3]; V], id: 0, fluid: Fluid::Air }
    }

    fn parts(&self) -> (u64, Fluid, &[f64], &[[f64; 3]]) {
        (self.id, self.fluid, &self.scalars, &self.vectors)
    }

    fn parts_mut(&mut self) -> (&mut u64, &mut Fluid, &mut [f64], &mut [[f64; 3]]) {
        (&mut self.id, &mut self.fluid, &mut self.scalars, &mut self.vectors)
    }
}

/// Evaluates an expression with the type of the records of a form and a [`QuantityTable`].
#[macro_export]
macro_rules! with_record {
    ($form:expr, $table:expr, $record:ident => $body:expr) => {{
        use $crate::record::{PackedParticle, ParticleRecord, RecordForm};
        let table: &$crate::quantity::QuantityTable = $table;
        let extra = table.density_stages || table.energy_stages;
        match ($form, table.stages, extra) {
            (RecordForm::Lists, ..) => {
                type $record = ParticleRecord;
                $body
            }
            (RecordForm::Arrays, 1, false) => {
                type $record = PackedParticle<14, 11>;
                $body
            }
            (RecordForm::Arrays, 1, true) => {
                type $record = PackedParticle<16, 11>;
                $body
            }
            (RecordForm::Arrays, 2, false) => {
                type $record = PackedParticle<14, 13>;
                $body
            }
            (RecordForm::Arrays, 2, true) => {
                type $record = PackedParticle<18, 13>;
                $body
            }
            (RecordForm::Arrays, 4, false) => {
                type $record = PackedParticle<14, 17>;
                $body
            }
            (RecordForm::Arrays, 4, true) => {
                type $record = PackedParticle<22, 17>;
                $body
            }
            (RecordForm::Arrays, 6, false) => {
                type $record = PackedParticle<14, 21>;
                $body
            }
            (RecordForm::Arrays, ..) => {
                type $record = PackedParticle<26, 21>;
                $body
            }
        }
    }};
}

/// Copies particles into records; the memory of the records is used again.
pub fn fill_records<R: StoredParticle>(particles: &ParticleSet, table: &QuantityTable, records: &mut Vec<R>) {
    records.resize_with(particles.len(), || R::zeroed(table));
    for (at, record) in records.iter_mut().enumerate() {
        let (id, fluid, scalars, vectors) = record.parts_mut();
        (*id, *fluid) = (particles.ids[at], particles.fluids[at]);
        for (place, values) in scalars.iter_mut().zip(&particles.scalars) {
            *place = values[at];
        }
        for (place, values) in vectors.iter_mut().zip(&particles.vectors) {
            *place = values[at];
        }
    }
}

/// Adds the particles of records.
pub fn add_records<R: StoredParticle>(
    records: &[R],
    table: &QuantityTable,
    particles: &mut ParticleSet,
) -> Result<()> {
    for record in records {
        let (id, fluid, scalars, vectors) = record.parts();
        let (wanted, found) = ([table.scalars.len(), table.vectors.len()], [scalars.len(), vectors.len()]);
        // Records with arrays may have more scalars than the equations need.
        ensure!(
            found[0] >= wanted[0] && found[1] == wanted[1],
            "particle {id} has {found:?} scalars and vectors, the configuration needs {wanted:?}"
        );
        let at = particles.push(id, fluid);
        particles.scalars.iter_mut().zip(scalars).for_each(|(values, value)| values[at] = *value);
        particles.vectors.iter_mut().zip(vectors).for_each(|(values, value)| values[at] = *value);
    }
    Ok(())
}

/// A line of text with the quantities that the way `gather` stores: id, fluid, position, momentum, mass, density, pressure.
pub fn text_line<R: StoredParticle>(record: &R, line: &mut String) {
    use std::fmt::Write as _;
    let (id, fluid, scalars, vectors) = record.parts();
    let _ = write!(line, "{id} {}", fluid.name());
    let mass = scalars[scalar::MASS];
    let momentum = vectors[vector::VELOCITY].map(|v| mass * v);
    let stored = [mass, scalars[scalar::DENSITY], scalars[scalar::PRESSURE]];
    for value in vectors[vector::POSITION].iter().chain(&momentum).chain(&stored) {
        let _ = write!(line, " {value:e}");
    }
    line.push('\n');
}

#[cfg(test)]
mod tests {
    use aqueduct::object::Category;

    use super::*;

    #[test]
    fn lists_are_variable_and_arrays_constant() {
        assert_eq!(ParticleRecord::CATEGORY, Category::Variable);
        assert_eq!(PackedParticle::<14, 21>::CATEGORY, Category::Constant);
        let table = QuantityTable::new(6, false, false);
        let record = ParticleRecord::zeroed(&table);
        assert_eq!(record.encoded_size(), table.record_bytes());
        assert_eq!(PackedParticle::<14, 21>::SIZE, Some(table.record_bytes() - 16));
    }

    #[test]
    fn records_keep_all_quantities_in_both_forms() {
        let table = QuantityTable::new(2, true, false);
        let mut particles = ParticleSet::new(&table);
        for id in 0..3 {
            let at = particles.push(id, Fluid::Diesel);
            particles
                .scalars
                .iter_mut()
                .enumerate()
                .for_each(|(part, values)| values[at] = (id + part as u64) as f64);
            particles
                .vectors
                .iter_mut()
                .enumerate()
                .for_each(|(part, values)| values[at] = [part as f64, -0.0, 1e300]);
        }
        for form in [RecordForm::Lists, RecordForm::Arrays] {
            with_record!(form, &table, R => {
                let mut records: Vec<R> = Vec::new();
                fill_records(&particles, &table, &mut records);
                let mut copy = ParticleSet::new(&table);
                add_records(&records, &table, &mut copy).unwrap();
                assert_eq!(copy, particles);
            });
        }
    }
}
