"""Reading of stream files, also while the program runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

import numpy as np

from . import _native
from ._comm import communicator
from ._selection import flipped, select
from ._show import table


class Step:
    """A complete step of a stream file: its arrays by the names of streams."""

    def __init__(self, reader: Reader, index: int, number: int, closing: bool) -> None:
        self._reader, self._index = reader, index
        self.number = number
        """The number of the step, from 0."""
        self.closing = closing
        """True for the reductions that were stored at the end."""

    def __getitem__(self, name: str) -> np.ndarray[Any, Any]:
        return self._reader[name]._at(self._index, ())

    def keys(self) -> list[str]:
        """The streams that are stored in it."""
        return [name for name in self._reader.streams if self._reader._raw.items(name, self._index) is not None]

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __repr__(self) -> str:
        return f"<step {self.number}{' (reductions of the end)' if self.closing else ''}: {', '.join(self.keys())}>"


class StoredStream:
    """A stream of a file. `stream[step]` is the array of a step, `stream[step, 10:20]` a part of it."""

    def __init__(self, reader: Reader, about: tuple[Any, ...]) -> None:
        self.reader = reader
        self.name: str = about[0]
        self.dtype: np.dtype[Any] = np.dtype(about[1])
        self.global_shape: tuple[int, ...] = tuple(about[2])
        self.region: str = about[3]
        """`whole`, `boxes`, `points` or `list`."""
        self.boxes: list[tuple[tuple[int, ...], tuple[int, ...]]] = [(tuple(at), tuple(size)) for at, size in about[4]]
        self.reduction: str = about[5]
        self.every: int | None = about[6]
        self.attrs: dict[str, str] = dict(about[8])
        self.has_objects: bool = about[9]

    @property
    def dims(self) -> tuple[str, ...]:
        """The names of the dimensions of a step."""
        named = tuple(self.attrs.get("dimensions", "").split())
        if len(named) == len(self.global_shape) and self.region in ("whole", "boxes"):
            return named
        if self.region == "whole" or (self.region == "boxes" and len(self.boxes) == 1):
            return tuple(f"{self.name}_{axis}" for axis in range(len(self.global_shape)))
        return (f"{self.name}_item",)

    @property
    def unit(self) -> str | None:
        """The unit."""
        return self.attrs.get("units")

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape of the array of a step; None for a list."""
        if self.region == "whole":
            return self.global_shape
        if self.region == "boxes":
            if len(self.boxes) == 1:
                return self.boxes[0][1]
            return (sum(int(np.prod(size)) for _, size in self.boxes),)
        return (len(self.points),) if self.region == "points" else None

    @property
    def points(self) -> list[int]:
        """The places of points in the array."""
        return self.reader._raw.points(self.name)

    @property
    def steps(self) -> list[int]:
        """The numbers of the steps that have it, without the reductions of the end."""
        numbers = self.reader._raw.steps()
        return [numbers[at][0] for at in self.reader._raw.steps_of(self.name) if not numbers[at][1]]

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        step, part = (key[0], key[1:]) if isinstance(key, tuple) else (key, ())
        return self._at(self.reader._index_of(self.name, step), part)

    def last(self) -> np.ndarray[Any, Any]:
        """The values that were stored last: of a reduction, those of the end."""
        having = self.reader._raw.steps_of(self.name)
        if not having:
            raise KeyError(f"stream {self.name!r} is not stored in any step yet")
        return self._at(having[-1], ())

    def _at(self, index: int, part: Any) -> np.ndarray[Any, Any]:
        shape = self.shape
        if shape is None:
            items = self.reader._raw.items(self.name, index) or 0
            width = self.global_shape[0]
            shape = (items,) if width == 1 else (items, width)
        single = self.region in ("whole", "boxes") and len(self.boxes) == 1
        if part in ((), (Ellipsis,)) or not single:
            out = np.empty(shape, dtype=self.dtype)
            self._fill(index, out, 0, None)
            return out[part] if part not in ((), (Ellipsis,)) else out
        selection = select(part, shape)
        # The block around the selection is read; strides are taken of it.
        stride = selection.stride or [1] * len(shape)
        spans = [(number - 1) * step + 1 if number else 0 for number, step in zip(selection.count, stride, strict=True)]
        out = np.empty(spans, dtype=self.dtype)
        if out.size:
            first = [at + base for at, base in zip(selection.start, self.boxes[0][0], strict=True)]
            self._fill(index, out, 0, (first, spans))
        picked = out[tuple(slice(None, None, step) for step in stride)]
        return np.asarray(flipped(picked.reshape(selection.shape), selection))

    def _fill(self, index: int, out: np.ndarray[Any, Any], number: int, part: Any) -> None:
        self.reader._raw.read(self.name, index, out, number, part)

    def __len__(self) -> int:
        return len(self.steps)

    def __repr__(self) -> str:
        what = self.shape if self.shape is not None else f"list of items of {self.global_shape[0]}"
        return f"<stream {self.name!r}: {what}, dtype {self.dtype}, {len(self)} steps>"


