"""Programs that use names of generated text for whatever a program can name, read by real front ends.

names.py cuda|hip|run ROOT BUILD

A plain program of every kind of kernel is emitted for a CPU, CUDA and HIP. Every identifier of these texts,
what the emitter would make of the programs' own names, and the macros of the toolchains then serve as the names
of imports, imported C functions and constants, constants, functions, their parameters and lets, steps, axes and
parameters. cuda: NVRTC's front end reads the texts (LOCKSTEP_NVRTC); hip: clang's (LOCKSTEP_CLANG_AMD) all of
them, and hipRTC's, which puts its own headers before a text, some. run: the steps give the bits of the plain
program on a CPU."""
import concurrent.futures
import ctypes
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rtc"))
from targets import clang_options

TOP = """import "std/activations" as $I
import "std/schedules" as $J
import c "words.h"
const $C = 1.5
fn $F($p, $q) = $p * $C + $q * 0.5
fn $G($r, $s: f32) {
    let $t = $r - $s
    return $t * $F($t, 0.25)
}
"""
# $D to $H and $K are the file's, the others each its own.
HEADER = """#define $K 0.25f
enum { $E = 3 };
static inline float $B(float $u) { return $u * $K; }
static inline float $D(float $w, float $o) {
    float $m = $w * 0.5f;
    for (int $n = 0; $n < $E; $n++) $m += $B($o);
    return $m;
}
static inline float ${D}_d0(float $u, float $w, float $o) { return $w * 0.5f; }
"""
# A step of every kind of kernel, and what `run` gives it.
STEPS = [
    ("""step $S[$a, $b]($x: f32[$a, $b], $v: f32[$b], $r: f32, out $y: f32[$a, $b], out $z: bf16[$a, $b]) {
    let $l = $F($x * $v, $r)
    $y = $I.silu($l) + $D($x, $r) * $E
    $z = $G($y, 0.125) - $l * $K
}""", "x=normal(5,70;1) v=normal(70;2) r=0.75"),
    ("""step $S[$a, $b]($x: f32[$a, $b], $v: f32[$a], $r: f32, out $y: f32[$a], out $z: f32[$a, $b], out $h: i64[$a]) {
    let $l = max[$b]($x * $v + $r)
    $z = exp($x - $l)
    $y = $l + sum[$b]($z) / size($b)
    $h = sum[$b](i64($x > $r))
}""", "x=normal(3,1500;1) v=normal(3;2) r=0.5"),
    ("""step $S[$a, $b](inout $x: f32[$a, $b], $v: f32[$a], out $y: f32[$b], out $z: f32, out $h: i64[$b]) {
    let $l = $x * $v
    $y = sum[$a]($l)
    $z = max($x)
    $h = argmax[$a]($l)
    $x = $x + $y
}""", "x=normal(40,33;1) v=normal(40;2)"),
    ("""step $S[$a as ($b, $c = 256)]($x: f32[$a], $r: f32, out $y: f32[$b], out $z: i8[$a]) {
    let $l = max[$c](abs($x * $r))
    $y = $l / 127
    $z = i8(round($x / $y))
}""", "x=normal(600;1) r=3"),
    ("""step $S[$a, $b of $a](inout $x: f32[$a, $b], $v: f32[$a], out $y: f32[$a], out $z: f32, out $h: i64) {
    let $l = norm[$b]($x)
    $y = $l
    $z = norm($x)
    $h = sum(size($b))
    $x *= $v
}""", "x=iota(30)+ones(2,2) v=0.5"),
    ("""step $S[$a, $b]($x: f32[$a, $b], $s: u32, inout $i: i32 = 0, out $y: f32[$a, $b], out $z: f32[$a]) {
    $i += 1
    let $l = uniform($s, $i)
    $y = $l + $x
    $z = sum[$b](normal($s, 7) * $x) + uniform[$a]($s)
}""", "x=ones(4,37) s=5"),
    ("""step $S($r: f32, $s: i32 = 3, inout $i: i32 = 1, out $y: f64, out $z: f32) {
    let $l = 1 - 0.9 ** $s
    $i += $s
    $y = $l * $i
    $z = $G($r, 0.5) + $J.cosine($i, 1.0, 100, 0.1)
}""", "r=0.5"),
    ("""step $S[$a, $b]($x: f32[$a, $b], $v: f32[$a], out $y: f32[$a, $b], out $z: f32[$a, $b]) {
    let $l = cumsum[$b]($x * $v)
    $y = scan[$b, reverse](0.0, $n, $n * 0.5 + $l)
    $z = $l
}""", "x=normal(3,50;1) v=normal(3;2)"),
    ("""step $S[$a, $b]($x: f32[$a, $b], $i: i32[$a], $v: f32[$b], out $y: f32[$a, $b], out $z: f32[$a, $b]) {
    let $l = $x[$i % 3, $b] * $v
    $y = $l
    $z = grad(sum($D($l, $v) + $x * $v[$b - 1]), $x)
}""", "x=normal(3,50;1) i=iota(3) v=normal(50;2)"),
    ("""step $S[$a, $b](inout $x: f32[$a, $b], inout $y: f32[$b], $r: f32, $v: bool[$a, $b], inout $i: i32 = 0) {
    when $r > 0.25 {
        let $l = sum[$a]($x)
        $y = $y + $l
        $i += 1
    } else {
        $i -= 1
    }
    when $v { $x = $x * $r }
}""", "x=normal(30,50;1) y=ones(50) r=0.5 v=ones(30,50)"),
]
FILE_NAMES = "IJCFGBDEK"
# Functions of a file hide these.
CALLED = set(re.findall(r"(?<![$.\w])([a-z]\w*)[\[(]", TOP + "".join(text for text, _ in STEPS)))
LIMIT = re.compile(r"_(MAX|MIN|WIDTH)$")


