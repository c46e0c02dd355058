"""Input files that are invalid in one place: `wave` names the dataset and the reason. hostile_inputs.py WAVE FOLDER"""
import shutil
import subprocess
import sys

import h5py
import numpy as np

WAVE, FOLDER = sys.argv[1:3]
N = 24


def put(name, values, dtype=None):
    """Replaces a dataset."""
    def change(file):
        if name in file:
            del file[name]
        file.create_dataset(name, data=np.asarray(values, dtype))
    return change


def long(name, value):
    return put(name, np.full((1, 1, 1), value, "<u8"))


def number(name, value):
    return put(name, np.full((1, 1, 1), value, "<f4"))


def field(name, value, at=(3, 4, 5)):
    """Changes one value of a field."""
    def change(file):
        file[name][at] = value
    return change


def longs(name, values):
    return put(name, np.asarray(values, "<u8").reshape(1, 1, -1))


def without(name):
    def change(file):
        del file[name]
    return change


def both(*changes):
    return lambda file: [change(file) for change in changes]


def text(name, value):
    return lambda file: file.attrs.__setitem__(name, np.bytes_(value))


def corners(*values):
    return both(long("sensor_mask_type", 1), put("sensor_mask_corners", np.array([[values]], "<u8").reshape(1, 1, -1)))


