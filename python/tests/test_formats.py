"""Files that other programs read, and theirs read here."""

import shutil
import subprocess

import numpy as np
import pytest

import aqueduct_io as aq

h5py = pytest.importorskip("h5py")

DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "?", "c8", "c16", "S5"]
PADDED = np.dtype({"names": ["a", "b"], "formats": ["u1", "f8"], "offsets": [0, 8], "itemsize": 24})


def sample(dtype, count=6):
    dtype = np.dtype(dtype)
    if dtype.kind == "S":
        return np.array([b"a", b"bc", b"def", b"", b"x", b"12345"][:count], dtype)
    if dtype.fields:
        values = np.zeros(count, dtype)
        for name in dtype.names:
            values[name] = np.arange(count)
        return values
    values = np.arange(count).astype(dtype)
    return values * (1 + 2j) if dtype.kind == "c" else values


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_of_hdf5_is_that_of_h5py(dtype):
    values = sample(dtype).reshape(2, 3)
    with aq.hdf5.File("ours.h5", "w") as f:
        f.create_dataset("x", data=values)
        f.attrs["value"] = values[1]
    with h5py.File("ours.h5") as f:
        assert f["x"].dtype == values.dtype and (f["x"][:] == values).all()
        assert (f.attrs["value"] == values[1]).all()
    with h5py.File("theirs.h5", "w") as f:
        f["x"] = values
    read = aq.hdf5.File("theirs.h5")["x"][:]
    assert read.dtype == values.dtype and (read == values).all()


def test_structures_with_gaps_are_stored_without_them():
    values = sample(PADDED)
    with aq.hdf5.File("gaps.h5", "w") as f:
        f.create_dataset("x", data=values)
    with h5py.File("gaps.h5") as f:
        assert f["x"].dtype.itemsize == 9 and f["x"]["b"].tolist() == values["b"].tolist()
    aq.write_objects("gaps", values)
    assert aq.objects("gaps")[2:4]["b"].tolist() == [2.0, 3.0]
    assert aq.objects("gaps").memmap()["a"].tolist() == list(range(6))


@pytest.mark.parametrize(
    "key", [(), 2, -1, slice(None, None, 2), (slice(1, 4), 0), (Ellipsis, 1), (slice(None, None, -1), slice(3, 1, -1)), (0, 0)]
)
def test_selections_are_those_of_numpy(key):
    values = np.arange(20.0).reshape(5, 4)
    with aq.hdf5.File("x.h5", "w") as f:
        f.create_dataset("x", data=values)
    with aq.netcdf.File("x.nc", "w") as f:
        f.create_dimension("y", 5)
        f.create_dimension("x", 4)
        f.create_variable("x", "f8", ("y", "x"))[...] = values
    expected = values[key]
    assert np.array_equal(aq.hdf5.File("x.h5")["x"][key], expected)
    assert np.array_equal(aq.netcdf.File("x.nc")["x"][key], expected)
    changed = values.copy()
    changed[key] = 7
    with aq.hdf5.File("x.h5", "r+") as f:
        f["x"].write(7, key, collective=True)
    assert np.array_equal(h5py.File("x.h5")["x"][:], changed)


@pytest.mark.parametrize("view", [lambda a: a[1:-1, 1:-1], lambda a: a.T, lambda a: a[::-1, ::2], lambda a: np.asfortranarray(a)])
def test_memory_may_have_any_strides(view):
    values = view(np.arange(48.0).reshape(6, 8))
    with aq.hdf5.File("s.h5", "w") as f:
        f.create_dataset("x", data=values)
    assert np.array_equal(h5py.File("s.h5")["x"][:], values)
    with aq.Output("s.out", replace=True) as out:
        key = out.array("x", values.shape, reduce="max")
        also = out.array("y", values.shape)
        part = out.array("z", values.shape, boxes=[((1, 1), (2, 2))])
        out.step({key: values, also: values, part: values})
    reader = aq.Reader("s.out")
    assert np.array_equal(reader["x"].last(), values) and np.array_equal(reader["y"][0], values)
    assert np.array_equal(reader["z"][0], values[1:3, 1:3])
    with aq.open("s.bin", "w") as file:
        file.write(values)
    assert np.array_equal(np.fromfile("s.bin").reshape(values.shape), values)


