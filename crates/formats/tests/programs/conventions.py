"""Common readers open files of the conventions: h5md | vtkhdf | vtkhdf_series | vtkhdf_particles | netcdf4 | openpmd | xyz | cf FILE."""
import sys


def h5md(name):
    import MDAnalysis
    import numpy as np

    universe = MDAnalysis.Universe.empty(10, trajectory=False)
    universe.load_new(name, format="H5MD")
    assert len(universe.trajectory) == 3 and universe.trajectory.n_atoms == 10
    for at, frame in enumerate(universe.trajectory):
        expected = np.arange(30).reshape(10, 3) * 0.25 + at
        np.testing.assert_allclose(frame.positions, expected, rtol=1e-6)
        np.testing.assert_allclose(frame.dimensions, [10, 11, 12, 90, 90, 90])
        assert abs(frame.time - 0.5 * at) < 1e-12 and frame.data["step"] == 10 * at


def vtkhdf(name):
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOHDF import vtkHDFReader
    import numpy as np

    reader = vtkHDFReader()
    assert reader.CanReadFile(name)
    reader.SetFileName(name)
    reader.Update()
    image = reader.GetOutput()
    assert image.GetDimensions() == (5, 4, 3) and image.GetSpacing() == (0.5, 0.25, 2.0) and image.GetOrigin() == (1.0, 2.0, 3.0)
    field = vtk_to_numpy(image.GetPointData().GetArray("pressure"))
    np.testing.assert_array_equal(field, np.arange(60) * 0.5)


def vtkhdf_series(name):
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOHDF import vtkHDFReader
    import numpy as np

    reader = vtkHDFReader()
    reader.SetFileName(name)
    reader.UpdateInformation()
    assert reader.GetNumberOfSteps() == 3
    for step in range(3):
        reader.SetStep(step)
        reader.Update()
        image = reader.GetOutput()
        assert image.GetDimensions() == (5, 4, 3)
        assert reader.GetTimeValue() == 0.5 * step
        fields = image.GetPointData()
        np.testing.assert_array_equal(vtk_to_numpy(fields.GetArray("pressure")), np.arange(60) * 0.5 + step)
        velocity = vtk_to_numpy(fields.GetArray("velocity"))
        np.testing.assert_array_equal(velocity, np.arange(60)[:, None] + [0, 1, step])


def vtkhdf_particles(name):
    from vtkmodules.util.numpy_support import vtk_to_numpy
    from vtkmodules.vtkIOHDF import vtkHDFReader
    import numpy as np

    reader = vtkHDFReader()
    assert reader.CanReadFile(name)
    reader.SetFileName(name)
    reader.UpdateInformation()
    counts = [7, 3, 0, 12]
    assert reader.GetNumberOfSteps() == len(counts)
    for step, count in enumerate(counts):
        reader.SetStep(step)
        reader.Update()
        assert reader.GetTimeValue() == 0.25 * step
        data = reader.GetOutput()
        assert data.GetNumberOfPoints() == data.GetNumberOfVerts() == data.GetNumberOfCells() == count
        if count == 0:
            continue
        numbers = np.arange(count)
        positions = vtk_to_numpy(data.GetPoints().GetData())
        np.testing.assert_array_equal(positions, numbers[:, None] + [0, 0.5, step])
        vertices = data.GetVerts()
        np.testing.assert_array_equal(vtk_to_numpy(vertices.GetConnectivityArray()), numbers)
        np.testing.assert_array_equal(vtk_to_numpy(vertices.GetOffsetsArray()), np.arange(count + 1))
        fields = data.GetPointData()
        np.testing.assert_array_equal(vtk_to_numpy(fields.GetArray("id")), numbers)
        np.testing.assert_array_equal(vtk_to_numpy(fields.GetArray("velocity")), numbers[:, None] * [1, 2, 3] + step)


