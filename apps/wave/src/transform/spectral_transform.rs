//! Operators in the space of wave numbers: transform, multiply, transform back.

use std::sync::Arc;

use anyhow::Result;
use aqueduct::comm::Comm;
use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::FftPlanner;

use super::exchange::ExchangeGroup;
use super::layout::SpectrumLayout;
use super::line_transforms::{LineBuffer, LinePlans, SpectralLines};
use super::real::Real;
use crate::grid::WaveGrid;
use crate::grid::decomposition::PencilDecomposition;

/// Transforms of up to three fields at a time, which share their exchanges.
///
/// [`forward`](Self::forward) takes fields row by row, [`apply`](Self::apply) multiplies their spectra, [`inverse`](Self::inverse) gives the
/// results row by row. The transforms are not normalized.
pub struct SpectralTransform<T: Real> {
    layout: SpectrumLayout,
    points: [usize; 3],
    among_planes: ExchangeGroup,
    among_rows: ExchangeGroup,
    x_forward: Arc<dyn RealToComplex<T>>,
    x_inverse: Arc<dyn ComplexToReal<T>>,
    y: LinePlans<T>,
    z: LinePlans<T>,
    spectrum: Vec<Complex<T>>,
    spare: Vec<Complex<T>>,
    /// One plane per field between the transforms of x and y.
    planes: Vec<Complex<T>>,
    lines: LineBuffer<T>,
    row: Vec<Complex<T>>,
    real_rows: Vec<T>,
    scratch: Vec<Complex<T>>,
}

/// Bytes of a transform per rank: what is allocated for one.
pub fn transform_memory<T>(grid: &WaveGrid, decomposition: &PencilDecomposition, rank: usize) -> u64 {
    let layout = SpectrumLayout::new(grid, decomposition, rank);
    let fields = grid.dimensions();
    let plane = fields * grid.points[1] * (grid.points[0] / 2 + 1);
    ((2 * layout.buffer(fields) + plane) * 2 * size_of::<T>()) as u64
}

impl<T: Real> SpectralTransform<T> {
    /// Transforms on the ranks of `world`. Collective.
    pub fn new(world: &Comm, grid: &WaveGrid, decomposition: &PencilDecomposition) -> Result<Self> {
        let layout = SpectrumLayout::new(grid, decomposition, world.rank());
        let [nx, ny, nz] = grid.points;
        let fields = grid.dimensions();
        let (mut real, mut complex) = (RealFftPlanner::<T>::new(), FftPlanner::<T>::new());
        let (x_forward, x_inverse) = (real.plan_fft_forward(nx), real.plan_fft_inverse(nx));
        let (y, z) = (LinePlans::new(&mut complex, ny), LinePlans::new(&mut complex, nz));
        let zero = Complex::new(T::zero(), T::zero());
        let kx = nx / 2 + 1;
        let scratch = x_forward.get_scratch_len().max(x_inverse.get_scratch_len());
        Ok(Self {
            points: grid.points,
            among_planes: ExchangeGroup::new(world, layout.row, decomposition.planes)?,
            among_rows: ExchangeGroup::new(world, layout.plane, decomposition.rows)?,
            spectrum: vec![zero; layout.buffer(fields)],
            spare: vec![zero; layout.buffer(fields)],
            planes: vec![
                zero;
                fields * ny * layout.own_kx().len().max(if decomposition.rows == 1 { kx } else { 0 })
            ],
            lines: LineBuffer::new([ny, nz], fields, y.scratch().max(z.scratch())),
            row: vec![zero; kx],
            real_rows: vec![T::zero(); fields * nx],
            scratch: vec![zero; scratch],
            layout,
            x_forward,
            x_inverse,
            y,
            z,
        })
    }

    /// The number of elements of the spectrum of this rank.
    pub fn elements(&self) -> usize {
        self.layout.own_ky().len() * self.layout.own_kx().len() * self.points[2]
    }

