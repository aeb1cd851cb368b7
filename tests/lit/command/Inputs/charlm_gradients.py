"""The gradients of examples/charlm against PyTorch's, in f64, of the same model on the same windows.

    charlm_gradients.py record CHECKPOINT TEXT EXPECTED START START START    (needs torch)
    charlm_gradients.py check CHECKPOINT EXPECTED [TOLERANCE]

CHECKPOINT is what charlm saves after one step at rate 0 without clipping or decay: the first moments are then
a tenth of the gradients, and the weights as they began. Of each parameter two numbers are kept, the gradient's
norm and its product with a fixed pattern."""
import array
import json
import math
import struct
import sys


def read(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    values = {}
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            begin, end = entry["data_offsets"]
            values[name] = (entry["shape"], array.array("f", data[begin:end]))
    return header["__metadata__"], values


def digest(gradient):
    norm = math.sqrt(math.fsum(x * x for x in gradient))
    return norm, math.fsum(x * math.sin(i + 1) for i, x in enumerate(gradient)) / math.sqrt(len(gradient))


def gradients(checkpoint, text, starts):
    """What PyTorch says."""
    import torch
    torch.set_default_dtype(torch.float64)
    options, values = read(checkpoint)
    layers, channels, heads, length = (int(options[k]) for k in ("layers", "channels", "heads", "context"))
    w = {name[len("weights."):]: torch.tensor(list(data)).reshape(shape).requires_grad_()
         for name, (shape, data) in values.items() if name.startswith("weights.")}
    letters = open(text, "rb").read()
    alphabet = sorted(set(letters))
    window = torch.tensor([[alphabet.index(c) for c in letters[s:s + length + 1]] for s in starts])
    x, target = window[:, :-1], window[:, 1:]

    def norm(h, gain):
        return h / torch.sqrt((h ** 2).mean(-1, keepdim=True) + 1e-6) * gain

    def split(z):
        return z.view(len(starts), length, heads, channels // heads).transpose(1, 2)

    h = w["letters"][x] + w["places"]
    for layer in range(layers):
        p = f"layer{layer:02d}."
        q, k, v = (split(z) for z in (norm(h, w[p + "norm1"]) @ w[p + "qkv"].T).split(channels, -1))
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        h = h + mixed.transpose(1, 2).reshape(len(starts), length, channels) @ w[p + "project"].T
        gate, value = (norm(h, w[p + "norm2"]) @ w[p + "up"].T).chunk(2, -1)
        h = h + (torch.nn.functional.silu(gate) * value) @ w[p + "down"].T
    logits = norm(h, w["norm"]) @ w["head"].T
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()
    return {name: digest(x.grad.flatten().tolist()) for name, x in w.items()}


def record(checkpoint, text, expected, *starts):
    found = gradients(checkpoint, text, [int(s) for s in starts])
    with open(expected, "w") as file:
        file.write("{\n" + ",\n".join(f'  "{k}": [{a!r}, {b!r}]' for k, (a, b) in found.items()) + "\n}\n")


def check(checkpoint, expected, tolerance="1e-5"):
    _, values = read(checkpoint)
    bad = 0
    for name, (norm, product) in json.load(open(expected)).items():
        found = digest([10 * x for x in values["first_moment." + name][1]])
        if max(abs(found[0] - norm), abs(found[1] - product)) > float(tolerance) * norm:
            print(f"{name}: norm {found[0]:.8g}, expected {norm:.8g}; product {found[1]:.8g}, expected {product:.8g}")
            bad += 1
    return bad != 0


if __name__ == "__main__":
    sys.exit({"record": record, "check": check}[sys.argv[1]](*sys.argv[2:]))
