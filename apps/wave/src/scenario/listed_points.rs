//! Sources and sensors as lists of the whole grid, as files have them. Pure.

use std::ops::Range;

use crate::grid::WaveGrid;
use crate::grid::field_block::FieldBlock;
use crate::problem::{PointSource, SensorMask, SensorPoint, SourceMode};

/// A source of the whole grid whose points share a signal.
#[derive(Clone, Debug)]
pub struct ListedSource {
    /// What it does.
    pub mode: SourceMode,
    /// The numbers of its points from 0, ascending.
    pub points: Vec<usize>,
    /// The signal, scaled as in files.
    pub signal: Vec<f32>,
}

impl ListedSource {
    /// The part of a block.
    pub fn in_block(&self, block: &FieldBlock, steps: u64) -> PointSource {
        PointSource {
            mode: self.mode,
            steps: (self.signal.len() as u64).min(steps),
            points: self.points.iter().filter_map(|point| block.local(*point)).collect(),
            many: false,
            values: self.signal.clone(),
        }
    }
}

/// Where a scenario is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SensorChoice {
    /// The middle plane across this direction (0 is x).
    Slice(usize),
    /// This many points, distributed over the grid.
    Points(u64),
    /// This many cubes of this side.
    Boxes(usize, usize),
    /// All points.
    Whole,
}

/// The sensor of the whole grid.
#[derive(Clone, Debug)]
pub enum ListedSensor {
    /// The numbers of points from 0.
    Points(Vec<usize>),
    /// Ranges of x, y, z.
    Boxes(Vec<[Range<usize>; 3]>),
}

impl SensorChoice {
    /// The sensor in a grid. None if boxes of this size do not fit into the grid.
    pub fn list(self, grid: &WaveGrid) -> Option<ListedSensor> {
        let whole = grid.points.map(|points| 0..points);
        Some(match self {
            Self::Slice(direction) => {
                let mut ranges = whole;
                let middle = grid.points[direction] / 2;
                ranges[direction] = middle..middle + 1;
                ListedSensor::Boxes(vec![ranges])
            }
            Self::Whole => ListedSensor::Boxes(vec![whole]),
            Self::Points(count) => {
                // A Weyl sequence: evenly distributed, and not in the order of memory.
                let volume = grid.volume() as u64;
                let stride = (volume as f64 * 0.618_033_988_749_895) as u64 | 1;
                ListedSensor::Points(
                    (0..count)
                        .map(|at| (u128::from(at) * u128::from(stride) % u128::from(volume)) as usize)
                        .collect(),
                )
            }
            Self::Boxes(count, side) => {
                let sides = grid.points.map(|points| if points == 1 { 1 } else { side });
                if side == 0 || (0..3).any(|at| sides[at] > grid.points[at]) {
                    return None;
                }
                let cells = [0, 1, 2].map(|at| grid.points[at] / sides[at]);
                let corner = |number: usize| {
                    let number = number % (cells[0] * cells[1] * cells[2]);
                    [number % cells[0], number / cells[0] % cells[1], number / cells[0] / cells[1]]
                };
                let ranges = |number| {
                    let corner = corner(number);
                    [0, 1, 2].map(|at| corner[at] * sides[at]..(corner[at] + 1) * sides[at])
                };
                ListedSensor::Boxes((0..count).map(ranges).collect())
            }
        })
    }
}

impl ListedSensor {
    /// The part of a block.
    pub fn in_block(&self, block: &FieldBlock) -> SensorMask {
        match self {
            Self::Boxes(boxes) => SensorMask::Boxes(boxes.clone()),
            Self::Points(points) => {
                let mine = (0..).zip(points).filter_map(|(position, point)| {
                    block.local(*point).map(|local| SensorPoint { position, local })
                });
                SensorMask::Points { count: points.len() as u64, mine: mine.collect() }
            }
        }
    }
}
