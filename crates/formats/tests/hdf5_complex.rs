//! Complex numbers in HDF5: the compound type `{r, i}`, which h5py reads and writes as complex numbers; half precision.
#![cfg(feature = "hdf5")]
#![allow(clippy::single_range_in_vec_init, reason = "a hyperslab of one dimension is one range")]

use std::process::Command;

use aqueduct_comm::{Comm, Launch};
use aqueduct_formats::Result;
use aqueduct_formats::hdf5::{Hdf5CreateOptions, Hdf5OpenOptions};
use aqueduct_testkit::external_tools as tools;
use half::f16;
use num_complex::Complex;

/// Prints the type and the values of the dataset that this crate wrote, and writes one of single precision.
const SCRIPT: &str = "
import sys, h5py, numpy as np
with h5py.File(sys.argv[1], 'r') as file:
    data = file['spectrum']
    print(data.dtype, data[0], data[5])
    print(file['half'].dtype, *file['half'][:])
with h5py.File(sys.argv[2], 'w') as file:
    file['spectrum'] = np.array([1 - 2j, 0.5j], dtype=np.complex64)
";

fn value(at: u64) -> Complex<f64> {
    Complex::new(at as f64, -1.5)
}

#[test]
fn complex_numbers_are_those_of_h5py() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (folder.path().join("ours.h5"), folder.path().join("theirs.h5"));
    let write = |world: &Comm| -> Result<()> {
        let mut file = Hdf5CreateOptions::new().create(world, &ours)?;
        let spectrum = file.define(|file| file.dataset::<Complex<f64>>("spectrum", &[6]))?;
        let first = 2 * world.rank() as u64;
        file.at(spectrum, [first..first + 2]).all().write(&[value(first), value(first + 1)])?;
        let half = file.define(|file| file.dataset::<f16>("half", &[6]))?;
        file.at(half, [first..first + 2]).all().write(&[f16::from_f32(first as f32 + 0.5); 2])?;
        file.close()?;
        let file = Hdf5OpenOptions::new().open(world, &ours)?;
        let all: Vec<Complex<f64>> = file.at(file.dataset("spectrum")?, [0..6]).all().read_vec()?;
        assert_eq!(all, (0..6).map(value).collect::<Vec<_>>());
        file.close()
    };
    Launch::threads(3).run(write).unwrap();
    let Some(python) = tools::python("h5py") else { return };
    let printed = tools::output_of(Command::new(python).args(["-c", SCRIPT]).arg(&ours).arg(&theirs));
    assert_eq!(printed.trim(), "complex128 -1.5j (5-1.5j)\nfloat16 0.5 0.5 2.5 2.5 4.5 4.5");
    let read = |world: &Comm| -> Result<()> {
        let file = Hdf5OpenOptions::new().open(world, &theirs)?;
        let all: Vec<Complex<f32>> = file.at(file.dataset("spectrum")?, [0..2]).all().read_vec()?;
        assert_eq!(all, [Complex::new(1.0, -2.0), Complex::new(0.0, 0.5)]);
        file.close()
    };
    Launch::threads(2).run(read).unwrap();
}
