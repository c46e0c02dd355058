"""The arrays of a file of any kind: streams, netCDF, HDF5, objects, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from . import hdf5, netcdf
from ._comm import communicator
from ._objects import Objects
from ._reader import Reader, StoredStream
from ._selection import select
from ._show import table
from ._store import Store

_HIDDEN = ("DIMENSION_LIST", "REFERENCE_LIST", "CLASS", "NAME", "_Netcdf4Dimid", "_Netcdf4Coordinates", "_NCProperties")


class Array:
    """An array of a file: nothing is read before it is sliced."""

    def __init__(
        self,
        name: str,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        dims: tuple[str, ...],
        attrs: dict[str, Any],
        read: Callable[[Any], Any],
    ) -> None:
        self.name, self.dtype, self.shape, self.dims, self.attrs = name, dtype, shape, dims, attrs
        self._read = read

    def __getitem__(self, key: Any) -> Any:
        return self._read(key)

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = np.asarray(self[...])
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{dim}: {size}" for dim, size in zip(self.dims, self.shape, strict=True))
        return f"<array {self.name!r} ({sizes}) {self.dtype}>"


class Arrays(Mapping[str, Array]):
    """The arrays of a file: those of complete steps only."""

    def __init__(self, name: str, kind: str, arrays: list[Array], attrs: dict[str, Any], handle: Any) -> None:
        self.name, self.kind, self.attrs = name, kind, attrs
        self._arrays = {array.name: array for array in arrays}
        self._handle = handle

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def close(self) -> None:
        """Closes the file."""
        if hasattr(self._handle, "close"):
            self._handle.close()

    def __enter__(self) -> Arrays:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}: {len(self)} arrays>"

    def _repr_html_(self) -> str:
        rows = [
            [one.name, str(one.dtype), ", ".join(one.dims), str(one.shape), str(one.attrs or "")]
            for one in self.values()
        ]
        return table(repr(self), ["array", "type", "dimensions", "shape", "attributes"], rows)


def kind_of(name: str) -> str:
    """What a file is: `hdf5`, `netcdf`, `stream`, `objects` or `checkpoint`."""
    path = Path(name)
    if path.is_dir():
        return "checkpoint"
    if Path(f"{name}.steps").exists():
        return "stream"
    if Path(f"{name}.meta").exists():
        return "objects"
    if not path.exists():
        raise FileNotFoundError(f"{name} does not exist")
    with path.open("rb") as file:
        head = file.read(8)
    if head == b"\x89HDF\r\n\x1a\n":
        return "hdf5"
    if head[:3] == b"CDF" and head[3:4] in (b"\x01", b"\x02", b"\x05"):
        return "netcdf"
    raise ValueError(f"{name} is none of: stream file, netCDF, HDF5, object file, folder of checkpoints")


def arrays(name: str, comm: Any = None) -> Arrays:
    """The arrays of a file of any kind, by their names. Collective; slicing is not, except in checkpoints.

    Of a file that is being written, or whose program was killed, only complete steps are there.

    >>> import aqueduct_io as aq
    >>> with aq.Output("levels.out", replace=True) as out:
    ...     level = out.array("level", (4,), dims=("x",), unit="m")
    ...     for t in range(3):
    ...         _ = out.step({level: [t] * 4})
    >>> aq.arrays("levels.out")["level"]
    <array 'level' (step: 3, x: 4) float64>
    >>> aq.arrays("levels.out")["level"][1:, 0]
    array([1., 2.])
    """
    of = communicator(comm)
    name = str(name)
    kind = kind_of(name)
    return {
        "stream": _of_stream,
        "hdf5": _of_hdf5,
        "netcdf": _of_netcdf,
        "objects": _of_objects,
        "checkpoint": _of_store,
    }[kind](name, of)


def _of_stream(name: str, comm: Any) -> Arrays:
    reader = Reader(name, comm)
    made: list[Array] = []
    all_steps: list[list[int]] = []
    stepped = [one for one in reader.values() if one.shape is not None and not one.has_objects]
    for stream in stepped:
        if stream.steps and stream.steps not in all_steps:
            all_steps.append(stream.steps)
    for stream in stepped:
        steps = stream.steps
        inner = stream.shape or ()
        attrs: dict[str, Any] = {key: value for key, value in stream.attrs.items() if key != "dimensions"}
        if stream.reduction != "none":
            attrs["reduction"] = stream.reduction
        if not steps:
            if reader._raw.steps_of(stream.name):
                read = _last_of(stream)
                made.append(Array(stream.name, stream.dtype, tuple(inner), stream.dims, attrs, read))
            elif stream.reduction == "none":
                shape = (0, *inner)
                made.append(Array(stream.name, stream.dtype, shape, ("step", *stream.dims), attrs, _nothing(shape, stream.dtype)))
            continue
        dim = "step" if len(all_steps) == 1 else f"{stream.name}_step"
        made.append(
            Array(stream.name, stream.dtype, (len(steps), *inner), (dim, *stream.dims), attrs, _steps_of(stream, steps))
        )
        if not any(one.name == dim for one in made):
            numbers = np.array(steps, dtype="i8")
            made.append(Array(dim, numbers.dtype, numbers.shape, (dim,), {}, numbers.__getitem__))
    return Arrays(name, "stream file", made, {}, reader)


def _nothing(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Callable[[Any], Any]:
    return np.empty(shape, dtype).__getitem__


def _last_of(stream: StoredStream) -> Callable[[Any], Any]:
    return lambda key: stream.last()[key]


def _steps_of(stream: StoredStream, steps: list[int]) -> Callable[[Any], Any]:
    shape = (len(steps), *(stream.shape or ()))

    def read(key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys = keys[:at] + (slice(None),) * (len(shape) - len(keys) + 1) + keys[at + 1 :]
        first, rest = (keys[0], keys[1:]) if keys else (slice(None), ())
        if not isinstance(first, slice):
            chosen = select((first,), shape).start[0]
            return stream[(steps[chosen], *rest)]
        inner = select(rest, shape[1:]).shape
        numbers = range(*first.indices(len(steps)))
        out = np.empty((len(numbers), *inner), dtype=stream.dtype)
        for place, number in enumerate(numbers):
            out[place] = stream[(steps[number], *rest)]
        return out

    return read


def _of_netcdf(name: str, comm: Any) -> Arrays:
    file = netcdf.File(name, "r", comm)
    made = [
        Array(one.name, one.dtype, one.shape, one.dimensions, dict(one.attrs), one.read) for one in file.values()
    ]
    return Arrays(name, "netCDF file", made, dict(file.attrs), file)


def _of_hdf5(name: str, comm: Any) -> Arrays:
    file = hdf5.File(name, "r", comm)
    made = []
    for path, is_dataset in file._raw.paths():
        if not is_dataset:
            continue
        dataset = hdf5.Dataset(file, path)
        found = dict(dataset.attrs)
        shape = dataset.shape
        complete = dataset.complete
        if complete is not None and shape and "aqueduct_rows_dimension" not in found:
            shape = (min(int(complete), shape[0]), *shape[1:])
        dims = _dimensions(path, found, len(shape))
        attrs = {
            key: value
            for key, value in found.items()
            if not key.startswith("aqueduct_") and key not in _HIDDEN and key != "dimensions" and value is not None
        }
        made.append(Array(path.strip("/"), dataset.dtype, shape, dims, attrs, _rows_of(dataset, shape)))
    attrs = {key: value for key, value in file.attrs.items() if not key.startswith("aqueduct_") and key not in _HIDDEN}
    return Arrays(name, "HDF5 file", made, attrs, file)


def _rows_of(dataset: hdf5.Dataset, shape: tuple[int, ...]) -> Callable[[Any], Any]:
    if shape == dataset.shape:
        return dataset.read

    def read(key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys = keys[:at] + (slice(None),) * (len(shape) - len(keys) + 1) + keys[at + 1 :]
        keys = keys or (slice(None),)
        if isinstance(keys[0], slice):
            start, stop, step = keys[0].indices(shape[0])
            return dataset[(slice(start, stop if stop >= 0 else None, step), *keys[1:])]
        return dataset[(select((keys[0],), shape).start[0], *keys[1:])]

    return read


def _dimensions(path: str, attrs: dict[str, Any], rank: int) -> tuple[str, ...]:
    """The names of dimensions: scales, names of streams, or made ones."""
    scales = attrs.get("DIMENSION_LIST")
    if attrs.get("CLASS") == "DIMENSION_SCALE" and rank == 1:
        return (path.rsplit("/", 1)[-1],)
    if isinstance(scales, list) and len(scales) == rank and all(one for one in scales):
        return tuple(one[0].rsplit("/", 1)[-1] for one in scales)
    named = attrs.get("dimensions")
    if isinstance(named, str) and len(named.split()) == rank - 1:
        return ("step", *named.split())
    if isinstance(named, str) and len(named.split()) == rank:
        return tuple(named.split())
    stem = path.strip("/").replace("/", "_")
    return tuple(f"{stem}_{axis}" for axis in range(rank))


def _of_objects(name: str, comm: Any) -> Arrays:
    file = Objects(name, comm)
    if file.dtype is None:
        raise TypeError(f"{name} has objects of variable size ({file.signature}); read them with aq.objects")
    if file.dtype.fields is None:
        dims = ("object", *(f"element_{axis}" for axis in range(len(file.shape) - 1)))
        base = file.dtype if file.dtype.subdtype is None else file.dtype.subdtype[0]
        return Arrays(name, "object file", [Array("objects", base, file.shape, dims, {}, _slice_of(file, None))], {}, file)
    made = []
    for field in file.dtype.names or ():
        kind = file.dtype.fields[field][0]
        base, inner = (kind, ()) if kind.subdtype is None else kind.subdtype
        dims = ("object", *(f"{field}_{axis}" for axis in range(len(inner))))
        made.append(Array(field, base, (len(file), *inner), dims, {}, _slice_of(file, field)))
    return Arrays(name, "object file", made, {}, file)


def _slice_of(file: Objects, field: str | None) -> Callable[[Any], Any]:
    def read(key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        if not keys or keys[0] is Ellipsis:
            values = file[:]
            return (values if field is None else values[field])[key]
        values = file[keys[0]]
        values = values if field is None else values[field]
        return values[(slice(None), *keys[1:]) if isinstance(keys[0], slice) else keys[1:]]

    return read


def _of_store(name: str, comm: Any) -> Arrays:
    store = Store(name, comm, create=False)
    latest = store.latest()
    made: list[Array] = []
    if latest is None:
        raise FileNotFoundError(f"{name} has no committed checkpoint")
    for part, kind in latest.parts.items():
        if kind != "array":
            continue
        shape = latest.shape(part)

        def read(key: Any, part: str = part, shape: tuple[int, ...] = shape) -> Any:
            selection = select(key, shape)
            stride = selection.stride or [1] * len(shape)
            spans = [(count - 1) * step + 1 if count else 0 for count, step in zip(selection.count, stride, strict=True)]
            values = latest.array(part, selection.start, spans)
            picked = values[tuple(slice(None, None, step) for step in stride)].reshape(selection.shape)
            return picked[tuple(slice(None, None, -1) if at in selection.flip else slice(None) for at in range(picked.ndim))]

        dims = tuple(f"{part}_{axis}" for axis in range(len(shape)))
        made.append(Array(part, latest.dtype(part), shape, dims, {}, read))
    return Arrays(name, "folder of checkpoints", made, {"step": latest.step}, store)
