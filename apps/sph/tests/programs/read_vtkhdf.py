"""Reads all steps of a VTKHDF file of type PolyData with VTK's reader; a line of JSON for each."""

import json
import sys

from vtkmodules.util.numpy_support import vtk_to_numpy
from vtkmodules.vtkCommonExecutionModel import vtkStreamingDemandDrivenPipeline
from vtkmodules.vtkIOHDF import vtkHDFReader

reader = vtkHDFReader()
reader.SetFileName(sys.argv[1])
reader.UpdateInformation()
times = reader.GetOutputInformation(0).Get(vtkStreamingDemandDrivenPipeline.TIME_STEPS())
for time in times:
    reader.UpdateTimeStep(time)
    data = reader.GetOutputDataObject(0)
    if data.IsA("vtkPartitionedDataSet"):
        data = data.GetPartition(0)
    points, values = vtk_to_numpy(data.GetPoints().GetData()), data.GetPointData()
    array = lambda name: vtk_to_numpy(values.GetArray(name))
    vertices = data.GetVerts()
    connectivity = vtk_to_numpy(vertices.GetConnectivityArray())
    assert sorted(connectivity) == list(range(len(points)))
    assert [data.GetNumberOfLines(), data.GetNumberOfPolys(), data.GetNumberOfStrips()] == [0, 0, 0]
    print(json.dumps({
        "time": time,
        "points": len(points),
        "vertices": vertices.GetNumberOfCells(),
        "connectivity": len(connectivity),
        "x": float(points[:, 0].sum()),
        "density": float(array("density").sum()),
        "velocity": float(array("velocity")[:, 0].sum()),
        "id": float(array("id").sum()),
        "fluid": float(array("fluid").sum()),
    }))
