"""Exceptions: what a Python program expects, with the kind, the rank and the file of the error."""

from __future__ import annotations

import errno


class Error(OSError):
    """An operation on a file, a stream or a checkpoint failed.

    Errors are of the class that Python has for them too: an error of a missing file is an
    `aq.Error` and a `FileNotFoundError`, a missing name an `aq.Error` and a `KeyError`.

    >>> import aqueduct_io as aq
    >>> try:
    ...     aq.open("missing.bin")
    ... except FileNotFoundError as error:
    ...     print(error.kind, error.path)
    NoSuchFile missing.bin
    """

    kind: str
    """What went wrong, such as `NoSpace`: the kinds of the Rust library."""
    path: str
    """The file."""
    rank: int | None
    """The rank on which it happened, if that is known."""
    step: int | None
    """The step of an output that failed, if it is one."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class _MissingFile(Error, FileNotFoundError):
    __qualname__ = "Error"


class _ExistingFile(Error, FileExistsError):
    __qualname__ = "Error"


class _Forbidden(Error, PermissionError):
    __qualname__ = "Error"


class _BadValue(Error, ValueError):
    __qualname__ = "Error"


class _BadType(Error, TypeError):
    __qualname__ = "Error"


class _MissingName(Error, KeyError):
    __qualname__ = "Error"


_CLASSES: dict[str, tuple[type[Error], int]] = {
    "NoSuchFile": (_MissingFile, errno.ENOENT),
    "NoCheckpoint": (_MissingFile, errno.ENOENT),
    "FileExists": (_ExistingFile, errno.EEXIST),
    "AccessDenied": (_Forbidden, errno.EACCES),
    "ReadOnly": (_Forbidden, errno.EACCES),
    "WriteOnly": (_Forbidden, errno.EACCES),
    "NoSpace": (Error, errno.ENOSPC),
    "Quota": (Error, errno.EDQUOT),
    "InUse": (Error, errno.EBUSY),
    "Io": (Error, errno.EIO),
    "BadArgument": (_BadValue, errno.EINVAL),
    "BadCount": (_BadValue, errno.EINVAL),
    "BadLayout": (_BadValue, errno.EINVAL),
    "BadMode": (_BadValue, errno.EINVAL),
    "BadName": (_BadValue, errno.EINVAL),
    "Closed": (_BadValue, errno.EBADF),
    "NotSame": (_BadValue, errno.EINVAL),
    "Overlap": (_BadValue, errno.EINVAL),
    "TooLarge": (_BadValue, errno.EINVAL),
    "WrongType": (_BadType, errno.EINVAL),
    "NoSuchName": (_MissingName, errno.ENOENT),
    "NameExists": (_BadValue, errno.EEXIST),
    "Unsupported": (Error, errno.ENOTSUP),
}


def make(kind: str, message: str, path: str, rank: int | None = None, step: int | None = None) -> Error:
    """The exception for an error of the Rust library."""
    kind_class, number = _CLASSES.get(kind, (Error, errno.EIO))
    made = kind_class(message)
    made.errno = number
    made.kind, made.path, made.rank, made.step = kind, path, rank, step
    return made
