"""k-Wave for Python drives `wave` as its binary, and its own solver agrees: kwave_python.py WAVE FOLDER. Prints the differences."""
import sys
from pathlib import Path

import numpy as np

from kwave.data import Vector
from kwave.kgrid import kWaveGrid
from kwave.kmedium import kWaveMedium
from kwave.ksensor import kSensor
from kwave.ksource import kSource
from kwave.kspaceFirstOrder import kspaceFirstOrder
from kwave.kspaceFirstOrder2D import kspaceFirstOrder2D
from kwave.kspaceFirstOrder3D import kspaceFirstOrder3D
from kwave.options.simulation_execution_options import SimulationExecutionOptions
from kwave.options.simulation_options import SimulationOptions

WAVE, FOLDER = Path(sys.argv[1]), Path(sys.argv[2])
BOUND = 5e-6


def grid(size, steps):
    made = kWaveGrid(Vector(size), Vector([1e-4] * len(size)))
    made.setTime(steps, 2e-8)
    return made


def medium(kind, size):
    if kind == "heterogeneous":
        # Uniform at the borders: writers of files and solvers move the density there in different ways.
        axes = np.meshgrid(*[np.arange(n) - n // 2 for n in size], indexing="ij")
        bump = np.exp(-sum(a**2 for a in axes) / 3.0)
        return kWaveMedium(sound_speed=1500 + 90 * bump, density=1000 + 70 * bump, alpha_coeff=0.75, alpha_power=1.5, BonA=6)
    if kind == "full":
        return kWaveMedium(sound_speed=1500, density=1000, alpha_coeff=0.75, alpha_power=1.5, BonA=6)
    return kWaveMedium(sound_speed=1500, density=1000)


def sensor(size, records):
    rng = np.random.default_rng(7)
    mask = rng.random(size) < 0.02
    return kSensor(mask=mask, record=records)


def places(mask):
    """The numbers of the points of a mask in the order of C, listed with x fastest."""
    number = np.cumsum(mask.ravel() != 0).reshape(mask.shape) - 1
    return number.ravel(order="F")[mask.ravel(order="F") != 0]


def sources(kind, size, steps, order="F"):
    """Signals of points with x fastest, the order of files; or in the order of C, that of the solver in NumPy."""
    rng = np.random.default_rng(3)
    source = kSource()
    if kind == "p0":
        axes = np.meshgrid(*[np.arange(n) - n // 2 for n in size], indexing="ij")
        source.p0 = 1e4 * np.exp(-sum(a**2 for a in axes) / 9.0)
        return source
    mask = np.zeros(size)
    # Where the medium is uniform: the scale of a source depends on the speed of sound beside it, of which the older functions take another value.
    axes = np.meshgrid(*[np.arange(n) - n // 2 for n in size], indexing="ij")
    far = np.flatnonzero(sum(a**2 for a in axes) > 40)
    mask.flat[rng.permutation(far)[:6]] = 1
    count = int(mask.sum())
    time = np.arange(steps)
    signal = np.sin(0.4 * time)[None] * np.hanning(2 * steps + 1)[:steps][None] * rng.uniform(0.5, 1, (count, 1))
    if order == "C":
        signal = signal[np.argsort(places(mask))]
    if kind.startswith("p_"):
        source.p_mask, source.p, source.p_mode = mask, 1e4 * signal, kind[2:]
    else:
        source.u_mask, source.u_mode = mask, kind[2:]
        source.ux, source.uy = 0.01 * signal, -0.02 * signal
    return source


def check(name, size, steps, kind, media="lossless"):
    axes = "xyz"[: len(size)]
    pml = [4, 3, 3][: len(size)]
    driven = {2: kspaceFirstOrder2D, 3: kspaceFirstOrder3D}[len(size)]
    options = SimulationOptions(
        save_to_disk=True, input_filename=f"{name}_in.h5", output_filename=f"{name}_out.h5", data_path=str(FOLDER),
        pml_inside=True, pml_size=pml, smooth_p0=False,
    )
    execution = SimulationExecutionOptions(is_gpu_simulation=False, binary_path=WAVE, show_sim_log=False)
    records = ["p", "p_max", "p_min", "p_rms", "p_final", "u", "u_non_staggered", "u_final"]
    mask = sensor(size, records)
    ours = driven(grid(size, steps), sources(kind, size, steps), mask, medium(media, size), options, execution)
    # What is `u` here is `u_staggered` there, and `u_non_staggered` is `u`.
    records = ["p", "p_max", "p_min", "p_rms", "p_final", "u", "u_staggered", "u_final"]
    theirs = kspaceFirstOrder(
        grid(size, steps), medium(media, size), sources(kind, size, steps, "C"), sensor(size, records),
        pml_size=tuple(pml), pml_inside=True, smooth_p0=False, quiet=True, dtype=np.float64,
    )
    # Points of theirs are in the order of C, those of the files with x fastest.
    order = places(mask.mask)
    found = {}

    def compare(key, one, other, scale):
        assert one.shape == other.shape, f"{name}: {key} has the shapes {one.shape} and {other.shape}"
        found[key] = np.abs(one - other).max() / scale

    scale = np.abs(theirs["p"]).max()
    compare("p", ours["p"].T, theirs["p"][order], scale)
    for record in ("p_max", "p_min", "p_rms"):
        compare(record, np.ravel(ours[record]), np.ravel(theirs[record])[order], scale)
    inside = tuple(slice(layer, -layer) for layer in pml)
    compare("p_final", ours["p_final"].T[inside], theirs["p_final"], scale)
    speed = max(np.abs(theirs[f"u{axis}_staggered"]).max() for axis in axes)
    for axis in axes:
        compare(f"u{axis}", ours[f"u{axis}"].T, theirs[f"u{axis}_staggered"][order], speed)
        compare(f"u{axis}_non_staggered", ours[f"u{axis}_non_staggered"].T, theirs[f"u{axis}"][order], speed)
        compare(f"u{axis}_final", ours[f"u{axis}_final"].T[inside], theirs[f"u{axis}_final"], speed)
    worst = max(found, key=found.get)
    assert found[worst] <= BOUND, f"{name}: {worst} differs by {found[worst]:.1e} of the maximum, more than {BOUND:.0e}"
    print(f"{name:24} {len(found)} quantities, {found[worst]:.1e} ({worst})", flush=True)


check("p0_3d", (20, 18, 16), 40, "p0")
check("p0_3d_full", (20, 18, 16), 40, "p0", "full")
check("p0_odd_heterogeneous", (21, 17, 19), 40, "p0", "heterogeneous")
check("p_additive", (20, 18, 16), 40, "p_additive", "full")
check("p_heterogeneous", (20, 18, 16), 40, "p_additive", "heterogeneous")
check("p_no_correction", (20, 18, 16), 40, "p_additive-no-correction")
check("p_dirichlet", (20, 18, 16), 40, "p_dirichlet")
check("u_additive", (20, 18, 16), 40, "u_additive")
check("p0_2d_full", (24, 22), 40, "p0", "full")
check("p0_2d_heterogeneous", (25, 22), 40, "p0", "heterogeneous")
check("p_additive_2d", (24, 22), 40, "p_additive", "full")
check("p_dirichlet_2d", (24, 22), 40, "p_dirichlet")
check("u_additive_2d", (24, 22), 40, "u_additive")
