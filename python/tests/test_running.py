"""Programs that run, are killed, are restarted, and end."""

import os
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest

import aqueduct_io as aq

WRITER = """
import sys, time, numpy as np, aqueduct_io as aq
name, pause = sys.argv[1], float(sys.argv[2])
def main(comm):
    with aq.Output(name, comm, mode=sys.argv[3], durable_every=1) as out:
        key = out.array("v", (1000 * comm.size,), ((1000 * comm.rank,), (1000,)), "f8", dims=("x",))
        for t in range(int(sys.argv[4])):
            out.step({key: np.full(1000, t, "f8")})
            if comm.rank == 0:
                print(out.progress[1], flush=True)
            time.sleep(pause)
aq.run(main, ranks=2)
"""


def writer(name, pause=0.0, mode="blocking", steps=100_000):
    words = [sys.executable, "-c", WRITER, name, str(pause), mode, str(steps)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


KILLS = int(os.environ.get("AQUEDUCT_PYTHON_KILLS", "1"))


@pytest.mark.parametrize("mode", ["blocking", "thread"])
@pytest.mark.parametrize("suffix", ["out", "nc", "h5"])
@pytest.mark.parametrize("_", range(KILLS))
def test_a_killed_program_leaves_exactly_its_complete_steps(mode, suffix, _):
    xr = pytest.importorskip("xarray")
    name = f"killed.{suffix}"
    program = writer(name, mode=mode)
    for _ in range(20):
        visible = int(program.stdout.readline())
    time.sleep(np.random.default_rng().uniform(0, 0.05))
    program.kill()
    reported = [int(line) for line in program.communicate()[0].split()]
    visible = max([visible, *reported])
    ds = xr.open_dataset(name, engine="aqueduct")
    steps = ds["v"].shape[0]
    assert steps >= visible
    # Each step is whole, and they are in order.
    values = ds["v"].values
    assert np.array_equal(values, np.broadcast_to(np.arange(steps, dtype="f8")[:, None], values.shape))


def test_a_follower_sees_the_steps_of_a_running_program():
    program = writer("followed.out", pause=0.02, steps=30)
    seen, running = [], 0
    for step in aq.follow("followed.out", timeout=60):
        assert (step["v"] == step.number).all()
        seen.append(step.number)
        running += program.poll() is None
    assert seen == list(range(30)) and program.wait() == 0
    assert running > 0, "no step was seen while the program was running"


def test_a_follower_of_nothing_ends():
    with pytest.raises(FileNotFoundError):
        next(aq.follow("never.out", timeout=0.1))


@pytest.mark.parametrize("ranks", [1, 2, 5])
def test_a_checkpoint_of_three_ranks_is_read_by_others(ranks):
    whole = np.arange(30.0).reshape(6, 5)
    records = np.zeros(10, [("id", "u4"), ("r", "f8", 3)])
    records["id"] = np.arange(10)

    def save(comm):
        rows = slice(2 * comm.rank, 2 * comm.rank + 2)
        mine = records[10 * comm.rank // 3 : 10 * (comm.rank + 1) // 3]
        aq.Store("saved", comm).save(5, field=aq.block(whole[rows], (rows.start, 0), whole.shape), particles=mine)

    aq.run(save, ranks=3)

    def load(comm):
        latest = aq.Store("saved", comm).latest()
        return latest.array("field"), latest.records("particles")["id"].tolist()

    loaded = aq.run(load, ranks=ranks)
    assert all(np.array_equal(field, whole) for field, _ in loaded)
    assert sum((ids for _, ids in loaded), []) == list(range(10))


def test_a_checkpoint_is_due_by_interval_deadline_and_signal():
    store = aq.Store("due", until=1000.0, margin=10.0, between_failures=1e9)
    assert store.due(0) and store.reason == "interval" and not store.ending
    store.save(0, t=1)
    assert not store.due(1)
    store = aq.Store("due", until=5.0, margin=10.0)
    assert store.due(0) and store.reason == "deadline" and store.ending
    store.save(0, t=1)
    assert not store.due(1), "once is enough"
    store = aq.Store("due", signals=[signal.SIGUSR1])
    store.save(0, t=1)
    assert not store.due(1)
    os.kill(os.getpid(), signal.SIGUSR1)
    assert store.due(2) and store.reason == "SIGUSR1" and store.ending


def test_a_signal_is_seen_by_ranks_that_are_threads():
    def main(comm):
        store = aq.Store("threads", comm, signals=[signal.SIGUSR2])
        store.save(0, t=1)
        before = store.due(1)
        comm.barrier()
        if comm.rank == 1:
            os.kill(os.getpid(), signal.SIGUSR2)
        for step in range(1000):
            if store.due(step):
                return before, store.reason
            time.sleep(0.01)

    assert aq.run(main, ranks=3) == [(False, "SIGUSR2")] * 3


def test_an_interrupt_ends_ranks_that_compute_and_ranks_that_wait():
    program = (
        "import time, aqueduct_io as aq\n"
        "def main(comm):\n"
        "    if comm.rank: comm.barrier()\n"
        "    print('started', flush=True)\n"
        "    while True: time.sleep(0.01)\n"
        "aq.run(main, ranks=3)\n"
    )
    running = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout.readline() == "started\n"
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, errors = running.communicate(timeout=30)
    assert running.returncode != 0 and "KeyboardInterrupt" in errors, errors


def test_the_deadline_of_slurm_is_that_of_its_environment(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time()) + 5))
    store = aq.Store("slurm", until="slurm")
    store.save(0, t=1)
    assert store.due(1) and store.reason == "deadline"


def test_a_thousand_opens_and_closes_leak_nothing():
    np.arange(10.0).tofile("plain")
    with aq.hdf5.File("x.h5", "w") as f:
        f.create_dataset("x", data=np.arange(10.0))
    with aq.Output("x.out") as out:
        out.step({out.array("v", (10,)): np.zeros(10)})
    aq.write_objects("x", np.arange(10))

    def once():
        with aq.open("plain") as file:
            file.read(10, "f8")
        with aq.hdf5.File("x.h5") as f:
            f["x"][:]
        with aq.Reader("x.out") as reader:
            reader["v"][0]
        with aq.objects("x") as found:
            found[:]

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    for _ in range(100):
        once()
    descriptors, before = len(os.listdir("/proc/self/fd")), resident()
    tracemalloc.start()
    for _ in range(50):
        once()
    first = tracemalloc.get_traced_memory()[0]
    for _ in range(850):
        once()
    grown = tracemalloc.get_traced_memory()[0] - first
    tracemalloc.stop()
    assert grown < 100_000, f"{grown} bytes of Python objects"
    assert resident() - before < 16 << 20, f"{resident() - before} bytes of memory"
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def test_objects_that_are_dropped_while_open_end_quietly():
    out = aq.Output("dropped.out", mode="thread")
    key = out.array("v", (10,))
    out.step({key: np.zeros(10)})
    del out, key
    file = aq.hdf5.File("dropped.h5", "w")
    file.create_dataset("x", data=[1.0])
    del file
    assert len(aq.Reader("dropped.out")["v"]) <= 1
