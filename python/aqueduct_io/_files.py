"""Files: bytes with views, as MPI-IO has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from . import _native
from ._comm import communicator
from ._dtypes import buffer, prepare

_MODES = {
    "r": "r",
    "r+": "rw",
    "w": "rwct",
    "w-": "rwcx",
    "x": "rwcx",
    "a": "rwc",
}


def hint_list(hints: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Hints as the compiled module takes them."""
    return [(str(key), str(value)) for key, value in (hints or {}).items()]


def open(name: str, mode: str = "r", comm: Any = None, *, hints: Mapping[str, Any] | None = None) -> File:
    """Opens a file of bytes on all ranks of `comm`. Collective.

    `mode` is `r`, `r+`, `w` (replaces), `x` (new files only) or `a` (creates, keeps). The prefix of the name selects a device, such
    as `memfs:`.

    >>> import aqueduct_io as aq, numpy as np
    >>> with aq.open("numbers.bin", "w") as file:
    ...     file.write(np.arange(4, dtype="i4"))
    ...     file.read(2, dtype="i4", offset=4)
    16
    array([1, 2], dtype=int32)
    """
    return File(name, mode, comm, hints=hints)


class File:
    """An open file: positions are counted in elements of the view, bytes at first.

    A call with `offset` moves no pointer; without it, the call uses this rank's pointer, or with `shared=True` the one that all
    ranks share. Calls are collective with `collective=True`: each rank may have any amount of data, also none.
    """

    def __init__(
        self, name: str, mode: str = "r", comm: Any = None, *, hints: Mapping[str, Any] | None = None
    ) -> None:
        flags = _MODES.get(mode)
        if flags is None:
            raise ValueError(f"there is no mode {mode!r}; there are {', '.join(_MODES)}")
        self.comm = communicator(comm)
        self.name = str(name)
        self.mode = mode
        self._file = _native.RawFile.open(self.comm, self.name, flags, hint_list(hints))

    def write(
        self, array: Any, offset: int | None = None, *, shared: bool = False, collective: bool = False
    ) -> int:
        """Writes an array with any strides; returns the number of bytes."""
        given, runs, problem = prepare(array)
        return self._file.write(buffer(given), runs, problem, offset, shared, collective)

    def read(
        self,
        count: int | Sequence[int] | None = None,
        dtype: Any = "u1",
        offset: int | None = None,
        *,
        out: np.ndarray[Any, Any] | None = None,
        shared: bool = False,
        collective: bool = False,
    ) -> np.ndarray[Any, Any]:
        """Reads elements into a new array, or into `out`: fewer at the end of the file."""
        problem = None
        if out is None:
            out = np.empty(() if count is None else count, dtype=dtype)
        if not out.flags.c_contiguous or not out.flags.writeable:
            problem = "out must be contiguous and writable"
        target = np.atleast_1d(out)
        read = self._file.read(target.reshape(-1).view("u1"), problem, offset, shared, collective)
        if read == out.nbytes:
            return out
        return target.reshape(-1)[: read // out.itemsize]

    def set_view(
        self,
        dtype: Any = "u1",
        displacement: int = 0,
        *,
        shape: Sequence[int] | None = None,
        start: Sequence[int] | None = None,
        count: Sequence[int] | None = None,
    ) -> None:
        """Sets what this rank sees: elements of `dtype` from byte `displacement` on, or a block of an array of this shape. Collective.

        >>> import aqueduct_io as aq, numpy as np
        >>> def main(comm):
        ...     with aq.open("columns.bin", "w", comm) as file:
        ...         # A 2 × 4 array: each of two ranks has two columns.
        ...         file.set_view("u1", shape=(2, 4), start=(0, 2 * comm.rank), count=(2, 2))
        ...         file.write(np.full((2, 2), comm.rank, "u1"), 0, collective=True)
        >>> _ = aq.run(main, ranks=2)
        >>> np.fromfile("columns.bin", "u1")
        array([0, 0, 1, 1, 0, 0, 1, 1], dtype=uint8)
        """
        size = np.dtype(dtype).itemsize
        if shape is None:
            self._file.set_plain_view(displacement, size)
        else:
            first = [0] * len(shape) if start is None else list(start)
            self._file.set_array_view(
                displacement, size, list(shape), first, list(shape if count is None else count)
            )

    def set_round_robin(self, dtype: Any = "u1", block: int = 1) -> None:
        """Deals blocks of elements out to the ranks in turn. Collective."""
        self._file.set_cyclic_view(np.dtype(dtype).itemsize, block)

    @property
    def size(self) -> int:
        """The length in bytes."""
        return self._file.size()

    def resize(self, size: int) -> None:
        """Cuts or extends the file to `size` bytes. Collective."""
        self._file.set_size(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        """Moves this rank's pointer; returns where it is then."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Where this rank's pointer is."""
        return self._file.position()

    def sync(self) -> None:
        """Makes what all ranks have written durable. Collective."""
        self._file.sync()

    @property
    def hints(self) -> dict[str, str]:
        """The hints in force."""
        return dict(self._file.hints())

    def close(self) -> None:
        """Closes the file; its errors are reported here at the latest. Collective."""
        self._file.close()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._file.is_closed()

    def __enter__(self) -> File:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"mode {self.mode}, {self.comm.size} ranks"
        return f"<aqueduct_io.File {self.name!r}, {state}>"
