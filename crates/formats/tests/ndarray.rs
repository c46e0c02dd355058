//! Hyperslabs of variables and datasets, written from and read into arrays and views of the crate `ndarray`.
#![cfg(feature = "ndarray")]

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::netcdf::{NcType, NetcdfCreateOptions};
use aqueduct_formats::{Error, Kind};
use ndarray::{Array2, Array3, s};

const COLUMNS: u64 = 12;

/// The first column of a rank and the number of its columns.
fn columns(world: &Comm) -> (u64, u64) {
    let each = COLUMNS / world.size() as u64;
    (each * world.rank() as u64, each)
}

fn local(world: &Comm) -> Array2<i32> {
    let (first, count) = columns(world);
    Array2::from_shape_fn((5, count as usize), |(y, x)| (100 * y + first as usize + x) as i32)
}

fn netcdf(world: &Comm) -> Result<(), Error> {
    let mut file = NetcdfCreateOptions::new().replace().create(world, "memfs:ndarray.nc")?;
    let grid = file.define(|file| {
        let (y, x) = (file.dimension("y", 5)?, file.dimension("x", COLUMNS)?);
        file.variable("grid", NcType::Int, &[y, x])
    })?;
    let ((first, count), part) = (columns(world), local(world));
    let slab = [0..5, first..first + count];
    let transposed = part.t().as_standard_layout().into_owned();
    file.at(grid, slab.clone()).all().write_array(&transposed.t())?;
    file.at(grid, slab.clone()).write_array(&part)?;
    let mut large = Array3::from_elem((7, count as usize, 2), -1);
    let mut sliced = large.slice_mut(s![1..6, .., 1]);
    file.at(grid, slab.clone()).all().read_array(&mut sliced)?;
    assert_eq!(sliced, part);
    assert_eq!(large.iter().filter(|value| **value == -1).count(), large.len() - part.len());
    let mut back = Array2::<i32>::zeros((count as usize, 5));
    file.at(grid, slab.clone()).read_array(&mut back.view_mut().reversed_axes())?;
    assert_eq!(back.t(), part);
    // A transposed array has another shape: an error on all ranks if it is collective.
    let wrong = world.rank() + 1 == world.size();
    let shape = if wrong { (count as usize, 5) } else { (5, count as usize) };
    let error = file.at(grid, slab).all().write_array(&Array2::<i32>::zeros(shape)).unwrap_err();
    assert_eq!(error.kind(), Kind::BadArgument, "{error}");
    let (array, selection) = (format!("[{count}, 5]"), format!("[5, {count}]"));
    assert!(error.to_string().contains(&array) && error.to_string().contains(&selection), "{error}");
    file.close()
}

#[test]
fn netcdf_variables_on_several_ranks() {
    for ranks in [1, 3, 4] {
        Launch::threads(ranks).run(netcdf).unwrap();
    }
}

#[cfg(feature = "hdf5")]
mod hdf5 {
    use super::*;
    use aqueduct_formats::hdf5::Hdf5CreateOptions;

    fn datasets(world: &Comm) -> Result<(), Error> {
        let mut file = Hdf5CreateOptions::new().replace().create(world, "memfs:ndarray.h5")?;
        let grid = file.define(|file| file.dataset::<i32>("grid", &[5, COLUMNS]))?;
        let ((first, count), part) = (columns(world), local(world));
        let slab = [0..5, first..first + count];
        let transposed = part.t().as_standard_layout().into_owned();
        file.at(grid, slab.clone()).all().write_array(&transposed.t())?;
        let mut large = Array3::from_elem((7, count as usize, 2), -1);
        let mut sliced = large.slice_mut(s![1..6, .., 1]);
        file.at(grid, slab.clone()).all().read_array(&mut sliced)?;
        assert_eq!(sliced, part);
        let mut back = Array2::<i32>::zeros((count as usize, 5));
        file.at(grid, slab.clone()).read_array(&mut back.view_mut().reversed_axes())?;
        assert_eq!(back.t(), part);
        let wrong = world.rank() + 1 == world.size();
        let shape = if wrong { (count as usize, 5) } else { (5, count as usize) };
        let error = file.at(grid, slab).all().write_array(&Array2::<i32>::zeros(shape)).unwrap_err();
        assert_eq!(error.kind(), Kind::BadArgument, "{error}");
        let (array, selection) = (format!("[{count}, 5]"), format!("[5, {count}]"));
        assert!(error.to_string().contains(&array) && error.to_string().contains(&selection), "{error}");
        file.close()
    }

    #[test]
    fn hdf5_datasets_on_several_ranks() {
        for ranks in [1, 3, 4] {
            Launch::threads(ranks).run(datasets).unwrap();
        }
    }
}
