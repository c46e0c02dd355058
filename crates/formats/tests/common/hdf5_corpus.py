"""Builds a corpus of HDF5 files with h5py and netCDF4 and records what they contain.

usage: hdf5_corpus.py FOLDER [soft-links|mutated]

Each file NAME gets NAME.expected: one line per dataset and attribute, tab-separated,

    dataset PATH SHAPE FORM VALUES
    attribute PATH NAME SHAPE FORM VALUES
    refused PATH REASON

FORM is `bytes`: VALUES is the hexadecimal form of the little-endian elements, `text`: VALUES is a JSON
list of strings, or `size`: only the number of bytes is compared. Large values are `crc`: the CRC-32.
"""

import json
import os
import sys
import zlib

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t

try:
    import hdf5plugin
except ImportError:
    # Without it the datasets with zstd and LZ4 would not be compared.
    if "AQUEDUCT_REQUIRE_NETCDF" in os.environ:
        raise
    hdf5plugin = None

LIBVERS = ["earliest", "v108", "v110", "v112", "v114", "latest"]


def types(file):
    group = file.create_group("types")
    values = np.arange(-6, 6).reshape(3, 4)
    for order in "<>":
        for code in ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]:
            group.create_dataset(f"{'le' if order == '<' else 'be'}_{code}", data=values.astype(order + code))
        group.create_dataset(f"complex_{'le' if order == '<' else 'be'}", data=(values + 1j).astype(order + "c16"))
    group["bool"] = values > 0
    colours = h5py.enum_dtype({"red": 0, "green": 1, "blue": 42}, basetype="i2")
    group.create_dataset("enum", data=np.array([0, 42, 1], "i2"), dtype=colours)
    wide = h5py.enum_dtype({"low": -5, "high": 1 << 40}, basetype=">i8")
    group.create_dataset("enum_be", data=np.array([-5, 1 << 40], ">i8"), dtype=wide)
    particle = np.dtype([("id", "u4"), ("position", "f8", (3,)), ("kind", "S4"), ("inner", [("a", ">i2"), ("b", "i1")])])
    data = np.zeros(5, particle)
    data["id"], data["position"], data["kind"] = range(5), np.arange(15).reshape(5, 3), [b"H", b"He", b"Li", b"Be", b"B"]
    data["inner"]["a"], data["inner"]["b"] = range(5), range(5)
    group["compound"] = data
    padded = np.dtype([("a", "i1"), ("b", "f8"), ("c", "i2")], align=True)
    group["compound_padded"] = np.array([(1, 2.5, 3), (4, 5.5, 6)], padded)
    group.create_dataset("array", shape=(2,), dtype=np.dtype(("i4", (3, 4))))[...] = np.arange(24).reshape(2, 3, 4)
    group["text_fixed"] = np.array([b"alpha", b"be", b""], "S8")
    group.create_dataset("text_fixed_utf8", data=np.array(["grün".encode(), b"blau"], dtype=h5py.string_dtype("utf-8", 7)))
    padding = h5t.C_S1.copy()
    padding.set_size(6)
    padding.set_strpad(h5t.STR_SPACEPAD)
    space = h5s.create_simple((2,))
    spaced = h5d.create(group.id, b"text_spaces", padding, space)
    spaced.write(h5s.ALL, h5s.ALL, np.array([b"ab    ", b"c     "], "S6"), mtype=padding)
    group.create_dataset("text_vlen", data=["short", "", "a longer text with ünïcode" * 20], dtype=h5py.string_dtype())
    group.create_dataset("text_vlen_ascii", data=[b"one", b"two"], dtype=h5py.string_dtype("ascii"))
    group.create_dataset("text_vlen_scalar", data="only one", dtype=h5py.string_dtype())
    ragged = group.create_dataset("vlen", (3,), dtype=h5py.vlen_dtype("i4"))
    ragged[0], ragged[2] = [1, 2, 3], [4]
    group["opaque"] = np.array([b"\1\2\3", b"\4\5\6"], "V3")
    group.create_dataset("reference", data=[group.ref, file.ref], dtype=h5py.ref_dtype)
    regions = group.create_dataset("region", (1,), dtype=h5py.regionref_dtype)
    regions[0] = group["le_i4"].regionref[0:2, 1]
    group["scalar"] = np.float64(2.5)
    group.create_dataset("null", data=h5py.Empty("f8"))
    group.create_dataset("empty", shape=(0, 3), dtype="f4")
    group["committed"] = particle
    group.create_dataset("of_committed", data=data, dtype=group["committed"])
    bits = h5t.STD_I32LE.copy()
    bits.set_precision(17)
    bits.set_offset(3)
    narrow = h5d.create(group.id, b"narrow_i4", bits, h5s.create_simple((4,)))
    narrow.write(h5s.ALL, h5s.ALL, np.array([1, -2, 3, -40000], "i4"))


