#!/usr/bin/env python3
"""weak_mutants.py BUILD [--list] [--only WORD] [--library | --compiler]

Takes out each fence, barrier and wait, one at a time: of the device library (templates/), by its
text, and of what the compiler puts into kernels, from a table of its places; runs what covers it
until a test fails, and prints `killed N of M` with those that survive; what does not build is
told apart, as neither. A test that fails, or is skipped, without any mutant kills none. README.md
beside this file argues them one by one.

A mutant of the device library is run by weak_test, weak_ptx_test and weak_amd_test on a changed
copy of templates/; one that survives these, and each of the compiler's, by programs of the
execution matrix, with a compiler built from a changed copy of the source in BUILD/weak_mutants
(made once, rebuilt for each mutant), ahead of them by text tests where the table names some: of
what OpenCL alone has, which runs nowhere. LOCKSTEP_NVRTC names NVRTC, for PTX. Exits 1 when a place
of the compiler is not in the table. Hours; --only takes some.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIBRARY_FILES = ("prelude.cu", "prelude.hip", "memory_gpu.h", "reduce_gpu.h")
LIBRARY_TESTS = ("weak_test", "weak_ptx_test", "weak_amd_test")
UNBUILT = "it does not build"
# Statements that order memory or wait, in the device library.
STATEMENT = re.compile(
    r"""(?:while\ \(!\(\(ls_atomic_read_u32\(.*\)\)\ ls_pause\(\)
      | \b(?:__syncthreads|__syncwarp|__threadfence)\(\)
      | \bls_(?:barrier|barrier_release|warp_sync|release|acquire|release_published)\(\)
      | \b__builtin_amdgcn_(?:fence\([^;]*\)|s_barrier\(\)|wave_barrier\(\)|s_waitcnt\([^;]*\))
      | \basm\ volatile\("fence[^;]*;"[^;]*\));""",
    re.VERBOSE,
)
# What the compiler puts into kernels: file, text, what takes its place (None: of those which
# another mutant stands for, as it changes how they all are printed), and programs that need it, or
# text tests (FOLDER/NAME below tests/lit).
ROWS = ("near_apart", "softmax", "layernorm", "chosen")
LAST = ("random-12", "random-11", "transactions", "cross_entropy", "lamb_clipped")
COLUMNS = ("saturating", "amp_phase", "advantages", "reduce-f32-columns")
RELEASED = ("empty_rows", "narrow_products", "random-9", "beside_apart", "added_apart")
COMPILER = [
    (
        "compiler/emit/row_fusion.c",
        '"if (alone) ls_warp_sync(); else ls_barrier();\\n"',
        '"if (alone) ls_warp_sync();\\n"',
        ROWS,
    ),
    (
        "compiler/emit/row_fusion.c",
        '"if (alone) ls_warp_sync(); else ls_barrier();\\n"',
        '"if (!alone) ls_barrier();\\n"',
        ROWS,
    ),
    (
        "compiler/emit/kernel.c",
        'if (i > kernel->first && state) text_printf(out, "ls_wait_for_blocks(a->%s);\\n", state);',
        "",
        ("saturating", "scans_list", "amp_phase"),
    ),
    (
        "compiler/emit/kernel.c",
        'if (i > kernel->first && !state && e->target->gpu) text_puts(out, "ls_barrier();\\n");',
        "",
        ("emit/one-block-barriers.step",),
    ),
    (
        "compiler/emit/kernel.c",
        '"if (LS_LAST(a->%s)) {\\n"',
        '"if (1 || LS_LAST(a->%s)) {\\n"',
        LAST,
    ),
    (
        "compiler/emit/kernel.c",
        'if (i > begin) text_puts(out, "    ls_barrier();\\n");',
        "",
        ("found", "parts_apart"),
    ),
    ("compiler/emit/kernel.c", 'text_puts(&text, "ls_barrier();\\n");', "", ("prologue_rows",)),
    (
        "compiler/emit/nest_print.c",
        '"if (arrivals && ls_last_block(a->%s)) {\\n"',
        '"if (arrivals && (1 || ls_last_block(a->%s))) {\\n"',
        ("random-11",),
    ),
    (
        "compiler/emit/nest_print.c",
        '"if (arrivals && ls_arrive(a->%s, arrivals)%s) {\\n"',
        '"if (arrivals && (1 || ls_arrive(a->%s, arrivals))%s) {\\n"',
        LAST,
    ),
    (
        "compiler/emit/segment_epilogue.c",
        'if (i > first) text_puts(out, "    ls_warp_sync();\\n");',
        "",
        ("followers",),
    ),
    (
        "compiler/emit/segment_epilogue.c",
        "    if (ls_arrive(&a->%s[part], (u32)%s_lines(a, part)))",
        "    if (1 || ls_arrive(&a->%s[part], (u32)%s_lines(a, part)))",
        ("followers",),
    ),
    (
        "compiler/emit/iterations.c",
        '"if (iteration + 1 < %s) ls_wait_for_blocks(a->%s);\\n"',
        '"(void)(iteration + 1 < %s && a->%s);\\n"',
        ("random-9", "for_lists", "for_when"),
    ),
    (
        "compiler/emit/iterations.c",
        'text_puts(&text, "ls_barrier();\\n");',
        "",
        ("emit/one-block-barriers.step",),
    ),
    (
        "compiler/emit/iterations.c",
        """        emit_run_alone(out, &phases[i]);
        text_puts(out, "ls_barrier();\\n");
    }
    text_puts(out, "}\\n");""",
        """        emit_run_alone(out, &phases[i]);
    }
    text_puts(out, "}\\n");""",
        ("for_distributed", "for_recurrent", "for_training"),
    ),
    (
        "compiler/emit/promote.c",
        """        set_strides(e, out, i);
    }
    text_puts(out, "ls_barrier();\\n");""",
        """        set_strides(e, out, i);
    }""",
        ("for_distributed", "for_recurrent"),
    ),
    (
        "compiler/emit/nest_global.c",
        '"const int %s = ls_arrive%s%s',
        '"const int %s = 1 || ls_arrive%s%s',
        (*COLUMNS, *LAST),
    ),
    (
        "compiler/emit/nest_global.c",
        'node->scope == SCOPE_WARP ? "ls_warp_sync();\\n"',
        'node->scope == SCOPE_WARP ? ""',
        ("short_rows", "list_reductions", *ROWS),
    ),
    (
        "compiler/emit/nest_global.c",
        '? "ls_barrier_release();\\n"',
        '? "ls_barrier();\\n"',
        ("emit/block-columns.step", *RELEASED),
    ),
    ("compiler/emit/nest_global.c", '? "ls_barrier_release();\\n"', '? ""', RELEASED),
    ("compiler/emit/nest_global.c", ': "ls_barrier();\\n"', ': ""', (*COLUMNS, *ROWS)),
    ("compiler/schedule/reduced_columns.c", "(NestNode){.kind = NEST_ARRIVE,", None, ()),
    ("compiler/schedule/items.c", "             (NestNode){.kind = NEST_ARRIVE,", None, ()),
    (
        "compiler/schedule/plain.c",
        "plain_add(b, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_GRID});",
        "(void)b;",
        ("saturating", "scans_list", "mlp"),
    ),
    (
        "compiler/schedule/plain.c",
        "if (waits) plain_add(b, (NestNode){.kind = NEST_ARRIVE});",
        "",
        ("empty_rows", "transactions"),
    ),
    (
        "compiler/schedule/block_columns.c",
        "nest_add(nest, end, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK});",
        "",
        ("empty_rows", "narrow_products"),
    ),
    (
        "compiler/schedule/items.c",
        """        *barrier = (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_WARP, .next = (*at)->next};
        (*at)->next = barrier;
        const char *problem = nest_deal(nest, (*at)->name, DEAL_LANES);
        if (problem) items_refuse(b, problem);
        while (*at != barrier) at = &(*at)->next;""",
        """        (void)barrier;
        NestNode *const after = (*at)->next;
        const char *problem = nest_deal(nest, (*at)->name, DEAL_LANES);
        if (problem) items_refuse(b, problem);
        while ((*at)->next != after) at = &(*at)->next;""",
        ("extrema", "list_reductions"),
    ),
    (
        "compiler/schedule/items.c",
        """*wait = (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_WARP, .next = *body};
            *body = wait;""",
        "(void)wait;",
        ("emit/one-row.step", "for_unrolled"),
    ),
    (
        "compiler/loop/place_tree.c",
        """*combine = grid ? (NestNode){.kind = NEST_ARRIVE, .next = own}
                            : (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK, .next = own};
            combine = own;""",
        """if (grid) {
                *combine = (NestNode){.kind = NEST_ARRIVE, .next = own};
                combine = own;
            }""",
        ("loop/place-tree.nest",),
    ),
    (
        "compiler/loop/place_tree.c",
        "*combine = grid ? (NestNode){.kind = NEST_ARRIVE, .next = own}",
        "*combine = grid ? (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK, .next = own}",
        ("loop/place-tree.nest",),
    ),
    (
        "compiler/loop/order_accesses.c",
        "nest_add(nest, &place, (NestNode){.kind = NEST_BARRIER, .scope = scope});",
        "",
        ("rows_in_place", "scans", "long_rows", "found", "chosen"),
    ),
    (
        "compiler/loop/two_trees.c",
        "if (x->shared) nest_add(nest, end, "
        "(NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK});",
        "",
        ("cross_entropy", "reduce-f32-rows", "long_rows", "softmax"),
    ),
    (
        "compiler/loop/guard_reuse.c",
        "nest_add(nest, &end, (NestNode){.kind = NEST_BARRIER, .scope = SCOPE_BLOCK});",
        "(void)nest;",
        ROWS,
    ),
    (
        "compiler/emit/row_panels.c",
        'if (i > kernel->first) text_puts(&calls, "ls_barrier();\\n");',
        "",
        ("strips",),
    ),
]
DEFAULT_PROGRAMS = (
    *COLUMNS,
    *ROWS,
    "random",
    "random-11",
    "random-12",
    "random-8",
    "short_rows",
    "wide_rows",
    "scans",
)


class Mutant:
    def __init__(self, path, text, programs=()):
        self.path, self.text, self.programs = path, text, programs
        self.name = path


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def library_mutants():
    for name in LIBRARY_FILES:
        path = f"templates/{name}"
        text = read(path)
        for found in STATEMENT.finditer(text):
            line = text.count("\n", 0, found.start()) + 1
            mutant = Mutant(path, text[: found.start()] + ";" + text[found.end() :])
            function = re.findall(
                r"^LS_FN [^(]*?\*?(\w+)\(|^#define (LS_\w+)", text[: found.start()], re.M
            )
            mutant.name = (
                f"{path}:{line} {''.join(function[-1])}: {' '.join(found.group().split())}"
            )
            yield mutant


def compiler_mutants():
    for path, before, after, programs in COMPILER:
        text = read(path)
        if after is None:
            continue
        if text.count(before) != 1:
            sys.exit(
                f"weak_mutants.py: {path} has {text.count(before)} of this, expected 1: {before}"
            )
        mutant = Mutant(path, text.replace(before, after), programs)
        line = text.count("\n", 0, text.index(before)) + 1
        mutant.name = f"{path}:{line}: {' '.join(before.split())} -> {' '.join(after.split())}"
        yield mutant


def unlisted():
    """Places of the compiler that the table lacks."""
    listed = {}
    for path, before, _, _ in COMPILER:
        listed.setdefault(path, []).append(before)
    made = re.compile(
        r"\.kind = NEST_(?:BARRIER|ARRIVE)"
        r'|"[^"\n]*(?:ls_(?:barrier|barrier_release|warp_sync|wait_for_blocks|last_block|'
        r"arrive)|LS_LAST)\b"
    )
    for folder, _, names in os.walk(os.path.join(SOURCE, "compiler")):
        for name in names:
            path = os.path.relpath(os.path.join(folder, name), SOURCE)
            if not name.endswith(".c"):
                continue
            text = read(path)
            spans = [
                (text.index(before), text.index(before) + len(before))
                for before in listed.get(path, [])
            ]
            for found in made.finditer(text):
                if not any(begin < found.end() and found.start() < end for begin, end in spans):
                    yield f"{path}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()}"


class Product:
    """A copy of the source and its build."""

    def __init__(self, build):
        self.build_of = build
        self.source = os.path.join(build, "weak_mutants", "source")
        self.build = os.path.join(build, "weak_mutants", "build")
        self.ready = False

    def prepare(self):
        if self.ready:
            return
        ignore = shutil.ignore_patterns("build", ".git")
        shutil.rmtree(self.source, ignore_errors=True)
        shutil.copytree(SOURCE, self.source, ignore=ignore)
        cached = shutil.which("ccache")
        launcher = (
            ["-DCMAKE_C_COMPILER_LAUNCHER=ccache", "-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"]
            if cached
            else []
        )
        run(["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", *launcher], check=True)
        self.ready = True

    def make(self):
        try:
            targets = ("simt_exec", "lockstep_command", "nest_tool")
            return run(["ninja", "-C", self.build, *targets]).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def put(self, mutant):
        with open(os.path.join(self.source, mutant.path), "w", encoding="utf-8") as file:
            file.write(mutant.text)

    def restore(self, mutant):
        shutil.copyfile(os.path.join(SOURCE, mutant.path), os.path.join(self.source, mutant.path))

    def programs(self, mutant):
        texts = [name for name in mutant.programs if "/" in name]
        first = [name for name in mutant.programs if "/" not in name]
        lit = [sys.executable, find_lit(), "-q", "--filter"]
        of_build = os.path.join(self.build, "tests", "lit")
        yield from ([*lit, f":: {re.escape(name)}$", of_build] for name in texts)
        simt_exec = os.path.join(self.build, "tests", "simt", "simt_exec")
        listing = run([simt_exec, "--list-all"]).stdout.split()
        exec_runner = os.path.join(self.build, "tests", "exec", "exec_runner")
        if not mutant.path.startswith("compiler/emit/"):  # nests are not printed there
            yield from ([exec_runner, "--nests", "--only", name] for name in first)
        own = [f"{name}@{machine}" for machine in ("weak-cuda", "weak-wave64") for name in first]
        names = dict.fromkeys([*own, *(f"{name}@weak-cuda" for name in DEFAULT_PROGRAMS)])
        yield from ([simt_exec, "--only", name, "--together"] for name in names if name in listing)


def find_lit():
    found = sorted(glob.glob("/usr/lib/llvm-*/build/utils/lit/lit.py"))
    if not found:
        sys.exit("weak_mutants.py: lit not found: apt-get install llvm-14-tools")
    return found[0]


def run(words, check=False):
    return subprocess.run(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=check,
        timeout=1200,
    )


def fails(words):
    try:
        return run(words).returncode not in (0, 77)
    except subprocess.TimeoutExpired:
        return True


class Library:
    """The tests of the device library alone, of those that pass with templates/ as they are."""

    def __init__(self, build):
        self.build = build
        self.folder = os.path.join(build, "weak_mutants", "templates")
        self.passing = None

    def put(self, mutant=None):
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(os.path.join(SOURCE, "templates"), self.folder)
        if mutant:
            path = os.path.join(self.folder, os.path.basename(mutant.path))
            with open(path, "w", encoding="utf-8") as file:
                file.write(mutant.text)

    def status(self, test):
        """What it exits with, None if it hangs; what it printed."""
        program = os.path.join(self.build, "tests", "simt", test)
        try:
            done = run([program, "--templates", self.folder])
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return None, ""

    def tests(self):
        if self.passing is None:
            self.put()
            found = {test: self.status(test)[0] for test in LIBRARY_TESTS}
            self.passing = [test for test in LIBRARY_TESTS if found[test] == 0]
            for test in LIBRARY_TESTS:
                if found[test] != 0:
                    why = "is skipped" if found[test] == 77 else "fails"
                    print(f"left out: {test}, which {why} without a mutant", flush=True)
        return self.passing


def killer_in_library(mutant, library):
    """The first test of the device library alone that fails, UNBUILT, or None."""
    tests = library.tests()
    library.put(mutant)
    for test in tests:
        status, output = library.status(test)
        if "does not compile" in output:
            return UNBUILT
        if status not in (0, 77):
            return test
    return None


def killer_in_product(mutant, product):
    """The first program that fails with the mutant and passes without, UNBUILT, or None."""
    product.prepare()
    product.put(mutant)
    try:
        if not product.make():
            return UNBUILT
        for words in product.programs(mutant):
            own = [word.replace(product.build, product.build_of) for word in words]
            if fails(words) and not fails(own):  # it is the mutant that fails
                return " ".join(words[1:])
    finally:
        product.restore(mutant)
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("build", help="the build folder, with its tests built")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--only", default="", help="those whose name contains the word")
    parser.add_argument("--library", action="store_true", help="those of the device library")
    parser.add_argument("--compiler", action="store_true", help="those of the compiler")
    words = parser.parse_args()
    build, both = os.path.abspath(words.build), words.library == words.compiler
    mutants = [
        *(library_mutants() if both or words.library else ()),
        *(compiler_mutants() if both or words.compiler else ()),
    ]
    mutants = [mutant for mutant in mutants if words.only in mutant.name]
    missing = list(unlisted())
    for place in missing:
        print(f"not in the table of weak_mutants.py: {place}")
    if words.list:
        print("\n".join(mutant.name for mutant in mutants))
        return bool(missing)
    product, library, killed, unbuilt = Product(build), Library(build), 0, 0
    for mutant in mutants:
        of_library = mutant.path.startswith("templates/")
        killer = killer_in_library(mutant, library) if of_library else None
        killer = killer or killer_in_product(mutant, product)
        if killer == UNBUILT:
            unbuilt += 1
            print(f"DOES NOT BUILD {mutant.name}", flush=True)
        elif killer:
            killed += 1
            print(f"killed {mutant.name}  ({killer})", flush=True)
        else:
            print(f"SURVIVED {mutant.name}", flush=True)
    rest = f", {unbuilt} do not build" if unbuilt else ""
    print(f"killed {killed} of {len(mutants)}{rest}")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
