//! Access to variables with arrays of the crate `ndarray`.

use aqueduct_file::array_memory::{with_values, with_values_mut};
use ndarray::{ArrayRef, Dimension};

use super::access::{CollectiveVariableAccess, VariableAccess};
use super::value::NetcdfValue;
use crate::error::Result;
use crate::selection::ValueExtent;

impl VariableAccess<'_> {
    /// Writes an array, which has the shape of the selection and may be transposed or sliced.
    pub fn write_array<T: NetcdfValue, D: Dimension>(self, array: &ArrayRef<T, D>) -> Result<()> {
        with_values(array, |values| self.write_values(values, array.into()))
    }

    /// Fills an array, which has the shape of the selection and may be transposed or sliced.
    pub fn read_array<T: NetcdfValue, D: Dimension>(self, array: &mut ArrayRef<T, D>) -> Result<()> {
        let shape = array.shape().to_vec();
        with_values_mut(array, |values| {
            let extent = ValueExtent { values: values.len() as u64, shape: Some(&shape) };
            self.read_values(values, extent)
        })
    }
}

impl CollectiveVariableAccess<'_> {
    /// As [`VariableAccess::write_array`]. Collective.
    ///
    /// ```
    /// # use aqueduct_comm::Launch;
    /// # use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions};
    /// # use ndarray::Array2;
    /// # Launch::threads(2).run(|world| {
    /// # let mut file = NetcdfCreateOptions::new().replace().create(world, "memfs:arrays.nc")?;
    /// # let grid = file.define(|file| {
    /// #     let (y, x) = (file.dimension("y", 4)?, file.dimension("x", 6)?);
    /// #     file.variable("grid", NcType::Double, &[y, x])
    /// # })?;
    /// // Each rank has three columns of a 4 × 6 variable, in memory with the first dimension the fastest.
    /// let local = Array2::from_shape_fn((3, 4), |(x, y)| (10 * y + x) as f64);
    /// let start = 3 * world.rank() as u64;
    /// file.at(grid, [0..4, start..start + 3]).all().write_array(&local.t())?;
    /// let mut row = Array2::<f64>::zeros((1, 6));
    /// file.at(grid, [2..3, 0..6]).all().read_array(&mut row)?;
    /// assert_eq!(row.row(0).to_vec(), [20.0, 21.0, 22.0, 20.0, 21.0, 22.0]);
    /// # file.close()
    /// # })?;
    /// # Ok::<(), aqueduct_comm::Error>(())
    /// ```
    pub fn write_array<T: NetcdfValue, D: Dimension>(self, array: &ArrayRef<T, D>) -> Result<()> {
        with_values(array, |values| self.write_values(values, array.into()))
    }

    /// As [`VariableAccess::read_array`]. Collective.
    pub fn read_array<T: NetcdfValue, D: Dimension>(self, array: &mut ArrayRef<T, D>) -> Result<()> {
        let shape = array.shape().to_vec();
        with_values_mut(array, |values| {
            let extent = ValueExtent { values: values.len() as u64, shape: Some(&shape) };
            self.read_values(values, extent)
        })
    }
}
