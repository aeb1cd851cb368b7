# The text tests: a file's RUN lines say what to run, its CHECK lines what must come out.
#   %lockstep   the command          %ir_tool   reads, transforms and prints IR text
#   %plan_tool  the same for plans
#   %nest_tool  reads, checks and prints nests
#   %root       the source tree      FileCheck, not: LLVM's
#   %plain_cc   for LOCKSTEP_CC, where compiled code is no measure
#   %charlm, %grpo, %linreg_shuffled, %embed_c, %minigpt   examples    %devices  the emulated devices' folder
import ctypes.util
import glob
import os
import shutil
import subprocess
import sys
import tempfile

config.name = "text"
config.suffixes = [".step", ".test", ".ir", ".plan", ".nest"]
config.excludes = ["Inputs", "inputs"]
config.test_source_root = os.path.join(config.lockstep_source, "tests", "lit")
config.test_exec_root = os.path.join(config.lockstep_build, "tests", "lit")

sys.path.insert(0, config.test_source_root)
import lit
from common import plain_compiler, simt_cache, test_environment
from formats import Texts, escaped

config.test_format = Texts(True)

config.environment.clear()
config.environment.update(test_environment(config.lockstep_build))
config.environment["SIMT_CACHE"] = simt_cache(config.lockstep_build)


def llvm_tool(name):
    for candidate in (name + "-14", "/usr/lib/llvm-14/bin/" + name, name):
        found = shutil.which(candidate)
        if found:
            return found
    lit_config.fatal(f"{name} not found: apt-get install llvm-14-tools")


def built_tool(name):
    found = glob.glob(os.path.join(config.lockstep_build, "tests", "*", name))
    return found[0] if found else os.path.join(config.lockstep_build, name)


# A Python with PyTorch, JAX and what executes notebooks, for the tests of these: LOCKSTEP_PYTHON. Those of the
# package itself need NumPy, mypy and scikit-build-core, which tests/run.sh brings.
def modules_of(python, *names):
    if not shutil.which(python):
        return set()
    found = subprocess.run([python, "-c", "import importlib.util as u, sys\nprint(*(m for m in sys.argv[1:] "
                            "if u.find_spec(m)))", *names], capture_output=True, text=True).stdout.split()
    return set(found)


python = os.environ.get("LOCKSTEP_PYTHON", "python3")
python = os.path.abspath(shutil.which(python) or python)  # tests run it where PATH is another
config.available_features |= modules_of(python, "torch", "jax", "optax", "nbclient")
tools = os.path.join(config.lockstep_build, "toolchains", "python", "bin", "python")
tools = tools if os.path.exists(tools) else python
tool_modules = modules_of(tools, "numpy", "mypy", "scikit_build_core")
config.available_features |= tool_modules
if "scikit_build_core" in tool_modules and glob.glob(os.path.join(config.lockstep_build, "toolchains", "wheels",
                                                                 "numpy-*.whl")):
    config.available_features.add("python-package")

config.substitutions += [
    ("%plain_cc", plain_compiler()),
    ("%lockstep", escaped(os.path.join(config.lockstep_build, "lockstep"))),
    ("%linreg_shuffled", escaped(os.path.join(config.lockstep_build, "examples", "linreg", "shuffled"))),
    ("%charlm", escaped(os.path.join(config.lockstep_build, "examples", "charlm", "charlm"))),
    ("%grpo", escaped(os.path.join(config.lockstep_build, "examples", "grpo", "grpo"))),
    ("%minigpt", escaped(os.path.join(config.lockstep_build, "examples", "llmc", "minigpt"))),
    ("%embed_c", escaped(os.path.join(config.lockstep_build, "examples", "embed_c", "embed_c"))),
    ("%devices", escaped(os.path.join(config.lockstep_build, "tests", "simt"))),
    ("%ir_tool", escaped(built_tool("ir_tool"))),
    ("%plan_tool", escaped(built_tool("plan_tool"))),
    ("%nest_tool", escaped(built_tool("nest_tool"))),
    ("%fuzz_front", escaped(os.path.join(config.lockstep_build, "tests", "fuzz", "fuzzer", "fuzz_front"))),
    ("%emulated_exec", escaped(built_tool("simt_exec"))),
    ("%exec_runner", escaped(built_tool("exec_runner"))),
    ("%differential", escaped(built_tool("differential"))),
    ("%python", escaped(python)),
    ("%lit", escaped(os.path.dirname(os.path.dirname(os.path.abspath(lit.__file__))))),
    ("%wheel_python", escaped(tools)),
    ("%library", escaped(built_tool("library"))),
    ("%write_sources", escaped(built_tool("sources"))),
    ("%build", escaped(config.lockstep_build)),
    ("%root", escaped(config.lockstep_source)),
    (r"\bFileCheck\b", llvm_tool("FileCheck")),
    (r"(?<![-\w/%])not(?= )", llvm_tool("not")),
]
if os.path.exists("/usr/local/cuda/lib64/libnvrtc.so") or "LOCKSTEP_NVRTC" in os.environ:
    config.available_features.add("nvrtc")
