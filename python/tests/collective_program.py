"""Every collective method of the package on the ranks of one program: threads of one interpreter, or processes of an MPI job.

    python collective_program.py FOLDER          threads
    mpirun -n 3 python collective_program.py FOLDER
"""

import os
import sys

import numpy as np

import aqueduct_io as aq

PARTICLE = np.dtype([("id", "u4"), ("r", "f8", 3), ("alive", "?")], align=True)


def bytes_of_files(comm, name):
    with aq.open(name, "w", comm, hints={"cb_nodes": 1}) as file:
        file.set_view("f8", shape=(4, comm.size), start=(0, comm.rank), count=(4, 1))
        file.write(np.full((4, 1), comm.rank, "f8"), 0, collective=True)
        comm.barrier()
        file.set_view("f8")
        both = file.read((4, comm.size), "f8", 0, collective=True)
        assert (both == np.arange(comm.size)).all(), both
        file.set_round_robin("u1", 2)
        file.set_view()
        file.resize(100)
        assert file.size == 100
        file.write(np.full(3, comm.rank, "u1"), shared=True, collective=True)
        # In the order of the ranks.
        assert file.read(3, "u1", 3 * comm.rank).tolist() == [comm.rank] * 3
        file.sync()
        assert file.seek(5) == 5 and file.tell() == 5
        assert dict(file.hints)
        # None for some ranks.
        file.write(np.zeros(0 if comm.rank else 4, "u1"), 0, collective=True)


def hdf5(comm, name):
    with aq.hdf5.File(name, "w", comm) as f:
        f.attrs["title"] = "all"
        group = f.create_group("a/b")
        grid = group.create_dataset("grid", (4, 2 * comm.size), "f4")
        grid.attrs["units"] = "K"
        part = slice(2 * comm.rank, 2 * comm.rank + 2)
        grid[:, part] = np.full((2, 4), comm.rank, "f4").T
        packed = f.create_dataset("packed", (comm.size * 10, 5), "i8", chunks=(10, 5), compression="gzip", fletcher32=True)
        rows = f.create_dataset("rows", (0, comm.size), "c16", grows=True)
        particles = f.create_dataset("particles", (comm.size,), PARTICLE)
        record = np.zeros(1, PARTICLE)
        record["id"], record["r"] = comm.rank, [1, 2, 3]
        with f.together() as q:
            q[packed, 10 * comm.rank : 10 * comm.rank + 10] = comm.rank
            if comm.rank != 1:
                q[particles, comm.rank : comm.rank + 1] = record
        f.create_dataset("same", data=[1.5, 2.5])
        for step in range(3):
            rows.resize(step + 1)
            rows.write(complex(step, comm.rank), (step, comm.rank), collective=True)
            f.commit()
    with aq.hdf5.File(name, "r", comm) as f:
        assert f.complete is True and f["rows"].complete == 3 and f.refresh() == 0
        whole = f["a/b/grid"].read(collective=True)
        assert (whole == np.repeat(np.arange(comm.size), 2)).all()
        assert f["rows"][2, ::-1].tolist() == [complex(2, rank) for rank in range(comm.size)][::-1]
        assert f["packed"][-1, 0] == comm.size - 1
        assert f["particles"]["id"].tolist() == [0 if rank == 1 else rank for rank in range(comm.size)]
        assert f["same"][:].tolist() == [1.5, 2.5]


def netcdf(comm, name):
    with aq.netcdf.File(name, "w", comm) as f:
        with f.definitions():
            f.create_dimension("time", None)
            f.create_dimension("x", 3 * comm.size)
            f.create_variable("t", "f8", ("time", "x"), units="K")
            f.create_variable("flag", "i1", ("x",))
            f.attrs["title"] = "all"
        part = slice(3 * comm.rank, 3 * comm.rank + 3)
        for step in range(4):
            with f.together() as q:
                q["t", step, part] = step + comm.rank
                if comm.rank == 0:
                    q["flag", :] = 1
            f.commit()
        f["flag"].fill()
    with aq.netcdf.File(name, "r", comm) as f:
        assert f["t"].shape == (4, 3 * comm.size) and f["t"].attrs["units"] == "K"
        assert (f["t"].read((3,), collective=True) == 3 + np.repeat(np.arange(comm.size), 3)).all()
        assert f.refresh() == 4


def streams(comm, name):
    for mode in ("blocking", "thread", "leaders"):
        with aq.Output(f"{name}.{mode}", comm, mode=mode, memory="4MiB") as out:
            block = ((0, 4 * comm.rank), (3, 4))
            field = out.array("field", (3, 4 * comm.size), block, "f8", dims=("y", "x"), unit="Pa")
            peak = out.array("peak", like=field, reduce="max")
            spectrum = out.array("spectrum", (comm.size,), ((comm.rank,), (1,)), "c8", every=2)
            corner = out.array("corner", like=field, boxes=[((1, 1), (2, 2))])
            some = out.list("some", 2, "i4")
            for t in range(5):
                # A view without its halo, and a transposed one.
                halo = np.full((5, 6), 10 * t + comm.rank, "f8")[1:-1, 1:-1]
                turned = np.full((4, 3), 10 * t + comm.rank, "f8").T
                arrays = {field: halo, peak: turned, corner: halo, some: np.full((comm.rank, 2), t, "i4")}
                if t % 2 == 0:
                    arrays[spectrum] = np.array([t + 1j * comm.rank], "c8")
                assert out.step(arrays) == t
            out.flush()
            assert out.progress == (5, 5, 5) or out.progress[0] == 5
            out.state()
        reader = aq.Reader(f"{name}.{mode}", comm)
        assert reader.finished and reader.refresh() == 0 and reader.wait(0.01) == 0 and reader.verify() == []
        want = np.repeat(np.arange(comm.size), 4)
        assert (reader["field"][4] == 40 + want).all() and (reader["peak"].last() == 40 + want).all()
        assert reader["field"][2, 1, ::5].tolist() == (20 + want)[::5].tolist()
        assert reader["spectrum"][4].tolist() == [4 + 1j * rank for rank in range(comm.size)]
        assert reader["corner"][1].shape == (2, 2) and len(reader["some"][3]) == sum(range(comm.size))
        assert [step.number for step in aq.follow(f"{name}.{mode}", 5, comm) if not step.closing] == list(range(5))


