"""What notebooks show."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in HTML."""
    head = "".join(f"<th style='text-align:left'>{escape(one)}</th>" for one in heads)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{escape(one)}</td>" for one in row) + "</tr>" for row in rows
    )
    return f"<div><b>{escape(title)}</b><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def amount(size: int) -> str:
    """Bytes with a unit."""
    value, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.0f} {units[0]}" if units[0] == "bytes" else f"{value:.1f} {units[0]}"


def parse_amount(size: int | float | str | None) -> int | None:
    """A number of bytes, such as `"1GiB"` or `"200MB"`."""
    if size is None or isinstance(size, (int, float)):
        return None if size is None else int(size)
    text = size.strip()
    units = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
    units |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
    number = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(number) :].strip().upper()
    if unit not in units:
        raise ValueError(f"{size!r} is not an amount of memory; give bytes, or a text such as '1GiB'")
    return int(float(number) * units[unit])
