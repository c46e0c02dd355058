//! The built-in simulations.

use std::f64::consts::PI;

use anyhow::{Context, Result, ensure};
use aqueduct::comm::Comm;

use super::exact_solution::{ExactSolution, ToneBurst};
use super::listed_points::{ListedSensor, ListedSource, SensorChoice};
use crate::grid::WaveGrid;
use crate::grid::decomposition::{DecompositionKind, PencilDecomposition};
use crate::grid::field_block::FieldBlock;
use crate::grid::pml::PmlLayer;
use crate::problem::{
    Absorption, BlockValues, Medium, MediumField, ScalarValue, SourceMode, Sources, WaveProblem,
};
use crate::solver::memory_estimate::MemoryNeed;

/// The speed of sound in m/s, the density in kg/m³, and the distance of points in m.
const SPEED: f64 = 1500.0;
const DENSITY: f64 = 1000.0;
const SPACING: f64 = 1e-4;
/// The width of the ball in points, and points per wavelength of the plane source.
const BALL: f64 = 3.0;
const PER_WAVELENGTH: f64 = 10.0;

/// A built-in simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScenarioKind {
    /// A standing wave, periodic: exact.
    Mode,
    /// A Gaussian pressure at the beginning: exact until it meets the border.
    Ball,
    /// A source in a plane: exact.
    Plane,
    /// Layers and a sphere of other tissue, absorption, nonlinearity, a bowl with a tone burst.
    Tissue,
}

/// What a built-in simulation is like.
#[derive(Clone, Copy, Debug)]
pub struct ScenarioOptions {
    /// Which one.
    pub kind: ScenarioKind,
    /// Points in x, y, z.
    pub points: [usize; 3],
    /// The number of steps.
    pub steps: u64,
    /// Points that a wave moves in a step.
    pub courant: f64,
    /// Whether the source of the plane is corrected.
    pub corrected: bool,
    /// Where it is sampled.
    pub sensor: SensorChoice,
}

impl Default for ScenarioOptions {
    fn default() -> Self {
        Self {
            kind: ScenarioKind::Ball,
            points: [64; 3],
            steps: 200,
            courant: 0.3,
            corrected: true,
            sensor: SensorChoice::Slice(2),
        }
    }
}

/// A built-in simulation of the whole grid.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it is like.
    pub options: ScenarioOptions,
    /// The grid.
    pub grid: WaveGrid,
    /// The source of pressure.
    pub pressure: Option<ListedSource>,
    /// The sensor.
    pub sensor: ListedSensor,
    /// The exact solution.
    pub exact: Option<ExactSolution>,
    burst: ToneBurst,
}

impl Scenario {
    /// The simulation of these options.
    pub fn new(options: ScenarioOptions) -> Result<Self> {
        let ScenarioOptions { kind, points, courant, .. } = options;
        let grid = WaveGrid { points, spacing: [SPACING; 3] };
        ensure!(
            points.iter().all(|points| (1..=1 << 16).contains(points)),
            "a grid of {points:?} points: give 1 to 65536 per direction"
        );
        ensure!(
            points[0] >= 2 && points[1] >= 2,
            "a grid of {points:?} points; one dimension is not supported"
        );
        ensure!(options.steps >= 1, "give at least one step");
        ensure!(
            courant > 0.0 && courant.is_finite(),
            "the Courant number is {courant}; it should be above 0"
        );
        let period = PER_WAVELENGTH / courant;
        let burst = ToneBurst { period, middle: 5.0 * period, width: period };
        let sensor = options
            .sensor
            .list(&grid)
            .with_context(|| format!("boxes of {:?} do not fit the grid", options.sensor))?;
        let mut made = Self { options, grid, pressure: None, sensor, exact: None, burst };
        match kind {
            ScenarioKind::Mode => made.exact = Some(made.mode()),
            ScenarioKind::Ball => made.exact = made.ball(),
            ScenarioKind::Plane => made.plane()?,
            ScenarioKind::Tissue => made.bowl()?,
        }
        Ok(made)
    }

