"""build.py: a copy of the source with every mutant behind a switch, and its build."""

import glob
import json
import os
import shlex
import shutil
import subprocess
import sys
from multiprocessing import Pool

import find

HERE = os.path.dirname(os.path.abspath(__file__))
LEFT_OUT = shutil.ignore_patterns("build", ".git", "__pycache__")
SWITCH = (
    "extern int mutant_switch; extern unsigned char *mutants_reached; "
    "static inline int mutant_at(int k) "
    "{ if (!mutants_reached[k]) mutants_reached[k] = 1; return k == mutant_switch; }\n#line 1\n"
)
LIBRARY = "templates"  # text for kernels, which has no switch
# What to compile for the syntax tree of the device library: dialects, and their files in order.
COMMON = ["math.h", "lite.h", "integer.h", "convert.h", "philox.h", "fixed.h", "memory.h"]
REDUCTIONS = """
LS_REDUCTION(sum, f32, 0.0f, a + b, 1)
LS_REDUCTION(most, i64, 0, a > b ? a : b, 0)
"""
DIALECTS = {
    "prelude.c": (
        [],
        "c",
        ["vectors_cpu.h", "memory_cpu.h", "draw_cpu.h", "reduce.h", "reduce_cpu.h"],
    ),
    "prelude.cu": (
        ["SIMT_CUDA"],
        "c++",
        ["memory_gpu.h", "draw_gpu.h", "reduce.h", "reduce_gpu.h"],
    ),
    "prelude.hip": (
        ["SIMT_HIP"],
        "c++",
        ["memory_gpu.h", "draw_gpu.h", "reduce.h", "reduce_gpu.h"],
    ),
}


def write(path, text):
    """Leaves a file alone that has this text, so that nothing is built anew for it."""
    data = text.encode("latin-1")
    if os.path.exists(path):
        with open(path, "rb") as file:
            if file.read() == data:
                return False
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)
    return True


