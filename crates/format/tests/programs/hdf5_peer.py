"""h5py: read FILE (ours), write FILE (for us), rows FILE... (complete rows hold what they should)."""
import sys

import h5py
import numpy as np

NUMBERS = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
PARTICLE = np.dtype([("id", "<u4"), ("position", "<f8", (3,)), ("charged", "?")])


def numbers(kind):
    return (np.arange(60) % 50 + NUMBERS.index(kind)).astype("<" + kind).reshape(6, 10)


def particles():
    made = np.zeros(12, PARTICLE)
    made["id"] = np.arange(12) * 3
    made["position"] = np.arange(36).reshape(12, 3) / 4
    made["charged"] = np.arange(12) % 2 == 1
    return made


def read(name):
    with h5py.File(name, "r") as file:
        assert file.attrs["aqueduct_complete"] == 1
        for kind in NUMBERS:
            dataset = file["numbers/" + kind]
            assert dataset.dtype == np.dtype("<" + kind), dataset.dtype
            np.testing.assert_array_equal(dataset[...], numbers(kind))
            assert dataset.attrs["aqueduct_complete"] == 6
        assert file["particles"].dtype == PARTICLE, file["particles"].dtype
        np.testing.assert_array_equal(file["particles"][...], particles())
        steps = file["steps/value"]
        assert steps.shape == (5, 7) and steps.maxshape == (None, 7) and steps.chunks == (2, 4)
        np.testing.assert_array_equal(steps[...], np.arange(35.0).reshape(5, 7))
        assert steps.attrs["unit"] == "J" and list(steps.attrs["range"]) == [0.5, 1.5]
        assert steps.attrs["one"] == 7 and steps.attrs["one"].shape == ()
        assert list(file["steps"].attrs["names"]) == ["a", "b"] and file["steps"].attrs["fixed"] == b"xyz"
        assert file["single"][()] == 2.5
    print("read")


def write(name):
    with h5py.File(name, "w") as file:
        for kind in NUMBERS:
            file["numbers/" + kind] = numbers(kind)
        file["particles"] = particles()
        steps = file.create_dataset("steps/value", data=np.arange(35.0).reshape(5, 7), chunks=(2, 4), maxshape=(None, 7))
        steps.attrs["unit"] = "J"
        steps.attrs["range"] = [0.5, 1.5]
        steps.attrs["one"] = np.int64(7)
        file["steps"].attrs["names"] = ["a", "b"]
        file["steps"].attrs["fixed"] = np.bytes_("xyz")
        file["single"] = 2.5
        file.create_dataset("packed", data=np.zeros(1000), compression="gzip")
        file["big_endian"] = np.arange(4).astype(">i4")
        file.create_dataset("crumbs", (10**12, 10**12), "f8", chunks=(1, 1))
    print("written")


def again(name, copy):
    with h5py.File(name, "r") as file, h5py.File(copy, "w") as made:
        def visit(path, node):
            new = made.create_dataset(path, data=node[...]) if isinstance(node, h5py.Dataset) else made.require_group(path)
            for key, value in node.attrs.items():
                new.attrs[key] = value
        file.visititems(visit)
        made.attrs["aqueduct_complete"] = file.attrs["aqueduct_complete"]
    print("again")


def rows(names):
    for name in names:
        with h5py.File(name, "r") as file:
            for path, factor in (("a", 1), ("deep/b", 2)):
                dataset = file[path]
                complete = int(dataset.attrs["aqueduct_complete"])
                assert complete <= len(dataset)
                expected = factor * (np.arange(complete)[:, None] * 1000.0 + np.arange(dataset.shape[1]))
                np.testing.assert_array_equal(dataset[:complete], expected)
    print("rows")


if sys.argv[1] == "rows":
    rows(sys.argv[2:])
elif sys.argv[1] == "again":
    again(*sys.argv[2:])
else:
    {"read": read, "write": write}[sys.argv[1]](sys.argv[2])
