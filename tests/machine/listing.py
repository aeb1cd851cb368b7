"""listing.py: a kernel's machine code as a list of instructions that says, for either vendor, what figures.py asks.

An Instruction moves `size` bytes of device memory where `kind` is load or store, through the registers of `address`, and
a prefetch a line of it. It costs its warp `cycles` to issue. `queues` are the counters that it raises and that fall when it is done: a scoreboard of
an NVIDIA multiprocessor, vmcnt, lgkmcnt or vscnt of an AMD one; `waits` are pairs of a counter and how many of its newest
entries may still be under way. `latency` is the class of what it waits for: memory, arrival, short or none.

`reads` and `writes` name registers; `constants` maps a written register to the offset of the kernel's argument that it
takes. `target` is the instruction that a branch goes to, `falls` whether the next one may follow, `whole` false where an
access is of an element by itself, as the ends of rows are read; `skips` that a branch is taken where no lane has work,
`enters` where some lane has; `guarded` that lanes for which a predicate does not hold leave it out."""
import dataclasses


@dataclasses.dataclass
class Instruction:
    name: str
    line: int
    kind: str = ""
    size: int = 0
    whole: bool = True
    cycles: int = 1
    queues: tuple = ()
    waits: tuple = ()
    latency: str = ""
    reads: tuple = ()
    writes: tuple = ()
    address: tuple = ()
    constants: dict = dataclasses.field(default_factory=dict)
    target: object = None
    falls: bool = True
    skips: bool = False
    enters: bool = False
    guarded: bool = False


@dataclasses.dataclass
class Kernel:
    """registers of a thread, bytes of local memory of a thread, bytes of shared memory of a block."""
    name: str
    code: list
    registers: int = 0
    spilled: int = 0
    shared: int = 0
