"""steps.py OUT FILE...: runs each step of the library's files, "std/norms" or one of them,
"std/norms:rms_norm_forward", on arrays of a few sizes, contiguous and with gaps, and writes a hash
of what each gives."""

import hashlib
import sys

import numpy

import lockstep
from lockstep._api import IN, OUT, TYPES, library
from lockstep._signature import step_names


def names(file):
    """The steps of a file, without those of what it imports."""
    if ":" in file:
        return [file]
    compilation = lockstep._signature.C.c_void_p()
    assert (
        library().ls_compile_file(file.encode(), None, lockstep._signature.C.byref(compilation))
        == 0
    )
    count = library().ls_compilation_own_step_count(compilation)
    every = step_names(library(), compilation)
    library().ls_compilation_destroy(compilation)
    return [f"{file}:{name}" for name in every[:count]]


def array(parameter, shape, random, gaps):
    kind = TYPES[parameter.type]
    gaps = gaps and len(shape) > 1  # between rows
    whole = (*(2 * n for n in shape[:-1]), *shape[-1:]) if gaps else shape
    if kind in ("f16", "f32", "f64"):
        made = random.uniform(0.1, 1, whole).astype({"f16": "f2", "f32": "f4", "f64": "f8"}[kind])
    elif kind == "bf16":
        made = (random.uniform(0.1, 1, whole).astype("f4").view("u4") >> 16).astype("u2")
    elif kind == "bool":
        made = numpy.zeros(whole, bool)
    else:
        types = {
            "i64": "i8",
            "i32": "i4",
            "i16": "i2",
            "i8": "i1",
            "u64": "u8",
            "u32": "u4",
            "u16": "u2",
        }
        made = numpy.zeros(whole, types.get(kind, "u1"))
    return made[tuple(slice(None, None, 2) for _ in shape[:-1])] if gaps else made


def run(name, size, gaps, digest):
    step, random = lockstep.Step(name), numpy.random.default_rng(0)
    signature, given = step.signature, {}
    known = {}
    for number, axis in enumerate(signature.axes):
        if axis.parent < 0 and axis.whole < 0 and not axis.terms and axis.fixed < 0:
            known[axis] = 3 if axis.counts else (*size, 3, 2)[min(number, 3)]
    lists = []
    for tensor in range(3):  # the lengths of ragged axes differ from tensor to tensor
        lengths = dict(known)
        for number, axis in enumerate(signature.axes):
            if axis.tensors and axis.whole < 0 and not axis.terms:
                lengths[axis] = (*size, 3, 2)[min(number, 3)] + 5 * tensor
        lists.append(signature.solve(lengths))
    signature.solve(known)
    for p in signature.parameters:
        if p.role == OUT:
            continue
        if p.rank == 0:
            given[p.name] = p.default if p.default is not None else 1
        elif p.tensors:
            shapes = [tuple(lengths[a] for a in p.inner) for lengths in lists]
            given[p.name] = [array(p, shape, random, False) for shape in shapes]
        else:
            given[p.name] = array(p, tuple(known[a] for a in p.axes), random, gaps and p.role == IN)
    results = step.run(step._arguments((), given), step._arrays(given))
    written = {p.name: given[p.name] for p in signature.parameters if p.role not in (IN, OUT)}
    for value in (*results.values(), *written.values()):
        for one in value if isinstance(value, list) else [value]:
            digest.update(numpy.ascontiguousarray(one).tobytes())


with open(sys.argv[1], "w") as out:
    for name in [name for file in sys.argv[2:] for name in names(file)]:
        digest = hashlib.sha256()
        for size in ((7, 33), (300, 65), (3, 5000)):
            for gaps in (False, True):
                run(name, size, gaps, digest)
        out.write(f"{name} {digest.hexdigest()}\n")
