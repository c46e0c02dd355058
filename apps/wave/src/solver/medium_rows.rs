//! Properties of the medium, row by row.

use crate::problem::MediumField;
use crate::transform::real::Real;

/// A property that is read row by row. A uniform one has one row.
#[derive(Clone, Debug)]
pub struct MediumRows<T> {
    values: Vec<T>,
    width: usize,
    uniform: bool,
}

impl<T: Real> MediumRows<T> {
    /// A function of properties, computed in `f64` and rounded once, for rows of this width.
    pub fn new<const N: usize>(
        fields: [&MediumField; N],
        width: usize,
        value: impl Fn([f64; N]) -> f64,
    ) -> Self {
        let points = fields.iter().find_map(|field| match field {
            MediumField::Uniform(_) => None,
            MediumField::Block(values) => Some(values.len()),
        });
        let at = |point: usize| {
            fields.map(|field| match field {
                MediumField::Uniform(value) => *value,
                MediumField::Block(values) => f64::from(values[point]),
            })
        };
        let values = match points {
            Some(points) => (0..points).map(|point| T::of(value(at(point)))).collect(),
            None => vec![T::of(value(at(0))); width],
        };
        Self { values, width, uniform: points.is_none() }
    }

    /// The values of a row of the block.
    pub fn row(&self, row: usize) -> &[T] {
        let start = if self.uniform { 0 } else { row * self.width };
        &self.values[start..start + self.width]
    }

    /// The value of a point of the block.
    pub fn at(&self, point: usize) -> T {
        self.values[if self.uniform { 0 } else { point }]
    }
}
