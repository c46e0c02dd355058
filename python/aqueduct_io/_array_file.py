"""What HDF5 and netCDF files have in common: options, definitions, attributes, and accesses to parts of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from ._access import read_access, scalar, write_access
from ._comm import communicator
from ._dtypes import Problem
from ._errors import Error
from ._files import hint_list
from ._selection import Selection, flipped


class FileOptions(NamedTuple):
    """How a file is created or opened."""

    mode: str
    durable: bool
    hints: list[tuple[str, str]]


class Attributes(MutableMapping[str, Any]):
    """The attributes of a file or of something in it. Setting one is a definition, which is collective."""

    _file: ArrayFile

    def _all(self) -> dict[str, Any]:
        """All of them."""
        raise NotImplementedError

    def _definition(self, name: str, value: Any) -> tuple[Any, ...]:
        """What defines one; a `Problem` if that cannot be."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        try:
            definition = self._definition(name, value)
        except Problem as problem:
            self._file._define([], str(problem))
            return
        self._file._define([definition])

    def __delitem__(self, name: str) -> None:
        raise TypeError("attributes can be replaced, not removed")

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    def __repr__(self) -> str:
        return f"<attributes {self._all()!r}>"


class FileArray:
    """An array of a file. `a[…]` is an access of this rank alone; `a.write` and `a.read` are collective on request."""

    file: Any
    name: str
    dtype: np.dtype[Any]
    # The dtype of elements as they are stored; None if numpy has none.
    _stored: np.dtype[Any] | None
    _shape: tuple[int, ...]
    # Whether the shape can change.
    _grows: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape now: where it grows, what this rank knows of it."""
        if self._grows:
            self._shape = tuple(self.file._raw.shape(self.name))
        return self._shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __getitem__(self, key: Any) -> Any:
        return self.read(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.write(value, key)

    def read(self, key: Any = (), *, collective: bool = False) -> Any:
        """The values of a selection."""
        selection = self._selected(key)
        out = np.empty(selection.shape, dtype=self._stored)
        self.file._raw.read([read_access(self.name, selection, out)], collective)
        return scalar(flipped(out, selection))

    def write(self, value: Any, key: Any = (), *, collective: bool = False) -> None:
        """Writes values to a selection; they are broadcast to its shape."""
        self.file._raw.write([self._access(key, value)], collective)

    def _selected(self, key: Any, value: Any = None) -> Selection:
        """The selection of a key; of a write, with its value."""
        raise NotImplementedError

    def _access(self, key: Any, value: Any) -> tuple[Any, ...]:
        """A write; what is wrong with it is passed on, since other ranks may be waiting for this one."""
        try:
            return write_access(self.name, self._selected(key, value), value, self._stored)
        except (IndexError, ValueError) as error:
            return (self.name, [], [], None, b"", None, str(error))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = np.asarray(self.read())
        return values if dtype is None else values.astype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))


class Together:
    """Accesses that are done as one collective call: any number of any arrays; a rank may have none."""

    def __init__(self, file: ArrayFile) -> None:
        self._file = file
        self._writes: list[tuple[Any, ...]] = []

    def __setitem__(self, key: Any, value: Any) -> None:
        """`together[array, i, j] = values`, by the array or its name."""
        array, part = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        if isinstance(array, str):
            array = self._file._array(array)
        self._writes.append(array._access(part, value))

    def _fail(self, problem: str) -> None:
        """Takes part in the collective call with this problem."""
        self._writes = [("", [], [], None, b"", None, problem)]
        with suppress(Error):
            self.run()

    def run(self) -> None:
        """Does the accesses. Collective."""
        writes, self._writes = self._writes, []
        self._file._raw.write(writes, True)


class ArrayFile:
    """A file of arrays that all ranks of `comm` have open. Opening, defining, committing and closing are collective."""

    _raw: Any

    def __init__(self, open: Any, name: str, mode: str, comm: Any, durable: bool, hints: Mapping[str, Any] | None) -> None:
        """`open` is what opens the file, given its communicator, its name and options."""
        self.comm = communicator(comm)
        self.filename, self.mode = str(name), mode
        self._pending: list[tuple[Any, ...]] | None = None
        self._raw = open(self.comm, self.filename, FileOptions(mode, durable, hint_list(hints)))

    def _array(self, name: str) -> FileArray:
        """The array of this name."""
        raise NotImplementedError

    def _define_now(
        self, definitions: list[tuple[Any, ...]], problem: str | None = None, **options: Any
    ) -> None:
        """Defines all or nothing. Collective."""
        self._raw.define(definitions, problem=problem, **options)

    def _define(self, definitions: list[tuple[Any, ...]], problem: str | None = None) -> None:
        if self._pending is not None and problem is None:
            self._pending += definitions
            return
        self._define_now(definitions, problem)

    @contextmanager
    def _collected(self, **options: Any) -> Iterator[None]:
        """Makes what is defined inside one definition; inside another one, it is a part of that."""
        if self._pending is not None:
            yield
            return
        pending: list[tuple[Any, ...]] = []
        self._pending = pending
        try:
            yield
        finally:
            self._pending = None
        self._define_now(pending, **options)

    @contextmanager
    def together(self) -> Iterator[Together]:
        """Writes parts of any arrays as one collective call: `q[array, i, j] = values`."""
        queue = Together(self)
        try:
            yield queue
        except Exception as error:
            # The other ranks are in the collective call, or about to make it: they learn of it.
            queue._fail(f"{type(error).__name__}: {error}")
            raise
        queue.run()

    def commit(self) -> None:
        """Makes what all ranks have written a part of the file, durably. Collective."""
        self._raw.commit()

    def close(self) -> None:
        """Commits and closes. Collective."""
        self._raw.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return bool(self._raw.is_closed())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def _title(self, format: str) -> str:
        state = "closed" if self.closed else f"mode {self.mode}"
        return f"<{format} file {self.filename!r} ({state}), {self.comm.size} ranks>"
