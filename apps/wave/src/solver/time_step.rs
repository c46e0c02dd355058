//! The fields of a rank and a step in time.

use anyhow::Result;
use aqueduct::comm::{Comm, Op};

use super::medium_rows::MediumRows;
use super::operators::SpectralOperators;
use super::source_injection::inject;
use crate::grid::decomposition::PencilDecomposition;
use crate::grid::field_block::FieldBlock;
use crate::problem::{PointSource, SourceMode, Sources, WaveProblem};
use crate::transform::real::Real;
use crate::transform::spectral_transform::SpectralTransform;

/// The fields of this rank.
#[derive(Clone, Debug)]
pub struct WaveFields<T> {
    /// Acoustic pressure.
    pub pressure: Vec<T>,
    /// Particle velocity per direction.
    pub velocity: Vec<Vec<T>>,
    /// Acoustic density, a part per direction.
    pub density: Vec<Vec<T>>,
}

/// The medium as the steps need it.
struct StepMedium<T> {
    /// ρ0
    density: MediumRows<T>,
    /// dt / ρ0 at the places of the velocity.
    step_over_density: Vec<MediumRows<T>>,
    speed_squared: MediumRows<T>,
    /// B/A / (2 ρ0)
    nonlinearity: Option<MediumRows<T>>,
    /// τ and η
    absorption: Option<[MediumRows<T>; 2]>,
    stokes: bool,
    dt: T,
}

/// A simulation in progress: the fields, and all that a step needs.
pub struct WaveSolver<T: Real> {
    /// The fields.
    pub fields: WaveFields<T>,
    step: u64,
    dimensions: usize,
    block: FieldBlock,
    transform: SpectralTransform<T>,
    operators: SpectralOperators<T>,
    medium: StepMedium<T>,
    /// ρ0 ∇·u, for absorption.
    compression: Vec<T>,
    pml_velocity: Vec<Vec<T>>,
    pml_density: Vec<Vec<T>>,
    sources: Sources,
    /// Whether any rank has points of the source of pressure, of velocities, of the transducer.
    active: ActiveSources,
}

/// Up to which step the sources of all ranks act.
#[derive(Clone, Copy, Debug, Default)]
struct ActiveSources {
    pressure: u64,
    velocity: [u64; 3],
}

/// τ and η of a medium.
fn absorption_rows<T: Real>(problem: &WaveProblem) -> Option<[MediumRows<T>; 2]> {
    let law = problem.medium.absorption.as_ref()?;
    let (power, width) = (law.power, problem.grid.points[0]);
    let nepers =
        100.0 * (1e-6 / (2.0 * std::f64::consts::PI)).powf(power) / (20.0 * std::f64::consts::E.log10());
    let fields = [&law.coefficient, &problem.medium.sound_speed];
    let tau =
        MediumRows::new(fields, width, |[alpha, speed]| -2.0 * nepers * alpha * speed.powf(power - 1.0));
    let tangent = if law.stokes { 0.0 } else { (std::f64::consts::PI * power / 2.0).tan() };
    let eta =
        MediumRows::new(fields, width, |[alpha, speed]| 2.0 * nepers * alpha * speed.powf(power) * tangent);
    Some([tau, eta])
}

impl<T: Real> StepMedium<T> {
    fn new(problem: &WaveProblem) -> Self {
        let (medium, width, dt) = (&problem.medium, problem.grid.points[0], problem.dt);
        let nonlinear = medium.nonlinearity.as_ref();
        let over = |field| MediumRows::new([field], width, |[density]| dt / density);
        Self {
            density: MediumRows::new([&medium.density], width, |[density]| density),
            step_over_density: medium.staggered_density.iter().map(over).collect(),
            speed_squared: MediumRows::new([&medium.sound_speed], width, |[speed]| speed * speed),
            nonlinearity: nonlinear.map(|ratio| {
                MediumRows::new([ratio, &medium.density], width, |[ratio, density]| ratio / (2.0 * density))
            }),
            absorption: absorption_rows(problem),
            stokes: medium.absorption.as_ref().is_some_and(|law| law.stokes),
            dt: T::of(dt),
        }
    }
}

