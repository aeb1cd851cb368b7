"""The rows of compiler/target/targets.def, for tests in Python."""
import os
import re

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "compiler", "target", "targets.def")
ROW = re.compile(r'^CHIP\("(\w+)", (?:"(\w+)"|NULL), "(\w+)", (\d+)\)', re.M)


def chips():
    """(name, code for later devices or "", toolchain of the tests) of every target that is promised."""
    with open(FILE) as file:
        return [match[:3] for match in ROW.findall(file.read())]


def tried_with(toolchain):
    return [name for name, _, tried in chips() if tried == toolchain]
