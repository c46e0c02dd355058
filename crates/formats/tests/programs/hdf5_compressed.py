"""Reads compressed datasets with h5py: read FILE | again FILE."""

import sys

import h5py
import numpy as np

ROWS, COLUMNS, STEPS = 37, 50, 5
WANTED = (np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) // 7).astype(float)

try:
    import hdf5plugin  # noqa: F401
except ImportError:
    hdf5plugin = None


def read(path):
    with h5py.File(path) as file:
        fixed = file["deep/fixed"]
        assert (fixed.compression, fixed.compression_opts, fixed.shuffle) == ("gzip", 6, True)
        assert fixed.chunks == (8, 16) and fixed.maxshape == (ROWS, COLUMNS)
        assert fixed.attrs["unit"] == "Pa" and fixed.attrs["aqueduct_complete"] == ROWS
        steps = file["steps"]
        assert steps.fletcher32 and steps.maxshape == (None, COLUMNS) and steps.attrs["aqueduct_complete"] == STEPS
        assert file["summed"].fletcher32 and file["summed"].compression is None
        names = ["deep/fixed", "summed", "plain"] + (["zstd"] if hdf5plugin else [])
        for name in names:
            assert np.array_equal(file[name][:], WANTED), name
        assert np.array_equal(steps[:], WANTED[:STEPS])
        assert fixed.id.get_storage_size() < WANTED.nbytes / 2
    print("read")


def again(path):
    wanted = WANTED.copy()
    wanted[3, 0:10] = -1
    wanted[3, 20:30] = -2
    with h5py.File(path, "r+") as file:
        assert np.array_equal(file["deep/fixed"][:], wanted)
        steps = file["steps"]
        assert steps.shape == (STEPS + 2, COLUMNS)
        assert np.array_equal(steps[STEPS + 1], WANTED[STEPS + 1]) and not steps[STEPS].any()
        steps.resize(STEPS + 200, 0)
        steps[STEPS + 2 :] = 7
        file.create_dataset("more", data=[1, 2])
    with h5py.File(path) as file:
        assert (file["steps"][STEPS + 2 :] == 7).all() and np.array_equal(file["steps"][:STEPS], WANTED[:STEPS])
        assert np.array_equal(file["deep/fixed"][:], wanted)
    print("again")


{"read": read, "again": again}[sys.argv[1]](*sys.argv[2:])