def table(root, name):
    text = open(os.path.join(root, "compiler", "emit", "names.c")).read()
    return "".join(re.findall(r'"([^"]*)"', re.search(rf"{name}\[\] =\n((?:\s*\"[^\"]*\"\n?)+);", text)[1])).split()


def identifiers(text):
    return re.findall(r"\b[A-Za-z_]\w*", re.sub(r"/\*.*?\*/", " ", text, flags=re.S))


class Program:
    """What `name` gives for a role of a scope, in every place that has the role."""

    def __init__(self, name, copies):
        file = {role: name("header" if role in "BDEK" else "file") for role in FILE_NAMES}

        def fill(text, scope, names):
            def give(role):
                role = role[1] or role[2]
                return names.get(role) or names.setdefault(role, name("file" if role == "S" else scope))
            return re.sub(r"\$(?:\{(\w)\}|(\w))", give, text)

        self.header = fill(HEADER, "header", dict(file))
        self.text, self.steps = fill(TOP, "file", dict(file)), []
        for _ in range(copies):
            for step, arguments in STEPS:
                names = dict(file)
                self.text += "\n" + fill(step, "step", names) + "\n"
                self.steps.append((names, arguments, re.findall(r"(?:out|inout) \$(\w)", step)))

    def write(self, folder):
        os.makedirs(folder)
        for name, text in ("words.h", self.header), ("words.step", self.text):
            with open(os.path.join(folder, name), "w") as file:
                file.write(text)


class Names:
    """Words in turn, between them what the emitter makes of the name before; no name twice in a program, and
    none that cannot have its role."""

    def __init__(self, words, stems, banned, no_c):
        self.words, self.stems, self.banned, self.no_c = words, stems, banned, no_c
        self.at, self.made, self.before, self.taken = 0, 0, None, set()

    def wishes(self):
        if self.before:
            self.made += 1
            yield self.stems[self.made % len(self.stems)].replace("%", self.before)
        while True:
            self.at += 1
            yield self.words[(self.at - 1) % len(self.words)]

    def __call__(self, scope):
        for word in self.wishes():
            if scope == "header" and (word in self.no_c or word.startswith("_")):
                continue
            if (scope == "step" or word not in CALLED) and word not in self.taken and word not in self.banned:
                break
        self.taken.add(word)
        self.before = None if self.before or scope != "step" else word
        return word


def emit(build, folder, target):
    texts = os.path.join(folder, target)
    os.makedirs(texts)
    subprocess.run([os.path.join(build, "tests", "rtc", "sources"), texts, target, os.path.join(folder, "words.step")],
                   check=True)
    return sorted(glob.glob(os.path.join(texts, "*")))


def macros():
    """Of the toolchains that are here, as their libraries and compilers tell. A word that is none does no harm."""
    found = set()
    for pattern in "/usr/lib/*/libhiprtc-builtins.so*", "/usr/local/cuda*/lib64/libnvrtc-builtins.so*":
        for library in glob.glob(pattern):
            with open(library, "rb") as file:
                found |= set(re.findall(rb"#\s*define\s+([A-Za-z]\w{2,50})\b(?!\()", file.read()))
    found = {word.decode() for word in found}
    for command in (["cc", "-xc"], ["clang-19", "-xhip", "--cuda-device-only", "-nogpuinc", "-nogpulib",
                                    "--offload-arch=gfx90a"]):
        try:
            made = subprocess.run([*command, "-dM", "-E", "/dev/null"], capture_output=True, text=True)
        except FileNotFoundError:
            continue
        found |= set(re.findall(r"#define ([A-Za-z]\w*) ", made.stdout))
    return sorted(found)


class Runtime:
    """NVRTC or hipRTC, as far as errors."""

    def __init__(self, library, prefix, options):
        self.library, self.prefix = ctypes.CDLL(library), prefix
        self.options = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])

    def errors(self, path):
        call = lambda name, *arguments: getattr(self.library, self.prefix + name)(*arguments)
        program, size = ctypes.c_void_p(), ctypes.c_size_t()
        with open(path, "rb") as file:
            call("CreateProgram", ctypes.byref(program), file.read(), b"words", 0, None, None)
        if call("CompileProgram", program, len(self.options), self.options) == 0:
            call("DestroyProgram", ctypes.byref(program))
            return ""
        call("GetProgramLogSize", program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value + 1)
        call("GetProgramLog", program, log)
        call("DestroyProgram", ctypes.byref(program))
        return log.value.decode(errors="replace") or "no log"


