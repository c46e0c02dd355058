//! Samples of a run on their way into its output.

use anyhow::{Result, ensure};
use aqueduct::comm::Comm;
use aqueduct::stream::{Options, Output, PendingFlush, ResumeState, StreamKey};

use super::output_file::{create_file, end_file, open_target};
use super::quantities::{SampledField, StoredForm, WaveQuantity};
use super::quantity_streams::{SamplingPlan, declare};
use crate::grid::field_block::FieldBlock;
use crate::problem::WaveProblem;
use crate::solver::time_step::WaveSolver;
use crate::transform::real::Real;

/// How the samples of a run are written.
#[derive(Clone, Debug, Default)]
pub struct RecordingOptions {
    /// Which ranks and threads write; buffers, memory.
    pub stream: Options,
    /// Servers write, which these options name.
    pub served: bool,
}

/// The output of a run: passes the fields of every step to streams of quantities.
pub struct SampleRecorder<T> {
    output: Output,
    quantities: Vec<(WaveQuantity, StreamKey<T>)>,
    name: String,
    first_step: u64,
    steps: u64,
    block: FieldBlock,
    /// The velocity at the places of the pressure, if it is sampled.
    shifted: Vec<Vec<T>>,
    intensity: Option<IntensityFields<T>>,
}

/// The mean intensity is that of p(t) · (u(t − ½) + u(t + ½)) / 2: a sample is known one step later. What a step passes is the sample of the step
/// before; the last step adds its own, with u(t − ½).
struct IntensityFields<T> {
    pressure: Vec<T>,
    velocity: Vec<Vec<T>>,
    products: Vec<Vec<T>>,
}

impl<T: Real> IntensityFields<T> {
    fn new(points: usize, dimensions: usize) -> Self {
        let zeros = || vec![vec![T::zero(); points]; dimensions];
        Self { pressure: vec![T::zero(); points], velocity: zeros(), products: zeros() }
    }

    /// Computes what this step passes. Fields before the first sample are zero.
    fn advance(&mut self, pressure: &[T], velocity: &[Vec<T>], is_last: bool) {
        let half = T::of(0.5);
        for ((products, before), now) in self.products.iter_mut().zip(&self.velocity).zip(velocity) {
            let values = products.iter_mut().zip(&self.pressure).zip(before.iter().zip(now)).zip(pressure);
            for (((product, pressure), (before, now)), new) in values {
                *product = *pressure * (half * (*before + *now));
                if is_last {
                    *product = *product + *new * *now;
                }
            }
        }
        self.keep(pressure, velocity);
    }

    fn keep(&mut self, pressure: &[T], velocity: &[Vec<T>]) {
        self.pressure.copy_from_slice(pressure);
        for (kept, now) in self.velocity.iter_mut().zip(velocity) {
            kept.copy_from_slice(now);
        }
    }
}

impl<T: Real> SampleRecorder<T> {
    /// Begins an output, or continues that of a simulation with the states of a checkpoint. Collective.
    pub fn new(
        world: &Comm,
        problem: &WaveProblem,
        (plan, options): (&SamplingPlan, &RecordingOptions),
        solver: &mut WaveSolver<T>,
        states: Option<&[ResumeState]>,
    ) -> Result<Self> {
        ensure!(
            states.is_none() || !options.served,
            "{}: an output that servers write cannot be continued; choose another --mode",
            plan.name
        );
        let (streams, keys) = declare::<T>(problem, plan);
        let stream = options.stream.clone().steps(problem.steps);
        let target = |comm: &Comm, declared: &_| open_target(comm, &plan.name, declared);
        let output = match states {
            Some(states) => stream.resume_on(world, &plan.name, &streams, states, target)?,
            None => {
                create_file(world, problem, plan)?;
                let stream = stream.replace();
                if options.served {
                    stream.create(world, &plan.name, &streams)?
                } else {
                    stream.create_on(world, &plan.name, &streams, target)?
                }
            }
        };
        ensure!(
            output.steps() == solver.step(),
            "{}: the output was continued at step {}, the simulation at {}: the checkpoint is damaged",
            plan.name,
            output.steps(),
            solver.step()
        );
        let (points, dimensions) = (problem.block.volume(), problem.grid.dimensions());
        let any = |wanted: fn(&WaveQuantity) -> bool| plan.quantities.iter().any(wanted);
        let is_shifted = any(|quantity| matches!(quantity.field, SampledField::ShiftedVelocity(_)));
        let has_intensity = any(|quantity| matches!(quantity.form, StoredForm::Intensity(_)));
        let mut made = Self {
            output,
            quantities: plan.quantities.iter().cloned().zip(keys).collect(),
            name: plan.name.clone(),
            first_step: plan.first_step,
            steps: problem.steps,
            block: problem.block.clone(),
            shifted: vec![vec![T::zero(); points]; if is_shifted { dimensions } else { 0 }],
            intensity: has_intensity.then(|| IntensityFields::new(points, dimensions)),
        };
        if solver.step() > made.first_step {
            made.shift_velocity(solver)?;
            if let Some(intensity) = &mut made.intensity {
                intensity.keep(&solver.fields.pressure, &made.shifted);
            }
        }
        Ok(made)
    }

