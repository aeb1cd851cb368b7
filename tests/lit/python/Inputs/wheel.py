"""wheel.py WHEEL MOST_BYTES GLIBC LEVEL...: what the package is to hold, with kernels for each
LEVEL of processors, that it is small enough, and that nothing in it needs a C library later than
GLIBC ("-": whatever this machine has) or any but the C library."""

import re
import subprocess
import sys
import tempfile
import zipfile

path, most, glibc = sys.argv[1], int(sys.argv[2]), sys.argv[3]
OWN = {"liblockstep_rt.so.0.1"}
SYSTEM = {
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
}
wheel = zipfile.ZipFile(path)
names = wheel.namelist()
faults = []


def number(version):
    return [int(part) for part in version.split(".")]


for wanted in (
    "lockstep/__init__.py",
    "lockstep/py.typed",
    "lockstep/torch/__init__.py",
    "lockstep/bin/lockstep",
    "lockstep/include/lockstep/lockstep.h",
    "lockstep/std/optim/adamw.step",
    "lockstep/editor/vscode/package.json",
    "lockstep/editor/vim/syntax/step.vim",
):
    if wanted not in names:
        faults.append(f"there is no {wanted}")
for level in sys.argv[4:]:
    if f"lockstep/lib/lockstep/cpu-{level}.kernels" not in names:
        faults.append(f"there are no kernels for {level}")
size = sum(entry.compress_size for entry in wheel.infolist())
if size > most:
    faults.append(f"{size} bytes, more than {most}")
programs = [name for name in names if name.endswith("/bin/lockstep") or ".so" in name]
if len(programs) != 3:
    faults.append(f"the command and two libraries are wanted, not {programs}")
latest = "2.0"
with tempfile.TemporaryDirectory() as folder:
    for name in programs:
        file = wheel.extract(name, folder)
        said = subprocess.run(
            ["readelf", "--wide", "-d", "-V", file], capture_output=True, text=True, check=True
        ).stdout
        latest = max(latest, *re.findall(r"GLIBC_(\d[\d.]*)", said), key=number)
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", said):
            if needed not in OWN | SYSTEM:
                faults.append(f"{name} needs {needed}")
    if not wheel.getinfo("lockstep/bin/lockstep").external_attr >> 16 & 0o111:
        faults.append("the command is no program")
if glibc != "-" and number(latest) > number(glibc):
    faults.append(f"it needs glibc {latest}, which is later than {glibc}")
print(f"{path.rsplit('/', 1)[1]}: {size} bytes, needs glibc {latest}")
sys.exit("\n".join(faults) or None)