def low_level(group, name, shape, dtype, set_up, maxshape=None):
    plist = h5p.create(h5p.DATASET_CREATE)
    set_up(plist)
    space = h5s.create_simple(shape, maxshape or shape)
    return h5py.Dataset(h5d.create(group.id, name.encode(), h5t.py_create(np.dtype(dtype)), space, plist))


def layouts(file, many=True):
    group = file.create_group("layouts")
    rng = np.random.default_rng(5)
    compact = low_level(group, "compact", (6,), "i4", lambda p: p.set_layout(h5d.COMPACT))
    compact[...] = range(6)
    group.create_dataset("contiguous", data=np.arange(1000.0))
    group.create_dataset("unwritten", (5, 5), "i4", fillvalue=-7)
    group.create_dataset("unwritten_zero", (5, 5), "f4")
    half = group.create_dataset("chunks_partly_written", (10, 9), "f8", chunks=(4, 4), fillvalue=1.5)
    half[5:7, 2:6] = 3.0
    group.create_dataset("single", data=np.arange(12.0).reshape(3, 4), chunks=(3, 4))
    group.create_dataset("single_deflate", data=np.arange(12.0).reshape(3, 4), chunks=(3, 4), compression="gzip")

    def early(plist):
        plist.set_chunk((3, 5))
        plist.set_alloc_time(h5d.ALLOC_TIME_EARLY)

    implicit = low_level(group, "implicit", (10, 11), "i2", early)
    implicit[...] = np.arange(110).reshape(10, 11)
    for name, maxshape in [("fixed", (70, 90)), ("extensible", (None, 90)), ("second_extensible", (70, None)),
                           ("tree", (None, None)), ("tree_limit", (400, 500))]:
        for compression in [None, "gzip"]:
            data = rng.integers(0, 9, (70, 90), dtype="i4")
            suffix = "_deflate" if compression else ""
            group.create_dataset(name + suffix, data=data, chunks=(8, 16), maxshape=maxshape, compression=compression)
    sizes = [("few", 3), ("some", 300)] + ([("many", 70000)] if many else [])
    for name, count in sizes:
        for index, maxshape in [("fixed", (count,)), ("extensible", (None,)), ("tree", None)]:
            shape, chunk = ((count, 1), (1, 1)) if index == "tree" else ((count,), (1,))
            limit = (None, None) if index == "tree" else maxshape
            if index == "tree" and count > 5000:
                shape = (5000, 1)
            data = rng.integers(0, 250, shape, dtype="u1")
            group.create_dataset(f"{index}_{name}", data=data, chunks=chunk, maxshape=limit)
    sparse = group.create_dataset("extensible_sparse", (100000,), "i4", chunks=(10,), maxshape=(None,), fillvalue=3)
    sparse[54321] = 1
    sparse = group.create_dataset("fixed_sparse", (100000,), "i4", chunks=(10,), compression="gzip")
    sparse[99999] = 1
    shrunk = group.create_dataset("shrunk", data=np.arange(100), chunks=(7,), maxshape=(None,))
    shrunk.resize((30,))
    group.create_dataset("four_dimensions", data=rng.random((5, 6, 7, 8)), chunks=(2, 3, 4, 5), compression="gzip", shuffle=True)


