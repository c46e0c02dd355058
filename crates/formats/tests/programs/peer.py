"""The netCDF4 module as a peer: `read` compares a file that Aqueduct wrote, `write` writes one of the same contents."""
import sys

import netCDF4
import numpy

TYPES = ["i1", "S1", "i2", "i4", "f4", "f8", "u1", "u2", "u4", "i8", "u8"]
FORMATS = {"1": "NETCDF3_CLASSIC", "2": "NETCDF3_64BIT_OFFSET", "5": "NETCDF3_64BIT_DATA"}
RECORDS, Y, X = 3, 4, 7


def expected(number, shape):
    """Values that depend on the position: letters for text, small numbers for others."""
    flat = (numpy.arange(numpy.prod(shape, dtype=int)) * 3 + number * 5) % 97
    if TYPES[number] == "S1":
        return numpy.array([bytes([65 + value % 26]) for value in flat], "S1").reshape(shape)
    return flat.astype(TYPES[number]).reshape(shape)


def kinds(version):
    return range(11 if version == "5" else 6)


def read(path, version):
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        assert file.data_model == FORMATS[version], file.data_model
        assert file.title == "gr\u00f6\u00dfe", file.title
        assert file.numbers.tolist() == [1.5, -2.5], file.numbers
        assert len(file.dimensions["time"]) == RECORDS and file.dimensions["time"].isunlimited()
        for number in kinds(version):
            for name, shape in [(f"fixed{number}", (Y, X)), (f"moving{number}", (RECORDS, X)), (f"one{number}", ())]:
                variable = file.variables[name]
                assert variable.shape == shape, (name, variable.shape)
                found, wanted = numpy.asarray(variable[...]), expected(number, shape)
                assert (found == wanted).all(), (name, found, wanted)
            assert file.variables[f"fixed{number}"].number == number
    print("read")


def write(path, version):
    with netCDF4.Dataset(path, "w", format=FORMATS[version]) as file:
        file.title = "gr\u00f6\u00dfe"
        file.numbers = numpy.array([1.5, -2.5])
        file.createDimension("time", None)
        file.createDimension("y", Y)
        file.createDimension("x", X)
        for number in kinds(version):
            fixed = file.createVariable(f"fixed{number}", TYPES[number], ("y", "x"))
            fixed.number = numpy.int32(number)
            moving = file.createVariable(f"moving{number}", TYPES[number], ("time", "x"))
            one = file.createVariable(f"one{number}", TYPES[number], ())
            fixed[...] = expected(number, (Y, X))
            moving[0:RECORDS, :] = expected(number, (RECORDS, X))
            one[...] = expected(number, ())
    print("written")


def many(path, count):
    with netCDF4.Dataset(path) as file:
        assert len(file.variables) == count and len(file.dimensions) == count
        for at in (0, 1, count // 2, count - 1):
            variable = file.variables[f"v{at}"]
            assert variable.dimensions == (f"d{at}",) and variable.shape == (1 + at % 3,)
            assert variable[...].tolist() == [at] * (1 + at % 3), variable[...]
    print("many")


def huge(path):
    with netCDF4.Dataset(path) as file:
        variable = file.variables["huge"]
        length = variable.shape[1]
        assert variable.shape[0] * length * 4 > 1 << 32
        found = [int(variable[0, 0]), int(variable[2, length // 2]), int(variable[2, length - 1])]
        assert found == [1, 2, 3], found
    print("huge")


if __name__ == "__main__":
    {"read": read, "write": write, "many": lambda p, c: many(p, int(c)), "huge": huge}[sys.argv[1]](*sys.argv[2:])
