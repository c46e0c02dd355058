//! Samples of a run, and where they go.

use anyhow::Result;
use aqueduct::comm::Comm;
use aqueduct::stream::Options;

use super::accumulators::{Accumulated, TimeReduction};
use super::kwave_output::{KwaveOutput, SamplingPlan};
use super::mask_layout::MaskLayout;
use super::quantities::{SampledField, StoredForm, WaveQuantity};
use super::sample_stream::SampleStream;
use super::saved_array::{
    ArrayPlace, SavedArray, SavedArrays, SavedValues, from_blocks, mask_places, to_blocks,
};
use crate::grid::field_block::FieldBlock;
use crate::problem::WaveProblem;
use crate::solver::time_step::WaveSolver;
use crate::transform::real::Real;

/// The quantities of a run that are sampled.
pub struct SampleRecorder<T> {
    layout: MaskLayout,
    block: FieldBlock,
    quantities: Vec<WaveQuantity>,
    reductions: Vec<Option<TimeReduction<T>>>,
    samples: u64,
    /// The velocity at the places of the pressure, if it is sampled.
    shifted: Vec<Vec<T>>,
    /// Samples of pressure and of the field of a quantity.
    pressure: Vec<T>,
    gathered: Vec<T>,
    /// Raw samples on their way into the file, and those of the present step.
    stream: Option<SampleStream>,
    raw: Vec<f32>,
    plan: SamplingPlan,
}

impl<T: Real> SampleRecorder<T> {
    /// Begins an output, or continues one that has this many samples. Collective.
    pub fn new(
        world: &Comm,
        problem: &WaveProblem,
        (plan, options): (&SamplingPlan, &Options),
        samples: u64,
        resume: bool,
    ) -> Result<Self> {
        let layout = MaskLayout::new(&problem.sensor, &problem.block);
        if resume {
            drop(KwaveOutput::open(world, problem, plan, &layout)?);
        } else {
            KwaveOutput::create(world, problem, plan, &layout)?;
        }
        let stream = SampleStream::begin(world, plan, &layout, problem.grid.shape(), options, samples)?;
        let reduction = |quantity: &WaveQuantity| {
            let length = if quantity.whole { problem.block.volume() } else { layout.samples };
            let reduced = !matches!(quantity.form, StoredForm::Raw | StoredForm::Final);
            reduced.then(|| TimeReduction::new(quantity.form, length))
        };
        let shifted = |quantity: &WaveQuantity| matches!(quantity.field, SampledField::ShiftedVelocity(_));
        let directions = if plan.quantities.iter().any(shifted) { problem.grid.dimensions() } else { 0 };
        Ok(Self {
            block: problem.block.clone(),
            quantities: plan.quantities.clone(),
            reductions: plan.quantities.iter().map(reduction).collect(),
            samples,
            shifted: vec![vec![T::zero(); problem.block.volume()]; directions],
            pressure: Vec::new(),
            gathered: Vec::new(),
            layout,
            stream,
            raw: Vec::new(),
            plan: plan.clone(),
        })
    }

    /// Samples the fields after a step. Collective.
    pub fn sample(&mut self, solver: &mut WaveSolver<T>) -> Result<()> {
        if !self.shifted.is_empty() {
            let (width, height, shifted) = (self.block.points[0], self.block.y.len(), &mut self.shifted);
            solver.velocity_at_pressure(|plane, y, rows| {
                let at = (plane * height + y) * width;
                for (field, row) in shifted.iter_mut().zip(rows.chunks_exact(width)) {
                    field[at..at + width].copy_from_slice(row);
                }
            })?;
        }
        self.layout.gather(&solver.fields.pressure, &mut self.pressure);
        self.raw.clear();
        for (number, quantity) in self.quantities.iter().enumerate() {
            let field: &[T] = match quantity.field {
                SampledField::Pressure => &solver.fields.pressure,
                SampledField::Velocity(direction) => &solver.fields.velocity[direction],
                SampledField::ShiftedVelocity(direction) => &self.shifted[direction],
            };
            let samples: &[T] = match (quantity.whole, quantity.field) {
                (true, _) => field,
                (false, SampledField::Pressure) => &self.pressure,
                (false, _) => {
                    self.layout.gather(field, &mut self.gathered);
                    &self.gathered
                }
            };
            match &mut self.reductions[number] {
                Some(reduction) => reduction.add(samples, &self.pressure),
                None if quantity.form == StoredForm::Raw => {
                    self.raw.extend(samples.iter().map(|value| value.stored()));
                }
                None => {}
            }
        }
        if let Some(stream) = &mut self.stream {
            stream.put(&self.raw)?;
        }
        self.samples += 1;
        Ok(())
    }

