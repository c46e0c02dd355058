"""Times of single operations in seconds, as JSON: `cargo xtask bench python` starts this program and compares them.

    python figures.py CASE FOLDER [RANKS]
"""

import json
import os
import sys
import time

import numpy as np

GIGABYTE = 1 << 30
SLICES = 10_000
ROWS = 1_000_000
RECORD = np.dtype([("id", "u8"), ("r", "f8", 3), ("m", "f4"), ("kind", "u4")])


def timed(barrier, work):
    barrier()
    begin = time.perf_counter()
    work()
    barrier()
    return time.perf_counter() - begin


def ours_array(comm, folder):
    """Each rank writes its part of one dataset of 1 GiB: creation to closing."""
    import aqueduct_io as aq

    count = GIGABYTE // 8 // comm.size
    mine = np.full(count, float(comm.rank))

    def work():
        with aq.hdf5.File(os.path.join(folder, "array.h5"), "w", comm, durable=False) as f:
            d = f.create_dataset("x", (count * comm.size,), "f8")
            d[count * comm.rank : count * (comm.rank + 1)] = mine

    return timed(comm.barrier, work)


def threads(folder, ranks):
    import aqueduct_io as aq

    return max(aq.run(lambda comm: ours_array(comm, folder), ranks=ranks))


def ours_mpi(folder, ranks):
    import aqueduct_io as aq

    return aq.run(lambda comm: (ours_array(comm, folder), comm.rank))[0]


def h5py_mpi(folder, ranks):
    """The same with parallel h5py."""
    import h5py
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    count = GIGABYTE // 8 // comm.size
    mine = np.full(count, float(comm.rank))

    def work():
        with h5py.File(os.path.join(folder, "peer.h5"), "w", driver="mpio", comm=comm) as f:
            d = f.create_dataset("x", (count * comm.size,), "f8")
            with d.collective:
                d[count * comm.rank : count * (comm.rank + 1)] = mine

    return timed(comm.Barrier, work), comm.rank


def small_slices(open_file, folder, name):
    values = np.arange(16.0)
    with open_file(os.path.join(folder, name), "w") as f:
        d = f.create_dataset("x", (SLICES, 16), "f8")
        begin = time.perf_counter()
        for row in range(SLICES):
            d[row] = values
        written = time.perf_counter()
        for row in range(SLICES):
            d[row]
        return written - begin, time.perf_counter() - written


def records():
    values = np.zeros(ROWS, RECORD)
    values["id"] = np.arange(ROWS)
    return values


def run(case, folder, ranks):
    if case == "threads":
        return threads(folder, ranks)
    if case == "ours-mpi":
        return ours_mpi(folder, ranks)
    if case == "h5py-mpi":
        return h5py_mpi(folder, ranks)
    if case == "ours-slices":
        import aqueduct_io as aq

        return small_slices(lambda *words: aq.hdf5.File(*words, durable=False), folder, "ours.h5")
    if case == "h5py-slices":
        import h5py

        return small_slices(h5py.File, folder, "peer.h5")
    values = records()
    path = os.path.join(folder, "records")
    for end in ("", ".meta"):
        if os.path.exists(path + end):
            os.remove(path + end)
    begin = time.perf_counter()
    if case == "ours-records":
        import aqueduct_io as aq

        begin = time.perf_counter()
        aq.write_objects(path, values)
    else:
        # As durable as an object file is.
        with open(path, "wb") as file:
            values.tofile(file)
            file.flush()
            os.fsync(file.fileno())
    return time.perf_counter() - begin


if __name__ == "__main__":
    words = sys.argv[1:]
    found = run(words[0], words[1], int(words[2]) if len(words) > 2 else 1)
    if not (isinstance(found, tuple) and words[0].endswith("-mpi") and found[1] != 0):
        print(json.dumps(found[0] if words[0].endswith("-mpi") else found))
