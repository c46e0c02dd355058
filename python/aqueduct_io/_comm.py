"""Communicators, and programs on several ranks."""

from __future__ import annotations

import ctypes
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeVar

from . import _native
from ._native import Comm

Result = TypeVar("Result")

_LAUNCHERS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK", "MPI_LOCALNRANKS")

_single: Comm | None = None
_lock = threading.Lock()


def communicator(comm: Any = None) -> Comm:
    """The communicator of an argument `comm`: None is one rank; an `aq.Comm`; or one of mpi4py. Collective, if it is of mpi4py.

    A communicator of mpi4py has one `aq.Comm`, which is made by the first call and freed with it.

    >>> import aqueduct_io as aq
    >>> aq.communicator()
    <aqueduct_io.Comm rank 0 of 1>
    """
    global _single
    if comm is None:
        with _lock:
            if _single is None:
                _single = Comm.single()
            return _single
    if isinstance(comm, Comm):
        return comm
    handle = getattr(comm, "handle", None)
    if handle is None and "mpi4py.MPI" in sys.modules:
        # mpi4py before 4.0.
        handle = sys.modules["mpi4py.MPI"]._handleof(comm)
    if not isinstance(handle, int):
        raise TypeError(f"comm is a {type(comm).__name__}; give a communicator of mpi4py, an aq.Comm, or None for one rank")
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None:
        if comm == mpi.COMM_NULL:
            raise ValueError("comm is MPI.COMM_NULL; give a communicator that this process belongs to")
        if mpi.Is_finalized():
            raise ValueError("MPI is finalized; files are opened before that")
    return Comm.of_mpi(handle)


def run(main: Callable[[Comm], Result], ranks: int | None = None) -> list[Result]:
    """Calls `main(comm)` on every rank; returns the results of the ranks of this process, in their order.

    Under `mpirun` this process is one rank. Otherwise ranks are threads: `ranks` of them, or as many as `AQUEDUCT_RANKS` says, or
    as there are cores. Threads share the interpreter: numpy and the calls of this package overlap, Python code does not, unless the
    interpreter is a free-threaded one.

    An exception of one rank ends the calls of the others, and is raised here.

    >>> import aqueduct_io as aq
    >>> aq.run(lambda comm: (comm.rank, comm.size), ranks=3)
    [(0, 3), (1, 3), (2, 3)]
    """
    mpi = sys.modules.get("mpi4py.MPI")
    launched = any(name in os.environ for name in _LAUNCHERS)
    if launched and mpi is not None and mpi.Is_initialized() and not mpi.Is_finalized():
        return [_on_mpi4py(main, mpi)]

    def program(comm: Comm) -> Result:
        try:
            return main(comm)
        except BaseException:
            if launched:
                # The job is aborted: the exception would not be seen.
                traceback.print_exc()
                sys.stderr.flush()
            raise

    if launched or threading.current_thread() is not threading.main_thread():
        results: list[Result] = _native.run(program, ranks)
        return results
    return _run_beside(program, ranks)


_main_calls: queue.SimpleQueue[Callable[[], object] | None] | None = None


def on_main_thread(call: Callable[[], object]) -> bool:
    """Makes a call on the main thread, which waits in `run`: handlers of signals are set there. False if it does not wait."""
    if threading.current_thread() is threading.main_thread():
        call()
        return True
    calls = _main_calls
    if calls is None:
        return False
    done = threading.Event()

    def work() -> None:
        try:
            call()
        finally:
            done.set()

    calls.put(work)
    return done.wait(10.0)


def _run_beside(program: Callable[[Comm], Result], ranks: int | None) -> list[Result]:
    """Runs ranks as threads while the main thread serves signals: Ctrl-C ends all ranks."""
    global _main_calls
    calls: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
    started: list[int] = []
    results: list[Result] = []
    failed: list[BaseException] = []

    def rank_program(comm: Comm) -> Result:
        started.append(threading.get_ident())
        try:
            return program(comm)
        finally:
            started.remove(threading.get_ident())

    def work() -> None:
        try:
            results.extend(_native.run(rank_program, ranks))
        except BaseException as error:
            failed.append(error)
        finally:
            calls.put(None)

    before, _main_calls = _main_calls, calls
    worker = threading.Thread(target=work, name="aqueduct run", daemon=True)
    worker.start()
    try:
        while True:
            try:
                call = calls.get()
                if call is None:
                    break
                call()
            except KeyboardInterrupt:
                for thread in list(started):
                    exception = ctypes.py_object(KeyboardInterrupt)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), exception)
    finally:
        _main_calls = before
    worker.join()
    if failed:
        raise failed[0]
    return results


def _on_mpi4py(main: Callable[[Comm], Result], mpi: Any) -> Result:
    try:
        return main(communicator(mpi.COMM_WORLD))
    except BaseException:
        if mpi.COMM_WORLD.size > 1:
            traceback.print_exc()
            sys.stderr.flush()
            mpi.COMM_WORLD.Abort(1)
        raise