def filters(file):
    group = file.create_group("filters")
    rng = np.random.default_rng(6)
    ints = np.cumsum(rng.integers(-3, 9, 4000)).reshape(50, 80)
    reals = np.round(rng.random((50, 80)) * 100, 3)
    for name, options in [
        ("deflate", dict(compression="gzip", compression_opts=9)),
        ("shuffle", dict(shuffle=True)),
        ("shuffle_deflate", dict(shuffle=True, compression="gzip")),
        ("fletcher32", dict(fletcher32=True)),
        ("all", dict(shuffle=True, compression="gzip", fletcher32=True)),
        ("lzf", dict(compression="lzf")),
        ("lzf_shuffle", dict(compression="lzf", shuffle=True)),
    ]:
        for code in ["u1", "<i2", ">i4", "<f8"]:
            data = (reals if "f" in code else ints).astype(code)
            group.create_dataset(f"{name}_{code[-2:]}", data=data, chunks=(16, 32), **options)
    for code in ["i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", ">i4", ">u2"]:
        data = (ints % 100).astype(code)
        group.create_dataset(f"scale_offset_{'be' if code[0] == '>' else ''}{code[-2:]}", data=data, chunks=(16, 32), scaleoffset=0)
    group.create_dataset("scale_offset_constant", data=np.full((40,), 9, "i4"), chunks=(16,), scaleoffset=0)
    group.create_dataset("scale_offset_full", data=rng.integers(-2**31, 2**31, 64, dtype="i8").astype("i4"), chunks=(16,), scaleoffset=0)
    group.create_dataset("scale_offset_fill", data=np.where(ints % 7 == 0, -1, ints).astype("i4"), chunks=(16, 32), scaleoffset=0, fillvalue=-1)
    for code in ["<f4", "<f8", ">f4", ">f8"]:
        group.create_dataset(f"scale_offset_{'be' if code[0] == '>' else ''}{code[-2:]}", data=reals.astype(code), chunks=(16, 32), scaleoffset=3)
    for name, base, precision, offset in [
        ("n_bit_i4", h5t.STD_I32LE, 17, 3), ("n_bit_u2", h5t.STD_U16LE, 9, 0), ("n_bit_be", h5t.STD_I32BE, 20, 6),
        ("n_bit_i1", h5t.STD_I8LE, 5, 2), ("n_bit_full", h5t.STD_I32LE, 32, 0), ("n_bit_i8", h5t.STD_I64LE, 41, 11),
    ]:
        kind = base.copy()
        kind.set_precision(precision)
        kind.set_offset(offset)
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk((10, 16))
        plist.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL)
        dataset = h5d.create(group.id, name.encode(), kind, h5s.create_simple((50, 80)), plist)
        dataset.write(h5s.ALL, h5s.ALL, np.ascontiguousarray((ints % 15).astype("i8")), mtype=h5t.NATIVE_INT64)
    for name, fields in [("n_bit_compound", [("a", "i4"), ("b", "u1"), ("c", "f4")])]:
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_chunk((8,))
        plist.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL)
        dtype = np.dtype(fields)
        kind = h5t.create(h5t.COMPOUND, dtype.itemsize)
        short = h5t.STD_I32LE.copy()
        short.set_precision(18)
        kind.insert(b"a", 0, short)
        kind.insert(b"b", 4, h5t.STD_U8LE)
        kind.insert(b"c", 5, h5t.IEEE_F32LE)
        dataset = h5d.create(group.id, name.encode(), kind, h5s.create_simple((20,)), plist)
        data = np.zeros(20, dtype)
        data["a"], data["b"], data["c"] = range(20), range(20), np.arange(20) / 4
        dataset.write(h5s.ALL, h5s.ALL, data)
    array = np.dtype(("<i2", (4,)))
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((8,))
    plist.set_filter(h5py.h5z.FILTER_NBIT, h5py.h5z.FLAG_OPTIONAL)
    short = h5t.STD_I16LE.copy()
    short.set_precision(10)
    kind = h5t.array_create(short, (4,))
    dataset = h5d.create(group.id, b"n_bit_array", kind, h5s.create_simple((20,)), plist)
    dataset.write(h5s.ALL, h5s.ALL, np.arange(80, dtype="<i2").reshape(20, 4), mtype=h5t.py_create(array))
    masked = group.create_dataset("masked", shape=(8,), dtype="<i4", chunks=(4,), compression="gzip")
    masked[0:4] = 5
    masked.id.write_direct_chunk((4,), np.arange(4, dtype="<i4").tobytes(), filter_mask=1)
    if h5py.h5z.filter_avail(h5py.h5z.FILTER_SZIP):
        try:
            group.create_dataset("refused_szip", data=ints.astype("i4"), chunks=(16, 32), compression="szip")
        except (ValueError, RuntimeError, OSError):
            pass
    if hdf5plugin:
        for code in ["u1", "<i4", "<f8"]:
            data = (reals if "f" in code else ints).astype(code)
            end = code[-2:]
            group.create_dataset(f"zstd_{end}", data=data, chunks=(16, 32), **hdf5plugin.Zstd())
            group.create_dataset(f"zstd_shuffle_{end}", data=data, chunks=(16, 32), shuffle=True, **hdf5plugin.Zstd(clevel=9))
            group.create_dataset(f"lz4_{end}", data=data, chunks=(16, 32), **hdf5plugin.LZ4())
            group.create_dataset(f"lz4_blocks_{end}", data=data, chunks=(50, 80), **hdf5plugin.LZ4(nbytes=512))
        group.create_dataset("refused_bitshuffle", data=ints, chunks=(16, 32), **hdf5plugin.Bitshuffle())
        group.create_dataset("refused_blosc", data=reals, chunks=(16, 32), **hdf5plugin.Blosc(cname="lz4"))


