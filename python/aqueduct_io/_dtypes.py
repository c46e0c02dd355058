"""Types of elements: numpy dtypes, the trees that the compiled module takes, and the types in files."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

Tree = Any
"""A string for a number, or a tuple: see `crates/python/src/datatype.rs`."""

Runs = list[tuple[int, int]] | None
"""The stored bytes of an element as (offset, length); None for all."""

_DEEPEST = 32


class Problem(Exception):
    """An argument that cannot be used. All ranks learn of it, by the call that it is an argument of."""

    def __init__(self, text: str, is_type: bool = False) -> None:
        super().__init__(f"type: {text}" if is_type else text)


def named(what: str, problem: str) -> str:
    """A problem with what it is a problem of."""
    plain = problem.removeprefix("type: ")
    return f"{'type: ' if plain != problem else ''}{what}: {plain}"


def tree_of(dtype: np.dtype[Any], name: str = "record") -> Tree:
    """The tree of a dtype; a `Problem` if no file can have it."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        tree = tree_of(base, name)
        for length in reversed(shape):
            tree = ("array", tree, int(length))
        return tree
    if dtype.fields is not None and dtype.names is not None:
        if not dtype.names:
            raise Problem("a structure without fields cannot be stored", is_type=True)
        fields = [(field, tree_of(dtype.fields[field][0], field)) for field in dtype.names]
        return ("struct", name, fields)
    if not dtype.isnative:
        raise Problem(f"values of the other byte order ({dtype.str}); convert them with astype", is_type=True)
    if dtype.kind in "biufc" and (dtype.kind, dtype.itemsize) not in (("f", 16), ("c", 32)):
        return f"{dtype.kind}{dtype.itemsize}"
    if dtype.kind == "S" and dtype.itemsize > 0:
        return ("S", dtype.itemsize)
    if dtype.kind == "V" and dtype.itemsize > 0:
        return ("V", dtype.itemsize)
    remedy = {
        "U": "encode the text (np.char.encode)",
        "M": "store .view('i8') and the unit as an attribute",
        "m": "store .view('i8') and the unit as an attribute",
        "O": "give a dtype of numbers or fixed-size text",
    }.get(dtype.kind, "convert them with astype")
    raise Problem(f"values of dtype {dtype} cannot be stored; {remedy}", is_type=True)


def runs_of(dtype: np.dtype[Any]) -> Runs:
    """The stored bytes of an element; None if all are."""
    if dtype.fields is None and dtype.subdtype is None:
        return None
    runs: list[tuple[int, int]] = []

    def add(of: np.dtype[Any], at: int) -> None:
        if of.subdtype is not None:
            base, shape = of.subdtype
            if runs_of(base) is None:
                put(at, of.itemsize)
                return
            for number in range(int(np.prod(shape))):
                add(base, at + number * base.itemsize)
        elif of.fields is not None and of.names is not None:
            for field in of.names:
                kind, offset = of.fields[field][:2]
                add(kind, at + offset)
        else:
            put(at, of.itemsize)

    def put(at: int, length: int) -> None:
        if runs and runs[-1][0] + runs[-1][1] == at:
            runs[-1] = (runs[-1][0], runs[-1][1] + length)
        else:
            runs.append((at, length))

    add(dtype, 0)
    return None if runs == [(0, dtype.itemsize)] else runs


def packed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The same fields without gaps, which is how files have them."""
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return np.dtype((packed(base), shape))
    if dtype.fields is not None and dtype.names is not None:
        return np.dtype([(field, packed(dtype.fields[field][0])) for field in dtype.names])
    return dtype


def prepare(value: Any, dtype: np.dtype[Any] | None = None) -> tuple[Any, Runs, str | None]:
    """An array for the compiled module: the array, its stored bytes, and what is wrong with it, if something is.

    Values are converted to `dtype` where numpy's assignment would do it ("same kind").
    """
    if type(value) is np.ndarray and value.dtype is dtype and dtype.isbuiltin == 1 and dtype.kind in "biufc":
        # What is written most often.
        return value, None, None
    try:
        array = np.asarray(value)
        if dtype is not None and array.dtype != dtype:
            array = converted(array, dtype)
        if not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        tree_of(array.dtype)
        return array, runs_of(array.dtype), None
    except Problem as problem:
        return b"", None, str(problem)
    except (ValueError, TypeError) as error:
        return b"", None, f"type: {error}"


def converted(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The values with another dtype, if that loses no more than precision."""
    if array.dtype.fields is not None and dtype.fields is not None:
        if array.dtype.names != dtype.names:
            raise Problem(f"values with the fields {array.dtype.names}, not {dtype.names}", is_type=True)
        if packed(array.dtype) == packed(dtype):
            return array
    if not np.can_cast(array.dtype, dtype, casting="same_kind"):
        raise Problem(f"values of dtype {array.dtype}, not {dtype}; convert them with astype", is_type=True)
    return array.astype(dtype)


