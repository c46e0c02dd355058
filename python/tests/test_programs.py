"""Programs on several ranks: threads of one interpreter, and processes under every MPI that there is."""

import os
import re
import shutil
import subprocess
import sys
import threading

import collective_program
import pytest

import aqueduct_io as aq

PROGRAM = collective_program.__file__


@pytest.mark.parametrize("case", collective_program.ALL, ids=lambda case: case.__name__)
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_collective_method_on_threads(case, ranks, tmp_path):
    """Under a watchdog: a call that waits with the interpreter lock held would never return."""
    outcome = []
    run = threading.Thread(
        target=lambda: outcome.append(aq.run(lambda comm: case(comm, str(tmp_path / "f")), ranks=ranks)), daemon=True
    )
    run.start()
    run.join(60)
    assert not run.is_alive(), f"{case.__name__} does not end"
    assert outcome == [[None] * ranks]


def launch(command, **environment):
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ranks_of_the_environment(tmp_path):
    out = launch([sys.executable, PROGRAM, str(tmp_path)], AQUEDUCT_RANKS="3")
    assert "(2, 3)" in out


def launchers():
    """The launchers that the environment names: of Debian, or of the wheel `mpich`."""
    named = os.environ.get("AQUEDUCT_PYTHON_LAUNCHERS", "").split(os.pathsep)
    return [one for one in named if one]


def mpirun(launcher, *words):
    command = [launcher, "-n", "3", sys.executable, *words]
    if "openmpi" in launcher:
        command[1:1] = ["--oversubscribe", "--allow-run-as-root"]
    return command


needs_mpi = pytest.mark.skipif(not launchers(), reason="AQUEDUCT_PYTHON_LAUNCHERS names no launchers of MPI")


@needs_mpi
@pytest.mark.parametrize("launcher", launchers(), ids=os.path.basename)
def test_under_mpi_without_mpi4py(launcher, tmp_path):
    assert launch(mpirun(launcher, PROGRAM, str(tmp_path))).count("done") == 3


@needs_mpi
@pytest.mark.parametrize("launcher", launchers(), ids=os.path.basename)
def test_with_communicators_of_mpi4py(launcher, tmp_path):
    # mpi4py is built for each MPI library.
    folder = os.environ.get("AQUEDUCT_PYTHON_MPI4PY")
    if folder is None and "mpich" in launcher:
        pytest.skip("AQUEDUCT_PYTHON_MPI4PY names no mpi4py for Debian's MPICH, whose name the wheel does not know")
    library = "" if folder is None else os.path.join(folder, launcher.rsplit(".", 1)[-1])
    path = os.pathsep.join(one for one in (library, os.environ.get("PYTHONPATH", "")) if one)
    out = launch(mpirun(launcher, PROGRAM, str(tmp_path), "--mpi4py"), PYTHONPATH=path)
    # The launcher may join the lines of ranks.
    assert sorted(re.findall(r"done \d \d", out)) == [f"done {rank} 3" for rank in range(3)]


@needs_mpi
def test_an_exception_of_one_rank_ends_the_job(tmp_path):
    program = tmp_path / "failing.py"
    program.write_text(
        "import aqueduct_io as aq\n"
        "def main(comm):\n"
        "    if comm.rank == 1:\n        raise RuntimeError('no input')\n"
        "    comm.barrier()\n"
        "aq.run(main)\n"
    )
    done = subprocess.run(mpirun(launchers()[0], str(program)), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode != 0 and "RuntimeError: no input" in done.stderr, done.stderr


def test_an_exception_of_one_rank_ends_the_calls_of_the_others():
    ended = []
    started = threading.Barrier(3)

    def main(comm):
        # A rank that starts after the failure of another may not be called.
        started.wait(timeout=60)
        if comm.rank == 1:
            raise LookupError("no input on this rank")
        try:
            comm.barrier()
        except aq.Error as error:
            ended.append((comm.rank, str(error)))
            raise

    with pytest.raises(LookupError, match="no input") as raised:
        aq.run(main, ranks=3)
    assert "rank 1" in "".join(raised.value.__notes__)
    assert sorted(rank for rank, _ in ended) == [0, 2] and all("rank 1" in text for _, text in ended), ended


def test_a_rank_that_is_missing_is_an_exception_that_names_it():
    def main(comm):
        if comm.rank != 1:
            aq.hdf5.File("missing.h5", "w", comm)

    with pytest.raises(aq.Error, match="rank 1 the end of the program"):
        aq.run(main, ranks=3)


def test_results_are_in_the_order_of_ranks():
    assert aq.run(lambda comm: comm.rank**2, ranks=5) == [0, 1, 4, 9, 16]


@pytest.mark.parametrize("first", ["aqueduct_io", "h5py", "netCDF4", "xarray"])
def test_beside_other_packages_imported_in_any_order(first):
    names = ["h5py", "netCDF4", "xarray", "aqueduct_io", "mpi4py"]
    order = [first, *(name for name in names if name != first)]
    for name in names:
        if name not in ("aqueduct_io",):
            pytest.importorskip(name)
    program = "\n".join(f"import {name}" for name in order) + (
        "\nimport numpy as np"
        "\nwith aqueduct_io.hdf5.File('ours.h5', 'w') as f: f.create_dataset('x', data=np.arange(4.0))"
        "\nwith h5py.File('theirs.h5', 'w') as f: f['x'] = np.arange(4.0)"
        "\nassert h5py.File('ours.h5')['x'][:].tolist() == aqueduct_io.hdf5.File('theirs.h5')['x'][:].tolist()"
        "\nxarray.open_dataset('ours.h5', engine='aqueduct')['x'].sum()"
        "\nnetCDF4.Dataset('ours.h5')['x'][:]"
    )
    launch([sys.executable, "-c", program])


def test_the_module_exports_its_entry_point_only():
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    from aqueduct_io import _native

    symbols = subprocess.run(["nm", "-D", "--defined-only", _native.__file__], capture_output=True, text=True, check=True)
    exported = {line.split()[-1] for line in symbols.stdout.splitlines()}
    assert exported == {"PyInit__native"}, exported
