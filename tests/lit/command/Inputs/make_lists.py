"""Writes .safetensors files of f32 lists: a model, its gradients in another order, states under other names."""
import json
import struct


def write(path, tensors):
    header, data = {}, b""
    for name, shape, values in tensors:
        size = 4 * len(values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += struct.pack(f"<{len(values)}f", *values)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


write("model.safetensors", [("w2", [2, 3], range(6)), ("bias", [], [10]), ("w1", [4], [1] * 4), ("none", [0, 3], [])])
write("grads.safetensors", [("w1", [4], [2] * 4), ("none", [0, 3], []), ("w2", [2, 3], [4] * 6), ("bias", [], [6])])
write("other.safetensors", [("a", [2, 3], [4] * 6), ("b", [], [6]), ("c", [4], [2] * 4), ("d", [0, 3], [])])
write("turned.safetensors", [("w1", [4], [2] * 4), ("none", [0, 3], []), ("w2", [3, 2], [4] * 6), ("bias", [], [6])])
write("longer.safetensors", [("w1", [5], [2] * 5), ("none", [0, 3], []), ("w2", [2, 3], [4] * 6), ("bias", [], [6])])
