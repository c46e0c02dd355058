"""Selections: what stands between the brackets of an array."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class Selection:
    """A part of an array: a block with strides."""

    start: list[int]
    count: list[int]
    stride: list[int] | None
    shape: tuple[int, ...]
    """The shape of the values: without the dimensions that a number selects."""
    flip: tuple[int, ...]
    """The dimensions of the values that are to be reversed."""


def select(key: Any, shape: tuple[int, ...], grows: bool = False) -> Selection:
    """The selection of a key: numbers, slices and `...`. With `grows`, a write may reach beyond the end of the first dimension."""
    keys = key if type(key) is tuple else (key,)
    rank = len(shape)
    for at, one in enumerate(keys):
        if one is Ellipsis:
            keys = keys[:at] + (slice(None),) * (rank - len(keys) + 1) + keys[at + 1 :]
            break
    if len(keys) > rank:
        raise IndexError(f"{len(keys)} indices for {rank} dimensions")
    if len(keys) < rank:
        keys = keys + (slice(None),) * (rank - len(keys))
    start: list[int] = []
    count: list[int] = []
    stride: list[int] = []
    kept: list[int] = []
    flip: list[int] = []
    plain = True
    for dimension, one in enumerate(keys):
        length = shape[dimension]
        if type(one) is slice:
            if grows and dimension == 0 and one.stop is not None and one.stop > length:
                length = one.stop
            first, stop, step = one.indices(length)
            number = len(range(first, stop, step))
            if step < 0:
                flip.append(len(kept))
                first, step = first + (number - 1) * step if number else 0, -step
            start.append(first)
            count.append(number)
            stride.append(step if number > 1 else 1)
            kept.append(number)
            plain = plain and (step == 1 or number <= 1)
            continue
        try:
            at = operator.index(one)
        except TypeError:
            message = f"index {one!r} in dimension {dimension}; numbers, slices and ... are possible: read a part and index that"
            raise IndexError(message) from None
        if at < 0:
            at += length
        if not 0 <= at < length and not (grows and dimension == 0 and at >= 0):
            raise IndexError(f"index {one} in dimension {dimension} of length {length}")
        start.append(at)
        count.append(1)
        stride.append(1)
    return Selection(start, count, None if plain else stride, tuple(kept), tuple(flip))


def flipped(values: Any, selection: Selection) -> Any:
    """Values in the order of the key."""
    if not selection.flip:
        return values
    reverse = (slice(None, None, -1) if at in selection.flip else slice(None) for at in range(values.ndim))
    return values[tuple(reverse)]
