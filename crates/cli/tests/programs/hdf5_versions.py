"""Writes HDF5 files: argv[1] in the earliest version of the format, argv[2] in version 1.10, argv[3] with groups that have 2**40 paths."""
import sys

import h5py
import numpy as np

for name, version in [(sys.argv[1], "earliest"), (sys.argv[2], ("v110", "v110"))]:
    with h5py.File(name, "w", libver=version) as file:
        file.attrs["title"] = "a title"
        file.attrs["numbers"] = np.arange(6).reshape(2, 3)
        for number in range(12):
            group = file.create_group(f"g{number}")
            group.attrs["number"] = number
        inner = file["g3"].create_group("inner")
        inner.create_dataset("whole", data=np.arange(10, dtype="f4"))
        inner.create_dataset("chunks", data=np.arange(60, dtype="i4").reshape(12, 5), chunks=(2, 5))
        inner.create_dataset("grows", data=np.arange(8.0), chunks=(2,), maxshape=(None,))
        inner.create_dataset("both", data=np.zeros((4, 4)), chunks=(2, 2), maxshape=(None, None))
        file.create_dataset("packed", data=np.zeros(64), chunks=(16,), compression="gzip")
        file.create_dataset("records", data=np.zeros(3, dtype=[("id", "u2"), ("at", "f8", (2,))]))
        for number in range(12):
            file["packed"].attrs[f"a{number}"] = [f"text {number}", "more"]

with h5py.File(sys.argv[3], "w") as file:
    group = file
    for depth in range(40):
        inner = group.create_group("a")
        group["b"] = inner
        group = inner
