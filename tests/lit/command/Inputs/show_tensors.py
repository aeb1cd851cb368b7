"""Prints the tensors of a .safetensors file in the order of their data: name, type, shape."""
import json
import struct
import sys

data = open(sys.argv[1], "rb").read()
(length,) = struct.unpack("<Q", data[:8])
header = json.loads(data[8:8 + length])
tensors = sorted(header.items(), key=lambda item: item[1]["data_offsets"])
assert tensors[-1][1]["data_offsets"][1] == len(data) - 8 - length
for name, tensor in tensors:
    print(name, tensor["dtype"], tensor["shape"])
