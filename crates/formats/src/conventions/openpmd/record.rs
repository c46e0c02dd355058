//! Records: quantities of a mesh or of particles, with their units.

use aqueduct_object::Object;

use crate::conventions::point_field::PointField;
use crate::error::{Error, Kind, Result};
use crate::hdf5::Datatype;

/// The names of components; of longer arrays they are numbers.
const AXES: [&str; 3] = ["x", "y", "z"];
const NUMBERS: [&str; 9] = ["0", "1", "2", "3", "4", "5", "6", "7", "8"];

/// The unit of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordUnit {
    /// The powers of length, mass, time, electric current, temperature, amount of substance and luminous intensity.
    pub dimension: [f64; 7],
    /// The factor that makes values those of SI units.
    pub si: f64,
}

impl RecordUnit {
    /// Numbers without a unit.
    pub const NONE: Self = Self::of([0.0; 7]);
    /// Metres.
    pub const LENGTH: Self = Self::of([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    /// Metres per second.
    pub const VELOCITY: Self = Self::of([1.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0]);
    /// Kilograms.
    pub const MASS: Self = Self::of([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    /// Kilograms per cubic metre.
    pub const DENSITY: Self = Self::of([-3.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    /// Pascals.
    pub const PRESSURE: Self = Self::of([-1.0, 1.0, -2.0, 0.0, 0.0, 0.0, 0.0]);
    /// Coulombs.
    pub const CHARGE: Self = Self::of([0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
    /// Volts per metre.
    pub const ELECTRIC_FIELD: Self = Self::of([1.0, 1.0, -3.0, -1.0, 0.0, 0.0, 0.0]);

    const fn of(dimension: [f64; 7]) -> Self {
        Self { dimension, si: 1.0 }
    }

    /// The same quantity, of which a unit is so many SI units.
    #[must_use]
    pub fn scaled(self, si: f64) -> Self {
        Self { si, ..self }
    }
}

/// A quantity of a mesh or of particles: its name, its unit and the values of this rank.
#[derive(Clone, Debug)]
pub struct OpenPmdRecord<'a> {
    field: PointField<'a>,
    unit: RecordUnit,
}

/// The values of one component.
#[derive(Clone, Debug)]
pub(super) struct ComponentData {
    /// Its name; none if the record has no others.
    pub(super) name: Option<&'static str>,
    pub(super) datatype: Datatype,
    pub(super) bytes: Vec<u8>,
}

impl ComponentData {
    /// Its path, in a record of this path.
    pub(super) fn path(&self, record: &str) -> String {
        self.name.map_or(record.to_owned(), |name| format!("{record}/{name}"))
    }
}

impl<'a> OpenPmdRecord<'a> {
    /// A record of this name; a vector is an array, for example `[f64; 3]`.
    pub fn new<T: Object>(name: &'a str, unit: RecordUnit, values: &'a [T]) -> Self {
        Self { field: PointField::new(name, values), unit }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.field.name()
    }

    /// How many points or particles it is of.
    pub fn count(&self) -> u64 {
        self.field.count()
    }

    pub(super) fn unit(&self) -> RecordUnit {
        self.unit
    }

    /// Its components, each with its values side by side.
    pub(super) fn components(&self, file: &str) -> Result<Vec<ComponentData>> {
        let elements = self.field.elements(file)?;
        let (datatype, bytes) = (elements.datatype, elements.bytes);
        let Some(count) = elements.components else {
            return Ok(vec![ComponentData { name: None, datatype, bytes: bytes.to_vec() }]);
        };
        let names = if count as usize <= AXES.len() { &AXES[..] } else { &NUMBERS[..] };
        let names = names.get(..count as usize).ok_or_else(|| {
            let detail =
                format!("record {:?}: {count} components; there are up to {}", self.name(), NUMBERS.len());
            Error::new(Kind::WrongType, "write", file, detail)
        })?;
        let size = datatype.size() as usize;
        let component = |(number, name): (usize, &&'static str)| {
            let elements = bytes.chunks_exact(size * count as usize);
            let bytes = elements.flat_map(|element| &element[number * size..(number + 1) * size]).copied();
            ComponentData { name: Some(*name), datatype: datatype.clone(), bytes: bytes.collect() }
        };
        Ok(names.iter().enumerate().map(component).collect())
    }
}