def links(file, count=400):
    group = file.create_group("links")
    group["target"] = np.arange(4)
    group["soft"] = h5py.SoftLink("/links/target")
    group["relative"] = h5py.SoftLink("target")
    group["dangling"] = h5py.SoftLink("/nowhere")
    group["soft_circle"] = h5py.SoftLink("/links/soft_circle")
    group["hard"] = group["target"]
    group["external"] = h5py.ExternalLink("other.h5", "/x")
    inner = group.create_group("inner")
    inner["circle"] = group
    many = file.create_group("many")
    for number in range(count):
        many.create_dataset(f"dataset with a name {number}", data=np.int32(number))
    ordered = file.create_group("ordered", track_order=True)
    for name in ["zulu", "alpha", "mike"]:
        ordered.create_group(name)
    for number in range(40):
        ordered.create_dataset(f"{97 * number % 40}", data=np.uint8(number))
    deep = file.create_group("deep")
    for depth in range(30):
        deep = deep.create_group(f"d{depth}")
    deep["end"] = 1


def attributes(file, count=300):
    group = file.create_group("attributes")
    attrs = group.attrs
    attrs["text"] = "variable length"
    attrs["unicode ⟨name⟩"] = "ünïcode"
    attrs.create("fixed", np.bytes_(b"fixed"))
    attrs["texts"] = ["one", "two", "three"]
    attrs["fixed_texts"] = np.array([b"a", b"bcd"])
    attrs["number"] = 42
    attrs["big_endian"] = np.array([1, 2, 3], ">f8")
    attrs["matrix"] = np.arange(6, dtype="i2").reshape(2, 3)
    attrs["bool"] = np.array([True, False])
    attrs["compound"] = np.array((1, 2.5), [("a", "i4"), ("b", ">f8")])
    attrs["empty"] = h5py.Empty("f4")
    attrs["none"] = np.zeros(0, "f4")
    attrs["reference"] = group.ref
    attrs["array"] = np.arange(4, dtype="f4")
    attrs["large"] = np.arange(8000, dtype="u4")
    many = file.create_group("many_attributes")
    for number in range(count):
        many.attrs[f"attribute {number}"] = number
    ordered = file.create_group("ordered_attributes", track_order=True)
    for number in range(30):
        ordered.attrs[f"{97 * number % 30}"] = number
    data = file.create_dataset("with_many_attributes", data=np.arange(3))
    for number in range(100):
        data.attrs[f"a{number}"] = f"value {number}"


def matlab(path):
    with h5py.File(path, "w", userblock_size=512) as file:
        matrix = file.create_dataset("A", data=np.arange(12.0).reshape(3, 4).T, chunks=(4, 3), compression="gzip", compression_opts=3)
        matrix.attrs["MATLAB_class"] = np.bytes_("double")
        text = file.create_dataset("title", data=np.array([[72], [105]], "u2"))
        text.attrs["MATLAB_class"] = np.bytes_("char")
        text.attrs["MATLAB_int_decode"] = np.int32(2)
        struct = file.create_group("s")
        struct.attrs["MATLAB_class"] = np.bytes_("struct")
        struct["x"] = np.array([[1.5]])
        cells = file.create_group("#refs#")
        cells["a"] = np.array([[1.0]])
        cell = file.create_dataset("c", data=np.array([[cells["a"].ref]], dtype=h5py.ref_dtype), dtype=h5py.ref_dtype)
        cell.attrs["MATLAB_class"] = np.bytes_("cell")
    with open(path, "r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\0\2IM")