def clang_errors(path):
    made = subprocess.run([os.environ.get("LOCKSTEP_CLANG_AMD", "clang-19"), "--offload-arch=gfx90a",
                           *clang_options("EXACT"), "-fsyntax-only", path], capture_output=True, text=True)
    return made.stderr if made.returncode else ""


def load(prefix, names, options):
    for name in filter(None, names):
        try:
            return Runtime(name, prefix, options)
        except OSError:
            pass
    return None


def read_cuda(paths):
    nvrtc = load("nvrtc", [os.environ.get("LOCKSTEP_NVRTC"), "/usr/local/cuda/lib64/libnvrtc.so"],
                 ["--fdevice-syntax-only", "--gpu-architecture=compute_80", "-w"])
    return [(path, nvrtc.errors(path)) for path in paths]


def read_hip(paths):
    hiprtc = load("hiprtc", [os.environ.get("LOCKSTEP_HIPRTC"), "libhiprtc.so", "libhiprtc.so.6", "libamdhip64.so.5"],
                  ["--gpu-architecture=gfx90a", "-w", "-O0"])
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        read = list(zip(paths, pool.map(clang_errors, paths)))
    if not hiprtc:
        print("hipRTC is not here")
        return read
    return read + [(path, hiprtc.errors(path)) for path in paths[:1]]


def run_step(build, folder, program, number):
    """What went wrong, and the results' bytes behind the header that has their names."""
    names, arguments, results = program.steps[number]
    given = [names[word.partition("=")[0]] + "=" + word.partition("=")[2] for word in arguments.split()]
    paths = [os.path.join(folder, f"{number}.{result}.safetensors") for result in results]
    for result, path in zip(results, paths):
        given += ["-o", f"{names[result]}={path}"]
    made = subprocess.run([os.path.join(build, "lockstep"), "run", f"{folder}/words.step:{names['S']}",
                           "--device", "cpu", *given], capture_output=True, text=True)
    if made.returncode:
        return made.stderr, None
    files = [open(path, "rb").read() for path in paths]
    return "", [data[8 + int.from_bytes(data[:8], "little"):] for data in files]


def run_steps(build, folder, program, right):
    for number, step in enumerate(program.steps):
        error, mine = run_step(build, folder, program, number)
        yield step[0]["S"], error or ("" if mine == right[number] else f"other bits: {step[0]}")


def plain_words(build, folder, plain):
    """The identifiers of its texts, and, with % for it, those that have a name of the program in them."""
    plain.write(folder)
    found = {}
    for target in "cpu", "sm_80", "gfx90a":
        for path in emit(build, folder, target):
            found.update(dict.fromkeys(identifiers(open(path).read())))
    made = {re.sub(r"v\d+v", "%", word): None for word in found if re.search(r"v\d+v", word)}
    return [word for word in found if not re.search(r"v\d+v", word)], [*made, "%_2", "size_%", "n_%"]


def main(mode, root, build):
    failed, texts, number = 0, 0, 0
    with tempfile.TemporaryDirectory() as top:
        counter = iter(range(10 ** 6))
        plain = Program(lambda scope: f"v{next(counter)}v", 1)
        words, stems = plain_words(build, f"{top}/plain", plain)
        for name in "language_words", "prelude_words", "nest_words":
            words += table(root, name)
        if mode == "run":  # what stands in functions
            words = [word for word in words if not word.startswith(("_", "ls_", "LS_"))]
        else:
            words += macros()
        words = list(dict.fromkeys(words))
        keywords = set(re.findall(r'"(\w+)",\s*[WK]\)', open(f"{root}/compiler/front/tokens.def").read()))
        keywords |= set(re.findall(r'"(\w+)"', open(f"{root}/compiler/ir/types.def").read()))
        no_c = set(table(root, "language_words")) | {word for word in words if LIMIT.search(word)}
        names = Names(words, stems, keywords, no_c)
        right = [run_step(build, f"{top}/plain", plain, step)[1] for step in range(len(STEPS))] if mode == "run" else []
        while names.at < len(words):
            names.taken = set()
            program, folder = Program(names, 1 if mode == "run" else 2), f"{top}/{number}"
            program.write(folder)
            if mode == "run":
                read = list(run_steps(build, folder, program, right))
            else:
                paths = emit(build, folder, "sm_80" if mode == "cuda" else "gfx90a")
                paths = [path for path in paths if number == 0 or ".0." in path]  # all variants of one program
                read = read_cuda(paths) if mode == "cuda" else read_hip(paths)
            texts, number = texts + len(read), number + 1
            for what, error in read:
                if error:
                    failed += 1
                    print("FAILED", os.path.basename(what), error[:600])
    print(f"{len(words)} words, {number} programs, {texts} {'steps' if mode == 'run' else 'texts'}, {failed} failed")
    return failed != 0


sys.exit(main(*sys.argv[1:4]))
