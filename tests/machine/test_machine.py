"""Figures of small listings, written by hand, whose answers are known."""
import os
import re
import types
import unittest

import amd
import cases
import chips
import gauge
import nvidia
from figures import Array, Bulk, Source, figures, items, of_kernel, read_source, steady
from flow import Loop, best_path, walk
from listing import Kernel

TEXT = """struct copy_arguments {
    i64 size_n;
    const f32 *x; /* in f32[n] */
    f32 *y; /* out f32[n] */
    f32 *sum_1;
    f32 *const *p; /* inout f32[t, n] */
};
LS_KERNEL LS_THREADS(256) copy(const copy_arguments arguments) {
"""


def sass(*lines, kernel="copy"):
    """A listing of nvdisasm's: a line is a label, or an instruction and what schedules it: `stall`, the scoreboard that it
    `sets`, the one that says its operands are `read`, those that it `waits` for."""
    out, at = [f".text.{kernel}:"], 0
    for line in lines:
        if isinstance(line, str):
            line = (line, {})
        text, how = line
        if text.endswith(":"):
            out.append(text)
            continue
        upper = how.get("stall", 1) << 41 | how.get("sets", 7) << 46 | how.get("read", 7) << 49 | \
            sum(1 << 52 + q for q in how.get("waits", ()))
        out.append(f"        /*{at:04x}*/   {text} ;    /* 0x{0:016x} */")
        out.append(f"                       /* 0x{upper:016x} */")
        at += 16
    return nvidia.kernels_of("sm_90", "\n".join(out))[0]


def of_sass(kernel, lengths=None, text=TEXT):
    lengths = {"t": 1, **(lengths or {"n": 1 << 20})}
    kernel.registers = 64
    return figures(chips.CHIPS["sm_90"], kernel, read_source(text, lengths), lengths)


# Arguments begin at 0x210: size_n, then x at 0x218 and y at 0x220.
PROLOGUE = ["LDC.64 R2, c[0x0][0x218]", "LDC.64 R6, c[0x0][0x220]", "IMAD.WIDE R2, R0, 0x10, R2",
            "IMAD.WIDE R6, R0, 0x10, R6"]
LOAD, STORE = "LDG.E.128 R{0}, desc[UR4][R2.64+0x{1}]", "STG.E.128 desc[UR4][R6.64+0x{1}], R{0}"
TURN = ["@P0 BRA `(.L_x_1)", "EXIT"]


class Nvidia(unittest.TestCase):
    def test_instruction(self):
        code = sass(("@!P1 LDG.E.64.STRONG.SYS R4, desc[UR8][R50.64+0x4]", {"stall": 5, "sets": 3, "read": 1, "waits": [0, 2]}),
                    "ATOMG.E.ADD.STRONG.GPU PT, R4, desc[UR4][R2.64], R7", "MEMBAR.SC.GPU", "BAR.SYNC 0x0").code
        load = code[0]
        self.assertEqual((load.kind, load.size, load.whole, load.cycles), ("load", 8, False, 5))
        self.assertEqual((load.queues, load.waits), ((3, 1), ((0, 0), (2, 0))))
        self.assertEqual((load.address, load.writes), (("R50",), ("R4", "R5")))
        self.assertEqual([it.kind for it in code[1:]], ["atomic", "fence", "barrier"])

    def test_branches(self):
        code = sass("@P0 BRA `(.L_x_1)", "BRA `(.L_x_2)", ".L_x_1:", "@P2 EXIT", "IADD3 R1, R1, 0x1, RZ", ".L_x_2:", "EXIT").code
        self.assertEqual([(it.target, it.falls) for it in code],
                         [(2, True), (4, False), (None, True), (None, True), (None, False)])

    def test_call_writes_what_the_function_does(self):
        code = sass("CALL.REL.NOINC `($f)", "EXIT", "$f:", "MOV R7, R8", "RET.REL.NODEC R2 `(copy)", "MOV R9, R8").code
        self.assertEqual((code[0].writes, code[0].target, code[0].falls), (("R7",), None, True))

    def test_a_call_that_leaves_a_loop(self):
        code = sass(".L_x_1:", "@P0 CALL.REL.NOINC `(.L_x_2)", "BRA `(.L_x_1)", ".L_x_2:", "EXIT").code
        self.assertEqual([(it.target, it.falls) for it in code], [(2, True), (0, False), (None, False)])

    def test_constants(self):
        code = sass("LDCU.128 UR8, c[0x0][0x220]", "LEA R2, P0, R5, c[0x0][0x218], 0x2").code
        self.assertEqual(code[0].constants, {"UR8": 0x10, "UR9": 0x14, "UR10": 0x18, "UR11": 0x1c})
        self.assertEqual(code[1].constants, {"R2": 8})