def netcdf(path, model="NETCDF4"):
    import netCDF4

    with netCDF4.Dataset(path, "w", format=model) as file:
        file.title = "a netCDF-4 file"
        file.createDimension("time", None)
        file.createDimension("lat", 4)
        file.createDimension("lon", 5)
        time = file.createVariable("time", "f8", ("time",))
        time.units = "days since 2000-01-01"
        lat = file.createVariable("lat", "f4", ("lat",))
        lat[:] = np.linspace(-60, 60, 4)
        options = dict(zlib=True, shuffle=True) if model == "NETCDF4" else {}
        field = file.createVariable("temperature", "f4", ("time", "lat", "lon"), fill_value=-999.0, fletcher32=True, **options)
        field.units = "K"
        field.valid_range = np.array([200, 330], "f4")
        time[0:3] = [0, 1, 2]
        field[0:2] = np.arange(40).reshape(2, 4, 5)
        packed = file.createVariable("packed", "i2", ("lat", "lon"), fill_value=-1, **options)
        packed.scale_factor = 0.1
        packed.set_auto_maskandscale(False)
        packed[0:2] = np.arange(10).reshape(2, 5)
        flag = file.createVariable("flag", "i1", ())
        flag[...] = 3
        if model == "NETCDF4":
            names = file.createVariable("names", str, ("lat",))
            for number in range(4):
                names[number] = f"row {number}"
            chars = file.createDimension("length", 8)
            text = file.createVariable("text", "S1", ("lat", "length"))
            text[:] = netCDF4.stringtochar(np.array(["a", "bc", "def", ""], "S8"))
            for code in ["i8", "u1", "u2", "u4", "u8"]:
                file.createVariable(code, code, ("lon",))[:] = range(5)
            inner = file.createGroup("forecast")
            inner.createDimension("member", 2)
            inner.createVariable("pressure", "f8", ("member", "lat"), **options)[:] = np.arange(8).reshape(2, 4)
            inner.createGroup("deeper").note = "nothing else"
            kind = file.createEnumType(np.uint8, "cloud", {"clear": 0, "cirrus": 3})
            file.createVariable("cloud_type", kind, ("lon",))[:] = [0, 3, 3, 0, 0]
            pair = file.createCompoundType(np.dtype([("re", "f8"), ("im", "f8")]), "pair")
            both = file.createVariable("pairs", pair, ("lon",))
            both[:] = np.zeros(5, [("re", "f8"), ("im", "f8")])


def shared(path):
    """Shared object header messages and later file space strategies."""
    plist = h5p.create(h5p.FILE_CREATE)
    plist.set_file_space_strategy(1, True, 1)
    with h5py.File(h5py.h5f.create(path.encode(), fcpl=plist)) as file:
        file["x"] = np.arange(10)
        file["x"].attrs["unit"] = "m"


def small(path, libver):
    with h5py.File(path, "w", libver=(libver, "latest")) as file:
        types(file)
        layouts(file, many=False)
        links(file, 20)
        attributes(file, 20)


def soft_links(path, libver, count=5000):
    """Links to one dataset from groups of thousands: absolute, relative, by a linked group, to another link."""
    with h5py.File(path, "w", libver=(libver, "latest")) as file:
        file["data/x"] = np.arange(4)
        file["alias"] = h5py.SoftLink("/data")
        many = file.create_group("many")
        many["own"] = np.arange(3)
        targets = ["/data/x", "own", "/alias/x", "/many/l0"]
        for number in range(count):
            many[f"l{number}"] = h5py.SoftLink(targets[number % 4])


def form(values, dtype):
    """The form and values of a line."""
    string = h5py.check_string_dtype(dtype)
    if string is not None:
        flat = np.asarray(values, object).reshape(-1) if string.length is None else np.asarray(values).reshape(-1)
        texts = [text if isinstance(text, str) else bytes(text).decode(errors="replace") for text in flat]
        return "text", json.dumps([text.rstrip("\0") for text in texts])
    if dtype.hasobject or h5py.check_vlen_dtype(dtype) is not None:
        return "size", "0"
    data = np.asarray(values)
    raw = little_endian(data).tobytes()
    return ("bytes", raw.hex()) if len(raw) <= 64 else ("crc", f"{len(raw)} {zlib.crc32(raw)}")


