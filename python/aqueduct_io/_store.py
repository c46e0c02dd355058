"""Checkpoints: saved by any number of ranks, all or nothing, and restored by any other number."""

from __future__ import annotations

import os
import signal
import struct
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

import numpy as np

from . import _native
from ._comm import communicator, on_main_thread
from ._dtypes import Problem, buffer, dtype_of_signature, named, prepare, tree_of
from ._show import amount, table


@dataclass(frozen=True)
class ArrayBlock:
    """This rank's part of a global array: what `block` makes."""

    array: Any
    start: tuple[int, ...]
    shape: tuple[int, ...]


def block(array: Any, start: Sequence[int], shape: Sequence[int]) -> ArrayBlock:
    """This rank's part of a global array of `shape`, which begins at `start`, for `Store.save`."""
    return ArrayBlock(array, tuple(int(at) for at in start), tuple(int(length) for length in shape))


class Store:
    """A folder of checkpoints that all ranks of `comm` have open. All calls are collective.

    `keep` generations are kept, all with 0. `until` is the end of the job for `due`: "slurm", a number of seconds from now, or a
    `datetime`. `between_failures` is the mean time between failures of the machine in seconds.

    >>> import aqueduct_io as aq, numpy as np
    >>> def main(comm):
    ...     store = aq.Store("saved", comm, keep=2)
    ...     mine = np.full(4, comm.rank)
    ...     store.save(1000, time=12.5, name="run 7", temperature=aq.block(mine, [4 * comm.rank], [8]))
    >>> _ = aq.run(main, ranks=2)
    >>> latest = aq.Store("saved").latest()
    >>> latest.step, latest.time, latest.name
    (1000, 12.5, 'run 7')
    >>> latest.array("temperature", start=[3], shape=[2])
    array([0, 1])
    """

    def __init__(
        self,
        folder: str,
        comm: Any = None,
        *,
        keep: int = 2,
        create: bool = True,
        device: str | None = None,
        until: str | float | datetime | None = None,
        margin: float = 30.0,
        between_failures: float = 24 * 3600.0,
        signals: Sequence[int] = (),
    ) -> None:
        self.comm = communicator(comm)
        self.folder = str(folder)
        self._raw = _native.RawStore.open(self.comm, self.folder, create, keep, device)
        self._deadline = _deadline(until)
        self._margin = margin
        self._between_failures = between_failures
        self._costs: list[float] = []
        self._saved = time.monotonic()
        self.reason: str | None = None
        """Why a checkpoint was due: "interval", "deadline" or a signal such as "SIGTERM"."""
        self.ending = False
        """Whether the program is to end after the checkpoint: the deadline is near, or a signal came."""
        self._signals = _watch(signals)

    def due(self, step: int = 0) -> bool:
        """Whether a checkpoint is to be saved now, the same on all ranks: the interval that costs the least time is over (Daly, from
        the measured cost of checkpoints), the deadline is near, or a signal came to any rank. Collective.

        The first checkpoint is due at once: its cost is measured.
        """
        now = time.monotonic()
        cost = max(self._costs[-3:], default=0.0)
        signalled = next((number for number in self._signals if number in _RECEIVED), None)
        near = self._deadline is not None and now + 2 * cost + self._margin >= self._deadline
        best = _native.best_interval(self._between_failures, self._costs)
        over = not self._costs or now - self._saved >= best
        mine = bytes([0 if signalled is None else int(signalled), near, over])
        # A signal or a deadline of any rank counts; of clocks, that of rank 0.
        all_ranks = self.comm.allgather(mine)
        number = max(one[0] for one in all_ranks)
        ending = number > 0 or any(one[1] for one in all_ranks)
        # Once is enough: the program ends after that checkpoint.
        first = ending and not self.ending
        self.ending = self.ending or ending
        if first:
            self.reason = signal.Signals(number).name if number else "deadline"
            return True
        if all_ranks[0][2] and not self.ending:
            self.reason = "interval"
            return True
        return False

    def save(self, step: int, *, wait: bool = True, **parts: Any) -> int | None:
        """Saves a checkpoint of a step; returns its generation, which is durable then. Collective.

        A part is a `block` of a global array, a structured array (records of all ranks, one list), or a value that is the same on all
        ranks: a number, text, bytes or a small array. With `wait=False` the data is copied and written in the background.
        """
        begin = time.monotonic()
        given = [self._part(name, value) for name, value in parts.items()]
        if wait:
            number: int | None = self._raw.write(step, given)
        else:
            number = None
            self._raw.start(step, given)
        self._saved = time.monotonic()
        self._costs.append(self._saved - begin)
        return number

    def _part(self, name: str, value: Any) -> tuple[Any, ...]:
        none: list[int] = []
        try:
            if isinstance(value, ArrayBlock):
                array, runs, problem = prepare(value.array)
                if problem is not None:
                    return (name, "array", "u1", b"", None, none, none, none, named(f"part {name!r}", str(problem)).removeprefix("type: "))
                if array.dtype.fields is None and array.ndim != len(value.shape):
                    raise Problem(f"an array of {array.ndim} dimensions for one of {len(value.shape)}")
                count = list(array.shape)
                return (name, "array", tree_of(array.dtype), buffer(array), runs, list(value.shape), list(value.start), count, None)
            if isinstance(value, str):
                text = value.encode()
                return (name, "value", ("text",), struct.pack("<Q", len(text)) + text, None, none, none, none, None)
            if isinstance(value, (bytes, bytearray)):
                value = np.frombuffer(bytes(value), "u1")
            array, runs, problem = prepare(value)
            if problem is not None:
                raise Problem(problem)
            if array.dtype.fields is not None and array.ndim == 1:
                return (name, "objects", tree_of(array.dtype), array, runs, none, none, none, None)
            if array.ndim and array.nbytes > 1 << 16 and self.comm.size > 1:
                raise Problem(f"an array of {amount(array.nbytes)} as a value; pass its part as aq.block(array, start, shape)")
            if array.ndim and array.nbytes > 1 << 16:
                start = [0] * array.ndim
                return (name, "array", tree_of(array.dtype), array, runs, list(array.shape), start, list(array.shape), None)
            kind = array.dtype if not array.ndim else np.dtype((array.dtype, array.shape))
            return (name, "value", tree_of(kind), buffer(array), runs, none, none, none, None)
        except Problem as problem:
            return (name, "value", "u1", b"", None, none, none, none, named(f"part {name!r}", str(problem)).removeprefix("type: "))

    def wait(self) -> int | None:
        """Waits for the checkpoint in the background; returns its generation. Collective."""
        return self._raw.wait()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._raw.is_busy()

    def generations(self) -> list[int]:
        """The numbers of all committed generations. Collective."""
        return self._raw.generations()

    def generation(self, number: int) -> Generation:
        """A committed generation. Collective."""
        return Generation(self._raw.generation(number), self.comm)

    def latest(self) -> Generation | None:
        """The newest complete generation, after its checksums were compared; None if there is none. Collective."""
        found = self._raw.latest()
        return None if found is None else Generation(found, self.comm)

    def close(self) -> None:
        """Waits for the checkpoint in the background. Collective."""
        self._raw.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        return f"<aqueduct_io.Store {self.folder!r}, {self.comm.size} ranks>"