class InFlight(unittest.TestCase):
    def flight(self, *loop):
        """KB of a multiprocessor, 32 warps of 64 registers."""
        return of_sass(sass(*PROLOGUE, ".L_x_1:", *loop, *TURN))["flight"]

    def test_each_load_waited_for(self):
        self.assertEqual(self.flight((LOAD.format(8, 0), {"sets": 0}), ("FADD R8, R8, R8", {"waits": [0]}),
                                     (LOAD.format(12, 200), {"sets": 0}), ("FADD R12, R12, R12", {"waits": [0]}),
                                     STORE.format(8, 0), STORE.format(12, 200)), 16)

    def test_two_before_the_first_use(self):
        self.assertEqual(self.flight((LOAD.format(8, 0), {"sets": 0}), (LOAD.format(12, 200), {"sets": 1}),
                                     ("FADD R8, R8, R8", {"waits": [0]}), ("FADD R12, R12, R12", {"waits": [1]}),
                                     STORE.format(8, 0), STORE.format(12, 200)), 32)

    def test_a_scoreboard_is_shared(self):
        # The first use waits for both, so the third load is alone.
        self.assertEqual(self.flight((LOAD.format(8, 0), {"sets": 0}), (LOAD.format(12, 200), {"sets": 0}),
                                     ("FADD R8, R8, R8", {"waits": [0]}), (LOAD.format(16, 400), {"sets": 1}),
                                     ("FADD R16, R16, R16", {"waits": [1]}), STORE.format(8, 0)), 32)

    def test_the_next_turn_is_loaded_ahead(self):
        # Each turn uses what the one before has loaded: two loads are under way where it waits for the older.
        self.assertEqual(self.flight((LOAD.format(8, 0), {"sets": 0}), ("FADD R12, R12, R12", {"waits": [1]}),
                                     STORE.format(12, 0), (LOAD.format(12, 200), {"sets": 1}),
                                     ("FADD R8, R8, R8", {"waits": [0]}), STORE.format(8, 200)), 32)

    def test_a_small_array_does_not_count(self):
        text = TEXT.replace("in f32[n]", "in f32[c]")
        row = of_sass(sass(*PROLOGUE, ".L_x_1:", (LOAD.format(8, 0), {"sets": 0}), ("FADD R8, R8, R8", {"waits": [0]}),
                           STORE.format(8, 0), *TURN), {"n": 1 << 20, "c": 256}, text)
        self.assertEqual((row["flight"], row["passes"]), (0, 0))


PANEL_TEXT = """struct panel_arguments {
    i64 size_b;
    i64 size_c;
    const f32 *x; /* in f32[b, c] */
    f32 *y; /* out f32[b, c] */
    f32 *phase_2_levels_0;
    const f32 *g; /* in f32[c] */
};
LS_KERNEL LS_THREADS(256) copy(const panel_arguments arguments) {
    const u32 span = size_c <= 1024 ? 8 : size_c <= 2048 ? 4 : 2;
    const u32 warps = 8, team = ls_team(ls_tiles(size_c)), teams = warps / team;
    LS_RUN_TEAMS(rows_1)
    LS_RUN_PANEL(phase_2_panel, 4)
}
"""


