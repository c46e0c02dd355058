//! Quadrature points: the midpoints of a regular grid over the supports of all packets, dealt to the ranks by rows.

use std::ops::Range;

use anyhow::{Result, ensure};

use crate::matrix::Matrix;
use crate::packet::MassPacket;
use crate::shape::SUPPORT;

/// The number of points that a grid may have.
const MOST_POINTS: f64 = 5e8;

/// A regular grid of cells; the points are their midpoints, the weight of each is the volume of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QuadratureGrid<const D: usize> {
    /// The lowest corner.
    pub origin: [f64; D],
    /// The length of an edge of a cell.
    pub spacing: f64,
    /// The number of cells in each direction.
    pub cells: [usize; D],
}

impl<const D: usize> QuadratureGrid<D> {
    /// A grid over the supports of all packets as they will be during the time `ahead`, with twice as many cells as fit into the smallest packet between two
    /// knots of its shape. All ranks compute the same grid.
    pub fn cover(packets: &[MassPacket<D>], ahead: f64) -> Result<Self> {
        let (mut low, mut high, mut smallest) = ([f64::MAX; D], [f64::MIN; D], f64::MAX);
        for packet in packets.iter().filter(|packet| packet.is_active()) {
            for axis in 0..D {
                let row = |matrix: &Matrix<D>| matrix[axis].iter().map(|value| value.abs()).sum::<f64>();
                let extent = row(&packet.deformation);
                let motion = packet.velocity[axis].abs() + SUPPORT * row(&packet.deformation_rate);
                let reach = SUPPORT * extent + ahead * motion;
                low[axis] = low[axis].min(packet.position[axis] - reach);
                high[axis] = high[axis].max(packet.position[axis] + reach);
                smallest = smallest.min(extent);
            }
        }
        let spacing = smallest / 2.0;
        let count = |axis: usize| ((high[axis] - low[axis]) / spacing).ceil() + 2.0;
        let points: f64 = (0..D).map(count).product();
        ensure!(
            spacing > 0.0 && points.is_finite() && points <= MOST_POINTS,
            "the packets need {points:.1e} quadrature points, more than {MOST_POINTS:.0e}; the run has become \
             unstable (choose a smaller time step) or has no packets"
        );
        let cells = std::array::from_fn(|axis| count(axis) as usize);
        // Around the middle, so that a symmetry of the packets is one of the grid.
        let origin = std::array::from_fn(|axis| {
            f64::midpoint(low[axis], high[axis]) - cells[axis] as f64 * spacing / 2.0
        });
        Ok(Self { origin, spacing, cells })
    }

    /// The volume of a cell.
    pub fn weight(&self) -> f64 {
        self.spacing.powi(D as i32)
    }

    /// The number of rows: lines of cells in the first direction.
    pub fn rows(&self) -> usize {
        self.cells[1..].iter().product()
    }

    /// The coordinate of the midpoint of a cell.
    pub fn coordinate(&self, axis: usize, cell: usize) -> f64 {
        self.origin[axis] + (cell as f64 + 0.5) * self.spacing
    }

    /// The cells in one direction whose midpoints are within `reach` of `centre`.
    fn cells_within(&self, axis: usize, centre: f64, reach: f64) -> Range<usize> {
        let place = |value: f64| (value - self.origin[axis]) / self.spacing - 0.5;
        let start = place(centre - reach).ceil().max(0.0) as usize;
        let end = (place(centre + reach).floor() + 1.0).max(0.0) as usize;
        start.min(self.cells[axis])..end.min(self.cells[axis])
    }
}

/// The points of a packet in a row: the first and the last cell, and the coordinates y of the first and their change from cell to cell.
pub struct RowSegment<const D: usize> {
    /// The number of the row in the grid.
    pub row: usize,
    /// The cells in the first direction.
    pub cells: Range<usize>,
    start: [f64; D],
    step: [f64; D],
}

impl<const D: usize> RowSegment<D> {
    /// The coordinates of a cell's midpoint in the packet.
    #[inline]
    pub fn coordinates(&self, cell: usize) -> [f64; D] {
        std::array::from_fn(|axis| self.start[axis] + cell as f64 * self.step[axis])
    }
}

impl<const D: usize> QuadratureGrid<D> {
    /// Calls `visit` with the segment of each of these rows in which the packet with this inverse matrix has points.
    pub fn for_each_segment(
        &self,
        packet: &MassPacket<D>,
        inverse: &Matrix<D>,
        rows: &Range<usize>,
        mut visit: impl FnMut(&RowSegment<D>),
    ) {
        let reach =
            |axis: usize| SUPPORT * packet.deformation[axis].iter().map(|value| value.abs()).sum::<f64>();
        let ranges: [Range<usize>; D] =
            std::array::from_fn(|axis| self.cells_within(axis, packet.position[axis], reach(axis)));
        if ranges.iter().any(Range::is_empty) {
            return;
        }
        let step = std::array::from_fn(|axis| inverse[axis][0] * self.spacing);
        let mut cell: [usize; D] = std::array::from_fn(|axis| ranges[axis].start);
        'rows: loop {
            let row = (1..D).rev().fold(0, |row, axis| row * self.cells[axis] + cell[axis]);
            if rows.contains(&row) {
                let from: [f64; D] = std::array::from_fn(|axis| {
                    let place = if axis == 0 { 0 } else { cell[axis] };
                    self.coordinate(axis, place) - packet.position[axis]
                });
                let start = crate::matrix::apply(inverse, &from);
                let cells = clip(ranges[0].clone(), &start, &step);
                if !cells.is_empty() {
                    visit(&RowSegment { row, cells, start, step });
                }
            }
            for axis in 1..D {
                cell[axis] += 1;
                if cell[axis] < ranges[axis].end {
                    continue 'rows;
                }
                cell[axis] = ranges[axis].start;
            }
            break;
        }
    }

    /// The rows of this rank: as many points of packets for each rank as possible.
    pub fn rows_of(&self, packets: &[MassPacket<D>], rank: usize, ranks: usize) -> Range<usize> {
        let mut cost = vec![0u64; self.rows()];
        for packet in packets.iter().filter(|packet| packet.is_active()) {
            if let Some((_, inverse)) = crate::matrix::invert(&packet.deformation) {
                self.for_each_segment(packet, &inverse, &(0..cost.len()), |segment| {
                    cost[segment.row] += segment.cells.len() as u64;
                });
            }
        }
        let total: u64 = cost.iter().sum();
        let mut before = 0;
        let ends: Vec<u64> = cost
            .iter()
            .map(|cost| {
                before += cost;
                before
            })
            .collect();
        let bound = |rank: usize| {
            if rank == ranks {
                return cost.len();
            }
            ends.partition_point(|end| *end * (ranks as u64) < total * rank as u64 || *end == 0)
        };
        let start = if rank == 0 { 0 } else { bound(rank) };
        start..bound(rank + 1).max(start)
    }
}

/// The cells of a range whose coordinates are inside the support.
fn clip<const D: usize>(cells: Range<usize>, start: &[f64; D], step: &[f64; D]) -> Range<usize> {
    let inside = |cell: usize| (0..D).all(|axis| (start[axis] + cell as f64 * step[axis]).abs() < SUPPORT);
    let (mut from, mut to) = (cells.start, cells.end);
    while from < to && !inside(from) {
        from += 1;
    }
    while to > from && !inside(to - 1) {
        to -= 1;
    }
    from..to
}
