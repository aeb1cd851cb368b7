"""cases.py: what is measured: every step of the library, the examples and the benchmark that has axes, at the sizes at which
its speed is judged. A kernel for other sizes is another text, so a size stands in the name of a case."""
import dataclasses
import glob
import os
import re

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))
FOLDERS = [("std", "templates/std/*.step"), ("std/optim", "templates/std/optim/*.step"),
           ("examples", "examples/*/*.step"), ("bench", "tests/bench/steps/*.step")]

# Axes of a step: their sizes, and which axis a row is along, if any. A step with other axes has those of OTHERS.
SIZES = [
    ("n", ["n=64M"], None),
    ("t n", ["t=148,n=1M"], None),  # GPT-2's tensors
    ("t n bin", ["t=148,n=1M"], None),
    ("t n q k", ["t=148,n=1M"], None),
    ("e t n q k", ["t=148,n=1M"], None),
    ("t n q k u", ["t=148,n=512K"], None),  # pairs
    ("f t n q k u", ["t=148,n=512K"], None),
    ("b c", ["b=64K,c=256", "b=16K,c=1K", "b=8K,c=4K", "b=4K,c=16K", "b=2K,c=32K", "b=4K,c=50257"], "c"),
    ("r c", ["r=8K,c=768"], "c"),
    ("b h w", ["b=8K,h=4K"], None),
    ("b g c n", ["b=64,g=32,c=16,n=1K"], "n"),
    ("r j f", ["r=8K,f=2K"], None),
    ("b k", ["b=256,k=64"], "k"),
    ("b q k", ["b=64,q=1K,k=1K", "b=16,q=2K,k=2K"], "k"),
    ("t h s f", ["t=16K,h=32,f=64"], "f"),
    ("t e f k", ["t=64K,e=64,k=8"], "e"),
    ("t e k", ["t=64K,e=64,k=8"], "e"),
]
OTHERS = {"n": "16M", "v": "256", "b": "64K", "c": "768", "t": "128", "r": "1K", "q": "256", "k": "256", "g": "1536",
          "s": "1K", "e": "16K", "a": "64", "u": "8", "h": "224",
          "w": "224", "m": "64", "d": "64"}
SMALLER = {"n v b t c": "n=1M,v=256,b=64,t=256,c=768", "n b t v": "n=1M,b=64,t=256,v=256", "n b v t": "n=1M,b=64,t=256,v=256",
           "s b k": "s=64K,k=64", "b c h w": "b=256,c=3,h=224,w=224",
           "b c h w r s": "b=256,c=3,h=256,w=256,r=224,s=224", "s b o h i": "s=64K", "v b c": "v=50257,b=64K,c=768", "b s": "b=4K,s=4K",
           "b s v h": "b=4K,s=16,v=64,h=256", "b a": "b=256K,a=64", "b": "b=16M", "n b": "n=1M,b=64K", "t r c": "t=12,r=3K,c=768",
           "f": "f=64", "e": "e=64", "b c r": "b=4K,c=4K,r=4K", "b c s": "b=64,c=64,s=3136",
           "t f b g k": "t=40,b=64K", "t i h f a b g k": "t=40,b=64K", "t b g k": "t=40,b=64K"}

# Of each kind of work one, for the suite.
SAMPLE = ["bench/adamw_list_f32:adamw t=148,n=1M", "std/activations:gelu_forward_bf16 n=64M",
          "std/activations:swiglu_backward n=64M", "std/norms:rms_norm_forward b=8K,c=4K",
          "std/norms:layer_norm_forward_bf16 b=64K,c=256", "std/losses:cross_entropy b=4K,c=50257",
          "std/norms:layer_norm_backward b=8K,c=4K", "bench/elementwise:total n=64M"]


@dataclasses.dataclass(frozen=True)
class Case:
    """path: of the file, and the step's name; lengths: of all axes, and of a row as "row"."""
    name: str
    path: str
    step: str
    sizes: str
    lengths: tuple


def number(text):
    return int(text.rstrip("KMG")) * 1024 ** " KMG".index(text[-1] if text[-1] in "KMG" else " ")


def axes_of(text):
    """Of each step the axes between its brackets, each with its fixed length or None."""
    found = {}
    for step, form in re.findall(r"^step (\w+)([^\n]*)", text, re.M):
        forward = re.match(r" = backward (\w+)", form)
        if forward:
            found[step] = found.get(forward[1])
            continue
        brackets = re.match(r"\[([^\]]*)\]", form)
        if not brackets:
            continue
        axes = {}
        for part in re.sub(r" of \w+| as |[()]", lambda m: ", " if m[0] == " as " else "", brackets[1]).split(","):
            name, _, fixed = part.partition("=")
            if name.strip():
                axes[name.strip()] = fixed.strip() or None
        found[step] = axes
    return {step: axes for step, axes in found.items() if axes}


def lengths_of(axes, sizes, row):
    known = {name: number(size) for name, size in (part.split("=") for part in sizes.split(","))}
    for name, fixed in axes.items():
        if name in known or not fixed:
            continue
        product = 1
        for factor in fixed.split("*"):
            product *= int(factor) if factor.strip().isdigit() else known[factor.strip()]
        known[name] = product
    if "q" in axes and "k" in axes and "n" in known:  # n as (q, k)
        known.setdefault("q", known["n"] // known["k"])
    if row:
        known["row"] = known[row]
    return known


def every_case():
    found = []
    for folder, pattern in FOLDERS:
        for path in sorted(glob.glob(os.path.join(ROOT, pattern))):
            with open(path) as file:
                steps = axes_of(file.read())
            program = os.path.splitext(os.path.basename(path))[0]
            for step, axes in steps.items():
                key = " ".join(axes)
                known = [entry for entry in SIZES if entry[0] == key]
                row = known[0][2] if known else next((axis for axis in ("c", "k", "a", "v", "s") if axis in axes), None)
                free = [name for name, fixed in axes.items() if not fixed]
                if not free:
                    continue  # a table
                lists = known[0][1] if known else [SMALLER.get(key) or ",".join(f"{a}={OTHERS[a]}" for a in free)]
                lists = [",".join(part for part in sizes.split(",") if part.split("=")[0] in free) for sizes in lists]
                for sizes in lists:
                    if row and row not in sizes and not axes.get(row):
                        row = None
                    found.append(Case(f"{folder}/{program}:{step} {sizes}", path, step, sizes,
                                      tuple(lengths_of(axes, sizes, row).items())))
    return found