@pytest.mark.parametrize("kind", ["i1", "u2", "i8", "f2", "f4", "?", "c8", "c16"])
def test_streams_have_every_kind(kind):
    values = sample(kind, 5)
    with aq.Output("k.out", replace=True) as out:
        key = out.array("x", (5,), dtype=kind)
        out.step({key: values})
    stored = aq.Reader("k.out")["x"]
    assert stored.dtype == np.dtype(kind) and (stored[0] == values).all()
    if np.dtype(kind).kind == "c":
        with aq.Output("k.h5", replace=True) as out:
            out.step({out.array("x", (5,), dtype=kind): values})
        assert (h5py.File("k.h5")["x"][0] == values).all()


def write_on_four_ranks(suffix):
    def main(comm):
        part = slice(5 * comm.rank, 5 * comm.rank + 5)
        values = np.arange(100.0).reshape(5, 20)[:, part]
        if suffix == "h5":
            with aq.hdf5.File("four.h5", "w", comm) as f:
                f.create_dataset("v", (5, 20), "f8")[:, part] = values
        else:
            with aq.netcdf.File("four.nc", "w", comm) as f:
                f.create_dimension("y", 5)
                f.create_dimension("x", 20)
                f.create_variable("v", "f8", ("y", "x"), units="m").write(values, (slice(None), part), collective=True)

    aq.run(main, ranks=4)


def test_others_read_what_four_ranks_wrote():
    write_on_four_ranks("h5")
    write_on_four_ranks("nc")
    expected = np.arange(100.0).reshape(5, 20)
    assert np.array_equal(h5py.File("four.h5")["v"][:], expected)
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    # Built without the library's support for CDF-5, netCDF4 could not.
    assert np.array_equal(xarray.open_dataset("four.nc", engine="netcdf4")["v"].values, expected)
    assert np.array_equal(xarray.open_dataset("four.h5", engine="aqueduct")["v"].values, expected)
    if shutil.which("ncdump"):
        shown = subprocess.run(["ncdump", "four.nc"], capture_output=True, text=True, check=True).stdout
        assert 'v:units = "m"' in shown and "99 ;" in shown


def test_the_engine_is_identical_to_that_of_netcdf4():
    xr = pytest.importorskip("xarray")
    pytest.importorskip("netCDF4")
    pandas = pytest.importorskip("pandas")
    source = xr.Dataset(
        {"t": (("time", "x"), np.arange(12.0).reshape(3, 4), {"units": "K"}), "n": ("x", np.arange(4, dtype="i4"))},
        coords={"time": pandas.date_range("2026-01-01", periods=3), "x": [0.0, 0.5, 1.0, 1.5]},
        attrs={"title": "source"},
    )
    source.to_netcdf("classic.nc", format="NETCDF3_64BIT", unlimited_dims=["time"])
    source.to_netcdf("four.nc", format="NETCDF4")
    for name in ("classic.nc", "four.nc"):
        theirs = xr.open_dataset(name, engine="netcdf4").load()
        ours = xr.open_dataset(name, engine="aqueduct").load()
        xr.testing.assert_equal(ours, theirs)
        assert ours["t"].attrs == theirs["t"].attrs and ours.attrs["title"] == "source"
        lazy = xr.open_dataset(name, engine="aqueduct")["t"]
        assert np.array_equal(lazy[1:, [3, 0]].values, theirs["t"][1:, [3, 0]].values)
        assert np.array_equal(lazy[::-1, 1].values, theirs["t"][::-1, 1].values)


def test_streams_are_opened_without_naming_the_engine():
    xr = pytest.importorskip("xarray")
    with aq.Output("auto.out") as out:
        key = out.array("p", (4,), dims=("x",), unit="Pa")
        rare = out.array("rare", like=key, every=2)
        mean = out.array("mean", like=key, reduce="mean")
        for t in range(4):
            out.step({key: [t] * 4, rare: [t] * 4, mean: [t] * 4})
    ds = xr.open_dataset("auto.out")
    assert ds["p"].dims == ("step", "x") or ds["p"].dims == ("p_step", "x")
    assert ds["rare"].shape == (2, 4) and ds["mean"].values.tolist() == [1.5] * 4
    assert ds["p"].attrs["units"] == "Pa"


