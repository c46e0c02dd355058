"""Accesses to parts of arrays of HDF5 and netCDF files, as the compiled module takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._dtypes import Problem, buffer, prepare
from ._selection import Selection, flipped


def scalar(values: Any) -> Any:
    return values[()] if values.ndim == 0 else values


def read_access(name: str, selection: Selection, out: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    if out.ndim == 0 or out.size == 0 or out.dtype.kind not in "biufc":
        # Bytes: the buffer protocol has no name for some types.
        out = out.reshape(-1).view("u1") if out.size else np.empty(0, "u1")
    return (name, selection.start, selection.count, selection.stride, out, None, None)


def write_access(name: str, selection: Selection, value: Any, dtype: np.dtype[Any] | None) -> tuple[Any, ...]:
    array, runs, problem = prepare(value, dtype)
    if problem is None and array.shape != selection.shape:
        if _squeezed(array.shape) == _squeezed(selection.shape):
            array = array.reshape(selection.shape)
        else:
            try:
                array = np.broadcast_to(array, selection.shape)
            except ValueError:
                problem = f"values of shape {array.shape} for a selection of shape {selection.shape}"
    if problem is not None:
        array = b""
    elif selection.flip:
        array = flipped(array, selection)
    return (name, selection.start, selection.count, selection.stride, buffer(array), runs, problem)


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(length for length in shape if length != 1)


def compression_of(method: str | int | None, level: int | None) -> tuple[str, int] | None:
    if method is None:
        return None
    if isinstance(method, int):
        return ("gzip", method)
    if method not in ("gzip", "zstd"):
        raise Problem(f"there is no compression {method!r}; there are gzip and zstd")
    return (method, level if level is not None else {"gzip": 4, "zstd": 3}[method])


def guess_chunk(shape: list[int], size: int, grows: bool) -> list[int]:
    """A row, if the dataset grows; parts of about 1 MiB otherwise, and of long rows."""
    chunk = [max(1, length) for length in shape]
    if grows and chunk:
        chunk[0] = 1
    target = 1 << 20
    for dimension in range(len(chunk)):
        bytes_now = size * int(np.prod(chunk, dtype=np.int64))
        if bytes_now <= target:
            break
        chunk[dimension] = max(1, -(-chunk[dimension] * target // bytes_now))
    if grows and chunk and size * int(np.prod(chunk, dtype=np.int64)) < 1 << 12:
        # Small rows: several in a chunk.
        chunk[0] = max(1, (1 << 14) // max(1, size * int(np.prod(chunk[1:], dtype=np.int64))))
    return chunk
