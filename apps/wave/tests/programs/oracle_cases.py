"""Compares `wave` with the oracle on a grid of cases: oracle_cases.py WAVE FOLDER [CASE ...]. Prints the differences, fails above the bounds."""
import hashlib
import os
import subprocess
import sys

import h5py
import numpy as np

WAVE, FOLDER = sys.argv[1:3]
HERE = os.path.dirname(os.path.abspath(__file__))
P = ["--p_raw", "--p_rms", "--p_max", "--p_min", "--p_max_all", "--p_min_all", "--p_final"]
U = ["--u_raw", "--u_rms", "--u_max", "--u_min", "--u_max_all", "--u_min_all", "--u_final", "--u_non_staggered_raw"]
I = ["--I_avg"]
# (precision, bound relative to the maximum)
BOUNDS = {"double": 1e-6, "single": 5e-6}


def smooth(shape, rng, low, high):
    """A smooth random field: steps ring in any spectral method."""
    noise = np.fft.fftn(rng.standard_normal(shape))
    k = np.sqrt(sum(f**2 for f in np.meshgrid(*[np.fft.fftfreq(n) for n in shape], indexing="ij")))
    field = np.fft.ifftn(noise * np.exp(-((k / 0.08) ** 2))).real
    field = (field - field.min()) / max(np.ptp(field), 1e-30)
    return (low + (high - low) * field).astype("f4")


class Input:
    """An input file of k-Wave."""

    def __init__(self, path, size, steps, seed):
        self.file, self.size = h5py.File(path, "w"), size
        self.rng = np.random.default_rng(seed)
        self.shape = size[::-1]
        self.axes = "xyz" if size[2] > 1 else "xy"
        for name, n in zip("xyz", size):
            self.long(f"N{name}", n)
        self.long("Nt", steps)
        for name in self.axes:
            self.float(f"d{name}", 1e-4)
        self.float("dt", 2e-8)
        self.float("c_ref", 1500.0)
        for flag in ("nonuniform_grid_flag", "elastic_flag", "axisymmetric_flag", "transducer_source_flag", "p0_source_flag", "p_source_flag"):
            self.long(flag, 0)
        for name in self.axes:
            self.long(f"u{name}_source_flag", 0)
        for key, text in dict(created_by="test", creation_date="-", file_description="case", file_type="input", major_version="1", minor_version="2").items():
            self.file.attrs.create(key, text.encode(), dtype=f"S{len(text)}")

    def put(self, name, values, **options):
        if name in self.file:
            del self.file[name]
        data = self.file.create_dataset(name, data=values, **options)
        kind = "long" if data.dtype.kind == "u" else "float"
        for key, text in (("data_type", kind), ("domain_type", "real")):
            data.attrs.create(key, text.encode(), dtype=f"S{len(text)}")

    def long(self, name, value):
        self.put(name, np.full((1, 1, 1), value, "<u8"))

    def float(self, name, value):
        self.put(name, np.full((1, 1, 1), value, "<f4"))

    def longs(self, name, values):
        self.put(name, np.asarray(values, "<u8").reshape(1, 1, -1))

    def medium(self, heterogeneous, **chunks):
        def field(low, high):
            return smooth(self.shape, self.rng, low, high)

        if heterogeneous:
            self.put("c0", field(1450, 1600), **chunks)
            density = field(950, 1100)
            self.put("rho0", density, **chunks)
            for axis, name in zip((2, 1, 0), self.axes):
                self.put(f"rho0_sg{name}", (density + np.roll(density, -1, axis)) / 2, **chunks)
        else:
            self.float("c0", 1500)
            for name in ["rho0"] + [f"rho0_sg{name}" for name in self.axes]:
                self.float(name, 1000)

    def losses(self, absorbing, power=1.5, nonlinear=0, heterogeneous=False):
        self.long("absorbing_flag", absorbing)
        self.long("nonlinear_flag", nonlinear)
        if absorbing:
            self.put("alpha_coeff", smooth(self.shape, self.rng, 0.3, 0.9)) if heterogeneous else self.float("alpha_coeff", 0.75)
            self.float("alpha_power", power)
        if nonlinear:
            self.put("BonA", smooth(self.shape, self.rng, 4, 8)) if heterogeneous else self.float("BonA", 6)

    def pml(self, sizes):
        for name, size in zip(self.axes, sizes):
            self.long(f"pml_{name}_size", size)
            self.float(f"pml_{name}_alpha", 2.0)

    def initial(self, amplitude=1e5):
        self.long("p0_source_flag", 1)
        p0 = smooth(self.shape, self.rng, -amplitude, amplitude)
        self.put("p0_source_input", p0)

    def points(self, count):
        return self.rng.permutation(int(np.prod(self.size)))[:count] + 1

    def signal(self, steps, count, amplitude):
        time = np.arange(steps)[:, None]
        phase = self.rng.uniform(0, 6, (1, count))
        return (amplitude * np.sin(0.5 * time + phase) * np.hanning(2 * steps + 1)[:steps, None])[None].astype("<f4")

    def source(self, kind, mode, steps, count, many, components=("p",), amplitude=1e-4):
        points = self.points(count)
        self.longs(f"{kind}_source_index", points)
        self.long(f"{kind}_source_mode", mode)
        self.long(f"{kind}_source_many", int(many))
        for component in components:
            self.long(f"{component}_source_flag", steps)
            self.put(f"{component}_source_input", self.signal(steps, count if many else 1, amplitude))

    def transducer(self, steps, count):
        self.longs("u_source_index", self.points(count))
        self.longs("delay_mask", self.rng.integers(1, 12, count))
        self.long("transducer_source_flag", steps)
        self.put("transducer_source_input", self.signal(steps + 12, 1, 0.01).reshape(1, 1, -1))

    def mask(self, count):
        self.long("sensor_mask_type", 0)
        self.longs("sensor_mask_index", np.concatenate([self.points(count), self.points(3)]))

    def boxes(self, count):
        self.long("sensor_mask_type", 1)
        first = np.array([self.rng.integers(1, n + 1, count) for n in self.size])
        last = np.array([self.rng.integers(f, n + 1) for f, n in zip(first, self.size)])
        self.put("sensor_mask_corners", np.concatenate([first, last]).T[None].astype("<u8"))


