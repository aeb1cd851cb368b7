"""Holds gpu.def, gpu.h and tests/driver/hip_changes.def against all headers of HIP that are here: Debian's, ROCm's and
those of Triton's wheel.

    hip_headers.py ROOT PYTHON

Each row of the table is then put on the wrong side of the headers' version, which must be seen."""
import os
import re
import subprocess
import sys
import tempfile

TABLE = "tests/driver/hip_changes.def"
ROW = re.compile(r"^(ADDED|VALUE|TYPE)\((\d+), (?:hipError_t, )?([^,]+(?:, gcnArchName\))?)", re.M)
INCLUDE = "#define __HIP_PLATFORM_AMD__ 1\n#define __HIP_PLATFORM_HCC__ 1\n#include <hip/hip_runtime_api.h>\n"


def folders(python):
    """The folders that have hip/hip_runtime_api.h."""
    found = subprocess.run([python, "-c", "import importlib.util as u\ns = u.find_spec('triton')\n"
                            "print(s.submodule_search_locations[0] if s else '')"], capture_output=True, text=True)
    wheel = found.stdout.strip()
    places = ["/usr/include", "/opt/rocm/include"] + ([os.path.join(wheel, "backends/amd/include")] if wheel else [])
    return [place for place in places if os.path.exists(os.path.join(place, "hip/hip_runtime_api.h"))]


def preprocess(folder, text, *options):
    made = subprocess.run(["gcc", "-E", "-P", "-isystem", folder, *options, "-xc", "-"], input=text, capture_output=True,
                          text=True, check=True)
    return made.stdout


def faults(root, folder, table, version):
    """What does not fit, as lines."""
    found = []
    with tempfile.TemporaryDirectory() as other:
        with open(os.path.join(other, "hip_changes.def"), "w") as file:
            file.write(table)
        with open(os.path.join(root, "tests/driver/declarations_hip.c")) as file:
            text = file.read()
        made = subprocess.run(["gcc", "-std=gnu11", "-fsyntax-only", f"-I{other}", f"-I{root}/runtime",
                               f"-I{root}/runtime/include", f"-I{root}/tests/driver", "-isystem", folder, "-xc", "-"],
                              input=text, capture_output=True, text=True)
        found += [line for line in made.stderr.splitlines() if "error" in line]
        if made.returncode and not found:
            found.append(made.stderr)
    declared = re.sub(r"\s+", " ", preprocess(folder, INCLUDE))
    for kind, since, name in ROW.findall(table):
        there = re.search(rf"\b{name} ?\(", declared) is not None
        if kind == "ADDED" and there != (version >= int(since)):
            found.append(f"{name} is {'' if there else 'not '}there, and of {since}")
    return found


def main(root, python):
    with open(os.path.join(root, TABLE)) as file:
        table = file.read()
    rows = list(ROW.finditer(table))
    places = folders(python)
    for folder in places:
        version = int(eval(preprocess(folder, "#include <hip/hip_version.h>\nHIP_VERSION\n").splitlines()[-1]))
        for fault in faults(root, folder, table, version):
            print(f"{folder}: {fault}")
        seen = 0
        for row in rows:
            since = version + 1 if version >= int(row[2]) else version
            broken = table[:row.start(2)] + str(since) + table[row.end(2):]
            if faults(root, folder, broken, version):
                seen += 1
            else:
                print(f"{folder}: {row[3]} of {since} is not seen to be wrong")
        print(f"HIP {version // 10000000}.{version // 100000 % 100}: {'all' if seen == len(rows) else seen} rows tell")
    print(f"{len(places)} headers")


main(*sys.argv[1:])