class Panels(unittest.TestCase):
    def kernel(self, *ahead, elements=(), small=()):
        """A row's tile twice, at first by elements or by vectors, its tree between; then columns: two rows, by two texts of
        which one loads small arrays, or fours of them in a loop."""
        tile = [(LOAD.format(8 + 4 * i, 512 * i), {"sets": 0}) for i in range(8)]
        rows = [(LOAD.format(8, 0), {"sets": 0}), (LOAD.format(12, 200), {"sets": 0}), (STORE.format(8, 0), {"waits": [0]}),
                STORE.format(12, 200)]
        return sass("LDC.64 R2, c[0x0][0x220]", "LDC.64 R6, c[0x0][0x228]", "LDC.64 R40, c[0x0][0x230]",
                    "LDC.64 R50, c[0x0][0x238]", "IMAD.WIDE R2, R0, 0x10, R2", ".L_x_1:", "MOV R9, RZ", *ahead,
                    ".L_x_2:", *(["@P5 BRA `(.L_x_9)", *elements, "BRA `(.L_x_10)", ".L_x_9:"] if elements else []),
                    *tile, ".L_x_10:", ("FADD R8, R8, R8", {"waits": [0]}), "BAR.SYNC 0x0", *tile,
                    ("FADD R8, R8, R8", {"waits": [0]}), "BAR.SYNC 0x0", "@P1 BRA `(.L_x_2)",
                    ".L_x_3:", *(["@P4 BRA `(.L_x_5)", *rows, *small, "BRA `(.L_x_6)", ".L_x_5:"] if small else []),
                    "@P2 BRA `(.L_x_4)", *rows, "BRA `(.L_x_6)",
                    ".L_x_4:", *rows, "@P3 BRA `(.L_x_4)",
                    ".L_x_6:", "STG.E.128 desc[UR4][R40.64], R8", "@P1 BRA `(.L_x_3)", *TURN)

    def test_rows_and_columns(self):
        # Of 4096 columns a part is two rows, a team of four warps on each, whose lanes have 32 elements: read twice along
        # the row and once down columns, of which a warp has four pieces of seven instructions for the way of two rows.
        row = of_sass(self.kernel(), {"b": 8192, "c": 4096, "row": 4096}, PANEL_TEXT)
        self.assertEqual((row["passes"], row["barriers"], row["access"]), (3, 2, 16))
        self.assertEqual(row["per_byte"], (1 + 21 + 4 * 8 + 1) / (32 * 8))
        # The tile's second loads are in the second cache: eight of each of 32 warps are in flight.
        self.assertEqual(row["flight"], 8 * 16 * 32 * 32 / 1024)

    def test_more_rows_to_a_part(self):
        # Of 2048 columns a part is four rows, a team of two warps on each. A warp has two pieces, two turns of two rows each.
        row = of_sass(self.kernel(), {"b": 8192, "c": 2048, "row": 2048}, PANEL_TEXT)
        self.assertEqual(row["passes"], 3)
        self.assertEqual(row["per_byte"], (1 + 21 + 2 * (1 + 2 * 5 + 2) + 1) / (32 * 8))

    def test_vectors_not_elements(self):
        # The text for rows off a boundary loads four elements of the weights more.
        row = of_sass(self.kernel(elements=["LDG.E R8, desc[UR4][R2.64]"] * 36), {"b": 8192, "c": 4096, "row": 4096}, PANEL_TEXT)
        self.assertEqual((row["access"], row["per_byte"]), (16, (1 + 22 + 4 * 8 + 1) / (32 * 8)))

    def test_two_panels_at_once(self):
        # Half of the warps have all pieces of 512 columns: two panels of eight rows where no more blocks are idle at the end.
        text = PANEL_TEXT.replace("    const u32 span", "    const i64 rows = size_b;\n    const u32 span").replace(
            "    LS_RUN_TEAMS", "    const u32 groups = ls_panel_groups((size_c + 127) / 128, warps, 32 * ls_tiles(rows), parts);\n"
            "    LS_RUN_TEAMS")
        row = of_sass(self.kernel(), {"b": 16384, "c": 512, "row": 512}, text)
        self.assertEqual(row["per_byte"], (1 + 2 * 21 + 2 * (1 + 2 * 5 + 2) + 1) / (32 * 8))
        row = of_sass(self.kernel(), {"b": 8192, "c": 512, "row": 512}, text)
        self.assertEqual(row["per_byte"], (1 + 21 + 2 * (1 + 2 * 5 + 2) + 1) / (16 * 8))

    def test_eight_columns_of_a_lane(self):
        # Of a vector of eight f32 columns the accesses of two rows are one row's: twice as many turns.
        text = "LS_PHASE void phase_2_panel(i64 n) {\n    ls_load_vec8_f32(x, n);\n}\n" + PANEL_TEXT
        row = of_sass(self.kernel(), {"b": 8192, "c": 4096, "row": 4096}, text)
        self.assertEqual(row["per_byte"], (1 + 21 + 2 * 2 * 8 + 1) / (32 * 8))

    def test_small_arrays_anew_for_each_row(self):
        # A text that loads the weights for each of its rows moves no more than the one that has them already.
        row = of_sass(self.kernel(small=[LOAD.format(8, 0).replace("R2", "R50")] * 2), {"b": 8192, "c": 4096, "row": 4096},
                      PANEL_TEXT)
        self.assertEqual(row["per_byte"], (1 + 21 + 4 * 9 + 1) / (32 * 8))

    def test_the_next_part_is_prefetched(self):
        # Two rows of 16 KB are 256 lines, one for each of 256 threads; of 32 KB two: nothing is loaded from memory itself.
        ahead = ".L_x_8:", "CCTL.E.PF2 [R2]", "@P1 BRA `(.L_x_8)"
        row = of_sass(self.kernel(*ahead), {"b": 8192, "c": 4096, "row": 4096}, PANEL_TEXT)
        self.assertEqual(row["per_byte"], (1 + 2 + 21 + 4 * 8 + 1) / (32 * 8))
        self.assertEqual(row["flight"], 32 * 4 * 32 * 32 / 1024)
        row = of_sass(self.kernel(*ahead), {"b": 8192, "c": 8192, "row": 8192}, PANEL_TEXT)
        self.assertEqual(row["per_byte"], (1 + 2 * 2 + 2 * 21 + 8 * 8 + 1) / (64 * 8))


