"""damage.py KERNELS TO: the same file with a few bits of all code in it turned."""

import sys

data = bytearray(open(sys.argv[1], "rb").read())
count = int.from_bytes(data[32:40], "little")
pieces = set()  # packed code is of several kernels
for at in range(48, 48 + 64 * count, 64):
    pieces.add(tuple(int.from_bytes(data[at + i : at + i + 8], "little") for i in (24, 32)))
for offset, size in pieces:
    for at in range(offset, offset + size, size // 16):
        data[at] ^= 1
open(sys.argv[2], "wb").write(data)