    /// Makes the samples so far durable. Collective.
    pub fn flush(&mut self) -> Result<()> {
        self.stream.as_mut().map_or(Ok(()), SampleStream::flush)
    }

    /// Stores the number of steps of a run that ends before its last step; how samples were written. Collective.
    pub fn suspend(mut self, world: &Comm, problem: &WaveProblem, steps: u64) -> Result<Option<String>> {
        let report = self.stream.take().map(SampleStream::finish).transpose()?;
        KwaveOutput::open(world, problem, &self.plan, &self.layout)?.flush(steps)?;
        Ok(report)
    }

    /// Stores what is reduced over time and the last fields, and completes the file; how samples were written. Collective.
    pub fn finish(
        mut self,
        world: &Comm,
        problem: &WaveProblem,
        solver: &WaveSolver<T>,
        attributes: &[(&str, String)],
    ) -> Result<Option<String>> {
        let report = self.stream.take().map(SampleStream::finish).transpose()?;
        let output = KwaveOutput::open(world, problem, &self.plan, &self.layout)?;
        let mut values = Vec::new();
        for (number, quantity) in self.quantities.iter().enumerate() {
            if let Some(reduction) = &self.reductions[number] {
                values.push((number, quantity.whole, reduction.stored()));
            } else if quantity.form == StoredForm::Final {
                let field = match quantity.field {
                    SampledField::Velocity(direction) => &solver.fields.velocity[direction],
                    _ => &solver.fields.pressure,
                };
                values.push((number, true, field.iter().map(|value| value.stored()).collect()));
            }
        }
        output.write_reduced(&self.layout, &self.block, &values)?;
        output.finish(solver.step(), attributes)?;
        Ok(report)
    }

    fn whole_place(&self, name: String) -> ArrayPlace {
        let shape = [2, 1, 0].map(|at| self.block.points[at] as u64);
        ArrayPlace {
            name,
            shape: shape.into(),
            start: self.block.start().into(),
            count: self.block.shape().into(),
        }
    }

    /// The state of the reductions, for a checkpoint: the same arrays on all ranks. Collective.
    pub fn state(&self, world: &Comm) -> Result<Vec<SavedArray<T>>> {
        let mut arrays = Vec::new();
        let wide = |values: &[T]| values.iter().map(|value| value.wide()).collect::<Vec<f64>>();
        for (quantity, reduction) in self.quantities.iter().zip(&self.reductions) {
            let Some(reduction) = reduction else { continue };
            let name = &quantity.name;
            let values = match &reduction.values {
                Accumulated::Extreme(values) if quantity.whole => {
                    arrays.push((self.whole_place(name.clone()), SavedValues::Field(values.clone())));
                    continue;
                }
                Accumulated::Extreme(values) => wide(values),
                Accumulated::Sum(sums) => sums.clone(),
            };
            let mut add = |name: &str, values: &[f64]| -> Result<()> {
                let blocks = to_blocks(world, &self.layout, name, values)?;
                arrays.extend(blocks.into_iter().map(|(place, values)| (place, SavedValues::Wide(values))));
                Ok(())
            };
            add(name, &values)?;
            if let Some([pressure, velocity]) = &reduction.previous {
                add(&format!("{name}.pressure"), &wide(pressure))?;
                add(&format!("{name}.velocity"), &wide(velocity))?;
            }
        }
        Ok(arrays)
    }

    /// Continues with the reductions of a checkpoint. Collective.
    pub fn restore(&mut self, saved: &dyn SavedArrays<T>) -> Result<()> {
        let layout = &self.layout;
        let masked = |name: &str| -> Result<Vec<f64>> {
            let places = mask_places(layout, name);
            let blocks = places.iter().map(|place| saved.wide(place)).collect::<Result<Vec<_>>>()?;
            Ok(from_blocks(layout, &blocks, &places))
        };
        let narrow = |values: Vec<f64>| values.into_iter().map(T::of).collect::<Vec<T>>();
        let whole: Vec<ArrayPlace> =
            self.quantities.iter().map(|quantity| self.whole_place(quantity.name.clone())).collect();
        for ((quantity, reduction), place) in self.quantities.iter().zip(&mut self.reductions).zip(&whole) {
            let Some(reduction) = reduction else { continue };
            let name = &quantity.name;
            match &mut reduction.values {
                Accumulated::Extreme(values) if quantity.whole => *values = saved.field(place)?,
                Accumulated::Extreme(values) => *values = narrow(masked(name)?),
                Accumulated::Sum(sums) => *sums = masked(name)?,
            }
            if let Some(previous) = &mut reduction.previous {
                *previous = [
                    narrow(masked(&format!("{name}.pressure"))?),
                    narrow(masked(&format!("{name}.velocity"))?),
                ];
            }
            reduction.continue_after(self.samples);
        }
        Ok(())
    }
}