class Ways(unittest.TestCase):
    def test_whole_tiles_not_the_ends_of_rows(self):
        row = of_sass(sass(*PROLOGUE, ".L_x_1:", "@P1 BRA `(.L_x_2)",
                           *["LDG.E.STRONG.SYS R8, desc[UR4][R2.64]"] * 8, "BRA `(.L_x_3)", ".L_x_2:",
                           (LOAD.format(8, 0), {"sets": 0}), ".L_x_3:", (STORE.format(8, 0), {"waits": [0]}), *TURN))
        self.assertEqual((row["access"], row["per_byte"]), (16, 4 / 32))

    def test_rows_off_a_boundary(self):
        text = TEXT.replace("[n]", "[b, n]") + "/* Phases 1 to 1 on rows of at most 1024 elements, a warp each. */\n"
        kernel = sass(*PROLOGUE, ".L_x_1:", "@P1 BRA `(.L_x_2)",
                      *["LDG.E.STRONG.SYS R8, desc[UR4][R2.64]"] * 4, "BRA `(.L_x_3)", ".L_x_2:",
                      (LOAD.format(8, 0), {"sets": 0}), ".L_x_3:", (STORE.format(8, 0), {"waits": [0]}), *TURN)
        self.assertEqual(of_sass(kernel, {"b": 8192, "n": 128, "row": 128}, text)["access"], 16)
        self.assertEqual(of_sass(kernel, {"b": 8192, "n": 127, "row": 127}, text)["access"], 4)

    def test_loops(self):
        # A loop that counts, one that does the work in another, and a slow way that is rarely taken.
        kernel = sass("MOV R0, RZ", ".L_x_5:", "IADD3 R0, R0, 0x1, RZ", "@P0 BRA `(.L_x_5)", *PROLOGUE, ".L_x_1:",
                      "MOV R9, RZ", ".L_x_2:", (LOAD.format(8, 0), {"sets": 0}), "@!P3 BRA `(.L_x_3)",
                      *["FMUL R8, R8, R8"] * 9, ".L_x_3:", (STORE.format(8, 0), {"waits": [0]}), "@P1 BRA `(.L_x_2)", *TURN)
        path = best_path(kernel.code, lambda it: it.size)
        loops = [step for step in path if isinstance(step, Loop)]
        self.assertEqual([len(list(walk(loop.path))) for loop in loops], [2, 6])
        inner, = [step for step in loops[1].path if isinstance(step, Loop)]
        self.assertEqual([kernel.code[at].kind for at in walk(inner.path)], ["load", "", "store", ""])
        row = of_sass(kernel)
        # 8 turns, a tile of 1024 elements, of four instructions; two around them; 256 bytes a thread.
        self.assertEqual(row["per_byte"], (8 * 4 + 2) / 256)

    def test_an_end_in_the_middle_of_a_loop(self):
        kernel = sass(*PROLOGUE, ".L_x_1:", "@P2 BRA `(.L_x_4)", (LOAD.format(8, 0), {"sets": 0}),
                      (STORE.format(8, 0), {"waits": [0]}), "BRA `(.L_x_1)", ".L_x_4:", "EXIT")
        self.assertEqual(of_sass(kernel)["per_byte"], 4 / 32)


    def test_work_between_barriers(self):
        # A warp with a tile takes the tree; to leave it out is shorter and moves as much.
        kernel = sass(*PROLOGUE, ".L_x_1:", (LOAD.format(8, 0), {"sets": 0}), "@!P3 BRA `(.L_x_2)",
                      *["FMUL R8, R8, R8"] * 9, "SHFL.BFLY PT, R9, R8, 0x1, 0x1f", ".L_x_2:", "BAR.SYNC 0x0",
                      (STORE.format(8, 0), {"waits": [0]}), *TURN)
        self.assertEqual([it.kind for it in kernel.code if "SHFL" in it.name], ["exchange"])
        self.assertEqual(of_sass(kernel)["per_byte"], 15 / 32)

    def test_the_text_for_whole_rows(self):
        # Its accesses have no guard; rows that are shorter than it takes go by those that have one.
        text = TEXT.replace("[n]", "[b, n]") + """/* Phases 1 to 1 on rows of at most 1024 elements, a warp each. */
    if (1023 < size_n) {
"""
        load, store = LOAD.format(8, 0), STORE.format(8, 0)
        kernel = sass(*PROLOGUE, ".L_x_1:", "@P1 BRA `(.L_x_2)", ("@P2 " + load, {"sets": 0}), ("@P2 " + store, {"waits": [0]}),
                      "BRA `(.L_x_3)", ".L_x_2:", (load, {"sets": 0}), (store, {"waits": [0]}), *["FMUL R8, R8, R8"] * 9,
                      ".L_x_3:", "MOV R9, RZ", *TURN)
        counts = [of_sass(kernel, {"b": 8192, "n": n, "row": n}, text)["per_byte"] * 32 for n in (1024, 768)]
        self.assertEqual(counts, [14, 6])

    def test_the_last_block_alone(self):
        # 100 tiles of 1024 of a second array, one after the other by two warps: 50 turns of a load from the second cache.
        text = TEXT.replace("f32 *sum_1;", "f32 *sum_1; /* in f32[m] */").replace(
            "LS_KERNEL", "LS_KERNEL LS_THREADS(64) copy(const copy_arguments arguments) {\n    if (LS_LAST(a->done)) {\n}\nLS_KERNEL")
        text = text[:text.rindex("LS_KERNEL")]
        main = [*PROLOGUE, ".L_x_1:", (LOAD.format(8, 0), {"sets": 0}), (STORE.format(8, 0), {"waits": [0]}),
                "@P0 BRA `(.L_x_1)"]
        tail = ["BAR.SYNC 0x0", "@P1 EXIT", "LDC.64 R20, c[0x0][0x228]", ".L_x_5:",
                ("LDG.E.128 R24, desc[UR4][R20.64]", {"sets": 1}), ("FADD R24, R24, R24", {"waits": [1]}), "@P0 BRA `(.L_x_5)"]
        lengths, both = {"n": 1 << 24, "m": 102400}, sass(*main, *tail, "EXIT")
        self.assertEqual(read_source(text, {"t": 1, **lengths}).last, {"copy"})
        row, alone = of_sass(both, lengths, text), of_sass(sass(*main, "EXIT"), lengths, text)
        self.assertEqual((row["passes"], row["per_byte"], row["barriers"]), (1, alone["per_byte"], 0))
        once, more = [8e-3 * lengths["n"] / (r["share"] / 100 * chips.CHIPS["sm_90"].copy) for r in (alone, row)]
        self.assertAlmostEqual(more - once, 50 * (chips.L2 + 2 / 1980), 3)

    def test_an_element_of_a_row_beside_its_vectors(self):
        one = ("LDG.E R40, desc[UR4][R2.64]", {"sets": 1})
        row = of_sass(sass(*PROLOGUE, ".L_x_1:", *[(LOAD.format(8, 512 * i), {"sets": 0}) for i in range(8)], one,
                           (STORE.format(8, 0), {"waits": [0, 1]}), *TURN))
        self.assertEqual(row["access"], 16)


