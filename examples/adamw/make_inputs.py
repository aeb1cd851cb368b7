#!/usr/bin/env python3
"""Writes a .safetensors file with a parameter tensor, its AdamW state and a bf16 gradient.

    python3 make_inputs.py model.safetensors [elements]

Only the standard library is needed. The format: 8 bytes with the length of a JSON header, the header
(type, shape and byte range of every tensor), then the bytes of the tensors."""
import array
import json
import random
import sys


def f32(values):
    data = array.array("f", values)
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def bf16(values):
    """The upper half of each f32, rounded to nearest even."""
    words = array.array("I")
    words.frombytes(array.array("f", values).tobytes())
    data = array.array("H", ((w + 0x7FFF + ((w >> 16) & 1)) >> 16 for w in words))
    if sys.byteorder == "big":
        data.byteswap()
    return data.tobytes()


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    elements = int(sys.argv[2]) if len(sys.argv) == 3 else 100_000
    generator = random.Random(1)
    tensors = {
        "p": ("F32", f32(generator.gauss(0, 1) for _ in range(elements))),
        "m": ("F32", f32(0.0 for _ in range(elements))),
        "v": ("F32", f32(0.0 for _ in range(elements))),
        "g": ("BF16", bf16([generator.gauss(0, 0.1) for _ in range(elements)])),
    }
    header, offset = {}, 0
    for name, (dtype, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [elements],
                        "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(sys.argv[1], "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, data in tensors.values():
            file.write(data)
    print(f"{sys.argv[1]}: {', '.join(tensors)}, {elements} elements each")


main()