impl<T: Real> WaveSolver<T> {
    /// A simulation before its first step. It takes the medium and the sources out of the problem. Collective.
    pub fn new(world: &Comm, decomposition: &PencilDecomposition, problem: &mut WaveProblem) -> Result<Self> {
        let transform = SpectralTransform::new(world, &problem.grid, decomposition)?;
        let sources = std::mem::take(&mut problem.sources);
        let corrected = |source: &Option<PointSource>| {
            source.as_ref().is_some_and(|source| source.mode == SourceMode::Corrected)
        };
        let any_corrected = corrected(&sources.pressure) || sources.velocity.iter().any(corrected);
        let operators = SpectralOperators::new(problem, &transform, any_corrected);
        let dimensions = problem.grid.dimensions();
        let points = problem.block.volume();
        let pml = |shift: f64| {
            let factors = |at: usize| {
                let (count, spacing) = (problem.grid.points[at], problem.grid.spacing[at]);
                let layer =
                    problem.pml[at].factors(count, spacing, problem.reference_speed, problem.dt, shift);
                layer.into_iter().map(T::of).collect()
            };
            (0..dimensions).map(factors).collect()
        };
        let zeros = || vec![vec![T::zero(); points]; dimensions];
        let acts = |source: &Option<PointSource>| {
            let mine =
                source.as_ref().filter(|source| !source.points.is_empty()).map_or(0, |source| source.steps);
            world.allreduce_one(Op::Max, mine)
        };
        let [x, y, z] = &sources.velocity;
        let active =
            ActiveSources { pressure: acts(&sources.pressure)?, velocity: [acts(x)?, acts(y)?, acts(z)?] };
        let (pml_velocity, pml_density) = (pml(0.5), pml(0.0));
        let lossy = problem.medium.absorption.is_some();
        let medium = StepMedium::new(problem);
        problem.medium.release();
        Ok(Self {
            fields: WaveFields { pressure: vec![T::zero(); points], velocity: zeros(), density: zeros() },
            step: 0,
            dimensions,
            block: problem.block.clone(),
            transform,
            operators,
            medium,
            compression: vec![T::zero(); if lossy { points } else { 0 }],
            pml_velocity,
            pml_density,
            sources,
            active,
        })
    }

    /// The number of steps that were made.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// The part of this rank.
    pub fn block(&self) -> &FieldBlock {
        &self.block
    }

    /// Continues after this number of steps, with fields that were set.
    pub fn continue_from(&mut self, step: u64) {
        self.step = step;
    }

    /// Makes a step. Collective.
    pub fn advance(&mut self) -> Result<()> {
        self.gradient_of_pressure()?;
        let planes = RowPlaces::new(&self.block);
        let Self { transform, fields, medium, pml_velocity, dimensions, .. } = self;
        transform.inverse(*dimensions, |plane, y, rows| {
            for (direction, gradient) in rows.chunks_exact(planes.width).enumerate() {
                let row = planes.row(plane, y);
                let velocity = &mut fields.velocity[direction][row * planes.width..][..planes.width];
                let factor = planes.factors(&pml_velocity[direction], direction, plane, y);
                let over = medium.step_over_density[direction].row(row);
                advance_row(velocity, gradient, over, factor);
            }
        })?;
        self.inject_velocity()?;
        self.advance_density()?;
        self.inject_pressure()?;
        self.pressure_from_density()?;
        if self.step == 0 {
            self.set_initial_pressure()?;
        }
        self.step += 1;
        Ok(())
    }

    fn gradient_of_pressure(&mut self) -> Result<()> {
        let planes = RowPlaces::new(&self.block);
        let Self { transform, fields, operators, .. } = self;
        transform
            .forward(1, |_, plane, y, row| row.copy_from_slice(planes.slice(&fields.pressure, plane, y)))?;
        transform.gradient(&operators.kappa, &operators.to_velocity);
        Ok(())
    }

    fn inject_velocity(&mut self) -> Result<()> {
        let step = self.step;
        let Self { transform, operators, sources, fields, block, active, .. } = self;
        let acting = (0..3).filter(|at| step < active.velocity[*at]);
        let acting: Vec<(usize, &PointSource)> =
            acting.filter_map(|at| Some((at, sources.velocity[at].as_ref()?))).collect();
        if !acting.is_empty() {
            let list: Vec<&PointSource> = acting.iter().map(|(_, source)| *source).collect();
            let mut add = |field: usize, mode, point: usize, value: T| {
                let place = &mut fields.velocity[acting[field].0][point];
                *place = if mode == SourceMode::Dirichlet { value } else { *place + value };
            };
            inject(transform, operators.source_kappa.as_deref(), block, step, &list, &mut add)?;
        }
        if let Some(transducer) = sources.transducer.as_ref().filter(|transducer| step < transducer.steps) {
            for (point, delay) in transducer.points.iter().zip(&transducer.delays) {
                let place = &mut fields.velocity[0][*point];
                *place = *place + T::of(transducer.signal[delay + step as usize].into());
            }
        }
        Ok(())
    }

