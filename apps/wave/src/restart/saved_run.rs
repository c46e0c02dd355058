//! What a checkpoint has of a run.

use anyhow::Result;
use aqueduct::stream::ResumeState;

use crate::grid::field_block::FieldBlock;
use crate::solver::time_step::{WaveFields, WaveSolver};
use crate::transform::real::Real;

/// A rank's block of a field in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldPlace {
    /// The name of the field.
    pub name: String,
    /// Its shape.
    pub shape: Vec<u64>,
    /// The start of the block.
    pub start: Vec<u64>,
    /// The shape of the block.
    pub count: Vec<u64>,
}

/// A run at the end of a step, as a checkpoint stores it.
pub(super) struct RunState<'f, T> {
    /// Steps that were made.
    pub(super) step: u64,
    /// The fields.
    pub(super) fields: Vec<(FieldPlace, &'f [T])>,
    /// The state of the output, if there is one.
    pub(super) output: Option<ResumeState>,
}

/// Reads a checkpoint. Collective.
pub trait SavedArrays<T> {
    /// A block of a field.
    fn field(&self, place: &FieldPlace) -> Result<Vec<T>>;

    /// This rank's part of the states of the output.
    fn output(&self) -> Result<Vec<ResumeState>>;
}

/// A checkpoint that a run continues from: the number of steps that were made, and its arrays.
pub struct SavedRun<T> {
    /// Steps that were made.
    pub step: u64,
    /// The arrays.
    pub arrays: Box<dyn SavedArrays<T>>,
}

const DIRECTIONS: [&str; 3] = ["x", "y", "z"];

fn place(block: &FieldBlock, name: String) -> FieldPlace {
    let shape = [2, 1, 0].map(|at| block.points[at] as u64);
    FieldPlace { name, shape: shape.into(), start: block.start().into(), count: block.shape().into() }
}

impl<'f, T> RunState<'f, T> {
    /// The state of a simulation and of its output.
    pub(super) fn new(
        step: u64,
        block: &FieldBlock,
        fields: &'f WaveFields<T>,
        output: Option<ResumeState>,
    ) -> Self {
        let mut list = vec![(place(block, "p".into()), fields.pressure.as_slice())];
        for (kind, parts) in [("u", &fields.velocity), ("rho", &fields.density)] {
            let named = DIRECTIONS.iter().zip(parts);
            list.extend(
                named.map(|(direction, values)| {
                    (place(block, format!("{kind}{direction}")), values.as_slice())
                }),
            );
        }
        Self { step, fields: list, output }
    }
}

impl<T: Real> SavedRun<T> {
    /// Sets the fields of a simulation. Collective.
    pub fn restore(&self, solver: &mut WaveSolver<T>) -> Result<()> {
        let block = solver.block().clone();
        let read = |name: String| self.arrays.field(&place(&block, name));
        let directions = DIRECTIONS.iter().take(solver.fields.velocity.len());
        solver.fields.pressure = read("p".into())?;
        let velocity =
            directions.clone().map(|direction| read(format!("u{direction}"))).collect::<Result<Vec<_>>>()?;
        solver.fields.velocity = velocity;
        solver.fields.density =
            directions.map(|direction| read(format!("rho{direction}"))).collect::<Result<Vec<_>>>()?;
        solver.continue_from(self.step);
        Ok(())
    }
}