    /// Calls a function with the indices of ky, kx and kz of each element of the spectrum of this rank, in the order in which operators are stored.
    pub fn for_each_element(&self, mut visit: impl FnMut(usize, usize, usize)) {
        for ky in self.layout.own_ky() {
            for kx in self.layout.own_kx() {
                (0..self.points[2]).for_each(|kz| visit(ky, kx, kz));
            }
        }
    }

    /// Transforms fields; `fill` writes a row of a field: field, local plane, local row. Collective.
    pub fn forward(
        &mut self,
        fields: usize,
        mut fill: impl FnMut(usize, usize, usize, &mut [T]),
    ) -> Result<()> {
        if self.layout.y.len() == 1 {
            for field in 0..fields {
                for plane in 0..self.layout.planes() {
                    let width = self.points[0] / 2 + 1;
                    for y in 0..self.points[1] {
                        let row = &mut self.real_rows[..self.points[0]];
                        fill(field, plane, y, row);
                        let out = &mut self.planes[y * width..][..width];
                        self.x_forward.process_with_scratch(row, out, &mut self.scratch)?;
                    }
                    self.y_forward(fields, field, plane);
                }
            }
        } else {
            self.forward_rows(fields, fill)?;
            let width = self.layout.own_kx().len();
            // The rows that were received are in `spare`: those of y that is transformed go to `spectrum`.
            for field in 0..fields {
                for plane in 0..self.layout.planes() {
                    for y in 0..self.points[1] {
                        let from = self.layout.y_row(fields, field, plane, y);
                        self.planes[y * width..][..width].copy_from_slice(&self.spare[from..][..width]);
                    }
                    self.y_forward(fields, field, plane);
                }
            }
        }
        let (parts, size) = self.layout.plane_parts(fields);
        self.among_planes.exchange(parts, size, &mut self.spectrum, &mut self.spare)
    }

    /// Transforms rows of x and exchanges them; the received ones are in `spare`.
    fn forward_rows(
        &mut self,
        fields: usize,
        mut fill: impl FnMut(usize, usize, usize, &mut [T]),
    ) -> Result<()> {
        for field in 0..fields {
            for plane in 0..self.layout.planes() {
                for y in 0..self.layout.rows() {
                    let row = &mut self.real_rows[..self.points[0]];
                    fill(field, plane, y, row);
                    self.x_forward.process_with_scratch(row, &mut self.row, &mut self.scratch)?;
                    for (part, range) in self.layout.kx.iter().enumerate() {
                        let to = self.layout.kx_part(fields, field, plane, y, part);
                        self.spectrum[to..][..range.len()].copy_from_slice(&self.row[range.clone()]);
                    }
                }
            }
        }
        let (parts, size) = self.layout.row_parts(fields);
        self.among_rows.exchange(parts, size, &mut self.spectrum, &mut self.spare)?;
        std::mem::swap(&mut self.spectrum, &mut self.spare);
        Ok(())
    }

    /// Transforms the lines of y of a plane into the buffer for the exchange of planes.
    fn y_forward(&mut self, fields: usize, field: usize, plane: usize) {
        let (layout, width) = (&self.layout, self.layout.own_kx().len());
        let to = |y: usize| layout.ky_row(fields, field, plane, y);
        let plan = (&self.y.forward, self.points[1], width);
        self.lines.transform(plan, (&self.planes, |y| y * width), (&mut self.spectrum, to));
    }

