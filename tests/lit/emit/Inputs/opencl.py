"""opencl.py FOLDER [N]: compiles texts in C++ for OpenCL with clang-19: of each step the first variant, and all with memory of a
block; with N one of N of them. Prints what clang says of them. Exit status 1 where it says anything, or where a text takes 128-bit integers."""
import concurrent.futures
import glob
import os
import subprocess
import sys

COMMAND = ["clang-19", "-x", "clcpp", "-cl-std=clc++2021", "-target", "spir64", "-Xclang", "-finclude-default-header",
           "-cl-fp32-correctly-rounded-divide-sqrt", "-Wall", "-Wextra",
           "-Wno-bitwise-instead-of-logical"]  # conditions without side effects are computed without branches


def text_of(path):
    with open(path) as file:
        return file.read()


def compile_one(path):
    made = subprocess.run([*COMMAND, "-O1", "-emit-llvm", "-S", "-o", "-", path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    wide = "i128" in made.stdout
    return made.stderr + (f"error: {os.path.basename(path)} takes 128-bit integers\n" if wide else ""), made.returncode


paths = [path for path in sorted(glob.glob(os.path.join(sys.argv[1], "*.clcpp")))
         if path.endswith(".0.clcpp") or "block_memory[" in text_of(path)]
paths = paths[::int(sys.argv[2]) if len(sys.argv) > 2 else 1]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(compile_one, paths))
faults = [said for said, status in results if said or status]
print("".join(faults) + f"{len(paths)} texts, {len(faults)} faults")
sys.exit(bool(faults))
