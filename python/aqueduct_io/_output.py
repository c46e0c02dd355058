"""Output of time-stepping programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np

from . import _native
from ._comm import communicator
from ._dtypes import Problem, buffer, exact, named, tree_of
from ._show import amount, parse_amount

Block = tuple[Sequence[int], Sequence[int]]
"""The start and the shape of a part of an array."""


@dataclass(frozen=True)
class Report:
    """What an output has done on this rank. Times are in seconds."""

    mode: str
    reason: str
    steps: int
    bytes: int
    memory_peak: int
    memory_cap: int
    reduction_memory: int
    spilled: int
    computing: float
    in_commit: float
    writing: float

    def __str__(self) -> str:
        each = 1e3 / max(self.steps, 1)
        return (
            f"{self.mode} ({self.reason}): {self.steps} steps, {amount(self.bytes)}; per step {self.computing * each:.2f} ms"
            f" computing, {self.in_commit * each:.2f} ms in step(), {self.writing * each:.2f} ms writing"
        )


class Stream:
    """A stream of an output: the key for `Output.step`."""

    def __init__(self, index: int, spec: dict[str, Any], dtype: np.dtype[Any]) -> None:
        self._index, self._spec, self.dtype = index, spec, dtype

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._spec["name"])

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the global array."""
        return tuple(self._spec["shape"])

    def __repr__(self) -> str:
        return f"<stream {self.name!r}: shape {self.shape}, dtype {self.dtype}>"