def run(words, what):
    done = subprocess.run(
        words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    if done.returncode != 0:
        sys.exit(f"mutants.py: {what}:\n{done.stdout[-6000:]}")


def find_clang():
    found = shutil.which("clang-14") or shutil.which("clang")
    if not found:
        sys.exit("mutants.py: clang, whose syntax tree tells the places, is not installed")
    return found


def find_one(task):
    """The mutants of one file, from the cache where neither it nor a header changed."""
    clang, flags, path, name, wrappers, cached = task
    if os.path.exists(cached):
        with open(cached, encoding="utf-8") as file:
            stored = json.load(file)
        return name, [find.Mutant.restored(m) for m in stored[0]], *stored[1:]
    found, constants, macros = find.find(clang, flags, path, name, wrappers)
    with open(cached + ".new", "w", encoding="utf-8") as file:
        json.dump([[m.stored() for m in found], constants, macros], file)
    os.rename(cached + ".new", cached)
    return name, found, constants, macros


class Product:
    """The copy, with `folders` made wrong, and its build in the folder `state`."""

    def __init__(self, source, state, folders, jobs):
        self.original, self.folders, self.jobs = source, folders, jobs
        self.state = state
        self.source, self.build = os.path.join(state, "source"), os.path.join(state, "build")
        self.mutants, self.constants, self.macros = {}, 0, 0
        self.numbers = {}  # of those behind a switch, by name
        os.makedirs(os.path.join(state, "found"), exist_ok=True)

    # ---- the places ----

    def files(self, folder):
        """Sources of a folder, as paths below the root."""
        found = []
        patterns = ("**/*.h", "prelude.*", "fast.*") if folder == LIBRARY else ("**/*.c",)
        for pattern in patterns:
            for path in glob.glob(os.path.join(self.original, folder, pattern), recursive=True):
                found.append(os.path.relpath(path, self.original))
        if folder == LIBRARY:
            found = [path for path in found if not path.endswith(".clcpp")]
        return sorted(set(found))

    def find(self):
        """Every mutant of every file, and the texts with the switches."""
        flags = self.flags()
        clang, headers = find_clang(), self.headers()
        wrappers = self.wrappers() if LIBRARY in self.folders else []
        tasks = []
        for folder in self.folders:
            for name in self.files(folder):
                if folder != LIBRARY and name not in flags:
                    continue  # no part of the build
                path = os.path.join(self.original, name)
                own = wrappers if folder == LIBRARY else ()
                hashed = find.hashlib.sha256(headers)
                hashed.update(repr((name, flags.get(name), find.read(path))).encode())
                cached = os.path.join(self.state, "found", hashed.hexdigest()[:20] + ".json")
                tasks.append((clang, flags.get(name, []), path, name, own, cached))
        with Pool(self.jobs) as pool:
            for name, found, constants, macros in pool.imap(find_one, tasks):
                self.mutants[name] = found
                self.constants += constants
                self.macros += macros

    def flags(self):
        """What decides the meaning of each file, from the build's own commands."""
        with open(os.path.join(self.build, "compile_commands.json"), encoding="utf-8") as file:
            commands = json.load(file)
        found = {}
        for command in commands:
            words = shlex.split(command["command"])
            kept = []
            for i, word in enumerate(words):
                if word.startswith(("-D", "-I", "-std")):
                    kept.append(word)
                elif word in ("-iquote", "-isystem"):
                    kept += words[i : i + 2]
            kept = [word.replace(self.source, self.original) for word in kept]
            name = os.path.relpath(command["file"], self.source)
            found.setdefault(name, kept)
        return found

    def headers(self):
        """A hash of what all files may include, and of what finds the places."""
        hashed = find.hashlib.sha256()
        texts = [os.path.join(HERE, name) for name in ("find.py", "build.py")]
        for folder in ("compiler", "runtime", LIBRARY, *self.folders):
            for pattern in ("**/*.h", "**/*.def"):
                texts += glob.glob(os.path.join(self.original, folder, pattern), recursive=True)
        for path in sorted(set(texts)):
            hashed.update(find.read(path).encode())
        return hashed.digest()

    def wrappers(self):
        made = []
        simt = os.path.join(self.original, "tests", "simt")
        templates = os.path.join(self.original, LIBRARY)
        for prelude, (defined, language, files) in DIALECTS.items():
            lines = [f"#define {name} 1" for name in defined]
            lines += [f'#include "{simt}/device.h"'] if defined else []
            lines += [f'#include "{templates}/{name}"' for name in (prelude, *COMMON, *files)]
            path = os.path.join(self.state, f"device_{prelude.split('.')[1]}")
            path += ".c" if language == "c" else ".cc"
            write(path, "\n".join(lines) + REDUCTIONS)
            made.append((["-std=c11" if language == "c" else "-std=c++17", "-march=native"], path))
        return made

    # ---- the build ----

    def copy(self):
        """The source as it is, save that files with switches wait until they are made."""
        keep = set()
        for folder, names, files in os.walk(self.original):
            ignored = LEFT_OUT(folder, names + files)
            names[:] = [name for name in names if name not in ignored]
            for file in files:
                path = os.path.join(folder, file)
                name = os.path.relpath(path, self.original)
                if file in ignored or os.path.abspath(path).startswith(self.state + os.sep):
                    continue
                keep.add(name)
                if not self.has_switches(name):
                    self.put(name)
        for folder, _, files in os.walk(self.source):
            for file in files:
                path = os.path.join(folder, file)
                if os.path.relpath(path, self.source) not in keep and "__pycache__" not in path:
                    os.remove(path)

    def has_switches(self, name):
        """A file that has been made, and whose text is not the original's."""
        there = os.path.exists(os.path.join(self.source, name))
        return (
            there
            and name.endswith(".c")
            and any(name.startswith(folder + "/") for folder in self.folders if folder != LIBRARY)
        )

    def put(self, name, text=None):
        path, to = os.path.join(self.original, name), os.path.join(self.source, name)
        write(to, find.read(path) if text is None else text)
        shutil.copymode(path, to)

    def is_configured(self):
        return os.path.exists(os.path.join(self.build, "compile_commands.json"))

    def configure(self):
        cached = shutil.which("ccache")
        launchers = [f"-DCMAKE_{kind}_COMPILER_LAUNCHER=ccache" for kind in ("C", "CXX") if cached]
        words = ["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", *launchers]
        words += ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DCMAKE_C_FLAGS=-w"]
        words += [f"-DCMAKE_C_STANDARD_LIBRARIES={self.state}/switch.o"]
        self.compile_switch(1)
        run(words, "cmake failed")

    def compile_switch(self, count):
        words = ["cc", "-O2", "-fPIC", f"-DMUTANTS={max(count, 1)}", "-c"]
        new = f"{self.state}/switch.new.o"
        run([*words, os.path.join(HERE, "switch.c"), "-o", new], "switch.c")
        with open(new, "rb") as file:
            write(f"{self.state}/switch.o", file.read().decode("latin-1"))

    def switch(self):
        """Puts all switches in; returns a hash of the texts."""
        hashed, at = find.hashlib.sha256(), 0
        for name in sorted(self.mutants):
            if name.startswith(LIBRARY + "/"):
                continue
            found = self.mutants[name]
            text = find.read(os.path.join(self.original, name))
            text = SWITCH.replace("#line 1", f'#line 1 "{name}"') + find.switched(text, found, at)
            hashed.update(text.encode("latin-1"))
            self.put(name, text)
            for i, mutant in enumerate(found):
                self.numbers[mutant.key] = at + i
            at += len(found)
        self.compile_switch(at)
        return hashed.hexdigest()[:16]

    def make(self, *targets):
        """True if it builds."""
        words = ["ninja", "-C", self.build, f"-j{self.jobs}", *targets]
        with open(os.path.join(self.state, "ninja.log"), "w", encoding="utf-8") as log:
            return subprocess.run(words, stdout=log, stderr=log, check=False).returncode == 0

    def log(self):
        with open(os.path.join(self.state, "ninja.log"), encoding="utf-8", errors="replace") as log:
            return log.read()[-6000:]
