//! The dimension of an array that counts steps. Pure.

use anyhow::{Result, ensure};

use crate::array_file::Array;

/// The steps of an array: `outer` times all steps, each of `inner` elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeAxis {
    pub(super) outer: u64,
    pub(super) steps: u64,
    pub(super) inner: u64,
}

impl TimeAxis {
    /// The dimension `wanted`; without it the first one after leading dimensions of length 1, unless it is the only one
    /// that is left: such an array has one step.
    pub(super) fn of(array: &Array, wanted: Option<usize>) -> Result<Self> {
        let shape = &array.shape;
        let axis = match wanted {
            Some(axis) => {
                let (name, dimensions) = (&array.name, shape.len());
                ensure!(
                    axis < dimensions,
                    "--time {axis}: {name} has {dimensions} dimensions, counted from 0"
                );
                axis
            }
            None if !array.has_steps() => {
                return Ok(Self { outer: 1, steps: 1, inner: shape.iter().product::<u64>().max(1) });
            }
            None => {
                let leading = shape.iter().take_while(|length| **length == 1).count();
                leading.min(shape.len().saturating_sub(2))
            }
        };
        let product = |sides: &[u64]| sides.iter().product::<u64>();
        Ok(Self {
            outer: product(&shape[..axis]).max(1),
            steps: shape.get(axis).copied().unwrap_or(1),
            inner: product(shape.get(axis + 1..).unwrap_or(&[])).max(1),
        })
    }

    /// The step of an element.
    pub(super) fn step(self, element: u64) -> u64 {
        element / self.inner % self.steps.max(1)
    }

    /// The number of elements up to the end of the step that this one belongs to.
    pub(super) fn left(self, element: u64) -> u64 {
        self.inner - element % self.inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array_file::{ElementType, NumberType};

    fn axis(shape: &[u64], wanted: Option<usize>) -> (u64, u64, u64) {
        let array = Array::new("a", ElementType::number(NumberType::F64), shape.to_vec());
        let axis = TimeAxis::of(&array, wanted).unwrap();
        (axis.outer, axis.steps, axis.inner)
    }

    #[test]
    fn leading_dimensions_of_length_1_are_skipped() {
        assert_eq!(axis(&[1, 12, 30], None), (1, 12, 30));
        assert_eq!(axis(&[12, 3, 4, 5], None), (1, 12, 60));
        assert_eq!(axis(&[1, 1, 30], None), (1, 1, 30));
        assert_eq!(axis(&[30], None), (1, 1, 30));
        assert_eq!(axis(&[], None), (1, 1, 1));
    }

    #[test]
    fn any_dimension_counts_steps_if_it_is_wanted() {
        let shape = [3, 4, 5];
        assert_eq!(axis(&shape, Some(1)), (3, 4, 5));
        let axis = TimeAxis { outer: 3, steps: 4, inner: 5 };
        assert_eq!((axis.step(0), axis.step(19), axis.step(20), axis.step(26)), (0, 3, 0, 1));
        assert_eq!((axis.left(0), axis.left(19), axis.left(22)), (5, 1, 3));
    }
}
