//! What is simulated: the parts of it that a rank needs.

use std::ops::Range;

use crate::grid::WaveGrid;
use crate::grid::field_block::FieldBlock;
use crate::grid::pml::PmlLayer;

/// A property of the medium.
#[derive(Clone, Debug, PartialEq)]
pub enum MediumField {
    /// The same value everywhere.
    Uniform(f64),
    /// The values of the block of this rank.
    Block(Vec<f32>),
}

/// The medium.
#[derive(Clone, Debug)]
pub struct Medium {
    /// The speed of sound in m/s.
    pub sound_speed: MediumField,
    /// The ambient density in kg/m³.
    pub density: MediumField,
    /// The density at the places of the velocity in x, y, z.
    pub staggered_density: Vec<MediumField>,
    /// B/A; without it sound is linear.
    pub nonlinearity: Option<MediumField>,
    /// Absorption, if there is any.
    pub absorption: Option<Absorption>,
}

/// The law of absorption.
#[derive(Clone, Debug)]
pub struct Absorption {
    /// In dB/(MHz^y·cm).
    pub coefficient: MediumField,
    /// y.
    pub power: f64,
    /// Stokes: proportional to the square of the frequency, without dispersion.
    pub stokes: bool,
}

/// How a source changes the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceMode {
    /// Replaces the values of its points.
    Dirichlet,
    /// Is added at its points.
    Additive,
    /// Is added after the correction of the time step.
    Corrected,
}

impl SourceMode {
    /// By its number in files.
    pub fn from_number(number: u64) -> Option<Self> {
        [Self::Dirichlet, Self::Additive, Self::Corrected].get(usize::try_from(number).ok()?).copied()
    }

    /// Its number in files.
    pub fn number(self) -> u64 {
        self as u64
    }
}

/// A source at points of this rank.
#[derive(Clone, Debug)]
pub struct PointSource {
    /// What it does.
    pub mode: SourceMode,
    /// The number of steps in which it acts.
    pub steps: u64,
    /// The positions of its points in the block of this rank.
    pub points: Vec<usize>,
    /// Whether each point has values of its own.
    pub many: bool,
    /// The values of the points of a step, one after another; one value if they share it.
    pub values: Vec<f32>,
}

impl PointSource {
    /// The value of a point in a step.
    pub fn value(&self, step: u64, point: usize) -> f32 {
        let width = if self.many { self.points.len() } else { 1 };
        self.values[step as usize * width + if self.many { point } else { 0 }]
    }
}

/// A phased array: one signal with a delay per point, added to the velocity in x.
#[derive(Clone, Debug)]
pub struct TransducerSource {
    /// The number of steps in which it acts.
    pub steps: u64,
    /// The positions of its points in the block of this rank.
    pub points: Vec<usize>,
    /// The first sample of each point.
    pub delays: Vec<usize>,
    /// The signal.
    pub signal: Vec<f32>,
}

/// Values of a block in the precision in which they are known.
#[derive(Clone, Debug)]
pub enum BlockValues {
    /// Those of a file.
    Single(Vec<f32>),
    /// Those of a formula.
    Double(Vec<f64>),
}

impl BlockValues {
    /// The number of values.
    pub fn len(&self) -> usize {
        match self {
            Self::Single(values) => values.len(),
            Self::Double(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A value.
    pub fn at(&self, index: usize) -> f64 {
        match self {
            Self::Single(values) => values[index].into(),
            Self::Double(values) => values[index],
        }
    }
}

/// All sources.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// The pressure at the beginning, in the block of this rank.
    pub initial_pressure: Option<BlockValues>,
    /// Sources of pressure, as they are added to each part of the density.
    pub pressure: Option<PointSource>,
    /// Sources of velocity in x, y, z.
    pub velocity: [Option<PointSource>; 3],
    /// A transducer.
    pub transducer: Option<TransducerSource>,
}

/// A point of the sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SensorPoint {
    /// Its position in the list of all points.
    pub position: u64,
    /// Its position in the block of this rank.
    pub local: usize,
}

/// Where quantities are sampled.
#[derive(Clone, Debug)]
pub enum SensorMask {
    /// A list of points.
    Points {
        /// The length of the list.
        count: u64,
        /// The points of this rank, by position.
        mine: Vec<SensorPoint>,
    },
    /// Boxes: ranges of x, y, z.
    Boxes(Vec<[Range<usize>; 3]>),
}

/// A number of the input file, which is copied to the output file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScalarValue {
    /// `long`
    Long(u64),
    /// `float`
    Float(f32),
}

/// A simulation.
#[derive(Clone, Debug)]
pub struct WaveProblem {
    /// What it is.
    pub description: String,
    /// The grid.
    pub grid: WaveGrid,
    /// The part of this rank.
    pub block: FieldBlock,
    /// The number of steps.
    pub steps: u64,
    /// The time step in seconds.
    pub dt: f64,
    /// The speed of sound that the operators use.
    pub reference_speed: f64,
    /// The medium.
    pub medium: Medium,
    /// The layers at the borders in x, y, z.
    pub pml: [PmlLayer; 3],
    /// The sources.
    pub sources: Sources,
    /// The sensor.
    pub sensor: SensorMask,
    /// All numbers of the input file, by their names.
    pub scalars: Vec<(String, ScalarValue)>,
}

impl MediumField {
    /// The largest value of this rank.
    pub fn largest(&self) -> f64 {
        match self {
            Self::Uniform(value) => *value,
            Self::Block(values) => values.iter().copied().fold(f32::NEG_INFINITY, f32::max).into(),
        }
    }
}

impl Medium {
    /// Frees the arrays, which are not needed when the operators are made.
    pub fn release(&mut self) {
        let absorption = self.absorption.iter_mut().map(|law| &mut law.coefficient);
        let fields =
            [&mut self.sound_speed, &mut self.density].into_iter().chain(&mut self.staggered_density);
        for field in fields.chain(&mut self.nonlinearity).chain(absorption) {
            *field = MediumField::Uniform(0.0);
        }
    }
}
