"""h5py: read FILE (checks ours), write FILE, sparse FILE (mostly unwritten), plain FILE (checks and extends ours), rows FILE... (checks complete rows)."""
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


def sparse(name, userblock=0):
    """Datasets that were written in part, or not at all: contiguous and in chunks, with fill values and without; text of any length."""
    with h5py.File(name, "w", userblock_size=int(userblock)) as file:
        file.create_dataset("empty/zeros", (3, 4), "<i4")
        file.create_dataset("empty/sevens", (3, 4), "<i4", fillvalue=7)
        file.create_dataset("empty/single", (), "<f8", fillvalue=2.5)
        file.create_dataset("empty/chunks", (5, 7), "<u2", chunks=(2, 3), fillvalue=9)
        file.create_dataset("empty/huge", (10**15,), "<f8", fillvalue=0.5)
        particle = np.zeros((), PARTICLE)
        particle["id"], particle["position"], particle["charged"] = 3, [0.75, 1.0, 1.25], True
        file.create_dataset("empty/particles", (3,), PARTICLE, fillvalue=particle)
        for path, fill in ("part/zeros", None), ("part/filled", -1.5):
            part = file.create_dataset(path, (5, 7), "<f8", chunks=(2, 3), maxshape=(None, 7), fillvalue=fill)
            part[3, 4] = 34.0
            part[0, 0:2] = [1.0, 2.0]
        file["whole"] = np.arange(6, dtype="<i8")
        file.create_dataset("text", data=["ab", "", "ä" * 40], dtype=h5py.string_dtype())
        file.create_dataset("ascii", data=np.array([[b"x", b"yz"]], object), dtype=h5py.string_dtype("ascii"))
        file.create_dataset("unwritten_text", (2,), dtype=h5py.string_dtype())
    print("sparse")


def again(name, copy):
    with h5py.File(name, "r") as file, h5py.File(copy, "w") as made:
        def visit(path, node):
            new = made.create_dataset(path, data=node[...]) if isinstance(node, h5py.Dataset) else made.require_group(path)
            for key, value in node.attrs.items():
                new.attrs[key] = value
        file.visititems(visit)
        made.attrs["aqueduct_complete"] = file.attrs["aqueduct_complete"]
    print("again")


def plain(name):
    """Datasets that were all defined at once, and then one more of h5py's own."""
    with h5py.File(name, "r+") as file:
        group = file["many"]
        assert list(group) == sorted(f"d{at}" for at in range(300)), list(group)
        for at in range(300):
            kind = NUMBERS[at % len(NUMBERS)]
            dataset = group[f"d{at}"]
            assert dataset.dtype == np.dtype("<" + kind) and dataset.attrs["aqueduct_complete"] == 6
            np.testing.assert_array_equal(dataset[...], np.arange(6).astype("<" + kind) + at % 50)
        assert file["deep/single"][()] == 0.5 and file["deep/single"].attrs["three"].tolist() == [1, 2, 3]
        assert file["nothing"].shape == (0, 4)
        group["d299x"] = np.arange(3)
        group["d0"].attrs["unit"] = "J"
    with h5py.File(name, "r") as file:
        assert len(file["many"]) == 301 and file["many/d0"].attrs["unit"] == "J"
        np.testing.assert_array_equal(file["many/d299x"][...], np.arange(3))
    print("plain")


def rows(names):
    for name in names:
        with h5py.File(name, "r") as file:
            for path, factor in (("a", 1), ("deep/b", 2), ("deep/packed", 3)):
                dataset = file[path]
                complete = int(dataset.attrs["aqueduct_complete"])
                assert complete <= len(dataset)
                expected = factor * (np.arange(complete)[:, None] * 1000.0 + np.arange(dataset.shape[1]))
                np.testing.assert_array_equal(dataset[:complete], expected)
    print("rows")


if sys.argv[1] == "rows":
    rows(sys.argv[2:])
elif sys.argv[1] in ("again", "sparse"):
    {"again": again, "sparse": sparse}[sys.argv[1]](*sys.argv[2:])
else:
    {"read": read, "write": write, "plain": plain}[sys.argv[1]](sys.argv[2])
