"""HDF5 files, written and read by all ranks at once. No MPI build of HDF5 is needed; h5py and every other reader opens the files.

>>> import aqueduct_io as aq, numpy as np
>>> def main(comm):
...     with aq.hdf5.File("run.h5", "w", comm) as f:
...         t = f.create_dataset("temperature", (3, 8), "f4", grows=True)
...         t.attrs["units"] = "K"
...         mine = slice(4 * comm.rank, 4 * comm.rank + 4)
...         for step in range(3):
...             t[step, mine] = np.full(4, step)
>>> _ = aq.run(main, ranks=2)
>>> aq.hdf5.File("run.h5")["temperature"][2, ::3]
array([2., 2., 2.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from . import _array_file, _native
from ._access import compression_of, guess_chunk
from ._array_file import ArrayFile, FileArray, Together
from ._dtypes import Problem, dtype_of_hdf5, packed, tree_of
from ._selection import Selection, select
from ._show import table

__all__ = ["Attributes", "Dataset", "File", "Group", "Together"]

_COMPLETE = "aqueduct_complete"


def _path(parent: str, name: str) -> str:
    if name.startswith("/"):
        return "/" + name.strip("/")
    return "/" + f"{parent}/{name}".strip("/")


class Attributes(_array_file.Attributes):
    """The attributes of a group or dataset. Setting one is a definition, which is collective."""

    def __init__(self, file: File, path: str) -> None:
        self._file: File = file
        self._path = path

    def _all(self) -> dict[str, Any]:
        return {name: _attribute_value(value) for name, value in self._file._raw.attributes(self._path)}

    def _definition(self, name: str, value: Any) -> tuple[Any, ...]:
        return ("attribute", self._path, name, _attribute(value))


def _attribute(value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        return ("text", value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, str) for one in value):
        return ("texts", list(value))
    array = np.asarray(value)
    if array.dtype.kind == "U":
        return ("texts", [str(one) for one in array.reshape(-1)])
    array = np.ascontiguousarray(array, dtype=packed(array.dtype)).reshape(array.shape)
    return ("values", tree_of(array.dtype), list(array.shape), array.tobytes())


def _attribute_value(value: Any) -> Any:
    if value is None or isinstance(value, (str, list)):
        return value
    if value[0] == "references":
        return value[1]
    tree, shape, data = value
    dtype = dtype_of_hdf5(tree)
    if dtype is None:
        return None
    array = np.frombuffer(data, dtype=dtype)
    return array.reshape(shape) if shape else array[0]


class Dataset(FileArray):
    """A dataset. `d[…]` is an access of this rank alone; `d.write` and `d.read` are collective on request."""

    def __init__(self, file: File, path: str) -> None:
        about = file._raw.dataset(path)
        if about is None:
            raise TypeError(f"{path} is a group, not a dataset")
        tree, shape, chunks, unlimited, filters, _, fill = about
        self.file: File = file
        self.name, self._shape, self._tree = path, tuple(shape), tree
        self._stored = dtype_of_hdf5(tree)
        self.dtype = np.dtype(object) if self._stored is None else self._stored
        self.chunks: tuple[int, ...] | None = None if chunks is None else tuple(chunks)
        self.filters: list[str] = filters
        self._unlimited, self._grows = unlimited, any(unlimited)
        self._fill: bytes = fill

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        """The largest shape; None where there is no limit."""
        pairs = zip(self.shape, self._unlimited, strict=True)
        return tuple(None if unlimited else length for length, unlimited in pairs)

    @property
    def attrs(self) -> Attributes:
        """Its attributes."""
        return Attributes(self.file, self.name)

    @property
    def complete(self) -> int | None:
        """How many rows are complete: written by all and committed. None if the file does not say: others made it."""
        return self.file._raw.complete(self.name)

    @property
    def fillvalue(self) -> Any:
        """The value of elements that were never written."""
        return None if self._stored is None else np.frombuffer(self._fill, dtype=self._stored)[0]

    def resize(self, rows: int) -> None:
        """Extends the first dimension. Collective."""
        self.file._define([("extend", self.name, rows)])
        self._shape = tuple(self.file._raw.shape(self.name))

    def _selected(self, key: Any, value: Any = None) -> Selection:
        return select(key, self.shape)

    def read(self, key: Any = (), *, collective: bool = False) -> Any:
        """The values of a selection."""
        if self._tree == "text":
            texts = np.array(self.file._raw.texts(self.name), dtype=object).reshape(self.shape)
            return texts[key]
        if isinstance(key, str):
            # A field of a structure.
            return self.read((), collective=collective)[key]
        if self._stored is None:
            raise TypeError(f"{self.name} has values that numpy has no dtype for")
        return super().read(key, collective=collective)

    def __repr__(self) -> str:
        return f"<HDF5 dataset {self.name!r}: shape {self.shape}, type {self.dtype}>"


class Group(Mapping[str, Any]):
    """A group: its groups and datasets by name."""

    def __init__(self, file: File, path: str) -> None:
        self._of, self.name = file, path

    @property
    def file(self) -> File:
        """The file."""
        return self._of

    @property
    def attrs(self) -> Attributes:
        """Its attributes."""
        return Attributes(self._of, self.name)

    def __getitem__(self, name: str) -> Any:
        path = _path(self.name, name)
        about = dict(self._of._raw.paths())
        if path not in about:
            raise KeyError(f"{path} in {self._of.filename}; there are {sorted(self)}")
        return Dataset(self._of, path) if about[path] else Group(self._of, path)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and any(path == _path(self.name, name) for path, _ in self._of._raw.paths())

    def __iter__(self) -> Iterator[str]:
        inside = "/" if self.name == "/" else self.name + "/"
        names = (path[len(inside) :] for path, _ in self._of._raw.paths() if path.startswith(inside))
        return iter(sorted({name for name in names if name and "/" not in name}))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def visititems(self, visit: Callable[[str, Any], Any]) -> Any:
        """Calls `visit(name, object)` for everything in the group; ends when it returns something."""
        inside = "/" if self.name == "/" else self.name + "/"
        for path, _ in self._of._raw.paths():
            if path.startswith(inside) and path != inside:
                found = visit(path[len(inside) :], self._of[path])
                if found is not None:
                    return found
        return None

    def create_group(self, name: str) -> Group:
        """Creates a group and its parents. Collective."""
        path = _path(self.name, name)
        self._of._define([("group", path)])
        return Group(self._of, path)

    def require_group(self, name: str) -> Group:
        """As `create_group`; an existing group is fine."""
        return self.create_group(name)

    def create_dataset(
        self,
        name: str,
        shape: Sequence[int] | int | None = None,
        dtype: Any = None,
        data: Any = None,
        *,
        chunks: Sequence[int] | bool | None = None,
        grows: bool = False,
        maxshape: Sequence[int | None] | None = None,
        compression: str | int | None = None,
        compression_opts: int | None = None,
        shuffle: bool = True,
        fletcher32: bool = False,
    ) -> Dataset:
        """Creates a dataset. Collective, with the same arguments on all ranks.

        With `grows`, or None in the first place of `maxshape`, `resize` extends the first dimension; chunks have one row then,
        unless `chunks` is given. `compression` is "gzip" (with a level in `compression_opts`) or "zstd"; such a dataset is written
        by collective calls. `data` is the same on all ranks, and written once.
        """
        path = _path(self.name, name)
        problem: str | None = None
        definition: list[tuple[Any, ...]] = []
        try:
            if data is not None:
                data = np.asarray(data, dtype=None if dtype is None else np.dtype(dtype))
                shape = data.shape if shape is None else shape
                dtype = data.dtype if dtype is None else dtype
            if shape is None:
                raise Problem("a dataset needs a shape, or data")
            lengths = [int(shape)] if isinstance(shape, (int, np.integer)) else [int(length) for length in shape]
            kind = packed(np.dtype("f4" if dtype is None else dtype))
            grows = grows or (maxshape is not None and len(maxshape) > 0 and maxshape[0] is None)
            method = compression_of(compression, compression_opts)
            if isinstance(chunks, bool) or chunks is None:
                wanted = chunks or grows or method is not None or fletcher32
                chunks = guess_chunk(lengths, kind.itemsize, grows) if wanted else None
            options = (None if chunks is None else [int(one) for one in chunks], grows, method, shuffle, fletcher32)
            definition = [("dataset", path, tree_of(kind), lengths, options)]
        except (Problem, TypeError, ValueError) as error:
            problem = str(error)
        self._of._define(definition, problem)
        made = Dataset(self._of, path)
        if data is not None:
            with self._of.together() as together:
                if self._of.comm.rank == 0:
                    together[made] = data
        return made

    def __setitem__(self, name: str, value: Any) -> None:
        self.create_dataset(name, data=value)

    def __repr__(self) -> str:
        return f"<HDF5 group {self.name!r} ({len(self)} members)>"


class File(Group, ArrayFile):
    """An HDF5 file that all ranks of `comm` have open. Opening, defining, committing and closing are collective.

    `mode` is `r`, `r+`, `w` (replaces), `x` or `w-` (new files only), `a` (opens, or creates). A file whose program is killed can be
    opened by every reader, and records which rows of each dataset are complete (`Dataset.complete`).
    """

    _raw: _native.RawHdf5

    def __init__(
        self,
        name: str,
        mode: str = "r",
        comm: Any = None,
        *,
        durable: bool = True,
        hints: Mapping[str, Any] | None = None,
    ) -> None:
        ArrayFile.__init__(self, _native.RawHdf5.open, name, mode, comm, durable, hints)
        Group.__init__(self, self, "/")

    def _array(self, name: str) -> Dataset:
        found = self[name]
        if not isinstance(found, Dataset):
            raise TypeError(f"{name} is a group, not a dataset")
        return found

    @contextmanager
    def definitions(self) -> Iterator[None]:
        """Makes the groups and attributes that are defined inside one definition, all or nothing. Collective.

        >>> import aqueduct_io as aq
        >>> with aq.hdf5.File("attributes.h5", "w") as f, f.definitions():
        ...     f.attrs["program"] = "wave"
        ...     f.attrs["version"] = 3
        """
        with self._collected():
            yield

    @contextmanager
    def together(self) -> Iterator[Together]:
        """Writes parts of any datasets as one collective call.

        >>> import aqueduct_io as aq
        >>> def main(comm):
        ...     with aq.hdf5.File("both.h5", "w", comm) as f:
        ...         a, b = (f.create_dataset(name, (4,), "i4") for name in "ab")
        ...         with f.together() as q:
        ...             q[a, comm.rank : comm.rank + 1] = comm.rank
        ...             if comm.rank == 0:  # The others have nothing to write.
        ...                 q[b] = range(4)
        >>> _ = aq.run(main, ranks=4)
        >>> aq.hdf5.File("both.h5")["a"][...].tolist()
        [0, 1, 2, 3]
        """
        with super().together() as queue:
            yield queue

    @property
    def complete(self) -> bool | None:
        """Whether the program closed the file; None if the file does not say: others made it."""
        return self._raw.is_complete()

    def commit(self) -> None:
        """Makes what was written a part of the file: first the data, durably, then the numbers of complete rows. Collective."""
        self._raw.commit()

    def refresh(self) -> int:
        """Looks for what another program has committed since the file was opened: rows, datasets, attributes; returns the number of new
        and changed datasets. Collective."""
        return self._raw.refresh()

    def flush(self) -> None:
        """As `commit`."""
        self.commit()

    def __bool__(self) -> bool:
        return not self.closed

    def __repr__(self) -> str:
        return self._title("HDF5")

    def _repr_html_(self) -> str:
        rows = []
        for path, is_dataset in self._raw.paths():
            if is_dataset:
                dataset = Dataset(self, path)
                attrs = {key: value for key, value in dataset.attrs.items() if not key.startswith("aqueduct")}
                rows.append([path, str(dataset.dtype), str(dataset.shape), str(dataset.chunks or ""), str(attrs or "")])
        return table(repr(self), ["dataset", "type", "shape", "chunks", "attributes"], rows)