    fn advance_density(&mut self) -> Result<()> {
        let planes = RowPlaces::new(&self.block);
        let Self { transform, fields, operators, medium, pml_density, dimensions, compression, .. } = self;
        transform.forward(*dimensions, |direction, plane, y, row| {
            row.copy_from_slice(planes.slice(&fields.velocity[direction], plane, y));
        })?;
        transform.divergence_parts(&operators.kappa, &operators.to_pressure);
        let mut factor = vec![T::zero(); planes.width];
        let two = T::of(2.0);
        transform.inverse(*dimensions, |plane, y, rows| {
            let (row, width) = (planes.row(plane, y), planes.width);
            let ambient = medium.density.row(row);
            if medium.nonlinearity.is_some() {
                sum_rows(
                    &mut factor,
                    |direction| planes.slice(&fields.density[direction], plane, y),
                    *dimensions,
                );
                for (factor, ambient) in factor.iter_mut().zip(ambient) {
                    *factor = medium.dt * (two * *factor + *ambient);
                }
            } else {
                for (factor, ambient) in factor.iter_mut().zip(ambient) {
                    *factor = medium.dt * *ambient;
                }
            }
            for (direction, part) in rows.chunks_exact(width).enumerate() {
                let density = &mut fields.density[direction][row * width..][..width];
                let decay = planes.factors(&pml_density[direction], direction, plane, y);
                advance_row(density, part, &factor, decay);
            }
            if let Some(compression) = compression.get_mut(row * width..(row + 1) * width) {
                sum_rows(compression, |direction| &rows[direction * width..][..width], *dimensions);
                for (sum, ambient) in compression.iter_mut().zip(ambient) {
                    *sum = *ambient * *sum;
                }
            }
        })
    }

    fn inject_pressure(&mut self) -> Result<()> {
        if self.step >= self.active.pressure {
            return Ok(());
        }
        let Self { transform, operators, sources, fields, block, step, .. } = self;
        let Some(source) = &sources.pressure else { return Ok(()) };
        let mut add = |_, mode, point: usize, value: T| {
            for density in &mut fields.density {
                density[point] = if mode == SourceMode::Dirichlet { value } else { density[point] + value };
            }
        };
        inject(transform, operators.source_kappa.as_deref(), block, *step, &[source], &mut add)
    }

    fn pressure_from_density(&mut self) -> Result<()> {
        let planes = RowPlaces::new(&self.block);
        let Self { transform, fields, operators, medium, dimensions, compression, .. } = self;
        let WaveFields { pressure, density, .. } = fields;
        let width = planes.width;
        let part = |direction: usize, plane, y| planes.slice(&density[direction], plane, y);
        let mut equation = |plane: usize, y: usize, losses: &[T]| {
            let row = planes.row(plane, y);
            let out = &mut pressure[row * width..][..width];
            sum_rows(out, |direction| part(direction, plane, y), *dimensions);
            state_row(out, medium, row, losses);
        };
        match (&medium.absorption, &operators.absorption) {
            (Some(_), Some([absorption, dispersion])) => {
                transform.forward(2, |field, plane, y, row| match field {
                    0 => row.copy_from_slice(planes.slice(compression, plane, y)),
                    _ => sum_rows(row, |direction| part(direction, plane, y), *dimensions),
                })?;
                transform.filter(&[absorption, dispersion]);
                transform.inverse(2, equation)
            }
            _ => {
                let lossy = medium.stokes;
                planes.for_each(|plane, y| {
                    equation(plane, y, if lossy { planes.slice(compression, plane, y) } else { &[] });
                });
                Ok(())
            }
        }
    }

    /// After the first step the fields are those of the pressure at the beginning, and the velocity is that of half a step before.
    fn set_initial_pressure(&mut self) -> Result<()> {
        let Some(initial) = self.sources.initial_pressure.take() else { return Ok(()) };
        let directions = T::of(self.dimensions as f64);
        for point in 0..initial.len() {
            let value = T::of(initial.at(point));
            self.fields.pressure[point] = value;
            let part = value / (directions * self.medium.speed_squared.at(point));
            self.fields.density.iter_mut().for_each(|density| density[point] = part);
        }
        self.gradient_of_pressure()?;
        let planes = RowPlaces::new(&self.block);
        let Self { transform, fields, medium, dimensions, .. } = self;
        let two = T::of(2.0);
        transform.inverse(*dimensions, |plane, y, rows| {
            let row = planes.row(plane, y);
            for (direction, gradient) in rows.chunks_exact(planes.width).enumerate() {
                let velocity = &mut fields.velocity[direction][row * planes.width..][..planes.width];
                let over = medium.step_over_density[direction].row(row);
                for ((velocity, gradient), over) in velocity.iter_mut().zip(gradient).zip(over) {
                    *velocity = *over / two * *gradient;
                }
            }
        })
    }