class Arrays(unittest.TestCase):
    def test_source(self):
        source = read_source(TEXT, {"n": 1000, "t": 3})
        self.assertEqual(source.arrays[8], Array("x", 4, 1000))
        self.assertEqual(source.arrays[24], Array("sum_1", 4))
        self.assertEqual(read_source(TEXT, {"n": 1, "t": 1}, {"sum_1": 4096}).arrays[24], Array("sum_1", 4, 1024))
        self.assertTrue(source.arrays[32].listed)
        self.assertEqual((source.threads, source.row), ({"copy": 256}, ""))
        self.assertEqual(read_source("/* Phases 1 to 2 on rows of at most 8192 elements, a block each. */", {}).row, "block")

    def test_ranges(self):
        text = """LS_PHASE void phase_1(const struct own_arguments *a, LS_ITEM_RANGE) {
    const i64 first = ls_range_begin(groups, first_item, last_item, item_step);
}
LS_KERNEL LS_THREADS(256) own(const own_arguments arguments) {
    LS_RUN(phase_1)
}
"""
        source = read_source(text, {})
        self.assertEqual(source.kernels, {"own": ("", False, True)})
        self.assertTrue(of_kernel(source, "own").ranged)

    def test_kernels_of_one_text(self):
        text = """/* Phases 1 to 2 on rows of at most 256 elements, a warp each. */
LS_PHASE void rows_1(const struct own_arguments *a, LS_ITEM_RANGE) {
    const i64 lane = (i64)ls_lane();
}
LS_PHASE void phase_3(const struct own_arguments *a, LS_ITEM_RANGE) {
    const i64 chunks = (i64)((u64)(size_c + 31) / 32);
}
LS_KERNEL LS_THREADS(256) own_1(const own_arguments arguments) {
    LS_RUN_BLOCKS(rows_1)
}
LS_KERNEL LS_THREADS(256) own_2(
        const own_arguments arguments) {
    LS_RUN(phase_3)
}
"""
        source = read_source(text, {})
        self.assertEqual(source.kernels, {"own_1": ("warp", False, False), "own_2": ("", True, False)})
        own = of_kernel(source, "own_2")
        self.assertEqual((own.row, own.columns, own.threads), ("", True, {"own_2": 256}))
        # A tile of 1024 rows by 32 lanes: eight rows a turn are 128 turns, however short a row is.
        kernel = sass(".L_x_1:", ("LDG.E R8, desc[UR4][R6.64]", {"sets": 0}), *TURN)
        self.assertEqual(Bulk(chips.CHIPS["sm_90"], kernel, own, {"row": 256}).trips(8 * 32), 128)

    def test_a_tile_of_columns_once(self):
        # Whole tiles and others have loops of their own, one behind the other: a tile takes one, here the longer.
        text = TEXT[:TEXT.rindex("LS_KERNEL")] + """LS_PHASE void phase_1(const struct copy_arguments *a, LS_ITEM_RANGE) {
    const i64 chunks = (i64)((u64)(size_c + 31) / 32);
}
LS_KERNEL LS_THREADS(256) copy(const copy_arguments arguments) {
    LS_RUN(phase_1)
}
"""
        load = ("LDG.E R8, desc[UR4][R2.64]", {"sets": 0})
        row = of_sass(sass("LDC.64 R2, c[0x0][0x218]", ".L_x_1:", "MOV R9, RZ", ".L_x_2:", load, "@P1 BRA `(.L_x_2)",
                           ".L_x_3:", load, ("FADD R8, R8, R8", {"waits": [0]}), "@P1 BRA `(.L_x_3)", *TURN), text=text)
        self.assertEqual((row["passes"], row["per_byte"]), (1, (1 + 1024 * 3 + 1) / 4096))

    def test_an_array_of_a_list(self):
        kernel = sass("LDC.64 R2, c[0x0][0x230]", ".L_x_1:", ("LDG.E.64 R6, desc[UR4][R2.64]", {"sets": 0}),
                      ("IMAD.WIDE R6, R0, 0x10, R6", {"waits": [0]}), ("LDG.E.128 R8, desc[UR4][R6.64]", {"sets": 0}),
                      ("STG.E.128 desc[UR4][R6.64], R8", {"waits": [0]}), *TURN)
        row = of_sass(kernel, {"t": 4, "n": 1 << 20})
        self.assertEqual((row["access"], row["flight"], row["passes"]), (16, 16, 1))

    def test_passes_over_a_row(self):
        text = TEXT.replace("[n]", "[b, n]") + "/* Phases 1 to 2 on rows of at most 131072 elements, a block each. */\n"
        again = ["MOV R9, RZ", ".L_x_2:", (LOAD.format(8, 0), {"sets": 0}), ("FADD R8, R8, R8", {"waits": [0]}), "@P1 BRA `(.L_x_2)",
                 "BAR.SYNC 0x0", ".L_x_3:", (LOAD.format(8, 0), {"sets": 0}), (STORE.format(8, 0), {"waits": [0]}),
                 "@P1 BRA `(.L_x_3)"]
        row = of_sass(sass(*PROLOGUE, ".L_x_1:", *again, *TURN), {"b": 4096, "n": 16384, "row": 16384}, text)
        self.assertEqual((row["passes"], row["barriers"]), (2, 1))

    def test_warps_without_work(self):
        # A block of 8 warps on a row of 4 * 128 elements: half of its warps have none.
        text = TEXT.replace("[n]", "[b, n]") + "/* Phases 1 to 1 on rows of at most 1024 elements, a block each. */\n"
        row = of_sass(sass(*PROLOGUE, ".L_x_1:", (LOAD.format(8, 0), {"sets": 0}), (STORE.format(8, 0), {"waits": [0]}), *TURN),
                      {"b": 4096, "n": 512, "row": 512}, text)
        self.assertEqual(row["flight"], 8)

    def test_fences_and_atomics(self):
        row = of_sass(sass(*PROLOGUE, ".L_x_1:", (LOAD.format(8, 0), {"sets": 0}), (STORE.format(8, 0), {"waits": [0]}),
                           "MEMBAR.SC.GPU", ("ATOMG.E.ADD.STRONG.GPU PT, R4, desc[UR4][R6.64], R7", {"sets": 1}),
                           ("MEMBAR.SC.GPU", {"waits": [1]}), *TURN))
        self.assertEqual((row["fences"], row["atomics"]), (2, 1))

    def test_time(self):
        # 2 cycles, a load of 1000 ns, 3 cycles: the loop's own branch takes one.
        kernel = sass(*PROLOGUE, ".L_x_1:", (LOAD.format(8, 0), {"stall": 2, "sets": 0}),
                      (STORE.format(8, 0), {"stall": 2, "waits": [0]}), *TURN)
        bulk = Bulk(chips.CHIPS["sm_90"], kernel, read_source(TEXT, {"n": 1 << 20, "t": 1}), {"n": 1 << 20})
        time, most = steady(bulk, items(bulk)[0].path, 1.0)
        self.assertAlmostEqual(time, 1.0 + 3 / 1980, 6)
        self.assertEqual(most, 16)


