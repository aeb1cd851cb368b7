"""The limit of a row on a GPU: a kernel that reads, writes and updates as many bytes in as many arrays, and does
nothing else. Compiled by NVRTC and launched by the driver, with nothing of Lockstep's compiler in it: four accesses of
16 bytes to a thread and array, all loads before the first use."""
import ctypes as C
import os

THREADS, EACH = 256, 4
HEAD = """#define LS_KERNEL extern "C" __global__ void
typedef struct __attribute__((aligned(16))) { unsigned x, y, z, w; } Four;
"""


def loads(roles, guarded):
    """All loads of a thread; what is only written counts as zeros."""
    lines = []
    for k, role in enumerate(roles):
        test = f"if (first + u * {THREADS} < p.n{k}) " if guarded else ""
        lines.append(f"            {test}v[{k}][u] = p.a{k}[first + u * {THREADS}];" if role != "write" else "")
    return [f"        for (int u = 0; u < {EACH}; u++) {{", *filter(None, lines), "        }"]


def stores(roles, guarded):
    """What is updated gets what was there: the bits stay."""
    lines = []
    for k, role in enumerate(roles):
        test = f"if (first + u * {THREADS} < p.n{k}) " if guarded else ""
        value = "s[u]" if role == "write" else f"v[{k}][u]"
        lines.append(f"            {test}p.a{k}[first + u * {THREADS}] = {value};" if role != "read" else "")
    return [f"        for (int u = 0; u < {EACH}; u++) {{", *filter(None, lines), "        }"]


def text_of(roles):
    """roles: for each array read, write or update. A block whose accesses are all within its arrays tests nothing."""
    fields = [f"    {'const ' if role == 'read' else ''}Four *a{i}; unsigned long long n{i};"
              for i, role in enumerate(roles)]
    inside = " && ".join(f"last <= p.n{i}" for i in range(len(roles)))
    mixed = [f"        s[u].{part} = " + " ^ ".join(f"v[{k}][u].{part}" for k in range(len(roles))) + ";"
             for part in "xyzw"]
    return HEAD + "\n".join([
        "struct Arguments {", *fields, "    Four *never;", "};",
        "LS_KERNEL traffic(const struct Arguments p) {",
        f"    const unsigned long long first = (unsigned long long)blockIdx.x * {THREADS * EACH} + threadIdx.x;",
        f"    const unsigned long long last = ((unsigned long long)blockIdx.x + 1) * {THREADS * EACH};",
        f"    const int whole = {inside};",
        f"    Four v[{len(roles)}][{EACH}], s[{EACH}];",
        f"    for (int k = 0; k < {len(roles)}; k++)",
        f"        for (int u = 0; u < {EACH}; u++) v[k][u].x = v[k][u].y = v[k][u].z = v[k][u].w = 0;",
        "    if (whole) {", *loads(roles, False), "    } else {", *loads(roles, True), "    }",
        f"    for (int u = 0; u < {EACH}; u++) {{", *mixed, "    }",
        "    if (whole) {", *stores(roles, False), "    } else {", *stores(roles, True), "    }",
        "    /* never true, and the compiler cannot know: so every load is wanted */",
        "    unsigned all = 0;",
        f"    for (int u = 0; u < {EACH}; u++) all += s[u].x ^ s[u].y * 3 ^ s[u].z * 5 ^ s[u].w * 7;",
        "    if (p.never && all == 0x9e3779b9u) *p.never = s[0];", "}"]) + "\n"


def check(library, name, *arguments):
    status = getattr(library, name)(*arguments)
    if status != 0:
        raise RuntimeError(f"{name} gave error {status}")


def compiled(library, text, option, form):
    """What NVRTC makes of the text. form: PTX or CUBIN."""
    program, size = C.c_void_p(), C.c_size_t()
    options = (C.c_char_p * 1)(option.encode())
    check(library, "nvrtcCreateProgram", C.byref(program), text.encode(), b"traffic.cu", 0, None, None)
    check(library, "nvrtcCompileProgram", program, 1, options)
    check(library, f"nvrtcGet{form}Size", program, C.byref(size))
    image = C.create_string_buffer(size.value)
    check(library, f"nvrtcGet{form}", program, image)
    check(library, "nvrtcDestroyProgram", C.byref(program))
    return image


class Vendor:
    """NVRTC and the driver, as far as one kernel needs them."""

    def __init__(self, target):
        self.target = target
        self.driver = C.CDLL(os.environ.get("LOCKSTEP_CUDA") or "libcuda.so.1")
        self.compiler = C.CDLL(os.environ.get("LOCKSTEP_NVRTC") or "libnvrtc.so")
        device, context = C.c_int(), C.c_void_p()
        check(self.driver, "cuInit", 0)
        check(self.driver, "cuDeviceGet", C.byref(device), 0)
        check(self.driver, "cuDevicePrimaryCtxRetain", C.byref(context), device)
        check(self.driver, "cuCtxSetCurrent", context)

    def kernel(self, text):
        image = compiled(self.compiler, text, f"--gpu-architecture={self.target}", "CUBIN")
        module, function = C.c_void_p(), C.c_void_p()
        check(self.driver, "cuModuleLoadData", C.byref(module), image)
        check(self.driver, "cuModuleGetFunction", C.byref(function), module, b"traffic")
        return function


class GpuTraffic:
    """The traffic of one row. `memory`: bytes -> address, freed by whoever gave it."""

    kernels = {}  # roles -> function

    def __init__(self, vendor, case, memory, stream):
        self.vendor, self.stream, self.launches = vendor, stream, []
        rank = max(len(of.shapes[0]) for of in case.arrays.values())
        arrays = [of for of in case.arrays.values() if len(of.shapes[0]) == rank]  # not gains and targets
        role = lambda of: "update" if of.changed else "write" if of.fill == "out" else "read"
        passes = [[(role(of), of.bytes) for of in arrays]] + [[("read", of.bytes)] for of in arrays if of.twice]
        self.moved = sum(of.bytes * (2 if of.changed or of.twice else 1) for of in arrays)
        for one in passes:
            self.launches.append(self.launch(tuple(r for r, _ in one), [max(1, size // 16) for _, size in one], memory))

    def launch(self, roles, counts, memory):
        if roles not in self.kernels:
            self.kernels[roles] = self.vendor.kernel(text_of(roles))
        fields = []
        for i in range(len(roles)):
            fields += [(f"a{i}", C.c_void_p), (f"n{i}", C.c_uint64)]
        arguments = type("Arguments", (C.Structure,), {"_fields_": [*fields, ("never", C.c_void_p)]})()
        for i, count in enumerate(counts):
            setattr(arguments, f"a{i}", memory(16 * count))
            setattr(arguments, f"n{i}", count)
        blocks = -(-max(counts) // (THREADS * EACH))
        pointers = (C.c_void_p * 1)(C.addressof(arguments))
        return self.kernels[roles], blocks, pointers, arguments

    def __call__(self):
        for function, blocks, pointers, _ in self.launches:
            check(self.vendor.driver, "cuLaunchKernel", function, blocks, 1, 1, THREADS, 1, 1, 0, self.stream, pointers, None)
