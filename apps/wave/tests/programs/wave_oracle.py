#!/usr/bin/env python3
"""A k-Wave binary in about 120 lines of NumPy, in double precision: the reference that `wave` is compared with.

wave_oracle.py -i in.h5 -o out.h5 [-s N] [--p_raw ...]
"""
import argparse, h5py, numpy as np

FLAGS = ["p_raw", "p_rms", "p_max", "p_min", "p_max_all", "p_min_all", "p_final", "u_raw", "u_non_staggered_raw", "u_rms", "u_max", "u_min", "u_max_all", "u_min_all", "u_final"]
a = argparse.ArgumentParser(); a.add_argument("-i", required=True); a.add_argument("-o", required=True)
for short in "rtcg": a.add_argument("-" + short)
a.add_argument("-s", type=int, default=1); a.add_argument("--verbose"); a.add_argument("--benchmark", type=int); a.add_argument("--copy_sensor_mask", action="store_true")
a.add_argument("-p", dest="p_raw", action="store_true"); a.add_argument("-u", dest="u_raw", action="store_true")
for flag in FLAGS: a.add_argument("--" + flag, action="store_true", dest=flag)
a = a.parse_args()
if not any(getattr(a, flag) for flag in FLAGS): a.p_raw = True

f = h5py.File(a.i, "r")
one = lambda name, otherwise=None: f[name][0, 0, 0] if name in f else otherwise
for name in ("nonuniform_grid_flag", "axisymmetric_flag", "elastic_flag"): assert not one(name, 0), name
N = [int(one(n)) for n in ("Nx", "Ny", "Nz")]; three = N[2] > 1; dims = 3 if three else 2
Nt, dt, c_ref = int(a.benchmark or one("Nt")), float(one("dt")), float(one("c_ref"))
axes = "xyz"[:dims]; d = [float(one("d" + n)) for n in axes]; shape = (N[2], N[1], N[0]); at = [2, 1, 0][:dims]   # axis of each direction in memory
along = lambda i, v: v.reshape([-1 if j == at[i] else 1 for j in range(3)])
def medium(name): v = f[name][...].astype(float); return v if v.size > 1 else float(v.flat[0])

# wave numbers and operators (full complex transforms; a real-to-complex one keeps x bins 0..Nx/2)
k = [along(i, 2 * np.pi * np.fft.fftfreq(N[i], d[i])) for i in range(dims)]
K = np.sqrt(sum(v**2 for v in k)); half = c_ref * K * dt / 2
kappa, source_kappa = np.sinc(half / np.pi), np.cos(half)
to_u = [1j * k[i] * np.exp(+0.5j * k[i] * d[i]) * kappa for i in range(dims)]
to_p = [1j * k[i] * np.exp(-0.5j * k[i] * d[i]) * kappa for i in range(dims)]
def pml(i, shift):
    size, strength = int(one(f"pml_{axes[i]}_size")), float(one(f"pml_{axes[i]}_alpha")) * c_ref / d[i]
    v, m = np.ones(N[i]), np.arange(1, size + 1) + shift
    if size: v[:size], v[-size:] = [np.exp(-strength * r**4 * dt / 2) for r in ((size + 1 - m) / size, m / size)]
    return along(i, v)
P, U = [pml(i, 0.0) for i in range(dims)], [pml(i, 0.5) for i in range(dims)]
fft, real = np.fft.fftn, lambda x: np.fft.ifftn(x).real

c0, rho0 = medium("c0"), medium("rho0"); over = [dt / medium(f"rho0_sg{n}") for n in axes]
nonlinear, absorbing = int(one("nonlinear_flag", 0)), int(one("absorbing_flag", 0)); BonA = medium("BonA") if nonlinear else 0.0
if absorbing:
    y = float(one("alpha_power")); alpha = medium("alpha_coeff") * 100 * (1e-6 / (2 * np.pi)) ** y / (20 * np.log10(np.e))
    tau, eta = -2 * alpha * c0 ** (y - 1), 2 * alpha * c0**y * np.tan(np.pi * y / 2)
    with np.errstate(divide="ignore"): n1, n2 = (np.where(np.isinf(v), 0, v) for v in (K ** (y - 2), K ** (y - 1)))
    if absorbing == 2: eta = 0.0

def inject(fields, t, kind, name):
    length = int(one(f"{name}_source_flag", 0))
    if t >= length: return
    points = f[f"{kind}_source_index"][...].ravel().astype(int) - 1
    row = f[f"{name}_source_input"][0, t]; values = row if int(one(f"{kind}_source_many")) else row[0]
    mode = int(one(f"{kind}_source_mode"))
    if mode == 0:
        for field in fields: field.flat[points] = values
        return
    add = np.zeros(shape); add.flat[points] = values
    if mode == 2: add = real(source_kappa * fft(add))
    for field in fields: field += add

