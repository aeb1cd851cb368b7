"""What the reference modules share: inputs, and cases gathered for expected/*.json.

Inputs are drawn by a generator of their own for every case, rounded to few digits so that they are
short in the file, then to their type; the references compute with those values in f64.
"""
import json
import random
import zlib

import numpy
import torch

torch.set_default_dtype(torch.float64)
DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
          "e4m3": torch.float8_e4m3fn, "i64": torch.int64, "i32": torch.int32, "i16": torch.int16,
          "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
LIST = [(3, 5), (0,), (1,), (2, 3, 4)]  # a list with an empty and a one-element tensor
MATRICES = [(3, 5), (1, 1), (4, 0), (6, 2)]


def rounded(tensor, kind):
    """f64 values that the type can hold."""
    return tensor.to(DTYPES[kind]).to(torch.float64)


class Draw:
    """Inputs of one case."""

    def __init__(self, name):
        self.random = random.Random(zlib.crc32(name.encode()))

    def numbers(self, shape, low=-1.0, high=1.0, kind="f32", digits=3):
        count = 1
        for length in shape:
            count *= length
        data = [round(self.random.uniform(low, high), digits) for _ in range(count)]
        return rounded(torch.tensor(data, dtype=torch.float64).reshape(shape), kind)

    def list(self, shapes, low=-1.0, high=1.0, kind="f32", digits=3):
        return [self.numbers(shape, low, high, kind, digits) for shape in shapes]

    def integers(self, shape, low, high):
        count = 1
        for length in shape:
            count *= length
        return torch.tensor([self.random.randint(low, high) for _ in range(count)],
                            dtype=torch.int64).reshape(shape)

    def flags(self, shape, chance=0.3):
        return self.numbers(shape, 0, 1) < chance


def short(value, kind):
    """The shortest text that reads back as the value in its type."""
    if kind in ("f32", "f16", "bf16", "e4m3"):
        return float(str(numpy.float32(value)))
    return value


def array(tensor, kind, exact):
    """The form of tensors.py. Inputs are exact, expected values have nine digits unless "full"; data 0
    is all 0."""
    if tensor.numel() and tensor.dtype != torch.bool and not tensor.any():
        return {"shape": list(tensor.shape), "data": 0}

    def number(x):
        if exact == "full" or isinstance(x, (bool, int)):
            return x
        return short(x, kind) if exact else float(f"{x:.9g}")

    data = [number(x) for x in tensor.reshape(-1).tolist()]
    return {"shape": list(tensor.shape), "data": data}


def packed(value, kind, exact):
    if isinstance(value, list):
        return {"type": kind, "list": [array(part, kind, exact) for part in value]}
    if isinstance(value, torch.Tensor) and value.ndim == 0:
        value = value.item()
    if isinstance(value, torch.Tensor):
        return {"type": kind, **array(value, kind, exact)}
    return value


class Family:
    """The cases of one file in expected/."""

    def __init__(self, name):
        self.name, self.cases = name, []

    def case(self, name, step, launches, start=None, numbers=None, kinds=None, relative=2e-6, absolute=4e-7,
             tolerance=None, sizes=None, to_the_bit=False):
        """launches: [(inputs, outputs), ...]; kinds: type of a parameter where it is not f32 (integer
        and bool tensors are i64 and bool unless said otherwise); sizes: of axes that only outputs
        have, as the command takes them; to_the_bit: expected values are written in full, with no
        tolerance."""
        if to_the_bit:
            relative = absolute = 0
        kinds = kinds or {}

        def pack(values, exact):
            out = {}
            for key, value in values.items():
                one = value[0] if isinstance(value, list) and value else value
                kind = kinds.get(key, "f32")
                if key not in kinds and isinstance(one, torch.Tensor):
                    kind = {torch.int64: "i64", torch.bool: "bool"}.get(one.dtype, "f32")
                out[key] = packed(value, kind, exact)
            return out

        if any(case["name"] == name for case in self.cases):
            raise ValueError(f"two cases are called {name}")
        self.cases.append({
            **({"sizes": sizes} if sizes else {}), "name": name, "step": step,
            "tolerance": {"*": [relative, absolute], **(tolerance or {})},
            "numbers": pack(numbers or {}, True), "start": pack(start or {}, True),
            "launches": [{"in": pack(given, True), "out": pack(out, to_the_bit and "full")}
                         for given, out in launches]})

    def write(self, folder):
        """One line per launch, so that a difference between two recordings can be read."""
        parts = []
        for case in self.cases:
            launches = ",\n  ".join(json.dumps(entry, separators=(",", ":")) for entry in case["launches"])
            head = json.dumps({key: value for key, value in case.items() if key != "launches"},
                              separators=(",", ":"))
            parts.append(f"{head[:-1]},\"launches\":[\n  {launches}]}}")
        with open(f"{folder}/{self.name}.json", "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(parts) + "\n]\n")


def copies(values):
    return [value.detach().clone() for value in values]