class Output:
    """An output of a time-stepping program: streams are declared once, arrays are passed in each step.

    The suffix of the name selects the format, unless `format` does: `.nc` netCDF, `.h5` and `.hdf5` HDF5, others a stream file.
    `mode` is "auto", "blocking", "thread" or "leaders": `docs/streams.md`. The file is created by the first step; creating and all
    steps are collective.

    >>> import aqueduct_io as aq, numpy as np
    >>> def main(comm):
    ...     with aq.Output("run.out", comm, replace=True) as out:
    ...         block = ((4 * comm.rank,), (4,))
    ...         p = out.array("pressure", (8,), block, dtype="f8", dims=("x",), unit="Pa")
    ...         peak = out.array("peak", like=p, reduce="max")
    ...         for t in range(3):
    ...             local = np.full(6, float(t))[1:-1]  # without its halo: not copied
    ...             out.step({p: local, peak: local})
    >>> _ = aq.run(main, ranks=2)
    >>> aq.Reader("run.out")["pressure"][2][:3]
    array([2., 2., 2.])
    """

    def __init__(
        self,
        name: str,
        comm: Any = None,
        *,
        mode: str = "auto",
        format: str | None = None,
        memory: int | str | None = None,
        buffers: int | None = None,
        durable_every: int | None = None,
        steps: int | None = None,
        replace: bool = False,
        spill: tuple[str, int | str] | None = None,
        group: int | None = None,
        free_cores: bool = False,
        resume: Sequence[bytes] | None = None,
    ) -> None:
        self.comm = communicator(comm)
        self.name = str(name)
        if format is None:
            lower = self.name.lower()
            format = "netcdf" if lower.endswith(".nc") else "hdf5" if lower.endswith((".h5", ".hdf5")) else "stream"
        if format not in ("stream", "netcdf", "hdf5"):
            raise ValueError(f"there is no format {format!r}; there are stream, netcdf and hdf5")
        self.format = format
        self._options = {
            "format": format,
            "mode": mode,
            "memory": parse_amount(memory),
            "buffers": buffers,
            "durable_every": durable_every,
            "steps": steps,
            "replace": replace,
            "spill": None if spill is None else (spill[0], parse_amount(spill[1])),
            "group": group,
            "free_cores": free_cores,
        }
        self._resume = None if resume is None else list(resume)
        self._streams: list[Stream] = []
        self._raw: Any = None
        self._problem: str | None = None
        self.report: Report | None = None
        """What the output has done, after `finish`."""

    def array(
        self,
        name: str,
        shape: Sequence[int] | None = None,
        block: Block | None = None,
        dtype: Any = None,
        *,
        like: Stream | None = None,
        reduce: str | None = None,
        every: int | None = None,
        start: int = 0,
        boxes: Sequence[Block] | None = None,
        points: Sequence[tuple[int, int]] | None = None,
        stored_as: Any = None,
        dims: Sequence[str] | None = None,
        unit: str | None = None,
        attrs: Mapping[str, str] | None = None,
        compression: int | None = None,
        chunks: Sequence[int] | None = None,
    ) -> Stream:
        """Declares a stream of a global array; this rank has the block (start, shape) of it, or nothing of it.

        `reduce` is "max", "min", "sum", "mean", "rms" or "last" over `every` steps, or over all of them. `boxes` and `points` sample
        a part of the array; `points` are pairs of a number in the list of all points and a place in the array. `stored_as` is "f4"
        or "f8". `dims` and `unit` are stored for readers. `like` takes shape, block, dtype, dims and unit from another stream.
        """
        spec = dict(like._spec) if like is not None else _empty_spec()
        spec |= {"name": name, "reduce": reduce or "none", "every": every, "from_step": start}
        if like is None:
            if shape is None:
                raise ValueError(f"stream {name!r} needs a shape, or like=")
            if block is None and self.comm.size == 1:
                block = ([0] * len(shape), shape)
        if shape is not None:
            spec["shape"] = [int(length) for length in shape]
        if block is not None:
            spec["block"] = ([int(at) for at in block[0]], [int(length) for length in block[1]])
        spec["boxes"] = None if boxes is None else [(list(at), list(length)) for at, length in boxes]
        spec["points"] = None if points is None else [(int(number), int(place)) for number, place in points]
        spec["deflate"] = compression
        spec["chunk"] = None if chunks is None else list(chunks)
        extra = list((attrs or {}).items())
        extra += [("units", unit)] if unit is not None else []
        extra += [("dimensions", " ".join(dims))] if dims is not None else []
        named = {key for key, _ in extra}
        spec["attributes"] = [pair for pair in spec["attributes"] if pair[0] not in named] + extra
        of = like.dtype if like is not None and dtype is None else np.dtype("f8" if dtype is None else dtype)
        return self._declare(spec, of, stored_as)

    def list(self, name: str, width: int = 1, dtype: Any = "f8", *, every: int | None = None) -> Stream:
        """Declares a stream of items of `width` values each, such as particles: every rank passes any number of them in a step."""
        spec = _empty_spec() | {"name": name, "shape": [width], "list": True, "every": every}
        return self._declare(spec, np.dtype(dtype), None)

    def _declare(self, spec: dict[str, Any], dtype: np.dtype[Any], stored_as: Any) -> Stream:
        if self._raw is not None:
            raise ValueError("streams are declared before the first step")
        try:
            spec["kind"] = tree_of(dtype)
            spec["stored_as"] = None if stored_as is None else tree_of(np.dtype(stored_as))
        except Problem as problem:
            # All ranks learn of it when the output is created.
            self._problem = self._problem or named(f"stream {spec['name']!r}", str(problem))
            spec["kind"] = "f8"
        stream = Stream(len(self._streams), spec, dtype)
        self._streams.append(stream)
        return stream

    def start(self) -> None:
        """Creates the file: otherwise the first step does. Collective."""
        if self._raw is None:
            specs = [stream._spec for stream in self._streams]
            self._raw = _native.RawOutput.create(
                self.comm, self.name, specs, self._options, self._resume, self._problem
            )

    def step(self, values: Mapping[Stream | str, Any]) -> int:
        """Passes the arrays of a step; they may be changed when it returns. Returns the number of the step. Collective.

        An array has the shape of this rank's block, and any strides.
        """
        self.start()
        puts: list[tuple[int, Any, str | None]] = []
        unknown = None
        for key, value in values.items():
            stream = self._find(key)
            if stream is None:
                unknown = f"there is no stream {key!r}; there are {[one.name for one in self._streams]}"
                continue
            array, problem = exact(value, stream.dtype)
            if problem is None:
                problem = _shape_problem(stream, array)
            puts.append((stream._index, b"" if problem else buffer(array), problem and named(f"stream {stream.name!r}", problem)))
        number: int = self._raw.step(puts, unknown)
        return number

    def _find(self, key: Stream | str) -> Stream | None:
        if isinstance(key, Stream):
            known = key._index < len(self._streams) and self._streams[key._index] is key
            return key if known else None
        return next((stream for stream in self._streams if stream.name == key), None)

    def flush(self) -> None:
        """Waits until all steps so far are durable. Collective."""
        self.start()
        self._raw.flush()

    @property
    def progress(self) -> tuple[int, int, int]:
        """The number of steps that are accepted, visible to readers, and durable."""
        return (0, 0, 0) if self._raw is None else self._raw.progress()

    @property
    def mode(self) -> tuple[str, str]:
        """The mode in which steps are written, and the reason for it; after the first step."""
        self.start()
        mode: tuple[str, str] = self._raw.mode()
        return mode

    def state(self) -> bytes:
        """The state of this rank for a checkpoint, for `resume=` of a later run. Call `flush` before the checkpoint."""
        self.start()
        state: bytes = self._raw.state()
        return state

    def finish(self) -> Report | None:
        """Stores reductions, makes everything durable, and ends the file. Collective."""
        self.start()
        report = self._raw.finish()
        if report is not None:
            self.report = Report(**report)
        return self.report

    def __enter__(self) -> Output:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.finish()
        elif self._raw is not None:
            self._raw.abandon()

    def __repr__(self) -> str:
        return f"<aqueduct_io.Output {self.name!r}: {len(self._streams)} streams, {self.progress[0]} steps>"


def _empty_spec() -> dict[str, Any]:
    return {
        "name": "", "kind": "f8", "shape": [], "list": False, "block": None, "boxes": None, "points": None, "reduce": "none",
        "every": None, "from_step": 0, "stored_as": None, "attributes": [], "deflate": None, "chunk": None,
    }  # fmt: skip


def _shape_problem(stream: Stream, array: np.ndarray[Any, Any]) -> str | None:
    spec = stream._spec
    if spec["list"]:
        width = spec["shape"][0]
        fits = array.size % width == 0 and (array.ndim < 2 or array.size // max(array.shape[0], 1) == width)
        return None if fits or array.size == 0 else f"an array of shape {array.shape}; items have {width} values"
    wanted = tuple(spec["block"][1]) if spec["block"] is not None else None
    if wanted is None:
        return None if array.size == 0 else "this rank has no block of it; give block= when it is declared"
    if array.shape == wanted or (array.size == 0 and 0 in wanted):
        return None
    return f"an array of shape {array.shape}; the block of this rank has {wanted}"
