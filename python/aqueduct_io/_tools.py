"""Checking, comparing and converting files of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from . import hdf5, netcdf
from ._arrays import Array, Arrays, arrays, kind_of
from ._comm import communicator
from ._objects import Objects
from ._reader import Reader
from ._store import Store

Item = TypeVar("Item")

_PART = 64 << 20
"""Bytes of an array that are in memory at a time."""


def _progress(items: Iterable[Item], show: bool, what: str) -> Iterable[Item]:
    if show:
        try:
            from tqdm.auto import tqdm
        except ImportError:
            return items
        wrapped: Iterable[Item] = tqdm(items, desc=what)
        return wrapped
    return items


@dataclass
class Finding:
    """What `verify` found: the state of a file."""

    name: str
    kind: str
    complete: bool
    """Whether the program ended the file."""
    damage: list[str] = field(default_factory=list)
    """What is damaged; empty if nothing is."""

    def __bool__(self) -> bool:
        return not self.damage


def verify(name: str, comm: Any = None) -> Finding:
    """Compares everything in a file with its checksums. True if nothing is damaged. Collective.

    netCDF and HDF5 files have no checksums (except in chunks with `fletcher32`): all their data is read.

    >>> import aqueduct_io as aq
    >>> _ = aq.write_objects("checked", [1.0, 2.0, 3.0])
    >>> bool(aq.verify("checked"))
    True
    """
    of = communicator(comm)
    name = str(name)
    kind = kind_of(name)
    found = Finding(name, kind, True)
    try:
        if kind == "stream":
            with Reader(name, of) as reader:
                found.complete = reader.finished
                found.damage += [f"step {step}: its bytes do not match their checksum" for step in reader.verify()]
                _, durable = reader._raw.incomplete()
                found.damage += [f"{durable} durable records are damaged"] if durable else []
        elif kind == "objects":
            with Objects(name, of) as file:
                file.verify()
        elif kind == "checkpoint":
            store = Store(name, of, create=False)
            for number in store.generations():
                try:
                    store.generation(number).verify()
                except OSError as error:
                    found.damage.append(f"generation {number}: {error}")
        else:
            with arrays(name, of) as all_arrays:
                if kind == "hdf5":
                    found.complete = all_arrays._handle.complete is not False
                mine = [one for at, one in enumerate(all_arrays.values()) if at % of.size == of.rank]
                problem = None
                try:
                    for array in mine:
                        for part in parts_of(array):
                            array[part]
                except OSError as error:
                    problem = str(error)
                of.agree("read", name, problem)
    except FileNotFoundError:
        raise
    except OSError as error:
        found.damage.append(str(error))
    return found


@dataclass
class Difference:
    """What `compare` found in one array."""

    array: str
    detail: str
    count: int = 0
    first: tuple[int, ...] | None = None
    largest: float = 0.0

    def __str__(self) -> str:
        return f"{self.array}: {self.detail}"


@dataclass
class Comparison:
    """The differences between two files; true if there are none."""

    names: tuple[str, str]
    differences: list[Difference]

    def __bool__(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences)) or "no differences"


def parts_of(array: Array) -> Iterator[tuple[slice, ...]]:
    """Parts of an array along its first dimension that fit memory."""
    if not array.shape:
        yield ()
        return
    row = max(1, array.nbytes // max(1, array.shape[0]))
    rows = max(1, _PART // row)
    for start in range(0, array.shape[0], rows):
        yield (slice(start, min(start + rows, array.shape[0])),)


def compare(
    one: str,
    other: str,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
    exclude: Sequence[str] = (),
    progress: bool = False,
) -> Comparison:
    """Compares the arrays of two files, which may be of different kinds. NaN equals NaN.

    >>> import aqueduct_io as aq
    >>> _ = aq.write_objects("a", [1.0, 2.0]), aq.write_objects("b", [1.0, 2.5])
    >>> print(aq.compare("a", "b"))
    objects: 1 of 2 elements differ, the first at (1,), by 0.5 at most
    """
    differences: list[Difference] = []
    with arrays(one) as first, arrays(other) as second:
        for name in sorted(set(first) ^ set(second)):
            if name not in exclude:
                differences.append(Difference(name, f"only in {one if name in first else other}"))
        common = [name for name in first if name in second and name not in exclude]
        for name in _progress(common, progress, "compare"):
            found = _compare(first[name], second[name], rtol, atol)
            differences += [] if found is None else [found]
    return Comparison((str(one), str(other)), differences)


def _compare(one: Array, other: Array, rtol: float, atol: float) -> Difference | None:
    if one.shape != other.shape:
        return Difference(one.name, f"shapes {one.shape} and {other.shape}")
    count, first, largest = 0, None, 0.0
    for part in parts_of(one):
        a, b = np.asarray(one[part]), np.asarray(other[part])
        if a.dtype.kind in "fc" or b.dtype.kind in "fc":
            differing = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        elif a.dtype.fields is None and rtol == atol == 0:
            differing = np.asarray(a != b)
        elif a.dtype.fields is None:
            differing = ~np.isclose(a.astype("f8"), b.astype("f8"), rtol=rtol, atol=atol)
        else:
            differing = np.array([x.tobytes() != y.tobytes() for x, y in zip(a.reshape(-1), b.reshape(-1), strict=True)])
            differing = differing.reshape(a.shape)
        if differing.any():
            count += int(differing.sum())
            if first is None:
                place = [int(at) for at in np.argwhere(differing)[0]]
                if part:
                    place[0] += part[0].start
                first = tuple(place)
            if a.dtype.kind in "iufc" and b.dtype.kind in "iufc":
                # Unsigned and large integers: the difference as floating-point numbers.
                kind = "c16" if "c" in (a.dtype.kind, b.dtype.kind) else "f8"
                gap = np.abs(a[differing].astype(kind) - b[differing].astype(kind))
                largest = max(largest, float(np.nanmax(gap, initial=0.0)))
    if count == 0:
        return None
    total = int(np.prod(one.shape, dtype=np.int64))
    detail = f"{count} of {total} elements differ, the first at {first}, by {largest:g} at most"
    return Difference(one.name, detail, count, first, largest)


def convert(source: str, target: str, comm: Any = None, *, progress: bool = False) -> None:
    """Copies the arrays of a file of any kind to a new netCDF (`.nc`) or HDF5 file (`.h5`), the ranks sharing the work. Collective.

    Of a stream file, complete steps are copied. Names, dimensions, units and other attributes are kept.

    >>> import aqueduct_io as aq
    >>> with aq.Output("steps.out", replace=True) as out:
    ...     level = out.array("level", (4,), dims=("x",))
    ...     _ = out.step({level: [1.0, 2.0, 3.0, 4.0]})
    >>> aq.convert("steps.out", "steps.nc")
    >>> aq.netcdf.File("steps.nc")["level"]
    <netCDF variable 'level' (step: 1, x: 4), type float64>
    """
    of = communicator(comm)
    with arrays(source, of) as found:
        if str(target).endswith(".nc"):
            _to_netcdf(found, str(target), of, progress)
        elif str(target).endswith((".h5", ".hdf5")):
            _to_hdf5(found, str(target), of, progress)
        else:
            raise ValueError(f"{target}: the name of the new file ends with .nc, .h5 or .hdf5")


def _my_parts(array: Array, comm: Any) -> list[tuple[slice, ...] | None]:
    """The parts that this rank copies; as many for all ranks, None where it has none left."""
    every = list(parts_of(array))
    if len(every) < comm.size and array.shape and array.shape[0] >= comm.size:
        borders = [array.shape[0] * rank // comm.size for rank in range(comm.size + 1)]
        every = [(slice(*pair),) for pair in zip(borders, borders[1:], strict=False)]
    rounds = -(-len(every) // comm.size)
    places = [at * comm.size + comm.rank for at in range(rounds)]
    return [every[place] if place < len(every) else None for place in places]


def _netcdf_kind(array: Array) -> str:
    kind = {"b1": "i1", "f2": "f4"}.get(f"{array.dtype.kind}{array.dtype.itemsize}")
    return kind or f"{array.dtype.kind}{array.dtype.itemsize}"


def _to_netcdf(found: Arrays, target: str, comm: Any, progress: bool) -> None:
    with netcdf.File(target, "x", comm) as file:
        with file.definitions():
            known: dict[str, int] = {}
            for array in found.values():
                for place, (dim, size) in enumerate(zip(array.dims, array.shape, strict=True)):
                    if dim not in known:
                        grows = dim == "step" and place == 0
                        known[dim] = size
                        file.create_dimension(_netcdf_name(dim), None if grows or size == 0 else size)
            for array in found.values():
                complex_parts = ["re_im"] if array.dtype.kind == "c" else []
                if complex_parts and "re_im" not in known:
                    known["re_im"] = 2
                    file.create_dimension("re_im", 2)
                kind = f"f{array.dtype.itemsize // 2}" if complex_parts else _netcdf_kind(array)
                names = [_netcdf_name(dim) for dim in array.dims] + complex_parts
                file.create_variable(_netcdf_name(array.name), kind, names, **_plain(array.attrs))
            for key, value in _plain(found.attrs).items():
                file.attrs[key] = value
        for array in _progress(list(found.values()), progress, "convert"):
            variable = file[_netcdf_name(array.name)]
            for part in _my_parts(array, comm):
                with file.together() as together:
                    if part is not None:
                        values = np.asarray(array[part])
                        if array.dtype.kind == "c":
                            values = values[..., np.newaxis].view(f"f{array.dtype.itemsize // 2}")
                            together[(variable, *part, ..., slice(0, 2))] = values
                        else:
                            together[(variable, *part)] = values.astype(variable.dtype, copy=False)


def _netcdf_name(name: str) -> str:
    return name.replace("/", ".")


def _plain(attrs: dict[str, Any]) -> dict[str, Any]:
    """The attributes that netCDF can have."""
    plain: dict[str, Any] = {}
    for key, value in attrs.items():
        array = np.asarray(value)
        if isinstance(value, str) or (array.dtype.kind in "iuf" and array.ndim <= 1 and array.size):
            plain[key] = value
    return plain


def _to_hdf5(found: Arrays, target: str, comm: Any, progress: bool) -> None:
    with hdf5.File(target, "x", comm) as file:
        for array in found.values():
            made = file.create_dataset(array.name, array.shape, array.dtype)
            with file.definitions():
                for key, value in array.attrs.items():
                    made.attrs[key] = value
                made.attrs["dimensions"] = " ".join(dim.replace(" ", "_") for dim in array.dims)
        with file.definitions():
            for key, value in found.attrs.items():
                file.attrs[key] = value
        for array in _progress(list(found.values()), progress, "convert"):
            dataset = file[array.name]
            for part in _my_parts(array, comm):
                with file.together() as together:
                    if part is not None:
                        together[(dataset, *part)] = np.asarray(array[part])