AMD_TEXT = """
copy:
	s_load_dwordx2 s[4:5], s[2:3], 0x8
	s_load_dwordx2 s[6:7], s[2:3], 0x10
	s_waitcnt lgkmcnt(0)
.LBB0_1:
%s
	s_cbranch_scc1 .LBB0_1
	s_endpgm
	.amdhsa_kernel copy
		.amdhsa_user_sgpr_dispatch_ptr 1
		.amdhsa_user_sgpr_kernarg_segment_ptr 1
		.amdhsa_next_free_vgpr 128
		.amdhsa_group_segment_fixed_size 32
		.amdhsa_private_segment_fixed_size 12
"""
AMD_LOAD, AMD_STORE = "\tglobal_load_dwordx4 v[{0}:{1}], v0, s[4:5]", "\tglobal_store_dwordx4 v0, v[{0}:{1}], s[6:7]"


def of_amd(chip, *loop):
    kernel, = amd.kernels_of(chip, AMD_TEXT % "\n".join(loop))
    return figures(chips.CHIPS[chip], kernel, read_source(TEXT, {"n": 1 << 20, "t": 1}), {"n": 1 << 20}), kernel


class Amd(unittest.TestCase):
    def test_kernel(self):
        row, kernel = of_amd("gfx942", AMD_LOAD.format(4, 7), "\ts_waitcnt vmcnt(0)", AMD_STORE.format(4, 7))
        self.assertEqual((kernel.registers, kernel.shared, kernel.spilled), (128, 32, 12))
        self.assertEqual((row["warps"], row["access"], row["passes"]), (16, 16, 1))
        self.assertEqual(row["flight"], 16 * 64 * 16 / 1024)
        self.assertEqual(row["per_byte"], 4 / 32)

    def test_counted_waits(self):
        # The first store needs the older load alone; in the end two, or with stores among them three, entries are left.
        loads = [AMD_LOAD.format(4, 7), AMD_LOAD.format(8, 11), AMD_LOAD.format(12, 15)]
        self.assertEqual(of_amd("gfx942", *loads, "\ts_waitcnt vmcnt(2)", AMD_STORE.format(4, 7),
                                "\ts_waitcnt vmcnt(0)")[0]["flight"], 48)
        self.assertEqual(of_amd("gfx942", loads[0], "\ts_waitcnt vmcnt(0)", loads[1], "\ts_waitcnt vmcnt(0)",
                                AMD_STORE.format(4, 7))[0]["flight"], 16)

    def test_stores_are_counted_with_loads_on_gfx9_alone(self):
        kernel, = amd.kernels_of("gfx942", AMD_TEXT % AMD_STORE.format(4, 7))
        self.assertIn(("vm",), [it.queues for it in kernel.code if it.kind == "store"])
        kernel, = amd.kernels_of("gfx1151", AMD_TEXT % (AMD_STORE.format(4, 7) + "\n\ts_waitcnt_vscnt null, 0x1"))
        self.assertIn(("vs",), [it.queues for it in kernel.code if it.kind == "store"])
        self.assertIn((("vs", 1),), [it.waits for it in kernel.code])

    def test_lanes_of_the_other_side(self):
        # Whole vectors, or else elements: the lanes of both are masked, and a warp takes one of the ways.
        row = of_amd("gfx942", "\ts_and_saveexec_b64 s[8:9], vcc", "\ts_xor_b64 s[8:9], exec, s[8:9]",
                     "\ts_cbranch_execz .LBB0_2", "\tglobal_load_dword v4, v0, s[4:5] sc0 sc1",
                     "\tglobal_load_dwordx4 v[12:15], v0, s[4:5]", ".LBB0_2:",
                     "\ts_andn2_saveexec_b64 s[8:9], s[8:9]", "\ts_cbranch_execz .LBB0_3", AMD_LOAD.format(4, 7),
                     "\tglobal_load_dwordx2 v[8:9], v0, s[4:5]", ".LBB0_3:", "\ts_or_b64 exec, exec, s[8:9]",
                     "\ts_waitcnt vmcnt(0)", AMD_STORE.format(4, 7))[0]
        # 24 bytes are loaded and 16 stored, by the second of the ways.
        self.assertEqual(row["flight"], 16 * 64 * 24 / 1024)

    def test_the_first_side_out_of_line(self):
        # As above, where the first side stands elsewhere and ends with a turn to the second one of its own.
        sides = ["\ts_and_not1_saveexec_b32 s8, s9", "\ts_cbranch_execnz .LBB0_4", ".LBB0_3:", "\ts_or_b32 exec_lo, exec_lo, s8",
                 "\ts_waitcnt vmcnt(0)", AMD_STORE.format(4, 7), "\ts_branch .LBB0_5", ".LBB0_2:",
                 "\tglobal_load_dwordx4 v[12:15], v0, s[4:5]", "\ts_and_not1_saveexec_b32 s8, s9", "\ts_cbranch_execz .LBB0_3",
                 ".LBB0_4:", AMD_LOAD.format(4, 7), "\tglobal_load_dwordx2 v[8:9], v0, s[4:5]", "\ts_branch .LBB0_3", ".LBB0_5:"]
        row = of_amd("gfx1151", "\ts_and_saveexec_b32 s8, vcc_lo", "\ts_xor_b32 s9, exec_lo, s8", "\ts_cbranch_execnz .LBB0_2",
                     *sides)[0]
        self.assertEqual(row["flight"], 16 * 32 * 24 / 1024)

    def test_spilled_scalars_keep_their_array(self):
        row = of_amd("gfx942", "\tv_writelane_b32 v20, s4, 3", "\tv_readlane_b32 s10, v20, 3", "\tv_readlane_b32 s11, v20, 4",
                     "\tglobal_load_dwordx4 v[4:7], v0, s[10:11]", "\ts_waitcnt vmcnt(0)", AMD_STORE.format(4, 7))[0]
        self.assertEqual(row["passes"], 1)


