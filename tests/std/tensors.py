"""Arrays as lists of numbers, to and from .safetensors files, with the standard library alone.

An array is {"type": "f32", "shape": [2, 3], "data": [...]}, a list of tensors
{"type": "f32", "list": [{"shape": [3], "data": [...]}, ...]}, a rank-0 value a plain number or bool.
"""
import array
import json
import math
import struct

NAMES = {"f64": "F64", "f32": "F32", "f16": "F16", "bf16": "BF16", "e4m3": "F8_E4M3", "i64": "I64",
         "i32": "I32", "i16": "I16", "i8": "I8", "u64": "U64", "u32": "U32", "u16": "U16", "u8": "U8",
         "bool": "BOOL"}
TYPES = {name: kind for kind, name in NAMES.items()}
CODES = {"f64": "d", "f32": "f", "f16": "e", "i64": "q", "i32": "i", "i16": "h", "i8": "b", "u64": "Q",
         "u32": "I", "u16": "H", "u8": "B", "bool": "?"}


def e4m3_value(code):
    exponent, fraction = code >> 3 & 15, code & 7
    if exponent == 15 and fraction == 7:
        return math.nan
    size = (8 + fraction) * 2.0 ** (exponent - 10) if exponent else fraction * 2.0 ** -9
    return -size if code & 128 else size


E4M3 = [e4m3_value(code) for code in range(256)]
E4M3_CODES = {value: code for code, value in reversed(list(enumerate(E4M3))) if value == value}


def encode(kind, data):
    """The bytes of numbers, each of which the type can hold exactly (f32: is rounded)."""
    if kind == "bf16":
        bits = array.array("I", struct.pack(f"<{len(data)}f", *data))
        if any(word & 0xffff for word in bits):
            raise ValueError("not a bf16 value")
        return struct.pack(f"<{len(bits)}H", *[word >> 16 for word in bits])
    if kind == "e4m3":
        return bytes(E4M3_CODES[value] for value in data)
    return struct.pack(f"<{len(data)}{CODES[kind]}", *data)


def decode(kind, data):
    if kind == "bf16":
        words = struct.unpack(f"<{len(data) // 2}H", data)
        return list(struct.unpack(f"<{len(words)}f", struct.pack(f"<{len(words)}I", *[w << 16 for w in words])))
    if kind == "e4m3":
        return [E4M3[code] for code in data]
    return list(struct.unpack(f"<{len(data) // struct.calcsize(CODES[kind])}{CODES[kind]}", data))


def write(path, value):
    tensors = value["list"] if "list" in value else [value]
    header, body = {}, b""
    for at, tensor in enumerate(tensors):
        data = encode(value["type"], tensor["data"])
        header[f"t{at:03}"] = {"dtype": NAMES[value["type"]], "shape": tensor["shape"],
                               "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def read(path, is_list):
    with open(path, "rb") as file:
        content = file.read()
    length, = struct.unpack("<Q", content[:8])
    header, body = json.loads(content[8:8 + length]), content[8 + length:]
    tensors = []
    for name in sorted(name for name in header if name != "__metadata__"):
        entry = header[name]
        start, end = entry["data_offsets"]
        kind = TYPES[entry["dtype"]]
        tensors.append({"shape": entry["shape"], "data": decode(kind, body[start:end])})
    if is_list:
        return {"type": kind if tensors else "f32", "list": tensors}
    (tensor,) = tensors
    return tensor["data"][0] if tensor["shape"] == [] else {"type": kind, **tensor}