def netcdf4(name):
    import h5py
    import netCDF4
    import numpy as np
    import xarray

    wanted = np.stack([np.full(6, 273.0 + record) for record in range(4)])
    wanted[3] = -999
    with netCDF4.Dataset(name) as file:
        assert file.data_model == "NETCDF4" and file.title == "records", file.data_model
        assert {key: len(value) for key, value in file.dimensions.items()} == {"time": 4, "x": 6, "y": 4, "z": 3}
        assert file.dimensions["time"].isunlimited() and not file.dimensions["x"].isunlimited()
        assert set(file.variables) == {"time", "x", "temperature", "mask", "count", "late"}, file.variables
        temperature = file["temperature"]
        assert temperature.dimensions == ("time", "x") and temperature._FillValue == -999 and temperature.units == "K"
        assert temperature.filters()["zlib"] and temperature.filters()["shuffle"]
        assert temperature[:].mask.sum() == 6
        np.testing.assert_array_equal(temperature[:].filled(), wanted)
        assert file["mask"].dimensions == ("y", "x")
        file["mask"].set_auto_mask(False)
        np.testing.assert_array_equal(file["mask"][:], np.array([7, 1, 1, 7])[:, None].repeat(6, 1))
        assert file["late"].dimensions == ("z",) and file["count"].dimensions == ()
        pressure = file["forecast/pressure"]
        assert pressure.dimensions == ("time", "member") and file["forecast"].sources == ["one", "two"]
        np.testing.assert_array_equal(pressure[:], [[record, 0.5] for record in range(4)])
    with xarray.open_dataset(name) as data:
        assert str(data["time"].values[1]).startswith("2000-01-01T00:01:00"), data["time"].values
        np.testing.assert_array_equal(data["temperature"].sel(x=1.5)[:3], [273, 274, 275])
        assert np.isnan(data["temperature"].values[3]).all()
    with h5py.File(name) as file:
        assert file["temperature"].dims[1][0].name == "/x" and file["mask"].dims[0][0].name == "/y"
        uses = {(file[entry["dataset"]].name, int(entry["dimension"])) for entry in file["x"].attrs["REFERENCE_LIST"]}
        assert uses == {("/temperature", 1), ("/mask", 1)}, uses


def openpmd(name):
    import os
    import shutil
    import subprocess
    import tempfile

    import numpy as np
    from openpmd_viewer import OpenPMDTimeSeries

    validator = os.path.join(os.path.dirname(sys.executable), "openPMD_check_h5")
    checked = subprocess.run([validator, "-i", name], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "Result: 0 Errors" in checked.stdout, checked.stdout
    import h5py

    with h5py.File(name) as file:
        for step in [0, 100]:
            iteration = file[f"data/{step}"]
            assert iteration.attrs["time"] == 0.5 * step and iteration.attrs["closed"] == 1
            field = iteration["meshes/E"]
            np.testing.assert_array_equal(field["x"], np.arange(24).reshape(4, 6))
            assert field["z"].attrs["unitSI"] == 2.0 and list(field.attrs["axisLabels"]) == [b"y", b"x"]
            np.testing.assert_array_equal(iteration["meshes/rho"], np.arange(24).reshape(4, 6) + step)
    # The viewer reads a folder of files with one iteration each.
    with tempfile.TemporaryDirectory() as folder:
        for step in [0, 100]:
            copy = os.path.join(folder, f"data{step:08d}.h5")
            shutil.copy(name, copy)
            with h5py.File(copy, "r+") as file:
                del file[f"data/{100 - step}"]
        series = OpenPMDTimeSeries(folder, check_all_files=True, backend="h5py")
        assert list(series.iterations) == [0, 100]
        field, info = series.get_field("rho", iteration=100)
        np.testing.assert_array_equal(field, np.arange(24).reshape(4, 6) + 100)
        assert list(info.axes.values()) == ["y", "x"] and info.dx == 0.25 and info.ymin == 1.0
        x, z, number = series.get_particle(["x", "z", "id"], species="electrons", iteration=100)
        np.testing.assert_array_equal(number, np.arange(10))
        np.testing.assert_array_equal(x, np.arange(10))
        np.testing.assert_array_equal(z, np.full(10, 100))


def xyz(name):
    import ase.io
    import numpy as np

    frames = ase.io.read(name, index=":", format="extxyz")
    assert len(frames) == 2
    for at, atoms in enumerate(frames):
        assert atoms.get_chemical_symbols() == ["Ar", "He"] * 5
        np.testing.assert_array_equal(atoms.positions, np.arange(30).reshape(10, 3) / 3 + at)
        np.testing.assert_array_equal(atoms.cell.lengths(), [10, 11, 12])
        assert atoms.pbc.all() and atoms.info["Time"] == 0.5 * at
        if at == 1:
            speed = np.arange(10) / 3 + at
            np.testing.assert_array_equal(atoms.arrays["velo"], np.stack([speed, -speed, 0 * speed], axis=1))
        else:
            assert "velo" not in atoms.arrays


def cf(name):
    import numpy as np
    import xarray

    with xarray.open_dataset(name) as data:
        assert data.attrs["Conventions"] == "CF-1.8"
        np.testing.assert_array_equal(data["x"], np.arange(6) * 0.5)
        assert str(data["time"].values[1]).startswith("2000-01-01T00:01:00"), data["time"].values
        assert data["t"].attrs["standard_name"] == "air_temperature" and data["t"].attrs["units"] == "K"
        np.testing.assert_array_equal(data["t"].sel(x=1.5), [273, 274])


globals()[sys.argv[1]](sys.argv[2])
print(sys.argv[1])