class Chips(unittest.TestCase):
    def test_rows_of_targets(self):
        """What chips.py knows of a multiprocessor, targets.def has too, which `lockstep explain` computes with."""
        with open(os.path.join(cases.ROOT, "compiler/target/targets.def")) as file:
            rows = dict(re.findall(r'^MULTIPROCESSOR\("(\w+)", (.*)\)$', file.read(), re.M))
        for name, chip in chips.CHIPS.items():
            row = {key: int(value) for key, value in re.findall(r"\.(\w+) = (\d+)", rows[name])}
            self.assertEqual((row["registers"], row["granule"], row["parts"], row["warps"], row["shared"] << 10,
                              row.get("reserved", 0) << 10, row["blocks"]),
                             (chip.registers, chip.granule, chip.parts, chip.warps, chip.shared, chip.reserved, chip.blocks))


class Model(unittest.TestCase):
    def test_occupancy(self):
        h200, mi300, apu = chips.CHIPS["sm_90"], chips.CHIPS["gfx942"], chips.CHIPS["gfx1151"]
        self.assertEqual([chips.occupancy(h200, n, 0, 256) for n in (32, 64, 65, 80, 128, 255)], [64, 32, 24, 24, 16, 8])
        self.assertEqual(chips.occupancy(h200, 32, 100 << 10, 256), 16)
        self.assertEqual(chips.occupancy(h200, 136, 0, 384), 12)
        self.assertEqual([chips.occupancy(mi300, n, 0, 256) for n in (64, 92, 128, 256)], [32, 20, 16, 8])
        self.assertEqual(chips.occupancy(apu, 86, 0, 256), 32)
        self.assertEqual(chips.occupancy(apu, 192, 0, 256), 16)

    def test_rate(self):
        h200 = chips.CHIPS["sm_90"]
        self.assertAlmostEqual(h200.copy, 4300)
        # With neither latency nor issue in the way, the ceiling; with issue alone, its share of the slots.
        self.assertAlmostEqual(chips.rate(h200, 64, 1 << 20, 1, lambda latency: latency) / h200.copy, chips.CEILING, 3)
        slots = 4 * 1.98 * 132 * 32 / 100
        self.assertAlmostEqual(chips.rate(h200, 64, 32, 100, lambda latency: 1e-6) / slots, chips.ISSUE, 2)
        # 16 KB in flight on each of 132: at the latency of little load, 132 * 16 KB / 0.4 us.
        self.assertAlmostEqual(chips.rate(h200, 8, 512, 1, lambda latency: 4 * latency), 132 * 4.096 / 4 / 0.357, -1)


