"""quickstart.py BUILD TARGETS: the files of the build that `cmake --install` copies, and whether a command of the targets
writes each."""
import os
import re
import subprocess
import sys

build, targets = os.path.realpath(sys.argv[1]), open(sys.argv[2]).read().split()
commands = subprocess.check_output(["ninja", "-C", build, "-t", "commands", *targets], text=True)
script = open(os.path.join(build, "install", "cmake_install.cmake")).read()
folder = re.escape(build)
for path in sorted(set(re.findall(rf'(?:FILES|^) +"({folder}/[^"]*)"', script, re.M))):
    name = os.path.relpath(path, build)
    if "CMakeFiles" in name or name.endswith((".cmake", ".pc")):
        continue  # written when the build is configured
    if name.startswith("install/pages_written/"):
        name = "install/pages_written"  # all of it by one command
    written = re.search(rf"(-o |rcs |library |pages |{re.escape(build)}/)\S*{re.escape(name)}\b", commands)
    print(name, "is built" if written else "is built by nobody")
