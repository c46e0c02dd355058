"""What cannot be is an exception on all ranks, which names the cause; no rank waits for another one."""

import re

import numpy as np
import pytest

import aqueduct_io as aq


def on_all_ranks(prepare, call, wrong_rank=1):
    """The exceptions of three ranks, of which one makes a mistake."""
    caught = {}

    def main(comm):
        state = prepare(comm)
        try:
            call(comm, state, comm.rank == wrong_rank)
        except Exception as error:  # The exception is what is tested.
            caught[comm.rank] = error
        comm.barrier()

    aq.run(main, ranks=3)
    return [caught.get(rank) for rank in range(3)]


def output(comm):
    out = aq.Output("bad.out", comm, replace=True)
    return out, out.array("v", (6,), ((2 * comm.rank,), (2,)), "f8")


def hdf5(comm):
    f = aq.hdf5.File("bad.h5", "w", comm)
    return f, f.create_dataset("x", (6, 2), "f8")


def netcdf(comm):
    f = aq.netcdf.File("bad.nc", "w", comm)
    f.create_dimension("y", 6)
    return f, f.create_variable("x", "f8", ("y",))


def step(value):
    return lambda comm, state, wrong: state[0].step({state[1]: value if wrong else np.zeros(2)})


def write(value, key=None):
    def call(comm, state, wrong):
        rows = slice(2 * comm.rank, 2 * comm.rank + 2)
        state[1].write(value if wrong else 0.0, key if wrong and key is not None else (rows,), collective=True)

    return call


def raising(comm, state, wrong):
    with state[0].together() as together:
        if wrong:
            raise LookupError("no such field")
        together[state[1], 2 * comm.rank] = 0.0


