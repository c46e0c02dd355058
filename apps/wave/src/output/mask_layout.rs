//! Where the samples of a rank are in its fields, and in the datasets. Pure.

use crate::grid::field_block::FieldBlock;
use crate::problem::SensorMask;

/// Samples of this rank that are a block of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskPart {
    /// The number of the box, from 0; 0 for a list of points.
    pub region: usize,
    /// The start of the block without the dimension of time: (1, position) or (z, y, x) in the box.
    pub start: Vec<u64>,
    /// Its shape.
    pub count: Vec<u64>,
    /// The number of the first of its samples on this rank.
    pub first: usize,
}

impl MaskPart {
    /// The number of samples.
    pub fn len(&self) -> usize {
        self.count.iter().product::<u64>() as usize
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The samples of a rank.
#[derive(Clone, Debug)]
pub struct MaskLayout {
    /// The shape of each region without the dimension of time: `[n]` for a list of points, (z, y, x) for each box.
    pub regions: Vec<Vec<u64>>,
    /// Whether the regions are boxes.
    pub boxes: bool,
    /// The parts of this rank, in the order of its samples.
    pub parts: Vec<MaskPart>,
    /// Runs of the block that are sampled: position and length.
    runs: Vec<(usize, usize)>,
    /// The number of samples of this rank.
    pub samples: usize,
}

impl MaskLayout {
    /// The layout of a mask on this rank.
    pub fn new(mask: &SensorMask, block: &FieldBlock) -> Self {
        let mut layout =
            Self { regions: Vec::new(), boxes: false, parts: Vec::new(), runs: Vec::new(), samples: 0 };
        match mask {
            SensorMask::Points { count, mine } => {
                layout.regions.push(vec![*count]);
                for point in mine {
                    layout.add_run(point.local, 1);
                    match layout.parts.last_mut() {
                        Some(part) if part.start[0] + part.count[0] == point.position => part.count[0] += 1,
                        _ => layout.parts.push(MaskPart {
                            region: 0,
                            start: vec![point.position],
                            count: vec![1],
                            first: layout.samples,
                        }),
                    }
                    layout.samples += 1;
                }
            }
            SensorMask::Boxes(boxes) => {
                layout.boxes = true;
                for (region, ranges) in boxes.iter().enumerate() {
                    layout.regions.push(ranges.iter().rev().map(|range| range.len() as u64).collect());
                    layout.add_box(region, ranges, block);
                }
            }
        }
        layout
    }

    fn add_box(&mut self, region: usize, ranges: &[std::ops::Range<usize>; 3], block: &FieldBlock) {
        let inside = block.intersection(ranges);
        let length = inside.iter().map(ExactSizeIterator::len).product::<usize>();
        if length == 0 {
            return;
        }
        let start = [2, 1, 0].map(|at| (inside[at].start - ranges[at].start) as u64).to_vec();
        let count = [2, 1, 0].map(|at| inside[at].len() as u64).to_vec();
        self.parts.push(MaskPart { region, start, count, first: self.samples });
        for z in inside[2].clone() {
            for y in inside[1].clone() {
                let row = (z - block.z.start) * block.y.len() + y - block.y.start;
                self.add_run(row * block.points[0] + inside[0].start, inside[0].len());
            }
        }
        self.samples += length;
    }

    fn add_run(&mut self, start: usize, length: usize) {
        match self.runs.last_mut() {
            Some((first, count)) if *first + *count == start => *count += length,
            _ => self.runs.push((start, length)),
        }
    }

    /// The samples of a field.
    pub fn gather<T: Copy>(&self, field: &[T], out: &mut Vec<T>) {
        out.clear();
        out.reserve(self.samples);
        for (start, length) in &self.runs {
            out.extend_from_slice(&field[*start..start + length]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::SensorPoint;

    fn block() -> FieldBlock {
        FieldBlock { points: [4, 3, 5], y: 0..3, z: 2..4 }
    }

    #[test]
    fn boxes_are_cut_at_the_block() {
        let mask = SensorMask::Boxes(vec![[1..3, 1..3, 0..3], [0..4, 0..3, 4..5]]);
        let layout = MaskLayout::new(&mask, &block());
        assert_eq!(layout.regions, [vec![3, 2, 2], vec![1, 3, 4]]);
        let part = MaskPart { region: 0, start: vec![2, 0, 0], count: vec![1, 2, 2], first: 0 };
        assert_eq!(layout.parts, [part]);
        let field: Vec<usize> = (0..24).collect();
        let mut out = Vec::new();
        layout.gather(&field, &mut out);
        assert_eq!(out, [5, 6, 9, 10]);
    }

    #[test]
    fn points_keep_the_order_of_the_list() {
        let point = |position, local| SensorPoint { position, local };
        let mask = SensorMask::Points { count: 9, mine: vec![point(1, 7), point(2, 3), point(5, 4)] };
        let layout = MaskLayout::new(&mask, &block());
        let starts: Vec<_> =
            layout.parts.iter().map(|part| (part.start[0], part.count[0], part.first)).collect();
        assert_eq!(starts, [(1, 2, 0), (5, 1, 2)]);
        let mut out = Vec::new();
        layout.gather(&(0..24).collect::<Vec<usize>>(), &mut out);
        assert_eq!(out, [7, 3, 4]);
    }
}
