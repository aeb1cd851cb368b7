"""chips.py: what a device has, and the model that makes a predicted share of the copy limit of a kernel's figures.

Bandwidths, clocks and counts are those of the vendors' datasheets; `copy` is what a copy reaches of the bandwidth on an
H200, 4.3 of 4.8 TB/s, taken for all. The latencies are the H200's for all chips. A constant changes only by a measurement
on a device."""
import dataclasses

COPY = 4.3 / 4.8         # of the datasheet's bandwidth
CEILING = 0.93           # of the copy limit, for the best of kernels
ISSUE = 0.85             # of the issue slots
L2 = 0.2                 # microseconds: a load that the second cache has
ARRIVAL = 1.1            # an atomic on a counter with the fences around it
SHORT = 30               # cycles: shared memory, shuffles, special functions, constants


@dataclasses.dataclass
class Chip:
    """bandwidth in GB/s; processors: multiprocessors or compute units; issue: warp instructions in a cycle of one;
    registers: of a part of a multiprocessor that has warps of its own (for AMD: of each lane), parts: how many such parts;
    granule: by how many registers a warp's share grows; warps: at most, of a part; shared: bytes of a block, of which the
    driver takes `reserved`."""
    name: str
    device: str
    bandwidth: float
    processors: int
    clock: float
    lanes: int
    issue: float
    registers: int
    granule: int
    parts: int
    warps: int
    shared: int
    reserved: int = 0
    blocks: int = 32

    @property
    def copy(self):
        return COPY * self.bandwidth


CHIPS = {chip.name: chip for chip in [
    Chip("sm_80", "A100 80GB", 2039, 108, 1.41, 32, 4, 512, 8, 4, 16, 164 << 10, 1024),
    Chip("sm_90", "H200", 4800, 132, 1.98, 32, 4, 512, 8, 4, 16, 228 << 10, 1024),
    Chip("sm_100", "B200", 8000, 148, 1.965, 32, 4, 512, 8, 4, 16, 228 << 10, 1024),
    Chip("gfx90a", "MI250X, one die", 1638, 110, 1.7, 64, 1, 512, 8, 4, 8, 64 << 10, blocks=16),
    Chip("gfx942", "MI300X", 5300, 304, 2.1, 64, 1, 512, 8, 4, 8, 64 << 10, blocks=16),
    Chip("gfx1151", "Ryzen AI Max+ 395", 256, 40, 2.9, 32, 2, 1536, 24, 2, 16, 64 << 10, blocks=16),
]}


def occupancy(chip, registers, shared, threads):
    """Warps of a multiprocessor that are resident, in whole blocks."""
    of_block = -(-threads // chip.lanes)
    share = max(1, -(-registers // chip.granule)) * chip.granule
    of_part = min(chip.warps, chip.registers // share)
    blocks = min(chip.blocks, chip.parts * of_part // of_block)
    held = shared if not chip.reserved or shared > chip.reserved else chip.reserved
    if held:
        blocks = min(blocks, chip.shared // held)
    return blocks * of_block


def loaded_latency(load):
    """Microseconds of a load from memory, where this share of the bandwidth is in use."""
    return 0.35 + 0.06 * load / max(1e-3, 1 - min(load, 0.97))


def rate(chip, warps, size, instructions, time):
    """GB/s: warps that each move `size` bytes of memory in time(latency of memory) microseconds by so many instructions.
    The three bounds, of latency, issue and memory, meet softly."""
    load, reached = 0.3, 0.0
    for _ in range(60):
        waiting = warps * size / time(loaded_latency(load)) * chip.processors / 1e3
        issuing = ISSUE * chip.issue * chip.clock / instructions * size * chip.processors
        reached = (waiting ** -3 + issuing ** -3 + (CEILING * chip.copy) ** -3) ** (-1 / 3)
        load = 0.5 * load + 0.5 * min(reached / chip.copy, 0.96)
    return reached
