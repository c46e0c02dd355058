"""netCDF files (CDF-1, CDF-2, CDF-5), written and read by all ranks at once. netCDF4, xarray and ncdump open them.

>>> import aqueduct_io as aq
>>> def main(comm):
...     with aq.netcdf.File("weather.nc", "w", comm) as f:
...         f.create_dimension("time", None)
...         f.create_dimension("x", 8)
...         t = f.create_variable("temperature", "f4", ("time", "x"), units="K")
...         mine = slice(4 * comm.rank, 4 * comm.rank + 4)
...         for step in range(3):
...             t.write([270.0 + step] * 4, (step, mine), collective=True)
...             f.commit()
>>> _ = aq.run(main, ranks=2)
>>> aq.netcdf.File("weather.nc")["temperature"][2, :3]
array([272., 272., 272.], dtype=float32)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import _array_file, _native
from ._array_file import ArrayFile, FileArray, Together
from ._dtypes import Problem
from ._selection import Selection, select
from ._show import table

__all__ = ["Attributes", "Dimension", "File", "Together", "Variable"]

_TYPES = {"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "S1"}


@dataclass(frozen=True)
class Dimension:
    """A dimension."""

    name: str
    size: int
    unlimited: bool


class Attributes(_array_file.Attributes):
    """The attributes of the file or a variable. Setting one is a definition, which is collective."""

    def __init__(self, file: File, variable: str | None) -> None:
        self._file: File = file
        self._variable = variable

    def _all(self) -> dict[str, Any]:
        if self._variable is None:
            pairs = self._file._raw.attributes()
        else:
            pairs = next(one[4] for one in self._file._raw.variables() if one[0] == self._variable)
        return {name: _attribute_value(value) for name, value in pairs}

    def _definition(self, name: str, value: Any) -> tuple[Any, ...]:
        return ("attribute", self._variable, name, _attribute(value))


def _attribute(value: Any) -> tuple[str, Any]:
    if isinstance(value, str):
        return ("text", value)
    array = np.atleast_1d(np.asarray(value))
    if array.dtype.kind == "b":
        array = array.astype("i1")
    name = f"{array.dtype.kind}{array.dtype.itemsize}"
    if name not in _TYPES or array.ndim != 1:
        raise Problem(f"netCDF has no attributes of dtype {array.dtype} and shape {array.shape}", is_type=True)
    return (name, array.astype(array.dtype.newbyteorder("=")).tobytes())


def _attribute_value(value: Any) -> Any:
    if isinstance(value, str):
        return value
    array = np.frombuffer(value[1], dtype=value[0])
    return array[0] if array.size == 1 else array


class Variable(FileArray):
    """A variable. `v[…]` is an access of this rank alone; `v.write` and `v.read` are collective on request."""

    def __init__(self, file: File, about: tuple[Any, ...]) -> None:
        self.file: File = file
        self.name, self._shape = about[0], tuple(about[3])
        self.dtype = self._stored = np.dtype(about[1])
        self.dimensions: tuple[str, ...] = tuple(about[2])
        self._grows = any(one.unlimited for one in file.dimensions.values() if one.name in self.dimensions[:1])

    @property
    def attrs(self) -> Attributes:
        """Its attributes."""
        return Attributes(self.file, self.name)

    def write(self, value: Any, key: Any = (), *, collective: bool = False) -> None:
        """Writes values to a selection; they are broadcast to its shape. A record that does not exist is made."""
        super().write(value, key, collective=collective)

    def _selected(self, key: Any, value: Any = None) -> Selection:
        shape = self.shape
        if self._grows and isinstance(value, np.ndarray) and value.ndim == len(shape) and key in ((), Ellipsis):
            # A whole array of records.
            shape = (value.shape[0], *shape[1:])
        return select(key, shape, self._grows and value is not None)

    def fill(self, record: int | None = None) -> None:
        """Fills the variable, or a record, with its fill value (`_FillValue`). Collective."""
        self.file._raw.fill(self.name, record)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {size}" for name, size in zip(self.dimensions, self.shape, strict=True))
        return f"<netCDF variable {self.name!r} ({sizes}), type {self.dtype}>"


class File(ArrayFile, Mapping[str, Variable]):
    """A netCDF file that all ranks of `comm` have open. Opening, defining, committing and closing are collective.

    `mode` is `r`, `r+`, `w` (replaces), `x` or `w-` (new files only), `a`. `version` is that of the format: 1, 2 or 5. Records count
    when they are committed: a file whose program is killed has the records of the last `commit`.
    """

    _raw: _native.RawNetcdf

    def __init__(
        self,
        name: str,
        mode: str = "r",
        comm: Any = None,
        *,
        version: int = 5,
        durable: bool = True,
        hints: Mapping[str, Any] | None = None,
    ) -> None:
        self._cached: dict[str, Variable] | None = None

        def open(of: Any, filename: str, options: Any) -> Any:
            return _native.RawNetcdf.open(of, filename, options, version)

        super().__init__(open, name, mode, comm, durable, hints)

    @property
    def dimensions(self) -> dict[str, Dimension]:
        """The dimensions."""
        return {name: Dimension(name, size, unlimited) for name, size, unlimited in self._raw.dimensions()}

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables."""
        if self._cached is None:
            self._cached = {about[0]: Variable(self, about) for about in self._raw.variables()}
        return self._cached

    @property
    def attrs(self) -> Attributes:
        """The attributes of the file."""
        return Attributes(self, None)

    def __getitem__(self, name: str) -> Variable:
        if name not in self.variables:
            raise KeyError(f"variable {name!r} in {self.filename}; there are {list(self.variables)}")
        return self.variables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.variables)

    def __len__(self) -> int:
        return len(self.variables)

    def _array(self, name: str) -> Variable:
        return self[name]

    def _define_now(
        self, definitions: list[tuple[Any, ...]], problem: str | None = None, **options: Any
    ) -> None:
        super()._define_now(definitions, problem, **({"rearrange": False} | options))
        self._cached = None

    @contextmanager
    def definitions(self, rearrange: bool = False) -> Iterator[None]:
        """Makes what is defined inside one definition, all or nothing; `rearrange` allows it to move data. Collective."""
        with self._collected(rearrange=rearrange):
            yield

    def create_dimension(self, name: str, size: int | None) -> None:
        """Creates a dimension; None for the unlimited one. Collective."""
        self._define([("dimension", name, size)])

    def create_variable(
        self, name: str, dtype: Any, dimensions: Sequence[str] = (), **attrs: Any
    ) -> Variable:
        """Creates a variable with attributes. Collective. Inside `definitions`, it can be used when they are made."""
        kind = np.dtype(dtype)
        kind_name = f"{kind.kind}{kind.itemsize}"
        problem = None if kind_name in _TYPES else f"type: netCDF has no type for {kind}; convert the values"
        definitions: list[tuple[Any, ...]] = [("variable", name, kind_name, list(dimensions))]
        try:
            definitions += [("attribute", name, key, _attribute(value)) for key, value in attrs.items()]
        except Problem as wrong:
            problem = str(wrong)
        self._define(definitions, problem)
        if self._pending is not None:
            sizes = {one[1]: one[2] for one in self._pending if one[0] == "dimension"}
            known = {one.name: None if one.unlimited else one.size for one in self.dimensions.values()} | sizes
            shape = [known.get(dimension) or 0 for dimension in dimensions]
            made = Variable(self, (name, kind_name, list(dimensions), shape))
            made._grows = bool(dimensions) and known.get(dimensions[0], 0) is None
            return made
        return self[name]

    def commit(self) -> None:
        """Makes the records that all ranks have written a part of the file, durably. Collective."""
        super().commit()

    def refresh(self) -> int:
        """Looks how many records there are now; returns their number. Collective."""
        return self._raw.refresh()

    def __repr__(self) -> str:
        return self._title("netCDF")

    def _repr_html_(self) -> str:
        rows = [
            [one.name, str(one.dtype), ", ".join(one.dimensions), str(one.shape), str(dict(one.attrs) or "")]
            for one in self.variables.values()
        ]
        return table(repr(self), ["variable", "type", "dimensions", "shape", "attributes"], rows)