def cases():
    """Name, input, options."""
    def new(name, size, steps=24):
        return Input(f"{FOLDER}/{name}.h5", size, steps, int(hashlib.md5(name.encode()).hexdigest()[:6], 16))

    def done(case, name, options):
        case.file.close()
        return name, options

    c = new("p0", (16, 12, 10)); c.medium(False); c.losses(0); c.pml((3, 2, 2)); c.initial(); c.mask(20)
    yield done(c, "p0", P + U + I + ["--copy_sensor_mask"])
    c = new("p0_full", (18, 15, 14)); c.medium(True, chunks=(7, 5, 9), compression="gzip"); c.losses(1, 1.5, 1, True); c.pml((3, 2, 0)); c.initial(1e6); c.boxes(3)
    yield done(c, "p0_full", P + U + I + ["-s", "5"])
    c = new("stokes", (13, 11, 7)); c.medium(True); c.losses(2, 2.0, 0, True); c.pml((2, 0, 1)); c.initial(); c.mask(9)
    yield done(c, "stokes", P + U)
    for mode in (0, 1, 2):
        many = mode != 1
        c = new(f"p_source_{mode}", (12, 10, 9)); c.medium(True); c.losses(1, 1.1); c.pml((2, 2, 2)); c.source("p", mode, 20, 11, many); c.mask(17)
        yield done(c, f"p_source_{mode}", P + U)
        c = new(f"u_source_{mode}", (10, 9, 12)); c.medium(True); c.losses(0, nonlinear=1); c.pml((1, 2, 0))
        c.source("u", mode, 15, 8, not many, ("ux", "uz") if mode == 1 else ("ux", "uy", "uz"), 0.01); c.mask(12)
        yield done(c, f"u_source_{mode}", P + U)
    c = new("plane", (24, 21, 1), 40); c.medium(True); c.losses(1, 1.9, 1); c.pml((4, 3)); c.initial(); c.source("p", 2, 30, 5, True); c.mask(30)
    yield done(c, "plane", P + U + I)
    c = new("plane_u", (17, 16, 1), 30); c.medium(False); c.losses(0); c.pml((0, 3)); c.source("u", 2, 30, 5, False, ("ux", "uy"), 0.01); c.boxes(2)
    yield done(c, "plane_u", P + U)
    c = new("transducer", (12, 14, 8)); c.medium(False); c.losses(0); c.pml((2, 2, 1)); c.transducer(16, 9); c.mask(8)
    yield done(c, "transducer", P + U)
    c = new("primes", (17, 13, 3)); c.medium(True); c.losses(1, 1.3, 1); c.pml((0, 2, 0)); c.initial(); c.mask(25)
    yield done(c, "primes", P + U + ["-c", "3"])


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, item: found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None)
        for name in found:
            assert set(file[name].attrs) >= {"data_type", "domain_type"}, f"{path}: {name} has no attributes"
        assert file.attrs["file_type"] == b"output", file.attrs["file_type"]
    return found


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"