def resumed(comm, name):
    """An output continues from a checkpoint."""
    store = aq.Store(f"{name}.saved", comm)

    def declare(**options):
        out = aq.Output(name, comm, **options)
        return out, out.array("sum", (comm.size,), ((comm.rank,), (1,)), "f8", reduce="sum")

    out, key = declare()
    for _ in range(3):
        out.step({key: [1.0]})
    out.flush()
    states = comm.allgather(out.state())
    out.finish()
    out, key = declare(resume=[states[comm.rank]])
    out.step({key: [1.0]})
    out.finish()
    assert aq.Reader(name, comm)["sum"].last().tolist() == [4.0] * comm.size
    store.close()


def objects(comm, name):
    mine = np.zeros(comm.rank + 1, PARTICLE)
    mine["id"] = comm.rank
    count = sum(range(1, comm.size + 1))
    assert aq.write_objects(name, mine, comm) == count
    assert aq.write_objects(name, mine[::2], comm, mode="a") > 0
    with aq.objects(name, comm) as found:
        ids = [rank for rank in range(comm.size) for _ in range(rank + 1)]
        assert found[:count]["id"].tolist() == ids, found[:]["id"]
        found.verify()


def checkpoints(comm, name):
    store = aq.Store(name, comm, keep=1, until=1000.0)
    assert store.due() and store.reason == "interval"
    mine = np.arange(6, dtype="f4").reshape(2, 3).T + comm.rank
    records = np.zeros(comm.rank, PARTICLE)
    parts = dict(
        time=1.5, steps=7, name="run é", small=np.arange(3), complex=1 + 2j,
        field=aq.block(mine, (3 * comm.rank, 0), (3 * comm.size, 2)), particles=records,
    )  # fmt: skip
    first = store.save(10, **parts)
    assert not store.due()
    store.save(20, wait=False, **parts)
    assert store.wait() > first
    latest = store.latest()
    latest.verify()
    assert (latest.step, latest.time, latest.steps, latest.name, latest.complex) == (20, 1.5, 7, "run é", 1 + 2j)
    assert latest.small.tolist() == [0, 1, 2] and store.generations() == [latest.number]
    assert (latest.array("field", (3 * comm.rank, 0), (3, 2)) == mine).all()
    assert latest.records("particles").dtype.names == PARTICLE.names
    store.close()


def tools(comm, name):
    with aq.Output(f"{name}.out", comm) as out:
        key = out.array("v", (2 * comm.size,), ((2 * comm.rank,), (2,)), "f4")
        for t in range(4):
            out.step({key: np.full(2, t, "f4")})
    aq.convert(f"{name}.out", f"{name}.nc", comm)
    aq.convert(f"{name}.nc", f"{name}.h5", comm)
    for suffix in ("out", "nc", "h5"):
        assert aq.verify(f"{name}.{suffix}", comm), suffix
    if comm.rank == 0:
        assert aq.compare(f"{name}.out", f"{name}.nc") and aq.compare(f"{name}.out", f"{name}.h5", exclude=["step"])
    comm.barrier()


def communicators(comm, name):
    half = comm.split(comm.rank % 2)
    assert half is not None and half.size <= comm.size
    assert comm.split(None if comm.rank else 0, 0) is None or comm.rank == 0
    assert comm.dup().size == comm.size
    assert comm.broadcast(b"x" * comm.rank if comm.rank else b"root", 0) == b"root"
    assert comm.allgather(bytes([comm.rank])) == [bytes([rank]) for rank in range(comm.size)]


ALL = [communicators, bytes_of_files, hdf5, netcdf, streams, resumed, objects, checkpoints, tools]


def main(comm, folder):
    for number, one in enumerate(ALL):
        one(comm, os.path.join(folder, f"case{number}"))
        comm.barrier()
    return comm.rank


if __name__ == "__main__":
    if "--mpi4py" in sys.argv:
        from mpi4py import MPI

        main(aq.communicator(MPI.COMM_WORLD), sys.argv[1])
        # The communicator is kept, and one of a duplicate is freed with it.
        other = MPI.COMM_WORLD.Dup()
        assert aq.communicator(other).size == MPI.COMM_WORLD.size
        other.Free()
        # A file that is left open does not crash the interpreter when MPI ends.
        left = aq.open(os.path.join(sys.argv[1], "left"), "w", MPI.COMM_WORLD)
        left.write(np.zeros(10))
        print(f"done {MPI.COMM_WORLD.rank} {MPI.COMM_WORLD.size}")
    else:
        done = aq.run(lambda comm: (main(comm, sys.argv[1]), comm.size))
        print("done", done)
