"""Object files: structured arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import _native
from ._comm import communicator
from ._dtypes import Problem, prepare, tree_of
from ._show import table


def write_objects(
    name: str, records: Any, comm: Any = None, *, mode: str = "w", type_name: str = "Record"
) -> int:
    """Writes the records of all ranks into an object file, in the order of the ranks; returns how many the call wrote. Collective.

    `records` is a structured array, or one of numbers, of any length on each rank. `mode` is `w` (replaces), `x` (new files only) or
    `a` (appends). The dtype is stored; the data is committed all or nothing, with checksums.

    >>> import aqueduct_io as aq, numpy as np
    >>> particle = np.dtype([("id", "u8"), ("r", "f8", 3)])
    >>> def main(comm):
    ...     mine = np.zeros(comm.rank, particle)
    ...     mine["id"] = comm.rank
    ...     return aq.write_objects("particles", mine, comm)
    >>> aq.run(main, ranks=4)
    [6, 6, 6, 6]
    >>> aq.objects("particles")[3:]["id"]
    array([3, 3, 3], dtype=uint64)
    """
    of = communicator(comm)
    array, runs, problem = prepare(records)
    tree: Any = None
    if problem is None:
        try:
            if array.ndim == 0:
                array = array.reshape(1)
            kind = array.dtype if array.ndim == 1 else np.dtype((array.dtype, array.shape[1:]))
            tree = tree_of(kind, type_name)
        except Problem as wrong:
            array, problem = b"", str(wrong)
    if mode not in ("w", "x", "a"):
        problem = f"there is no mode {mode!r}; there are w, x and a"
    return _native.write_objects(of, str(name), tree, array, runs, mode, problem)


class Objects:
    """An object file that is open for reading: slices are structured arrays."""

    def __init__(self, name: str, comm: Any = None) -> None:
        self.comm = communicator(comm)
        self.name = str(name)
        self._raw = _native.RawObjects.open(self.comm, self.name)
        text = self._raw.dtype()
        self.dtype: np.dtype[Any] | None = None if text is None else np.dtype(ast.literal_eval(text))
        """The dtype; None for objects of variable size."""

    @property
    def signature(self) -> str:
        """The type of the objects: names, types, order and units."""
        return self._raw.schema()[0]

    def __len__(self) -> int:
        return self._raw.count()

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of objects, and the shape of each, if they are arrays."""
        inner = () if self.dtype is None or self.dtype.subdtype is None else self.dtype.subdtype[1]
        return (len(self), *inner)

    def __getitem__(self, key: Any) -> Any:
        """Objects, after their checksums were compared; those of variable size as text."""
        count = len(self)
        if isinstance(key, (int, np.integer)):
            at = int(key) + (count if key < 0 else 0)
            if not 0 <= at < count:
                raise IndexError(f"object {key} of {count}")
            return self[at : at + 1][0]
        if not isinstance(key, slice):
            raise TypeError(f"{key!r}: give a number or a slice")
        start, stop, step = key.indices(count)
        numbers = range(start, stop, step)
        low, high = (min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1]) + 1) if numbers else (0, 0)
        if self.dtype is None:
            texts = self._raw.show(low, high)
            return [texts[number - low] for number in numbers]
        data = self._raw.read(low, high)
        values = np.frombuffer(bytearray(data), dtype=self.dtype)
        return values if step == 1 else values[:: abs(step)][:: 1 if step > 0 else -1]

    def memmap(self) -> np.ndarray[Any, Any]:
        """All objects as mapped memory: nothing is read before it is used, and checksums are not compared."""
        if self.dtype is None:
            raise TypeError("objects of variable size cannot be mapped; read slices")
        path = Path(self.name)
        if not path.exists():
            raise FileNotFoundError(f"{self.name} is not a file of the operating system; read slices")
        count = len(self)
        if count == 0:
            return np.empty(0, dtype=self.dtype)
        return np.memmap(path, dtype=self.dtype, mode="r", shape=(count,))

    def to_pandas(self) -> Any:
        """All objects as a `pandas.DataFrame`: a column for each field, several for fields that are arrays."""
        import pandas as pd

        values = self[:]
        if self.dtype is None or values.dtype.fields is None:
            return pd.DataFrame({"value": list(values)})
        columns: dict[str, Any] = {}
        for field in values.dtype.names:
            column = values[field]
            if column.ndim == 1:
                columns[field] = column
                continue
            flat = column.reshape(len(values), -1)
            for place in range(flat.shape[1]):
                columns[f"{field}_{place}"] = flat[:, place]
        return pd.DataFrame({name: np.ascontiguousarray(column) for name, column in columns.items()})

    def verify(self) -> None:
        """Compares all data with its checksums. Collective."""
        self._raw.verify()

    def close(self) -> None:
        """Closes the file."""
        self._raw.close()

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __enter__(self) -> Objects:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._raw.is_closed():
            return f"<aqueduct_io.Objects {self.name!r}, closed>"
        return f"<aqueduct_io.Objects {self.name!r}: {len(self)} of {self.signature}>"

    def _repr_html_(self) -> str:
        if self.dtype is None or self.dtype.fields is None:
            return table(repr(self), ["object"], [[str(one)] for one in self[:5]])
        rows = [[str(one[field]) for field in self.dtype.names or ()] for one in self[:5]]
        return table(repr(self), list(self.dtype.names or ()), rows)


def objects(name: str, comm: Any = None) -> Objects:
    """Opens an object file. Collective; reading is not."""
    return Objects(name, comm)