p = np.zeros(shape); u = [np.zeros(shape) for _ in axes]; rho = [np.zeros(shape) for _ in axes]
corners = int(one("sensor_mask_type", 0)) == 1
if corners:
    boxes = [tuple(slice(int(c[j]) - 1, int(c[j + 3])) for j in (2, 1, 0)) for c in f["sensor_mask_corners"][0]]
    sample = lambda field: [field[b].copy() for b in boxes]
else:
    points = f["sensor_mask_index"][...].ravel().astype(int) - 1; sample = lambda field: [field.flat[points]]

series, extreme = {}, {}
def keep(name, raw, rms, most, least, field):
    if raw or rms or most or least: series.setdefault(name, []).append(sample(field))
def keep_all(name, most, least, field):
    for end, on, op in (("max_all", most, np.maximum), ("min_all", least, np.minimum)):
        if on: key = f"{name}_{end}"; extreme[key] = op(extreme[key], field) if key in extreme else field.copy()

for t in range(Nt):
    spectrum = fft(p)
    for i, n in enumerate(axes):
        u[i] = U[i] * (U[i] * u[i] - over[i] * real(to_u[i] * spectrum)); inject([u[i]], t, "u", f"u{n}")
    if t < int(one("transducer_source_flag", 0)):
        where, delay = (f[n][...].ravel().astype(int) - 1 for n in ("u_source_index", "delay_mask"))
        u[0].flat[where] += f["transducer_source_input"][...].ravel()[delay + t]
    du = [real(to_p[i] * fft(u[i])) for i in range(dims)]
    factor = dt * (2 * sum(rho) + rho0) if nonlinear else dt * rho0
    for i in range(dims): rho[i] = P[i] * (P[i] * rho[i] - factor * du[i])
    inject(rho, t, "p", "p")
    total = sum(rho); p = total + BonA * total**2 / (2 * rho0)
    if absorbing: p = p + tau * real(n1 * fft(rho0 * sum(du))) - (eta * real(n2 * fft(total)) if absorbing == 1 else 0)
    p = c0**2 * p
    if t == 0 and one("p0_source_flag", 0):
        p = f["p0_source_input"][...].astype(float); spectrum = fft(p)
        for i in range(dims): rho[i] = p / (dims * c0**2); u[i] = over[i] / 2 * real(to_u[i] * spectrum)
    if t >= a.s - 1:
        keep("p", a.p_raw, a.p_rms, a.p_max, a.p_min, p); keep_all("p", a.p_max_all, a.p_min_all, p)
        for i, n in enumerate(axes):
            keep(f"u{n}", a.u_raw, a.u_rms, a.u_max, a.u_min, u[i]); keep_all(f"u{n}", a.u_max_all, a.u_min_all, u[i])
            if a.u_non_staggered_raw: keep(f"u{n}_non_staggered", True, False, False, False, real(np.exp(-0.5j * k[i] * d[i]) * fft(u[i])))

out = h5py.File(a.o, "w")
def put(name, values):
    whole = np.issubdtype(np.asarray(values).dtype, np.integer)
    data = out.create_dataset(name, data=np.asarray(values, dtype="<u8" if whole else "<f4"))
    for key, text in (("domain_type", "real"), ("data_type", "long" if whole else "float")): data.attrs.create(key, text.encode(), dtype=f"S{len(text)}")
def put_samples(name, values):                       # one array per box, or a single list
    for number, v in enumerate(values): put(f"{name}/{number + 1}" if corners else name, v if corners else v.reshape((1,) * (3 - v.ndim) + v.shape))
for name in f:
    if f[name].size == 1: put(name, f[name][...])
put("t_index", np.full((1, 1, 1), Nt, np.uint64))
for name, steps in series.items():
    kind = name[0]; stack = [np.stack(v) for v in zip(*steps)]
    if name.endswith("non_staggered") or getattr(a, f"{kind}_raw"): put_samples(name, stack)
    if not name.endswith("non_staggered"):
        for end, op in (("max", lambda v: v.max(0)), ("min", lambda v: v.min(0)), ("rms", lambda v: np.sqrt((v**2).mean(0)))):
            if getattr(a, f"{kind}_{end}"): put_samples(f"{name}_{end}", [op(v) for v in stack])
for name, field in extreme.items(): put(name, field)
if a.p_final: put("p_final", p)
if a.u_final: [put(f"u{n}_final", u[i]) for i, n in enumerate(axes)]
if a.copy_sensor_mask: name = "sensor_mask_corners" if corners else "sensor_mask_index"; put(name, f[name][...])
about = dict(created_by="wave_oracle", creation_date="-", file_description=str(f.attrs.get("file_description", b"-")), file_type="output", major_version="1", minor_version="2")
for key, text in about.items(): out.attrs.create(key, text.encode(), dtype=f"S{len(text)}")