    fn shift_velocity(&mut self, solver: &mut WaveSolver<T>) -> Result<()> {
        if self.shifted.is_empty() {
            return Ok(());
        }
        let (width, height, shifted) = (self.block.points[0], self.block.y.len(), &mut self.shifted);
        solver.velocity_at_pressure(|plane, y, rows| {
            let at = (plane * height + y) * width;
            for (field, row) in shifted.iter_mut().zip(rows.chunks_exact(width)) {
                field[at..at + width].copy_from_slice(row);
            }
        })
    }

    /// Takes the fields after a step. If it `is_last`, of the simulation or of this run, the last fields are stored. Collective.
    pub fn sample(&mut self, solver: &mut WaveSolver<T>, is_last: bool) -> Result<()> {
        let sampled = solver.step() > self.first_step;
        if sampled {
            self.shift_velocity(solver)?;
            if let Some(intensity) = &mut self.intensity {
                let ends = solver.step() == self.steps;
                intensity.advance(&solver.fields.pressure, &self.shifted, ends);
            }
        }
        let mut step = self.output.step()?;
        for (quantity, key) in &self.quantities {
            let wanted = if quantity.form == StoredForm::Final { is_last } else { sampled };
            if !wanted {
                continue;
            }
            let field: &[T] = match (quantity.form, quantity.field) {
                (StoredForm::Intensity(direction), _) => {
                    self.intensity.as_ref().map_or(&[], |intensity| &intensity.products[direction])
                }
                (_, SampledField::Pressure) => &solver.fields.pressure,
                (_, SampledField::Velocity(direction)) => &solver.fields.velocity[direction],
                (_, SampledField::ShiftedVelocity(direction)) => &self.shifted[direction],
            };
            step = step.put(*key, field);
        }
        step.commit()?;
        Ok(())
    }

    /// The state of the output for a checkpoint.
    pub fn state(&self) -> Result<ResumeState> {
        Ok(self.output.state()?)
    }

    /// Waits until all samples so far are durable. Collective.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.output.flush()?)
    }

    /// Begins to make all samples so far durable; a checkpoint waits for that in the background. Collective.
    pub fn start_flush(&mut self) -> Result<PendingFlush> {
        Ok(self.output.start_flush()?)
    }

    /// Ends the file of a run after this number of steps; with attributes, it is complete. How samples were written: the mode of the
    /// output, why it was chosen, and its bytes. Collective.
    pub fn finish(self, world: &Comm, steps: u64, attributes: Option<&[(&str, String)]>) -> Result<String> {
        let report = self.output.finish()?;
        end_file(world, &self.name, steps, attributes)?;
        Ok(report.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples of two points, as an output adds them: Σ p(t) · (u(t) + u(t + 1)) / 2, and p · u of the last step.
    #[test]
    fn an_intensity_is_that_of_both_velocities_around_a_pressure() {
        let (pressure, velocity) =
            ([[2.0, -1.0], [3.0, 0.5], [-4.0, 2.0]], [[1.0, 1.0], [3.0, -1.0], [5.0, 2.0]]);
        let mut fields = IntensityFields::<f64>::new(2, 1);
        let mut sums = [0.0; 2];
        for step in 0..3 {
            fields.advance(&pressure[step], &[velocity[step].to_vec()], step == 2);
            sums.iter_mut().zip(&fields.products[0]).for_each(|(sum, product)| *sum += product);
        }
        // 2 · (1 + 3)/2 + 3 · (3 + 5)/2 − 4 · 5
        assert_eq!(sums, [4.0 + 12.0 - 20.0, 0.0 + 0.25 + 4.0]);
    }
}