if glob.glob("/usr/lib/*/libamdhip64.so*") + glob.glob("/usr/lib/*/libhiprtc*.so*") or \
        "LOCKSTEP_HIPRTC" in os.environ:
    config.available_features.add("hiprtc")
if os.path.exists(os.path.join(config.lockstep_build, "tests", "fuzz", "fuzzer", "fuzz_front")):
    config.available_features.add("fuzzer")
for feature, command, library in (("open-mpi", "mpirun.openmpi", "libmpi.so.40"), ("mpich", "mpirun.mpich", "libmpich.so.12")):
    if shutil.which(command) and glob.glob(f"/usr/lib/*/{library}"):
        config.available_features.add(feature)
if os.geteuid() == 0 and shutil.which("ip") and shutil.which("unshare") and \
        subprocess.run(["unshare", "--net", "--uts", "ip", "link", "add", "probe", "type", "veth"], capture_output=True).returncode == 0:
    config.available_features.add("root-and-network-namespaces")
if glob.glob("/usr/lib/*/libopenblas.so.0"):
    config.available_features.add("openblas")
if any(ctypes.util.find_library(f"clang-{version}") or
       os.path.exists(f"/usr/lib/llvm-{version}/lib/libclang.so.1") for version in range(14, 20)):
    config.available_features.add("libclang")
if shutil.which("clang-19"):
    config.available_features.add("clang-amd")  # a second compiler for AMD devices
# What made the tables of tests/machine; another version of it makes other code.
gauge = os.path.join(config.lockstep_source, "tests", "machine", "gauge.py")
for feature, chip in (("machine-nvidia", "sm_90"), ("machine-amd", "gfx942")):
    if subprocess.run([sys.executable, gauge, "-", "ready", chip], env=config.environment).returncode == 0:
        config.available_features.add(feature)
if shutil.which("dot"):
    config.available_features.add("graphviz")
if os.path.exists(os.path.join(config.lockstep_build, "sealed", "liblockstep.a")):
    config.available_features.add("archives")  # the libraries as they are installed
if os.path.exists(os.path.join(config.lockstep_build, "build.ninja")):
    config.available_features.add("ninja")  # the build can be asked for its commands
if shutil.which("node"):
    config.available_features.add("node")
if shutil.which("nvim"):
    config.available_features.add("neovim")  # a client of the language server
if shutil.which("dpkg-deb"):
    config.available_features.add("dpkg")
if config.lockstep_coverage:
    config.available_features.add("coverage")  # what is built is large and slow
if config.lockstep_sanitizers:
    config.available_features.add("sanitizers")
if os.uname().machine == "x86_64":
    config.available_features.add("x86")


def runs_aarch64():
    compiler = shutil.which("aarch64-linux-gnu-gcc")
    if not compiler:
        return False
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program")
        made = subprocess.run([compiler, "-x", "c", "-", "-o", program], input=b"int main(void) { return 0; }")
        try:
            return made.returncode == 0 and subprocess.run(
                [program], env={"QEMU_LD_PREFIX": "/usr/aarch64-linux-gnu"}, stderr=subprocess.DEVNULL).returncode == 0
        except OSError:
            return False


if runs_aarch64():
    config.available_features.add("aarch64")
