"""Parallel HDF5: a chunked and a contiguous dataset, written and read alone and together."""

import sys

import numpy
from mpi4py import MPI

import h5py

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
rows = 8 * size
wrong = 0
with h5py.File(sys.argv[1], "w", driver="mpio", comm=world) as file:
    chunked = file.create_dataset("chunked", (rows, 20), dtype="f8", chunks=(4, 10), fillvalue=0.0, track_times=False)
    plain = file.create_dataset("plain", (rows, 20), dtype="i4", track_times=False)
    mine = slice(8 * rank, 8 * rank + 8)
    values = numpy.arange(160).reshape(8, 20) + 1000 * rank
    with chunked.collective:
        chunked[mine] = values
    plain[mine] = values
    world.Barrier()
    with plain.collective:
        plain[mine, ::2] = values[:, ::2] * 2
    file.flush()
    world.Barrier()
    other = slice(8 * ((rank + 1) % size), 8 * ((rank + 1) % size) + 8)
    expected = numpy.arange(160).reshape(8, 20) + 1000 * ((rank + 1) % size)
    with chunked.collective:
        wrong += int((chunked[other] != expected).any())
    wrong += int((plain[other][:, 1::2] != expected[:, 1::2]).any())
    wrong += int((plain[other][:, ::2] != 2 * expected[:, ::2]).any())
wrong = world.allreduce(wrong)
if rank == 0:
    print(wrong, "wrong")
sys.exit(wrong != 0)