def little_endian(data):
    def order(dtype):
        if dtype.subdtype:
            return np.dtype((order(dtype.subdtype[0]), dtype.subdtype[1]))
        if dtype.fields:
            names = dtype.names
            return np.dtype({"names": names, "formats": [order(dtype.fields[n][0]) for n in names],
                             "offsets": [dtype.fields[n][1] for n in names], "itemsize": dtype.itemsize})
        return dtype.newbyteorder("<")

    wanted = order(data.dtype)
    if wanted == data.dtype:
        return np.ascontiguousarray(data)
    fresh = np.zeros(data.shape, wanted)
    fresh[...] = data
    return fresh


def shape_text(shape):
    return "null" if shape is None else "x".join(str(length) for length in shape) or "scalar"


def describe(path):
    lines = []
    seen = set()

    def attribute_lines(name, item):
        for key in item.attrs.keys():
            meta = item.attrs.get_id(key)
            try:
                value = item.attrs[key]
            except Exception as error:
                continue
            if meta.get_space().get_simple_extent_type() == h5s.NULL:
                lines.append(f"attribute\t{name}\t{key}\tnull\tsize\t0")
                continue
            what, text = form(value, meta.dtype)
            lines.append(f"attribute\t{name}\t{key}\t{shape_text(meta.shape)}\t{what}\t{text}")

    def visit(name, item, depth):
        attribute_lines(name, item)
        if isinstance(item, h5py.Dataset):
            reason = os.path.basename(name)
            if reason.startswith("refused_"):
                lines.append(f"refused\t{name}\t{reason[8:]}")
                return
            if item.shape is None:
                lines.append(f"dataset\t{name}\tnull\tsize\t0")
                return
            what, text = form(item[()], item.dtype)
            lines.append(f"dataset\t{name}\t{shape_text(item.shape)}\t{what}\t{text}")
        elif isinstance(item, h5py.Group):
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                return
            seen.add(address)
            for key in item:
                if item.get(key, getlink=True).__class__ is h5py.HardLink:
                    visit(f"{name.rstrip('/')}/{key}", item[key], depth + 1)

    with h5py.File(path, "r") as file:
        visit("/", file, 0)
    with open(path + ".expected", "w") as out:
        out.write("\n".join(lines) + "\n")


def build_soft_links(folder):
    for libver in ["earliest", "latest"]:
        soft_links(os.path.join(folder, f"soft-links-{libver}.h5"), libver)


def build_mutated(folder):
    """Small files, of which mutated ones are made."""
    place = lambda name: os.path.join(folder, name)
    for libver in ["earliest", "latest"]:
        small(place(f"small-{libver}.h5"), libver)
        with h5py.File(place(f"filters-{libver}.h5"), "w", libver=(libver, "latest")) as file:
            filters(file)
    matlab(place("matlab.mat"))
    netcdf(place("netcdf4.nc"))
    netcdf(place("netcdf4-classic.nc"), "NETCDF4_CLASSIC")
    shared(place("paged.h5"))


def build(folder):
    place = lambda name: os.path.join(folder, name)
    made = []
    for libver in LIBVERS:
        try:
            with h5py.File(place(f"zoo-{libver}.h5"), "w", libver=(libver, libver if libver != "earliest" else "latest")) as file:
                types(file)
                layouts(file, many=libver in ("earliest", "latest"))
                filters(file)
                links(file)
                attributes(file)
            made.append(f"zoo-{libver}.h5")
        except ValueError as error:
            if "libver" not in str(error) and "version bound" not in str(error):
                raise
    matlab(place("matlab.mat"))
    netcdf(place("netcdf4.nc"))
    netcdf(place("netcdf4-classic.nc"), "NETCDF4_CLASSIC")
    shared(place("paged.h5"))
    with h5py.File(place("userblock.h5"), "w", userblock_size=1024, libver="latest") as file:
        layouts(file, many=False)
    made += ["matlab.mat", "netcdf4.nc", "netcdf4-classic.nc", "paged.h5", "userblock.h5"]
    for name in made:
        describe(place(name))


if __name__ == "__main__":
    os.makedirs(sys.argv[1], exist_ok=True)
    kinds = {"soft-links": build_soft_links, "mutated": build_mutated}
    kinds.get("".join(sys.argv[2:]), build)(sys.argv[1])
