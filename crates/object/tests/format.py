"""Reads an object file by docs/format-object.md alone, checks every byte of its .meta, and prints the objects as JSON, one per line."""
import json, struct, sys


def crc(data):
    """CRC-32C, bit by bit."""
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


NUMBERS = {"bool": "?", "char": "I", "u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "u64": "Q", "i64": "q", "f32": "f", "f64": "d"}


class Reader:
    """Takes objects apart by their schema; `around` are the structures and enums a type is inside of."""

    def __init__(self, data, order):
        self.data, self.at, self.order = data, 0, {"little": "<", "big": ">"}[order]

    def number(self, letter):
        value, = struct.unpack_from(self.order + letter, self.data, self.at)
        self.at += struct.calcsize(self.order + letter)
        return value

    def fields(self, fields, around):
        return {field["name"]: self.value(field["type"], around) for field in fields}

    def many(self, kinds, around):
        return [[self.value(kind, around) for kind in kinds] for _ in range(self.number("Q"))]

    def value(self, kind, around=()):
        if kind == "unit":
            return None
        if kind == "text":
            length = self.number("Q")
            self.at += length
            return self.data[self.at - length:self.at].decode()
        if isinstance(kind, str):
            value = self.number(NUMBERS[kind])
            return chr(value) if kind == "char" else value
        (key, inner), = kind.items()
        if key == "up":
            place = len(around) - 1 - inner
            return self.value(around[place], around[:place])
        if key == "struct":
            return self.fields(inner["fields"], around + (kind,))
        if key == "enum":
            variant = inner["variants"][self.number("I")]
            return {variant["name"]: self.fields(variant.get("fields", []), around + (kind,))}
        if key == "array":
            return [self.value(inner["of"], around) for _ in range(inner["len"])]
        if key == "tuple":
            return [self.value(part, around) for part in inner]
        if key == "option":
            present = self.number("B")
            assert present in (0, 1), present
            return self.value(inner, around) if present else None
        if key in ("list", "set"):
            return [value for value, in self.many([inner], around)]
        assert key == "map", key
        return self.many([inner["key"], inner["value"]], around)


def unit(meta, place, at, entry, used):
    """Entry `at` of units of 512 bytes, after the check of its unit."""
    size, each = struct.calcsize(entry), 31 if entry == "<QQ" else 127
    start = place + at // each * 512
    whole = meta[start:start + 512]
    assert crc(whole[:508]) == struct.unpack_from("<I", whole, 508)[0], "CRC of the unit at %d" % start
    used.update(range(start, start + 512))
    return struct.unpack_from(entry, whole, at % each * size)


def main(name):
    data, meta = open(name, "rb").read(), open(name + ".meta", "rb").read()
    slots, used = [], set()
    for place in (0, 4096):
        slot = meta[place:place + 512]
        if slot[:8] == b"AQUEMETA" and crc(slot[:508]) == struct.unpack_from("<I", slot, 508)[0]:
            assert not any(slot[96:508]), "bytes of a slot that should be zero"
            slots.append((place, struct.unpack_from("<IIQQQQIIQQQQQ", slot, 8)))
        used.update(range(place, place + 512))
    place, slot = max(slots, key=lambda slot: slot[1][2])
    version, state, generation, count, length, described, description_sum, tail, index, index_room, sums, sums_room, end = slot
    assert (version, state, place) == (1, 2, generation % 2 * 4096), slot
    text = meta[8192:8192 + described]
    used.update(range(8192, 8192 + described))
    assert crc(text) == description_sum, "CRC of the description"
    description = json.loads(text)
    assert (description["format"], description["version"]) == ("aqueduct-object", 1)
    assert len(data) == length, "length of the data"
    if description["checksums"]:
        for block in range(length // 65536):
            found = crc(data[block * 65536:(block + 1) * 65536])
            assert unit(meta, sums, block, "<I", used) == (found,), "CRC of block %d" % block
        assert crc(data[length // 65536 * 65536:]) == tail, "CRC of the rest"
    reader, size = Reader(data, description["byte_order"]), description["object_size"]
    for number in range(count):
        start, long = (number * size, size) if size is not None else unit(meta, index, number, "<QQ", used)
        reader.at = start
        value = reader.value(description["schema"])
        assert reader.at == start + long, "object %d ends at %d" % (number, reader.at)
        print(json.dumps(value, ensure_ascii=False))
    assert len(meta) <= end and not any(byte for at, byte in enumerate(meta) if at not in used), "bytes that the format does not have"


main(sys.argv[1])
