"""Parallel I/O for Python: HDF5, netCDF, output streams, object files and checkpoints under every MPI, or on threads without any.

>>> import aqueduct_io as aq, numpy as np
>>> def main(comm):
...     with aq.hdf5.File("hello.h5", "w", comm) as f:
...         d = f.create_dataset("x", (comm.size, 1000), "f8")
...         d[comm.rank] = np.arange(1000.0)
>>> _ = aq.run(main, ranks=4)

A communicator is one of mpi4py, an `aq.Comm` (in `aq.run`), or None for one rank. Functions that are marked as collective are called by
all ranks of the communicator. An error of one rank is an exception on all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import hdf5, netcdf
from ._arrays import Array, Arrays, arrays
from ._comm import communicator, run
from ._errors import Error
from ._files import File, open
from ._native import VERSION as __version__
from ._native import Comm
from ._objects import Objects, objects, write_objects
from ._output import Output, Report, Stream
from ._reader import Reader, Step, StoredStream, follow
from ._store import ArrayBlock, Generation, Store, block
from ._tools import Comparison, Difference, Finding, compare, convert, verify

if TYPE_CHECKING:
    from . import xarray

__all__ = [
    "Array", "ArrayBlock", "Arrays", "Comm", "Comparison", "Difference", "Error", "File", "Finding", "Generation", "Objects",
    "Output", "Reader", "Report", "Step", "Store", "StoredStream", "Stream", "__version__", "arrays", "block", "communicator",
    "compare", "convert", "follow", "hdf5", "netcdf", "objects", "open", "open_xarray", "run", "verify", "write_objects", "xarray",
]  # fmt: skip


def open_xarray(name: str, **options: Any) -> Any:
    """Opens a file of any kind as an `xarray.Dataset`: `aqueduct_io.xarray.open_dataset`."""
    from .xarray import open_dataset

    return open_dataset(name, **options)


def __getattr__(name: str) -> Any:
    # xarray takes a second to import, and is not needed by all.
    if name == "xarray":
        import importlib

        return importlib.import_module(".xarray", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
