"""Parallel HDF5: a file that is still open when MPI ends. HDF5 flushes and closes it then."""

import os
import sys

import numpy
from mpi4py import MPI

import h5py

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
file = h5py.File(sys.argv[1], "w", driver="mpio", comm=world)
data = file.create_dataset("data", (size, 1000), dtype="f8", track_times=False)
data[rank] = numpy.arange(1000) + 1000 * rank
MPI.Finalize()
# Not through the end of Python, which would close it again.
os._exit(0)