def intensities(reference):
    """The mean of p(t) (u(t - 1/2) + u(t + 1/2)) / 2 of the oracle's samples, with u(t - 1/2) for the last one."""
    found = {}
    for key, u in reference.items():
        name, _, box = key.partition("/")
        if name.endswith("_non_staggered"):
            p = reference["p" + key[len(name):]].astype("f8")
            u, axis = u.astype("f8"), 0 if box else 1
            after = np.concatenate([np.delete(u, 0, axis), np.take(u, [-1], axis)], axis)
            mean = (p * (u + after) / 2).mean(axis, keepdims=not box)
            found[f"I{name[1]}_avg" + key[len(name):]] = mean.astype("f4")
    return found


def compare(name, reference, path, bound):
    found, worst = datasets(path), (0.0, "")
    assert set(found) == set(reference), f"{name}: {set(found) ^ set(reference)}"
    scale = {kind: max([np.abs(v).max() for n, v in reference.items() if n.startswith(kind) and v.dtype.kind == "f" and v.size and is_field(n)] + [0]) for kind in "puI"}
    for key, wanted in reference.items():
        have = found[key]
        assert have.shape == wanted.shape and have.dtype == wanted.dtype, f"{name}: {key} {have.shape} {wanted.shape}"
        if have.dtype.kind == "u" or not is_field(key):
            assert np.array_equal(have, wanted), f"{name}: {key}"
        elif wanted.size:
            difference = np.abs(have.astype("f8") - wanted).max() / max(scale[key[0]], 1e-300)
            worst = max(worst, (difference, key))
    assert worst[0] <= bound, f"{name}: {worst[1]} differs by {worst[0]:.1e} of the maximum, more than {bound:.0e}"
    return worst


def is_field(name):
    return name.split("/")[0] in FIELDS


FIELDS = {"Ix_avg", "Iy_avg", "Iz_avg"} | {f"{q}{s}" for q in ("p", "ux", "uy", "uz") for s in ("", "_rms", "_max", "_min", "_max_all", "_min_all", "_final", "_non_staggered")}
chosen = sys.argv[3:]
for number, (name, options) in enumerate(cases()):
    if chosen and name not in chosen:
        continue
    source, reference = f"{FOLDER}/{name}.h5", f"{FOLDER}/{name}_reference.h5"
    oracle_options = [o for i, o in enumerate(options) if o not in ["-c"] + I and (i == 0 or options[i - 1] != "-c")]
    run([sys.executable, f"{HERE}/wave_oracle.py", "-i", source, "-o", reference] + oracle_options)
    wanted = datasets(reference)
    if "--I_avg" in options:
        wanted |= intensities(wanted)
    line = []
    for precision, bound in BOUNDS.items():
        first = None
        for ranks, decomposition in ((1, "slab"), (2 + number % 2, "slab"), (2 + 2 * (number % 3), "pencil")):
            path = f"{FOLDER}/{name}_{precision}_{ranks}_{decomposition}.h5"
            run([WAVE, "-i", source, "-o", path, "-t", str(ranks), "--decomposition", decomposition, "--precision", precision, "--verbose", "0"] + options)
            worst = compare(f"{name} {precision}", wanted, path, bound)
            found = datasets(path)
            if first is None:
                first = found
                line.append(f"{precision} {worst[0]:.1e} ({worst[1]})")
            for key, values in first.items():
                assert values.tobytes() == found[key].tobytes(), f"{name} {precision}: {key} has other bits on {ranks} ranks, {decomposition}"
            os.remove(path)
    print(f"{name:12} {'  '.join(line)}", flush=True)
