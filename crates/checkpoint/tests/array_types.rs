//! Arrays of complex numbers, half-precision numbers and `bool` in checkpoints, and arrays of the crate `ndarray`.

use std::path::Path;

use aqueduct_checkpoint::{ArrayBlock, Checkpoint, Error, Kind, Store};
use aqueduct_comm::{Comm, Launch};
use half::f16;
use num_complex::Complex;

fn typed(world: &Comm, folder: &Path) -> Result<(), Error> {
    let (rank, size) = (world.rank() as u64, world.size() as u64);
    let block = ArrayBlock::new([3 * size], [3 * rank], [3]);
    let complex = |at: u64| Complex::new(at as f64, -1.0);
    let half = |at: u64| f16::from_f64(at as f64 / 2.0);
    let spectrum: Vec<Complex<f64>> = (3 * rank..3 * rank + 3).map(complex).collect();
    let weights: Vec<f16> = (3 * rank..3 * rank + 3).map(half).collect();
    let mut store = Store::open_or_create(world, folder)?;
    let mut checkpoint = Checkpoint::new(1);
    checkpoint.array("spectrum", &block, &spectrum).array("weights", &block, &weights);
    let marked: Vec<bool> = (3 * rank..3 * rank + 3).map(|at| at % 2 == 1).collect();
    checkpoint.array("marked", &block, &marked);
    checkpoint.value("phase", &Complex::new(0.5f32, 2.0)).objects("flags", &[true, false, rank == 1]);
    store.write(&checkpoint)?;
    let latest = store.latest()?.expect("one was written");
    // The whole array on every rank.
    let whole = ArrayBlock::new([3 * size], [0], [3 * size]);
    assert_eq!(
        latest.array::<Complex<f64>>("spectrum", &whole)?,
        (0..3 * size).map(complex).collect::<Vec<_>>()
    );
    assert_eq!(latest.array::<f16>("weights", &whole)?, (0..3 * size).map(half).collect::<Vec<_>>());
    let marked = latest.array::<bool>("marked", &whole)?;
    assert_eq!(marked, (0..3 * size).map(|at| at % 2 == 1).collect::<Vec<_>>());
    assert_eq!(latest.value::<Complex<f32>>("phase")?, Complex::new(0.5, 2.0));
    assert_eq!(latest.objects::<bool>("flags")?.len(), 3);
    assert_eq!(latest.array::<Complex<f32>>("spectrum", &whole).unwrap_err().kind(), Kind::WrongType);
    Ok(())
}

#[test]
fn arrays_of_complex_and_half_precision_numbers_and_bool_are_restored() {
    for ranks in [1, 3, 4] {
        let folder = tempfile::tempdir().unwrap();
        Launch::threads(ranks).run(|world| typed(world, &folder.path().join("store"))).unwrap();
    }
}

#[cfg(feature = "ndarray")]
mod arrays {
    use super::*;
    use ndarray::{Array2, Array3, s};

    fn views(world: &Comm, folder: &Path) -> Result<(), Error> {
        let (rank, size) = (world.rank() as u64, world.size() as u64);
        let block = ArrayBlock::new([5, 2 * size], [0, 2 * rank], [5, 2]);
        let part = Array2::from_shape_fn((5, 2), |(y, x)| (100 * y + 2 * rank as usize + x) as f64);
        let transposed = part.t().as_standard_layout().into_owned();
        let mut large = Array3::zeros((7, 2, 2));
        large.slice_mut(s![1..6, .., 1]).assign(&part);
        let mut store = Store::open_or_create(world, folder)?;
        let mut checkpoint = Checkpoint::new(1);
        let (turned, sliced) = (transposed.t(), large.slice(s![1..6, .., 1]));
        checkpoint.ndarray("standard", &block, &part);
        checkpoint.ndarray("transposed", &block, &turned).ndarray("sliced", &block, &sliced);
        store.write(&checkpoint)?;
        let latest = store.latest()?.expect("one was written");
        for name in ["standard", "transposed", "sliced"] {
            let mut target = Array2::<f64>::zeros((2, 5));
            latest.read_ndarray(name, &block, &mut target.view_mut().reversed_axes())?;
            assert_eq!(target.t(), part, "{name}");
            let mut whole = Array2::<f64>::zeros((5, 2 * size as usize));
            latest.read_ndarray(name, &ArrayBlock::new([5, 2 * size], [0, 0], [5, 2 * size]), &mut whole)?;
            assert!(whole.indexed_iter().all(|((y, x), value)| *value as usize == 100 * y + x), "{name}");
        }
        let wrong = latest.read_ndarray("standard", &block, &mut Array2::<f64>::zeros((2, 5))).unwrap_err();
        assert!(wrong.to_string().contains("[2, 5]") && wrong.to_string().contains("[5, 2]"), "{wrong}");
        let mut checkpoint = Checkpoint::new(2);
        checkpoint.ndarray("wrong", &block, &transposed);
        let wrong = store.write(&checkpoint).unwrap_err();
        assert!(wrong.to_string().contains("[2, 5]") && wrong.to_string().contains("[5, 2]"), "{wrong}");
        Ok(())
    }

    #[test]
    fn transposed_and_sliced_arrays_are_restored() {
        for ranks in [1, 3, 4] {
            let folder = tempfile::tempdir().unwrap();
            Launch::threads(ranks).run(|world| views(world, &folder.path().join("store"))).unwrap();
        }
    }
}
