"""Reads an output with an external program: xyz | h5md | h5md-bare FILE. Prints box and time, then the numbers of each molecule, a line each, with all digits."""
import sys


def say(*numbers):
    print(*(repr(float(number)) for number in numbers))


def xyz(name):
    import ase.io

    atoms = ase.io.read(name, format="extxyz")
    assert set(atoms.get_chemical_symbols()) == {"Ar"} and atoms.pbc.all()
    say(*atoms.cell.lengths(), atoms.info["Time"])
    for place, velocity in zip(atoms.positions, atoms.arrays["velo"]):
        say(*place, *velocity)


def h5md(name, convert_units=True):
    import MDAnalysis

    universe = MDAnalysis.Universe.empty(500, trajectory=False)
    universe.load_new(name, format="H5MD", convert_units=convert_units)
    assert len(universe.trajectory) == 3
    last = universe.trajectory[2]
    assert last.data["step"] == 4 and list(last.dimensions[3:]) == [90, 90, 90]
    say(*last.dimensions[:3], last.time)
    for place in last.positions:
        say(*place)


readers = {"xyz": xyz, "h5md": h5md, "h5md-bare": lambda name: h5md(name, convert_units=False)}
readers[sys.argv[1]](sys.argv[2])