class Table(unittest.TestCase):
    ROW = {"registers": 64, "warps": 32, "spilled": 0, "access": 16, "flight": 32.2, "per_byte": 2.5, "passes": 1.0, "fences": 0,
           "atomics": 0, "barriers": 1, "share": 80.4}

    def test_worse(self):
        known = {key: float(format(self.ROW[key], form)) for key, _, form, _, _ in gauge.COLUMNS}
        self.assertEqual((gauge.worse(self.ROW, known), gauge.worse(known, self.ROW)), ([], []))
        self.assertEqual(gauge.worse({**self.ROW, "share": 90.0, "flight": 64, "per_byte": 2.0, "registers": 90}, known), [])
        for key, value, said in [("spilled", 4, "spilled 4, was 0"), ("access", 4, "access 4, was 16"),
                                 ("flight", 16.0, "KB in flight 16, was 32"), ("per_byte", 2.7, "warp instr/B 2.70, was 2.50"),
                                 ("passes", 2.0, "passes 2.0, was 1.0"), ("fences", 2, "fences 2, was 0"),
                                 ("atomics", 1, "atomics 1, was 0"), ("barriers", 2, "barriers 2, was 1"),
                                 ("share", 77.0, "% of copy 77, was 80")]:
            self.assertEqual(gauge.worse({**self.ROW, key: value}, known), [said])

    def test_more_than_the_ceiling_is_an_error(self):
        self.assertEqual([gauge.impossible({**self.ROW, "share": share}) for share in (80.4, 93.2)], [[], []])
        self.assertEqual(gauge.impossible({**self.ROW, "share": 112.0}), ["112 % of a copy, more than 93"])

    def test_a_kernel_that_is_gone(self):
        wanted = [types.SimpleNamespace(name="a n=1"), types.SimpleNamespace(name="b n=1")]
        known = {"a n=1": {}, "b n=1 #1": {}, "b n=1 #2": {}, "c n=1": {}}
        self.assertEqual(gauge.gone(known, {"a n=1": {}, "b n=1 #1": {}}, wanted), ["b n=1 #2"])

    def test_tables_hold_what_can_be(self):
        for chip in chips.CHIPS:
            rows = gauge.read_table(chip)[1]
            self.assertEqual([name for name, row in rows.items() if gauge.impossible(row)], [], chip)

    def test_a_line_reads_back(self):
        words = gauge.line("a step n=1", self.ROW, 12).split()
        self.assertEqual(" ".join(words[:-len(gauge.COLUMNS)]), "a step n=1")
        self.assertEqual(words[-3:], ["0", "1", "80"])


class Cases(unittest.TestCase):
    def test_axes(self):
        found = cases.axes_of("step a[b, h, w = 2 * h](\nstep c[t, n of t as (q, k = 256)](\nstep d = backward a\nstep e(\n")
        self.assertEqual(found, {"a": {"b": None, "h": None, "w": "2 * h"}, "c": {"t": None, "n": None, "q": None, "k": "256"},
                                 "d": {"b": None, "h": None, "w": "2 * h"}})
        self.assertEqual(cases.lengths_of(found["a"], "b=8K,h=3", "h"), {"b": 8192, "h": 3, "w": 6, "row": 3})
        self.assertEqual(cases.lengths_of(found["c"], "t=2,n=1K", None)["q"], 4)

    def test_sample(self):
        names = {case.name for case in cases.every_case()}
        self.assertEqual([name for name in cases.SAMPLE if name not in names], [])


if __name__ == "__main__":
    unittest.main()