    /// Applies an operator to the spectra of `fields` fields, which has `results` fields as its result.
    pub fn apply(&mut self, fields: usize, results: usize, mut operator: impl FnMut(SpectralLines<'_, T>)) {
        let (layout, kx) = (&self.layout, self.layout.own_kx());
        let width = kx.len();
        for (row, ky) in self.layout.own_ky().enumerate() {
            let from = |field: usize, z: usize| layout.z_plane(fields, field, z) + row * width;
            let to = |field: usize, z: usize| layout.z_plane(results, field, z) + row * width;
            self.lines.apply(
                &self.z,
                (ky, kx.start, row * width, width),
                (fields, &self.spectrum, &from),
                (results, &mut self.spare, &to),
                &mut operator,
            );
        }
        std::mem::swap(&mut self.spectrum, &mut self.spare);
    }

    /// Transforms back; `take` gets the rows of all fields, one after another: local plane, local row, values. Collective.
    pub fn inverse(&mut self, fields: usize, mut take: impl FnMut(usize, usize, &[T])) -> Result<()> {
        let (parts, size) = self.layout.plane_parts(fields);
        self.among_planes.exchange(parts, size, &mut self.spectrum, &mut self.spare)?;
        if self.layout.y.len() > 1 {
            return self.inverse_rows(fields, take);
        }
        let [nx, ny, _] = self.points;
        let width = nx / 2 + 1;
        for plane in 0..self.layout.planes() {
            (0..fields).for_each(|field| self.y_inverse(fields, field, plane));
            for y in 0..ny {
                for field in 0..fields {
                    let row = &mut self.planes[(field * ny + y) * width..][..width];
                    to_real_row(
                        &*self.x_inverse,
                        row,
                        &mut self.real_rows[field * nx..][..nx],
                        &mut self.scratch,
                    )?;
                }
                take(plane, y, &self.real_rows[..fields * nx]);
            }
        }
        Ok(())
    }

    /// Transforms the lines of y of a plane, after the exchange of planes, into the plane of the field.
    fn y_inverse(&mut self, fields: usize, field: usize, plane: usize) {
        let (layout, width) = (&self.layout, self.layout.own_kx().len());
        let from = |y: usize| layout.ky_row(fields, field, plane, y);
        let to = &mut self.planes[field * self.points[1] * width..][..self.points[1] * width];
        let plan = (&self.y.inverse, self.points[1], width);
        self.lines.transform(plan, (&self.spectrum, from), (to, |y| y * width));
    }

    fn inverse_rows(&mut self, fields: usize, mut take: impl FnMut(usize, usize, &[T])) -> Result<()> {
        let width = self.layout.own_kx().len();
        let [nx, ny, _] = self.points;
        for plane in 0..self.layout.planes() {
            for field in 0..fields {
                self.y_inverse(fields, field, plane);
                for y in 0..ny {
                    let to = self.layout.y_row(fields, field, plane, y);
                    let from = (field * ny + y) * width;
                    self.spare[to..][..width].copy_from_slice(&self.planes[from..][..width]);
                }
            }
        }
        let (parts, size) = self.layout.row_parts(fields);
        std::mem::swap(&mut self.spectrum, &mut self.spare);
        self.among_rows.exchange(parts, size, &mut self.spectrum, &mut self.spare)?;
        for plane in 0..self.layout.planes() {
            for y in 0..self.layout.rows() {
                for field in 0..fields {
                    for (part, range) in self.layout.kx.iter().enumerate() {
                        let from = self.layout.kx_part(fields, field, plane, y, part);
                        self.row[range.clone()].copy_from_slice(&self.spectrum[from..][..range.len()]);
                    }
                    let out = &mut self.real_rows[field * nx..][..nx];
                    to_real_row(&*self.x_inverse, &mut self.row, out, &mut self.scratch)?;
                }
                take(plane, y, &self.real_rows[..fields * nx]);
            }
        }
        Ok(())
    }
}

/// A row in real numbers. The elements that are real for a real row have an imaginary part only by rounding, or where the operator is not
/// Hermitian at the highest frequency; it has no part in the result.
fn to_real_row<T: Real>(
    plan: &dyn ComplexToReal<T>,
    row: &mut [Complex<T>],
    out: &mut [T],
    scratch: &mut [Complex<T>],
) -> Result<()> {
    row[0].im = T::zero();
    if out.len().is_multiple_of(2) {
        row[out.len() / 2].im = T::zero();
    }
    plan.process_with_scratch(row, out, scratch)?;
    Ok(())
}
