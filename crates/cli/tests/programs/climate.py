"""Writes a classic netCDF file with all features of the format: shared and unlimited dimensions, text, fill values, attributes of all types."""

import sys

import netCDF4
import numpy

path, version = sys.argv[1], sys.argv[2]
with netCDF4.Dataset(path, "w", format=version) as file:
    file.createDimension("time", None)
    file.createDimension("lat", 3)
    file.createDimension("lon", 4)
    file.createDimension("name_length", 8)
    file.createDimension("unused", 7)
    file.title = "A climate, ünïcode"
    file.history = "made\nin two lines"
    file.number = numpy.int32(42)
    file.numbers = numpy.array([1.5, -2.5], "f4")
    file.byte = numpy.int8(-3)
    file.short = numpy.array([7], "i2")
    time = file.createVariable("time", "f8", ("time",))
    time.units, time.calendar = "days since 2000-01-01", "standard"
    lat = file.createVariable("lat", "f4", ("lat",))
    lat.units, lat[:] = "degrees_north", [10, 20, 30]
    lon = file.createVariable("lon", "f4", ("lon",))
    lon.units, lon[:] = "degrees_east", [1, 2, 3, 4]
    field = file.createVariable("temperature", "i2", ("time", "lat", "lon"), fill_value=-999)
    field.units, field.long_name = "K", "temperature"
    field.scale_factor, field.add_offset = 0.01, 273.15
    field.valid_range = numpy.array([-900, 900], "i2")
    field.set_auto_maskandscale(False)
    other = file.createVariable("pressure", "f8", ("time", "lat"), fill_value=1e20)
    place = file.createVariable("place", "S1", ("lat", "name_length"))
    place[:] = netCDF4.stringtochar(numpy.array([b"oslo", b"rome", b"lima"], "S8"))
    for step in range(5):
        time[step] = step + 0.5
        values = numpy.arange(12).reshape(3, 4) + step
        values[1, 1] = -999
        field[step] = values
        other[step] = [1e5 + step, numpy.nan, 1e20]
    if version == "NETCDF3_64BIT_DATA":
        wide = file.createVariable("wide", "u8", ("lat",))
        wide[:] = [1, 2, 2**63 + 1]
        wide.flags = numpy.array([2**63], "u8")