class Reader(Mapping[str, StoredStream]):
    """A stream file that is open for reading: the steps that were complete when it was opened, or last refreshed.

    Opening and `refresh` are collective over `comm`; each rank reads what it wants.
    """

    def __init__(self, name: str, comm: Any = None, *, checked: bool = True) -> None:
        self.comm = communicator(comm)
        self.name = str(name)
        self._raw = _native.RawReader.open(self.comm, self.name, checked)
        self.streams: dict[str, StoredStream] = {about[0]: StoredStream(self, about) for about in self._raw.streams()}

    def __getitem__(self, name: str) -> StoredStream:
        if name not in self.streams:
            raise KeyError(f"stream {name!r} in {self.name}; there are {list(self.streams)}")
        return self.streams[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.streams)

    def __len__(self) -> int:
        return len(self.streams)

    @property
    def steps(self) -> list[Step]:
        """The complete steps, with the reductions of the end."""
        return [Step(self, at, number, closing) for at, (number, closing) in enumerate(self._raw.steps())]

    def _index_of(self, stream: str, step: int) -> int:
        numbers = self._raw.steps()
        having = [at for at in self._raw.steps_of(stream) if not numbers[at][1]]
        if step < 0 and len(having) + step >= 0:
            return having[step]
        found = next((at for at in having if numbers[at][0] == step), None)
        if found is None:
            steps = [numbers[at][0] for at in having]
            raise IndexError(f"stream {stream!r} is not stored in step {step}; it is in {_few(steps)}")
        return found

    @property
    def finished(self) -> bool:
        """Whether the program has ended the output."""
        return self._raw.is_finished()

    def refresh(self) -> int:
        """Looks for new complete steps; returns their number. Collective."""
        return self._raw.refresh()

    def wait(self, timeout: float) -> int:
        """Waits for new complete steps, at most `timeout` seconds; returns their number. Collective."""
        return self._raw.wait(timeout)

    def verify(self) -> list[int]:
        """Compares everything with its checksums; returns the damaged steps."""
        return self._raw.verify()

    def close(self) -> None:
        """Closes the file."""
        self._raw.close()

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._raw.is_closed():
            return f"<aqueduct_io.Reader {self.name!r}, closed>"
        state = "finished" if self.finished else "being written, or interrupted"
        return f"<aqueduct_io.Reader {self.name!r}: {len(self.streams)} streams, {len(self._raw.steps())} steps, {state}>"

    def _repr_html_(self) -> str:
        rows = [
            [one.name, str(one.dtype), str(one.shape or "list"), one.unit or "", one.reduction, str(len(one))]
            for one in self.streams.values()
        ]
        return table(repr(self), ["stream", "type", "shape", "unit", "reduction", "steps"], rows)


def _few(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:3]))
    return shown if len(numbers) <= 4 else f"{shown}, …, {numbers[-1]}"


def follow(name: str, timeout: float = 60.0, comm: Any = None) -> Iterator[Step]:
    """The complete steps of a stream file, in order, also of one that a program is writing: waits for the next one.

    Ends when the program has ended the output. A `TimeoutError` if no step is completed for `timeout` seconds. Collective.

    >>> import aqueduct_io as aq
    >>> with aq.Output("followed.out", replace=True) as out:
    ...     level = out.array("level", (2,))
    ...     for t in range(3):
    ...         _ = out.step({level: [t, t]})
    >>> [(step.number, step["level"].tolist()) for step in aq.follow("followed.out")]
    [(0, [0.0, 0.0]), (1, [1.0, 1.0]), (2, [2.0, 2.0])]
    """
    over = time.monotonic() + timeout
    while True:
        try:
            reader = Reader(name, comm)
            break
        except OSError as error:
            # There is nothing yet, or not all of the head.
            if getattr(error, "kind", "") not in ("NoSuchFile", "Incomplete") or time.monotonic() >= over:
                raise
            time.sleep(0.02)
    seen: set[tuple[int, bool]] = set()
    while True:
        for step in reader.steps:
            if (step.number, step.closing) not in seen:
                seen.add((step.number, step.closing))
                yield step
        if reader.finished:
            return
        if reader.wait(timeout) == 0 and not reader.finished:
            raise TimeoutError(f"no step of {name} was completed for {timeout} s; {len(seen)} are")