class Generation:
    """A committed checkpoint. Values are attributes; arrays and records are read by any number of ranks."""

    def __init__(self, raw: Any, comm: Any) -> None:
        self._raw, self.comm = raw, comm
        self.number, self.step, self.ranks, self.written = raw.about()
        self._parts = {part[0]: part for part in raw.parts()}

    @property
    def parts(self) -> dict[str, str]:
        """The names of its parts and their kinds: `array`, `objects`, `value` or `cells`."""
        return {name: part[1] for name, part in self._parts.items()}

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def _part(self, name: str, kind: str) -> tuple[Any, ...]:
        part = self._parts.get(name)
        if part is None or part[1] != kind:
            what = "there is none" if part is None else f"it is {part[1]}"
            raise KeyError(f"{kind} {name!r}: {what}; the parts are {self.parts}")
        found: tuple[Any, ...] = part
        return found

    def value(self, name: str) -> Any:
        """A value that is the same on all ranks."""
        _, _, signature, _, _, _, data = self._part(name, "value")
        if signature == "text":
            return bytes(data[8:]).decode()
        dtype = dtype_of_signature(signature)
        if dtype is None:
            raise TypeError(f"value {name!r} is of type {signature}, which numpy does not have")
        base, shape = (dtype, ()) if dtype.subdtype is None else dtype.subdtype
        values = np.frombuffer(data, dtype=base).reshape(shape)
        return values if shape else values[()].item() if base.fields is None else values[()]

    def __getattr__(self, name: str) -> Any:
        part = self.__dict__.get("_parts", {}).get(name)
        if part is None or part[1] != "value":
            raise AttributeError(f"the checkpoint has no value {name!r}")
        return self.value(name)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of an array."""
        return tuple(self._part(name, "array")[3])

    def dtype(self, name: str) -> np.dtype[Any]:
        """The dtype of an array or of records."""
        part = self._parts.get(name)
        found = None if part is None else dtype_of_signature(part[2])
        if found is None:
            raise KeyError(f"part {name!r} has no dtype; the parts are {self.parts}")
        return found

    def array(
        self, name: str, start: Sequence[int] | None = None, shape: Sequence[int] | None = None
    ) -> np.ndarray[Any, Any]:
        """The block of an array that begins at `start`, or all of it. Collective; each rank reads another block."""
        whole = self.shape(name)
        dtype = self.dtype(name)
        first = [0] * len(whole) if start is None else [int(at) for at in start]
        count = (
            [length - at for length, at in zip(whole, first, strict=True)]
            if shape is None
            else [int(length) for length in shape]
        )
        data = self._raw.array(name, list(whole), first, count)
        return np.frombuffer(bytearray(data), dtype=dtype).reshape(count)

    def records(self, name: str) -> np.ndarray[Any, Any]:
        """This rank's even share of the records, in their order. Collective."""
        self._part(name, "objects")
        return np.frombuffer(bytearray(self._raw.objects(name)), dtype=self.dtype(name))

    def verify(self) -> None:
        """Compares all parts with their checksums. Collective."""
        self._raw.verify()

    def __repr__(self) -> str:
        return f"<checkpoint {self.number} of step {self.step}: {', '.join(self._parts)}>"

    def _repr_html_(self) -> str:
        rows = [
            [name, kind, signature, str(tuple(shape)) if shape else str(count or ""), amount(size)]
            for name, kind, signature, shape, count, size, _ in self._parts.values()
        ]
        return table(repr(self), ["part", "kind", "type", "shape", "size"], rows)