def buffer(array: Any) -> Any:
    """The array as the buffer protocol can pass it: a single value as an array of one."""
    return array.reshape(1) if getattr(array, "ndim", 1) == 0 else array


def exact(value: Any, dtype: np.dtype[Any]) -> tuple[Any, str | None]:
    """An array of exactly this dtype, which is not copied, and what is wrong with it, if something is."""
    if isinstance(value, np.ndarray) or hasattr(value, "__array_interface__"):
        array = np.asarray(value)
        if array.dtype != dtype:
            return b"", f"type: values of dtype {array.dtype}, the stream has {dtype}; convert them with astype"
        return array, None
    try:
        return np.asarray(value, dtype=dtype), None
    except (ValueError, TypeError) as error:
        return b"", f"type: {error}"


def dtype_of_hdf5(tree: Tree) -> np.dtype[Any] | None:
    """The dtype of an HDF5 type; None if it cannot be read as an array."""
    if tree is None or tree == "text":
        return None
    if isinstance(tree, str):
        return np.dtype(tree)
    word = tree[0]
    if word in ("S", "V"):
        return np.dtype(f"{word}{tree[1]}")
    if word == "enum":
        return np.dtype(f"i{tree[1]}")
    if word == "array":
        base = dtype_of_hdf5(tree[1])
        return None if base is None else np.dtype((base, (tree[2],)))
    names = [name for name, _, _ in tree[2]]
    parts = [dtype_of_hdf5(part) for _, _, part in tree[2]]
    if names == ["r", "i"] and all(part in (np.dtype("f4"), np.dtype("f8")) for part in parts):
        first = parts[0]
        if first is not None and parts[1] == first and tree[1] == 2 * first.itemsize:
            return np.dtype(f"c{tree[1]}")
    if any(part is None for part in parts):
        return None
    offsets = [offset for _, offset, _ in tree[2]]
    return np.dtype({"names": names, "formats": parts, "offsets": offsets, "itemsize": tree[1]})


_NUMBER = re.compile(r"(bool|u8|u16|u32|u64|i8|i16|i32|i64|f16|f32|f64|char)(?![\w])")
_NUMBERS = {
    "bool": "?", "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "i8": "i1", "i16": "i2", "i32": "i4",
    "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8", "char": "u4",
}  # fmt: skip


class _Signature:
    """A parser of the signatures in manifests: `docs/format-object.md`."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def parse(self, depth: int = 0) -> np.dtype[Any]:
        if depth > _DEEPEST:
            raise ValueError("too deep")
        if self.take("["):
            inner = self.parse(depth + 1)
            self.expect(";")
            length = self.word(r"\d{1,9}")
            self.expect("]")
            if inner.subdtype is not None:
                base, shape = inner.subdtype
                return np.dtype((base, (int(length), *shape)))
            return np.dtype((inner, (int(length),)))
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            return np.dtype(_NUMBERS[number.group(1)])
        self.word(r"[^{}\[\]()<>;:,=?^]*")
        self.expect("{")
        fields: list[tuple[str, np.dtype[Any]]] = []
        while not self.take("}"):
            if fields:
                self.expect(",")
            name = self.word(r"[^{}\[\]()<>;:,=?^]+")
            self.expect(":")
            fields.append((name, self.parse(depth + 1)))
            if self.take("<"):
                self.word(r"[^<>]*")
                self.expect(">")
        if [name for name, _ in fields] == ["r", "i"] and fields[0][1] == fields[1][1]:
            part = fields[0][1]
            if part.kind == "f" and part.itemsize in (4, 8):
                return np.dtype(f"c{2 * part.itemsize}")
        return np.dtype(fields)

    def take(self, character: str) -> bool:
        found = self.text.startswith(character, self.at)
        self.at += len(character) if found else 0
        return found

    def expect(self, character: str) -> None:
        if not self.take(character):
            raise ValueError(f"no {character!r} at {self.at}")

    def word(self, pattern: str) -> str:
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            raise ValueError(f"no {pattern} at {self.at}")
        self.at = found.end()
        return found.group()


def dtype_of_signature(text: str) -> np.dtype[Any] | None:
    """The dtype of a signature; None if it has parts of variable size."""
    parser = _Signature(text)
    try:
        dtype = parser.parse()
    except (ValueError, TypeError, OverflowError):
        return None
    return dtype if parser.at == len(text) else None