def test_objects_of_a_million_rows_are_mapped():
    values = np.zeros(1_000_000, [("id", "u8"), ("r", "f4", 3)])
    values["id"] = np.arange(len(values))
    aq.write_objects("many", values)
    mapped = aq.objects("many").memmap()
    assert isinstance(mapped, np.memmap) and mapped[123_456]["id"] == 123_456
    assert np.array_equal(np.asarray(mapped), values)


def test_objects_become_a_data_frame():
    pytest.importorskip("pandas")
    values = np.zeros(3, [("id", "u8"), ("r", "f4", 2)])
    values["r"] = [[1, 2], [3, 4], [5, 6]]
    aq.write_objects("frame", values)
    frame = aq.objects("frame").to_pandas()
    assert list(frame.columns) == ["id", "r_0", "r_1"] and frame["r_1"].tolist() == [2, 4, 6]


def test_representations_are_text_and_html():
    with aq.Output("r.out") as out:
        key = out.array("p", (4,))
        out.step({key: np.zeros(4)})
    write_on_four_ranks("h5")
    write_on_four_ranks("nc")
    aq.write_objects("r", np.zeros(2, [("id", "u8")]))
    for one in (aq.Reader("r.out"), aq.hdf5.File("four.h5"), aq.netcdf.File("four.nc"), aq.objects("r"), aq.arrays("r.out")):
        assert repr(one).startswith("<") and "<table>" in one._repr_html_()


def test_the_engine_opens_objects_checkpoints_and_groups():
    xr = pytest.importorskip("xarray")
    values = np.zeros(5, [("id", "u8"), ("r", "f4", 3)])
    values["id"] = np.arange(5)
    aq.write_objects("objects", values)
    ds = xr.open_dataset("objects")
    assert ds["r"].shape == (5, 3) and ds["id"][1:4].values.tolist() == [1, 2, 3] and int(ds["id"][-1]) == 4
    aq.Store("saved").save(3, field=aq.block(np.arange(6.0).reshape(2, 3), (0, 0), (2, 3)))
    ds = xr.open_dataset("saved", engine="aqueduct")
    assert ds["field"][:, 1].values.tolist() == [1.0, 4.0] and ds.attrs["step"] == 3
    with aq.hdf5.File("groups.h5", "w") as f:
        f.create_dataset("a/b/x", data=[1.0, 2.0])
        f.create_dataset("y", data=[3.0])
    assert xr.open_dataset("groups.h5", engine="aqueduct", group="a/b")["x"].values.tolist() == [1.0, 2.0]
    assert xr.open_dataset("groups.h5", engine="aqueduct")["y"].values.tolist() == [3.0]


def test_conversion_keeps_values_of_every_type():
    with aq.Output("all.out") as out:
        keys = {kind: out.array(f"v_{kind.replace('?', 'b1')}", (4,), dtype=kind) for kind in ("i2", "f2", "?", "c8", "u8")}
        for step in range(3):
            out.step({key: sample(kind, 4) for kind, key in keys.items()})
    aq.convert("all.out", "all.h5")
    assert aq.compare("all.out", "all.h5")
    aq.convert("all.out", "all.nc")
    found = aq.netcdf.File("all.nc")
    assert found["v_c8"].shape == (3, 4, 2) and found["v_f2"].dtype == "f4" and found["v_b1"].dtype == "i1"
    changed = aq.compare("all.out", "all.nc", exclude=["v_c8", "v_f2", "v_b1"])
    assert changed, changed
    with aq.hdf5.File("all.h5", "r+") as f:
        f["v_i2"].write(7, (1, 2), collective=True)
    found = aq.compare("all.out", "all.h5")
    assert not found and found.differences[0].first == (1, 2) and "1 of 12" in str(found)


def test_progress_is_shown_by_tqdm(capsys):
    pytest.importorskip("tqdm")
    with aq.Output("shown.out") as out:
        key = out.array("field", (4,))
        out.step({key: np.zeros(4)})
    aq.convert("shown.out", "shown.nc", progress=True)
    assert "convert: 100%" in capsys.readouterr().err
    assert aq.compare("shown.out", "shown.nc", progress=True)
    assert "compare: 100%" in capsys.readouterr().err
    aq.convert("shown.out", "shown.h5")
    assert capsys.readouterr().err == ""