# What is changed; words that the message has.
CASES = [
    (text("file_type", "output"), ["file_type", "output"]),
    (text("major_version", "2"), ["version 2"]),
    (text("minor_version", "7"), ["version 1.7"]),
    (without("Nx"), ["Nx", "missing"]),
    (without("c0"), ["c0", "missing"]),
    (without("rho0_sgz"), ["rho0_sgz", "missing"]),
    (without("alpha_coeff"), ["alpha_coeff", "missing"]),
    (without("BonA"), ["BonA", "missing"]),
    (without("pml_y_size"), ["pml_y_size", "missing"]),
    (without("p_source_input"), ["p_source_input", "missing"]),
    (without("p_source_index"), ["p_source_index", "missing"]),
    (long("Nx", 0), ["Nx is 0"]),
    (long("Ny", 1), ["one dimension"]),
    (long("Nz", 1 << 63), ["Nz"]),
    (both(long("Nx", 1 << 20), long("Ny", 1 << 20), long("Nz", 1 << 20)), ["Nx, Ny and Nz"]),
    (both(long("Nx", 1 << 14), long("Ny", 1 << 14), long("Nz", 1 << 14)), ["GiB"]),
    (long("Nt", 0), ["Nt is 0"]),
    (long("Nt", (1 << 64) - 1), ["Nt is"]),
    (number("Nx", 24), ["Nx", "float", "long"]),
    (put("Nx", np.uint64(24)), ["Nx", "shape"]),
    (put("Nx", np.full((1, 1, 2), 24, "<u8")), ["Nx", "shape"]),
    (number("dt", 0), ["dt is 0"]),
    (number("dt", -1e-8), ["dt is -"]),
    (number("dt", np.nan), ["dt is NaN"]),
    (number("dx", 0), ["dx is 0"]),
    (number("dz", np.inf), ["dz is inf"]),
    (number("c_ref", -1), ["c_ref is -1"]),
    (put("c0", np.ones((N, N, N + 1), "<f4")), ["c0", "shape", "25"]),
    (put("c0", np.ones((N, N, N), "<f8")), ["c0", "type"]),
    (put("c0", np.ones((N, N), "<f4")), ["c0", "three dimensions"]),
    (field("c0", 0), ["c0 is 0", "(6, 5, 4)"]),
    (field("c0", np.nan), ["c0 is NaN", "(6, 5, 4)"]),
    (field("rho0", -1), ["rho0 is -1", "(6, 5, 4)"]),
    (field("rho0_sgy", np.inf), ["rho0_sgy is inf", "(6, 5, 4)"]),
    (field("BonA", np.nan), ["BonA is NaN"]),
    (field("alpha_coeff", -np.inf), ["alpha_coeff is -inf"]),
    (number("rho0", 1000), ["rho0", "array"]),
    (number("alpha_power", 1), ["alpha_power is 1"]),
    (number("alpha_power", np.nan), ["alpha_power is NaN"]),
    (long("absorbing_flag", 3), ["absorbing_flag is 3"]),
    (long("nonlinear_flag", 2), ["nonlinear_flag is 2"]),
    (long("nonuniform_grid_flag", 1), ["nonuniform_grid_flag is 1"]),
    (long("elastic_flag", 1), ["elastic_flag is 1"]),
    (long("axisymmetric_flag", 1), ["axisymmetric_flag is 1"]),
    (long("sxx_source_flag", 4), ["sxx_source_flag is 4"]),
    (long("pml_x_size", 12), ["pml_x_size is 12"]),
    (long("pml_z_size", 1 << 63), ["pml_z_size"]),
    (number("pml_x_alpha", np.nan), ["pml_x_alpha is NaN"]),
    (long("p_source_mode", 3), ["p_source_mode is 3"]),
    (longs("p_source_index", [0]), ["p_source_index is 0"]),
    (longs("p_source_index", [N**3 + 1]), [f"p_source_index is {N**3 + 1}"]),
    (long("p_source_many", 1), ["p_source_input", "shape"]),
    (put("p_source_input", np.zeros((1, 0, 1), "<f4")), ["p_source_input", "shape"]),
    (long("p0_source_flag", 1), ["p0_source_input", "missing"]),
    (both(long("p0_source_flag", 1), put("p0_source_input", np.ones((N, N, 3), "<f4"))), ["p0_source_input", "shape"]),
    (long("ux_source_flag", 3), ["u_source_index", "missing"]),
    (long("transducer_source_flag", 3), ["u_source_index", "missing"]),
    (
        both(long("transducer_source_flag", 3), longs("u_source_index", [1, 2]), longs("delay_mask", [1]),
             put("transducer_source_input", np.zeros((1, 1, 5), "<f4"))),
        ["delay_mask has 1", "u_source_index has 2"],
    ),
    (
        both(long("transducer_source_flag", 3), longs("u_source_index", [1, 2]), longs("delay_mask", [1, 9]),
             put("transducer_source_input", np.zeros((1, 1, 5), "<f4"))),
        ["delay_mask is 9"],
    ),
    (longs("sensor_mask_index", [5, 0, 7]), ["element 1", "sensor_mask_index is 0"]),
    (longs("sensor_mask_index", [1 << 63]), ["sensor_mask_index is"]),
    (put("sensor_mask_index", np.ones((1, 3, 1), "<u8")), ["sensor_mask_index", "shape"]),
    (longs("sensor_mask_index", []), ["sensor_mask_index"]),
    (without("sensor_mask_index"), ["sensor_mask_index"]),
    (long("sensor_mask_type", 2), ["sensor_mask_type is 2"]),
    (long("sensor_mask_type", 1), ["sensor_mask_corners", "missing"]),
    (corners(1, 1, 1, N + 1, 2, 2), ["box 1", "sensor_mask_corners"]),
    (corners(0, 1, 1, 2, 2, 2), ["box 1", "sensor_mask_corners"]),
    (corners(5, 1, 1, 4, 2, 2), ["box 1", "sensor_mask_corners"]),
    (both(long("sensor_mask_type", 1), put("sensor_mask_corners", np.ones((1, 2, 5), "<u8"))), ["sensor_mask_corners", "shape"]),
    (lambda file: file.attrs.__delitem__("file_type"), ["file_type", "missing"]),
]


def run(*words):
    return subprocess.run([WAVE, "--verbose", "0", "-t", "2", *words], capture_output=True, text=True, timeout=60)


base = f"{FOLDER}/base.h5"
made = [WAVE, "make", "tissue", base, "--grid", str(N), "--steps", "4", "--sensor", "points:9"]
made = subprocess.run(made, capture_output=True, text=True)
assert made.returncode == 0, made.stderr
assert run("-i", base, "-o", f"{FOLDER}/out.h5").returncode == 0
for number_of_case, (change, words) in enumerate(CASES):
    path = f"{FOLDER}/changed.h5"
    shutil.copy(base, path)
    with h5py.File(path, "r+") as file:
        change(file)
    done = run("-i", path, "-o", f"{FOLDER}/out.h5", "--p_raw")
    missing = [word for word in words if word not in done.stderr]
    assert done.returncode == 1 and not missing, f"case {number_of_case}: {words}: exit code {done.returncode}: {done.stderr}"
    assert "panicked" not in done.stderr, done.stderr
print(f"{len(CASES)} invalid files were refused")
