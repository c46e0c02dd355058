"""Common readers open files of the conventions: h5md | vtkhdf | vtkhdf_series | vtkhdf_particles | xyz | cf FILE."""
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
