//! Where the rows of a field are while it is exchanged. Pure.
//!
//! Two exchanges are made for a transform in three dimensions. Between the ranks with the same part of z, x is cut instead of y; between those
//! with the same part of x, y is cut instead of z. The parts of all ranks have the same size, that of the largest one, and hold fields, planes
//! and rows in this order.

use std::ops::Range;

use crate::grid::WaveGrid;
use crate::grid::decomposition::{PencilDecomposition, shares};

/// The parts of all ranks in each direction, and which of them this rank has.
pub(super) struct SpectrumLayout {
    pub(super) plane: usize,
    pub(super) row: usize,
    /// Parts of z before, of ky after the exchange of planes.
    z: Vec<Range<usize>>,
    ky: Vec<Range<usize>>,
    /// Parts of y before, of kx after the exchange of rows.
    pub(super) y: Vec<Range<usize>>,
    pub(super) kx: Vec<Range<usize>>,
    /// The part that has each ky, each z, and each y.
    ky_owner: Vec<usize>,
    z_owner: Vec<usize>,
    pub(super) y_owner: Vec<usize>,
}

fn owners(parts: &[Range<usize>], length: usize) -> Vec<usize> {
    let mut owners = vec![0; length];
    for (part, range) in parts.iter().enumerate() {
        owners[range.clone()].fill(part);
    }
    owners
}

fn longest(parts: &[Range<usize>]) -> usize {
    parts.iter().map(ExactSizeIterator::len).max().unwrap_or(0)
}

impl SpectrumLayout {
    pub(super) fn new(grid: &WaveGrid, decomposition: &PencilDecomposition, rank: usize) -> Self {
        let [nx, ny, nz] = grid.points;
        let (plane, row) = decomposition.place(rank);
        let (z, ky) = (shares(nz, decomposition.planes), shares(ny, decomposition.planes));
        let (y, kx) = (shares(ny, decomposition.rows), shares(nx / 2 + 1, decomposition.rows));
        let (ky_owner, z_owner, y_owner) = (owners(&ky, ny), owners(&z, nz), owners(&y, ny));
        Self { plane, row, z, ky, y, kx, ky_owner, z_owner, y_owner }
    }

    /// The planes of this rank.
    pub(super) fn planes(&self) -> usize {
        self.z[self.plane].len()
    }

    /// The rows of this rank in each plane.
    pub(super) fn rows(&self) -> usize {
        self.y[self.row].len()
    }

    /// The kx of this rank.
    pub(super) fn own_kx(&self) -> Range<usize> {
        self.kx[self.row].clone()
    }

    /// The ky of this rank, after the exchange of planes.
    pub(super) fn own_ky(&self) -> Range<usize> {
        self.ky[self.plane].clone()
    }

    /// The number of parts of the exchange of planes, and their size.
    pub(super) fn plane_parts(&self, fields: usize) -> (usize, usize) {
        (self.z.len(), fields * longest(&self.z) * longest(&self.ky) * self.own_kx().len())
    }

    /// The number of parts of the exchange of rows, and their size.
    pub(super) fn row_parts(&self, fields: usize) -> (usize, usize) {
        (self.y.len(), fields * self.planes() * longest(&self.y) * longest(&self.kx))
    }

    /// Elements of the largest buffer for this number of fields.
    pub(super) fn buffer(&self, fields: usize) -> usize {
        let (parts, size) = self.plane_parts(fields);
        let (row_parts, row_size) = self.row_parts(fields);
        (parts * size).max(if row_parts > 1 { row_parts * row_size } else { 0 })
    }

    /// A row of constant ky of a local plane, before the exchange of planes.
    pub(super) fn ky_row(&self, fields: usize, field: usize, plane: usize, ky: usize) -> usize {
        let owner = self.ky_owner[ky];
        let range = &self.ky[owner];
        let row = (field * self.planes() + plane) * range.len() + ky - range.start;
        owner * self.plane_parts(fields).1 + row * self.own_kx().len()
    }

    /// The first row of a plane of constant z, after the exchange of planes.
    pub(super) fn z_plane(&self, fields: usize, field: usize, z: usize) -> usize {
        let owner = self.z_owner[z];
        let range = &self.z[owner];
        let plane = field * range.len() + z - range.start;
        owner * self.plane_parts(fields).1 + plane * self.own_ky().len() * self.own_kx().len()
    }

    /// The part of a row that rank `part` gets, before the exchange of rows.
    pub(super) fn kx_part(
        &self,
        fields: usize,
        field: usize,
        plane: usize,
        row: usize,
        part: usize,
    ) -> usize {
        let rows = (field * self.planes() + plane) * self.rows() + row;
        part * self.row_parts(fields).1 + rows * self.kx[part].len()
    }

    /// A row of constant y of a local plane, after the exchange of rows.
    pub(super) fn y_row(&self, fields: usize, field: usize, plane: usize, y: usize) -> usize {
        let owner = self.y_owner[y];
        let range = &self.y[owner];
        let row = (field * self.planes() + plane) * range.len() + y - range.start;
        owner * self.row_parts(fields).1 + row * self.own_kx().len()
    }
}