    /// The name of the simulation.
    pub fn name(&self) -> &'static str {
        match self.options.kind {
            ScenarioKind::Mode => "mode",
            ScenarioKind::Ball => "ball",
            ScenarioKind::Plane => "plane",
            ScenarioKind::Tissue => "tissue",
        }
    }

    /// The time step in seconds, as a file stores it.
    pub fn dt(&self) -> f64 {
        self.options.courant * SPACING / SPEED
    }

    fn wave_vector(&self) -> [f64; 3] {
        let waves = [3.0, -2.0, 1.0];
        [0, 1, 2].map(|at| {
            if self.grid.points[at] > 1 { 2.0 * PI * waves[at] / self.grid.points[at] as f64 } else { 0.0 }
        })
    }

    fn mode(&self) -> ExactSolution {
        let k = self.wave_vector();
        ExactSolution::Mode { k, omega: self.options.courant * k.iter().map(|k| k * k).sum::<f64>().sqrt() }
    }

    fn centre(&self) -> [f64; 3] {
        self.grid.points.map(|points| (points / 2) as f64)
    }

    fn ball(&self) -> Option<ExactSolution> {
        let period = *self.grid.points.iter().min()? as f64;
        let courant = self.options.courant;
        let in_space = self.grid.dimensions() == 3;
        in_space.then(|| ExactSolution::Ball { centre: self.centre(), width: BALL, courant, period })
    }

    fn layer(&self) -> usize {
        (self.grid.points[0] / 6).min(20)
    }

    /// A signal of pressure as files scale it.
    fn signal(&self, amplitude: f64, steps: u64) -> Vec<f32> {
        let scale = 2.0 * self.dt() * amplitude / (self.grid.dimensions() as f64 * SPEED * SPACING);
        (0..steps).map(|step| (scale * self.burst.value(step as f64)) as f32).collect()
    }

    fn additive(&self) -> SourceMode {
        if self.options.corrected { SourceMode::Corrected } else { SourceMode::Additive }
    }

    fn plane(&mut self) -> Result<()> {
        let [nx, ny, nz] = self.grid.points;
        ensure!(nx >= 32, "the plane source needs a grid of 32 points in x at least");
        let source = self.layer() + 1;
        let points = (0..ny * nz).map(|row| row * nx + source).collect();
        let signal = self.signal(1.0, self.options.steps);
        self.pressure = Some(ListedSource { mode: self.additive(), points, signal });
        let (courant, burst, end) = (self.options.courant, self.burst, nx - self.layer() - 1);
        self.exact = Some(ExactSolution::Plane { source, end, courant, burst });
        Ok(())
    }

    /// A bowl around a point at two thirds of x.
    fn bowl(&mut self) -> Result<()> {
        let [nx, ny, nz] = self.grid.points;
        let smallest = nx.min(ny).min(if nz > 1 { nz } else { nx });
        ensure!(smallest >= 24, "the tissue needs a grid of 24 points per direction at least");
        let layer = self.layer();
        let centre = self.centre();
        let focus = [0.66 * nx as f64, centre[1], centre[2]];
        let radius = focus[0] - layer as f64 - 2.0;
        let aperture = (smallest / 2 - layer.min(smallest / 4)) as f64;
        let mut points = Vec::new();
        for z in 0..nz {
            for y in 0..ny {
                let across = (y as f64 - focus[1]).powi(2) + (z as f64 - focus[2]).powi(2);
                if across.sqrt() < aperture.min(0.9 * radius) {
                    let x = (focus[0] - (radius * radius - across).sqrt()).round() as usize;
                    points.push(x + nx * (y + ny * z));
                }
            }
        }
        points.sort_unstable();
        let signal = self.signal(1e6, self.options.steps.min((10.0 * self.burst.period) as u64));
        self.pressure = Some(ListedSource { mode: self.additive(), points, signal });
        Ok(())
    }

    /// What the simulation needs beside its fields.
    pub fn memory_need(&self) -> MemoryNeed {
        let tissue = self.options.kind == ScenarioKind::Tissue;
        let properties = if tissue { 4 + self.grid.dimensions() as u64 } else { 0 };
        let corrected = self.pressure.is_some() && self.options.corrected;
        // The initial pressure is known in double precision.
        let initial = if self.pressure.is_none() { 2 } else { 0 };
        let sources = self.pressure.as_ref().map_or(0, |source| 8 * source.points.len() as u64);
        let (sampled, listed) = match &self.sensor {
            ListedSensor::Points(points) => (points.len(), true),
            ListedSensor::Boxes(boxes) => (
                boxes.iter().map(|ranges| ranges.iter().map(ExactSizeIterator::len).product::<usize>()).sum(),
                false,
            ),
        };
        let sampled = sampled as u64;
        MemoryNeed { properties, absorbing: tissue, corrected, initial, sources, sampled, listed }
    }

    /// The part of this rank.
    pub fn problem(&self, world: &Comm, kind: DecompositionKind) -> WaveProblem {
        let block = PencilDecomposition::new(kind, &self.grid, world.size()).block(&self.grid, world.rank());
        let steps = self.options.steps;
        let pressure = self.pressure.as_ref().map(|source| source.in_block(&block, steps));
        let sources =
            Sources { initial_pressure: self.initial_pressure(&block), pressure, ..Sources::default() };
        let mut problem = WaveProblem {
            description: format!("built-in simulation: {}", self.name()),
            grid: self.grid,
            steps,
            dt: self.dt(),
            reference_speed: SPEED,
            medium: self.medium(&block),
            pml: self.pml(),
            sources,
            sensor: self.sensor.in_block(&block),
            scalars: Vec::new(),
            block,
        };
        problem.scalars = self.scalars(&problem);
        problem
    }

    fn initial_pressure(&self, block: &FieldBlock) -> Option<BlockValues> {
        let exact = self.exact.filter(|_| self.pressure.is_none());
        let centre = self.centre();
        let gaussian = |point: [usize; 3]| {
            let r2: f64 = point.iter().zip(centre).map(|(at, centre)| (*at as f64 - centre).powi(2)).sum();
            (-r2 / (BALL * BALL)).exp()
        };
        match self.options.kind {
            ScenarioKind::Mode => {
                let at = |point| exact.and_then(|exact| exact.pressure(point, 0)).unwrap_or(0.0);
                Some(BlockValues::Double(block.sampled(at)))
            }
            ScenarioKind::Ball => Some(BlockValues::Double(block.sampled(gaussian))),
            _ => None,
        }
    }

    fn pml(&self) -> [PmlLayer; 3] {
        let layer = PmlLayer { size: self.layer(), alpha: 2.0 };
        let none = PmlLayer { size: 0, alpha: 2.0 };
        let of = |at: usize| PmlLayer { size: (self.grid.points[at] / 6).min(20), ..layer };
        match self.options.kind {
            ScenarioKind::Mode | ScenarioKind::Ball => [none; 3],
            ScenarioKind::Plane => [layer, none, none],
            ScenarioKind::Tissue => [of(0), of(1), if self.grid.points[2] > 1 { of(2) } else { none }],
        }
    }

    fn medium(&self, block: &FieldBlock) -> Medium {
        let dimensions = self.grid.dimensions();
        if self.options.kind != ScenarioKind::Tissue {
            return Medium {
                sound_speed: MediumField::Uniform(SPEED),
                density: MediumField::Uniform(DENSITY),
                staggered_density: vec![MediumField::Uniform(DENSITY); dimensions],
                nonlinearity: None,
                absorption: None,
            };
        }
        let field = |shift: [f64; 3], values: [f64; 3]| {
            let value = |point: [usize; 3]| {
                values[self.tissue([0, 1, 2].map(|at| point[at] as f64 + shift[at]))] as f32
            };
            MediumField::Block(block.sampled(value))
        };
        let here = [0.0; 3];
        let staggered = |at: usize| {
            let mut shift = here;
            shift[at] = 0.5;
            field(shift, [1000.0, 1040.0, 1100.0])
        };
        Medium {
            sound_speed: field(here, [1500.0, 1560.0, 1620.0]),
            density: field(here, [1000.0, 1040.0, 1100.0]),
            staggered_density: (0..dimensions).map(staggered).collect(),
            nonlinearity: Some(field(here, [5.0, 7.0, 9.0])),
            absorption: Some(Absorption {
                coefficient: field(here, [0.1, 0.5, 0.9]),
                power: 1.5,
                stokes: false,
            }),
        }
    }

    /// 0 water, 1 a layer, 2 a sphere in it.
    fn tissue(&self, place: [f64; 3]) -> usize {
        let centre = self.centre();
        let along = place[0] / self.grid.points[0] as f64;
        let from = [
            along - 0.66,
            (place[1] - centre[1]) / self.grid.points[1] as f64,
            (place[2] - centre[2]) / self.grid.points[2] as f64,
        ];
        let distance = from.iter().map(|x| x * x).sum::<f64>().sqrt();
        if distance < 0.12 { 2 } else { usize::from((0.42..0.92).contains(&along)) }
    }

    /// The numbers of an input file.
    fn scalars(&self, problem: &WaveProblem) -> Vec<(String, ScalarValue)> {
        let mut list: Vec<(String, ScalarValue)> = Vec::new();
        let mut long = |name: &str, value: u64| list.push((name.to_owned(), ScalarValue::Long(value)));
        let [nx, ny, nz] = self.grid.points.map(|points| points as u64);
        for (name, value) in [("Nx", nx), ("Ny", ny), ("Nz", nz), ("Nt", self.options.steps)] {
            long(name, value);
        }
        let directions = ["x", "y", "z"].into_iter().take(self.grid.dimensions());
        for (direction, layer) in directions.clone().zip(problem.pml) {
            long(&format!("pml_{direction}_size"), layer.size as u64);
            long(&format!("u{direction}_source_flag"), 0);
        }
        let source = self.pressure.as_ref();
        long("p_source_flag", source.map_or(0, |source| source.signal.len() as u64));
        if let Some(source) = source {
            long("p_source_mode", source.mode.number());
            long("p_source_many", 0);
        }
        long("p0_source_flag", u64::from(problem.sources.initial_pressure.is_some()));
        long("transducer_source_flag", 0);
        long("nonlinear_flag", u64::from(problem.medium.nonlinearity.is_some()));
        long("absorbing_flag", u64::from(problem.medium.absorption.is_some()));
        for flag in ["nonuniform_grid_flag", "elastic_flag", "axisymmetric_flag"] {
            long(flag, 0);
        }
        long("sensor_mask_type", u64::from(matches!(self.sensor, ListedSensor::Boxes(_))));
        let mut float =
            |name: &str, value: f64| list.push((name.to_owned(), ScalarValue::Float(value as f32)));
        float("dt", problem.dt);
        float("c_ref", problem.reference_speed);
        for (direction, layer) in directions.zip(problem.pml) {
            float(&format!("d{direction}"), SPACING);
            float(&format!("pml_{direction}_alpha"), layer.alpha);
        }
        if let Some(law) = &problem.medium.absorption {
            float("alpha_power", law.power);
        }
        list
    }
}

impl Scenario {
    /// The number of steps after which the field is compared with the exact solution: at most this many.
    pub fn compared_step(&self, steps: u64) -> u64 {
        let smallest = *self.grid.points.iter().min().unwrap_or(&1) as f64;
        match self.options.kind {
            ScenarioKind::Ball => steps.min((smallest / 3.0 / self.options.courant) as u64).max(1),
            _ => steps,
        }
    }

    /// The bound of the difference from the exact solution in single or double precision.
    pub fn bound(&self, double: bool) -> f64 {
        let courant = self.options.courant;
        let longer = (self.options.steps as f64 / 200.0).max(1.0);
        match self.options.kind {
            ScenarioKind::Mode if double => 1e-12 * longer,
            ScenarioKind::Mode if courant < 0.2 => 5e-6 * longer,
            ScenarioKind::Mode if courant < 0.9 => 5e-5 * longer,
            ScenarioKind::Mode => 1e-3 * longer,
            ScenarioKind::Ball if double => 1e-9,
            ScenarioKind::Ball => 1e-6,
            ScenarioKind::Plane if self.options.corrected => 1e-4,
            _ => 1e-2,
        }
    }
}