_RECEIVED: set[int] = set()


def _watch(signals: Sequence[int]) -> tuple[int, ...]:
    """Notes signals instead of ending the program: `due` sees them."""

    def watch() -> None:
        for number in signals:
            before = signal.getsignal(number)
            if getattr(before, "notes", False):
                continue

            def note(received: int, frame: Any, before: Any = before) -> None:
                _RECEIVED.add(received)
                if callable(before):
                    before(received, frame)

            note.notes = True  # type: ignore[attr-defined]
            signal.signal(number, note)

    if signals and not on_main_thread(watch):
        raise ValueError("signals= needs the main thread: open the store there, or in aq.run")
    return tuple(int(number) for number in signals)


def _deadline(until: str | float | datetime | None) -> float | None:
    """The end of the job, as `time.monotonic` counts."""
    if until is None:
        return None
    if isinstance(until, (int, float)):
        return time.monotonic() + float(until)
    if isinstance(until, datetime):
        return time.monotonic() + until.timestamp() - time.time()
    if until != "slurm":
        raise ValueError(f"until={until!r}: give 'slurm', a number of seconds, or a datetime")
    end = os.environ.get("SLURM_JOB_END_TIME")
    if end is None:
        if "SLURM_JOB_ID" in os.environ:
            warnings.warn("SLURM_JOB_END_TIME is not set by this Slurm: give until= in seconds", stacklevel=3)
        return None
    return time.monotonic() + float(end) - time.time()
