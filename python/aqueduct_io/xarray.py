"""The engine `aqueduct` of xarray: `xr.open_dataset("run.out", engine="aqueduct")`, and files that MPI ranks write by regions."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from xarray.backends import BackendArray, BackendEntrypoint
from xarray.core import indexing

from . import hdf5, netcdf
from ._arrays import Array, arrays
from ._comm import communicator
from ._tools import _netcdf_kind, _plain

__all__ = ["AqueductEngine", "RegionWriter", "create", "open_dataset"]


class _LazyArray(BackendArray):
    """An array that is read when it is used."""

    def __init__(self, array: Array) -> None:
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.BASIC, self._read)

    def _read(self, key: tuple[Any, ...]) -> Any:
        return np.asarray(self.array[key])


def open_dataset(
    name: str | os.PathLike[str],
    *,
    drop_variables: str | Iterable[str] | None = None,
    group: str | None = None,
    comm: Any = None,
    **decoding: Any,
) -> xr.Dataset:
    """The arrays of a stream file, a netCDF, HDF5 or object file, or of the newest checkpoint of a folder, read when they are used.

    Of a file that is being written, or whose program was killed, complete steps are there. `decoding` are arguments of `xr.decode_cf`.

    >>> import aqueduct_io as aq
    >>> with aq.Output("heat.out", replace=True) as out:
    ...     heat = out.array("heat", (3,), dims=("x",), unit="K")
    ...     for t in range(2):
    ...         _ = out.step({heat: [t, t, t]})
    >>> ds = aq.open_xarray("heat.out")
    >>> dict(ds.sizes), ds["heat"].attrs, float(ds["heat"].sel(step=1).sum())
    ({'step': 2, 'x': 3}, {'units': 'K'}, 3.0)
    """
    found = arrays(os.fspath(name), comm)
    dropped = {drop_variables} if isinstance(drop_variables, str) else set(drop_variables or ())
    inside = "" if group is None else group.strip("/") + "/"
    variables: dict[Hashable, xr.Variable] = {}
    for array in found.values():
        if not array.name.startswith(inside):
            continue
        short = array.name[len(inside) :]
        if short in dropped or ("/" in short and array.name == f"{inside}{short}" and found.kind == "HDF5 file" and group is not None):
            continue
        data = indexing.LazilyIndexedArray(_LazyArray(array))
        variables[short] = xr.Variable(array.dims, data, array.attrs)
    names = {variable.dims[0] for variable in variables.values() if variable.ndim == 1}
    coordinates = [name for name, variable in variables.items() if name in names and variable.dims == (name,)]
    dataset = xr.Dataset(variables, attrs=dict(found.attrs)).set_coords(coordinates)
    dataset = xr.decode_cf(dataset, **decoding)
    dataset.set_close(found.close)
    return dataset


class AqueductEngine(BackendEntrypoint):
    """The entry point that xarray finds."""

    description = "Open stream files, netCDF, HDF5, object files and checkpoints of aqueduct"
    url = "https://github.com/aqueduct-io/aqueduct"
    open_dataset_parameters = ("filename_or_obj", "drop_variables", "group", "comm")

    def open_dataset(
        self,
        filename_or_obj: Any,
        *,
        drop_variables: Any = None,
        group: str | None = None,
        comm: Any = None,
        mask_and_scale: bool = True,
        decode_times: bool = True,
        concat_characters: bool = True,
        decode_coords: bool = True,
        use_cftime: Any = None,
        decode_timedelta: Any = None,
    ) -> xr.Dataset:
        """What xarray calls."""
        decoding = {
            "mask_and_scale": mask_and_scale,
            "decode_times": decode_times,
            "concat_characters": concat_characters,
            "decode_coords": decode_coords,
            "use_cftime": use_cftime,
            "decode_timedelta": decode_timedelta,
        }
        known = {key: value for key, value in decoding.items() if value is not None}
        return open_dataset(filename_or_obj, drop_variables=drop_variables, group=group, comm=comm, **known)

    def guess_can_open(self, filename_or_obj: Any) -> bool:
        """Stream files, object files and checkpoints: others have engines of their own."""
        try:
            path = Path(os.fspath(filename_or_obj))
        except TypeError:
            return False
        return Path(f"{path}.steps").exists() or Path(f"{path}.meta").exists()


class RegionWriter:
    """A file with the variables of a dataset, which the ranks fill by regions: what `create` makes."""

    def __init__(self, file: netcdf.File | hdf5.File, dims: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]) -> None:
        self._file, self._dims, self._sizes = file, dict(dims), dict(sizes)

    def write(self, dataset: xr.Dataset | None = None, region: Mapping[str, slice] | None = None) -> None:
        """Writes the data variables of a dataset to a region: a slice for each dimension that is not whole. Collective; a rank may
        have nothing."""
        region = dict(region or {})
        with self._file.together() as together:
            for name, variable in ({} if dataset is None else dict(dataset.data_vars)).items():
                dims = self._dims.get(str(name))
                if dims is None:
                    raise KeyError(f"{name!r} is not in the template; it has {list(self._dims)}")
                values = variable.transpose(*dims).values
                key = tuple(region.get(dim, slice(0, self._sizes[dim])) for dim in dims)
                together[(str(name), *key)] = values

    def commit(self) -> None:
        """Makes what was written a part of the file, durably. Collective."""
        self._file.commit()

    def close(self) -> None:
        """Commits and closes. Collective."""
        self._file.close()

    def __enter__(self) -> RegionWriter:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()


def create(template: xr.Dataset, name: str, comm: Any = None) -> RegionWriter:
    """Creates a netCDF (`.nc`) or HDF5 file with the dimensions, coordinates, variables and attributes of a template; the ranks then write
    the data by regions. The data of the template is not used: it may be `dask` or `xr.zeros_like`. Collective.

    >>> import aqueduct_io as aq, numpy as np, xarray as xr
    >>> def main(comm):
    ...     shape = xr.Dataset({"t": (("y", "x"), np.zeros((4, 3)))}, coords={"x": [0.0, 0.5, 1.0]})
    ...     mine = slice(2 * comm.rank, 2 * comm.rank + 2)
    ...     with aq.xarray.create(shape, "regions.nc", comm) as writer:
    ...         writer.write(shape.isel(y=mine) * 0 + comm.rank, region={"y": mine})
    >>> _ = aq.run(main, ranks=2)
    >>> aq.open_xarray("regions.nc")["t"].isel(x=0).values
    array([0., 0., 1., 1.])
    """
    of = communicator(comm)
    dims = {str(key): tuple(map(str, variable.dims)) for key, variable in template.data_vars.items()}
    sizes = {str(dim): int(size) for dim, size in template.sizes.items()}
    file: netcdf.File | hdf5.File
    encoded = xr.conventions.encode_dataset_coordinates(template)
    variables = {str(key): xr.conventions.encode_cf_variable(value) for key, value in encoded[0].items() if key in template.coords}
    if str(name).endswith(".nc"):
        nc = netcdf.File(name, "w", of)
        with nc.definitions():
            for dim, size in sizes.items():
                nc.create_dimension(dim, size)
            for key, coordinate in variables.items():
                nc.create_variable(key, coordinate.dtype, list(map(str, coordinate.dims)), **_plain(dict(coordinate.attrs)))
            for name_of, variable in template.data_vars.items():
                of_name = str(name_of)
                kind = _netcdf_kind(Array(of_name, variable.dtype, variable.shape, dims[of_name], {}, lambda _: None))
                nc.create_variable(of_name, kind, dims[of_name], **_plain(dict(variable.attrs)))
            for attribute, value in _plain(dict(template.attrs)).items():
                nc.attrs[attribute] = value
        file = nc
    else:
        h5 = hdf5.File(name, "w", of)
        pairs = [(key, one.dtype, one.shape, one.dims, one.attrs) for key, one in variables.items()]
        pairs += [(str(key), one.dtype, one.shape, one.dims, one.attrs) for key, one in template.data_vars.items()]
        for key, dtype, shape, names, attrs in pairs:
            made = h5.create_dataset(key, shape, dtype)
            with h5.definitions():
                made.attrs["dimensions"] = " ".join(map(str, names))
                for attribute, value in attrs.items():
                    made.attrs[str(attribute)] = value
        file = h5
    with file.together() as together:
        if of.rank == 0:
            for key, coordinate in variables.items():
                together[key] = np.asarray(coordinate.values)
    return RegionWriter(file, dims, sizes)