CASES = {
    "dtype of a stream": (output, step(np.zeros(2, "f4")), TypeError, "float32"),
    "shape of a stream": (output, step(np.zeros(3)), ValueError, r"shape \(3,\)"),
    "objects of a stream": (output, step(np.array([None, 1])), TypeError, "object"),
    "other byte order of a stream": (output, step(np.zeros(2, ">f8")), TypeError, ">f8"),
    "stream that is not there": (
        output, lambda comm, state, wrong: state[0].step({"w" if wrong else state[1]: np.zeros(2)}), ValueError, "'w'"),
    "stream that is forgotten": (
        output, lambda comm, state, wrong: state[0].step({} if wrong else {state[1]: np.zeros(2)}), ValueError, "not put"),
    "dtype of HDF5": (hdf5, write(np.zeros((2, 2), "c16")), TypeError, "complex128"),
    "text in HDF5": (hdf5, write("text"), TypeError, "<U4"),
    "shape of HDF5": (hdf5, write(np.zeros((3, 2))), ValueError, r"\(3, 2\)"),
    "part of HDF5 outside": (hdf5, write(0.0, (9,)), ValueError, "index 9"),
    "exception in a collective access to HDF5": (hdf5, raising, LookupError, "no such field"),
    "exception in a collective access to netCDF": (netcdf, raising, LookupError, "no such field"),
    "dtype of netCDF": (netcdf, write(np.zeros(2, "c16")), TypeError, "complex128"),
    "shape of netCDF": (netcdf, write(np.zeros(5)), ValueError, r"\(5,\)"),
    "part of netCDF outside": (netcdf, write(0.0, (7,)), ValueError, "index 7"),
    "dtype of records": (
        lambda comm: None,
        lambda comm, _, wrong: aq.write_objects("bad", np.array([None]) if wrong else np.zeros(1), comm),
        TypeError, "object"),
    "block of a checkpoint": (
        lambda comm: aq.Store("bad", comm),
        lambda comm, store, wrong: store.save(1, x=aq.block(np.zeros(2), [99 if wrong else 2 * comm.rank], [6])),
        ValueError, "not inside"),
    "dtype of a checkpoint": (
        lambda comm: aq.Store("bad", comm),
        lambda comm, store, wrong: store.save(1, x={} if wrong else 1), ValueError, "object"),
    "value that differs": (
        lambda comm: aq.Store("bad", comm),
        lambda comm, store, wrong: store.save(1, x=2.0 if wrong else 1.0), ValueError, "value"),
    "declaration that differs": (
        lambda comm: aq.Output("bad.out", comm, replace=True),
        lambda comm, out, wrong: (out.array("v", (7 if wrong else 6,), ((0,), (0,))), out.start()), ValueError, "rank|differ"),
    "dtype of a declaration": (
        lambda comm: aq.Output("bad.out", comm, replace=True),
        lambda comm, out, wrong: (out.array("v", (6,), ((0,), (0,)), "U3" if wrong else "f8"), out.start()),
        (TypeError, ValueError), "<U3"),
    "definition that differs": (
        hdf5,
        lambda comm, state, wrong: state[0].create_dataset("y", (2,), "U3" if wrong else "f8"), ValueError, "<U3"),
    "memory of a file": (
        lambda comm: aq.open("bad.bin", "w", comm),
        lambda comm, file, wrong: file.write(np.array([None]) if wrong else np.zeros(2), 0, collective=True),
        TypeError, "object"),
    "view of a file": (
        lambda comm: aq.open("bad.bin", "w", comm),
        lambda comm, file, wrong: file.set_view("f8", shape=(4,), start=(9 if wrong else 0,), count=(2,)), ValueError, ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_mistake_of_one_rank_is_an_exception_on_all(case):
    prepare, call, kind, text = case
    caught = on_all_ranks(prepare, call)
    assert all(caught), caught
    assert isinstance(caught[1], kind), repr(caught[1])
    assert re.search(text, str(caught[1])), str(caught[1])
    others = [str(caught[rank]) for rank in (0, 2)]
    assert all("rank 1" in one or re.search(text, one) for one in others), others


def test_errors_are_those_of_python_with_kind_and_path():
    for call, kind, name in [
        (lambda: aq.open("missing"), FileNotFoundError, "NoSuchFile"),
        (lambda: aq.Reader("missing.out"), FileNotFoundError, "NoSuchFile"),
        (lambda: aq.Store("missing", create=False), FileNotFoundError, "NoSuchFile"),
        (lambda: aq.open("bad/\0name", "w"), ValueError, None),
    ]:
        with pytest.raises(kind) as raised:
            call()
        assert name is None or (isinstance(raised.value, aq.Error) and raised.value.kind == name), repr(raised.value)
    aq.open("there", "w").close()
    with pytest.raises(FileExistsError) as raised:
        aq.open("there", "x")
    assert raised.value.path == "there" and "there" in str(raised.value)
    with aq.open("there") as file, pytest.raises(PermissionError):
        file.write(np.zeros(1))


@pytest.mark.parametrize("opener", [
    lambda: aq.open("c", "w"), lambda: aq.hdf5.File("c.h5", "w"), lambda: aq.netcdf.File("c.nc", "w"),
])  # fmt: skip
def test_a_closed_file_is_an_error_not_a_crash(opener):
    file = opener()
    file.close()
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.commit() if hasattr(file, "commit") else file.sync()
    assert "closed" in repr(file)


def test_damaged_files_are_errors(tmp_path):
    with aq.Output("d.out") as out:
        out.step({out.array("v", (1000,)): np.ones(1000)})
    data = bytearray((tmp_path / "d.out").read_bytes())
    data[100] ^= 1
    (tmp_path / "d.out").write_bytes(data)
    assert not aq.verify("d.out")
    with pytest.raises(aq.Error, match="checksum"):
        aq.Reader("d.out")["v"][0]
    aq.write_objects("d", np.arange(1000))
    data = bytearray((tmp_path / "d").read_bytes())
    data[100] ^= 1
    (tmp_path / "d").write_bytes(data)
    assert not aq.verify("d")
    for name in ("x.h5", "x.nc"):
        (tmp_path / name).write_bytes(b"\x89HDF\r\n\x1a\n" + b"\0" * 100 if name == "x.h5" else b"CDF\x05" + b"\xff" * 100)
        with pytest.raises(aq.Error):
            aq.arrays(name)
    with pytest.raises(ValueError, match="none of"):
        (tmp_path / "text").write_text("text")
        aq.arrays("text")


def test_a_communicator_of_something_else_is_a_type_error():
    with pytest.raises(TypeError, match="str"):
        aq.open("x", "w", "world")


def test_amounts_of_memory():
    from aqueduct_io._show import parse_amount

    assert [parse_amount(one) for one in (None, 5, "1KiB", "2 MB", "1.5GiB")] == [None, 5, 1024, 2_000_000, 3 << 29]
    with pytest.raises(ValueError, match="amount"):
        parse_amount("many")