    /// The velocity at the places of the pressure, row by row: local plane, local row, the rows of all directions. Collective.
    pub fn velocity_at_pressure(&mut self, take: impl FnMut(usize, usize, &[T])) -> Result<()> {
        let planes = RowPlaces::new(&self.block);
        let Self { transform, fields, operators, dimensions, .. } = self;
        transform.forward(*dimensions, |direction, plane, y, row| {
            row.copy_from_slice(planes.slice(&fields.velocity[direction], plane, y));
        })?;
        transform.shift(operators.normalization, &operators.shift);
        transform.inverse(*dimensions, take)
    }
}

/// Where rows are in memory.
#[derive(Clone, Copy)]
struct RowPlaces {
    width: usize,
    height: usize,
    planes: usize,
    /// The first row and plane in the whole grid.
    start: [usize; 2],
}

/// The factor of the points of a row.
#[derive(Clone, Copy)]
enum RowFactor<'f, T> {
    Along(&'f [T]),
    Constant(T),
}

impl RowPlaces {
    fn new(block: &FieldBlock) -> Self {
        let start = [block.y.start, block.z.start];
        Self { width: block.points[0], height: block.y.len(), planes: block.z.len(), start }
    }

    fn row(&self, plane: usize, y: usize) -> usize {
        plane * self.height + y
    }

    fn slice<'f, T>(&self, field: &'f [T], plane: usize, y: usize) -> &'f [T] {
        &field[self.row(plane, y) * self.width..][..self.width]
    }

    fn factors<'f, T: Copy>(
        &self,
        factors: &'f [T],
        direction: usize,
        plane: usize,
        y: usize,
    ) -> RowFactor<'f, T> {
        match direction {
            0 => RowFactor::Along(factors),
            1 => RowFactor::Constant(factors[y + self.start[0]]),
            _ => RowFactor::Constant(factors[plane + self.start[1]]),
        }
    }

    fn for_each(&self, mut visit: impl FnMut(usize, usize)) {
        for plane in 0..self.planes {
            (0..self.height).for_each(|y| visit(plane, y));
        }
    }
}

/// field ← P · (P · field − factor · change)
fn advance_row<T: Real>(field: &mut [T], change: &[T], factor: &[T], decay: RowFactor<'_, T>) {
    let values = field.iter_mut().zip(change).zip(factor);
    match decay {
        RowFactor::Along(decay) => {
            for (((value, change), factor), decay) in values.zip(decay) {
                *value = *decay * (*decay * *value - *factor * *change);
            }
        }
        RowFactor::Constant(decay) => {
            for ((value, change), factor) in values {
                *value = decay * (decay * *value - *factor * *change);
            }
        }
    }
}

/// (x + y) + z
fn sum_rows<'f, T: Real + 'f>(out: &mut [T], part: impl Fn(usize) -> &'f [T], parts: usize) {
    for ((out, x), y) in out.iter_mut().zip(part(0)).zip(part(1)) {
        *out = *x + *y;
    }
    if parts > 2 {
        for (out, z) in out.iter_mut().zip(part(2)) {
            *out = *out + *z;
        }
    }
}

/// The equation of state: the pressure of densities in `out`. `losses` has the terms of absorption and dispersion.
fn state_row<T: Real>(out: &mut [T], medium: &StepMedium<T>, row: usize, losses: &[T]) {
    let width = out.len();
    if let Some(ratio) = &medium.nonlinearity {
        for (value, ratio) in out.iter_mut().zip(ratio.row(row)) {
            *value = *value + *ratio * *value * *value;
        }
    }
    if let Some([tau, eta]) = &medium.absorption {
        for ((value, tau), loss) in out.iter_mut().zip(tau.row(row)).zip(losses) {
            *value = *value + *tau * *loss;
        }
        if !medium.stokes {
            for ((value, eta), loss) in out.iter_mut().zip(eta.row(row)).zip(&losses[width..]) {
                *value = *value - *eta * *loss;
            }
        }
    }
    for (value, speed_squared) in out.iter_mut().zip(medium.speed_squared.row(row)) {
        *value = *speed_squared * *value;
    }
}
