"""The rows of compiler/target/targets.def, for tests in Python."""
import os
import re

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "compiler", "target", "targets.def")
ROW = re.compile(r'^CHIP\("(\w+)", (?:"(\w+)"|NULL), "(\w+)", (\d+)\)', re.M)


def chips():
    """(name, code for later devices or "", toolchain of the tests) of every target that is promised."""
    with open(FILE) as file:
        return [match[:3] for match in ROW.findall(file.read())]


def clang_options(*uses):
    """What clang is given for AMD devices: the rows of options.def for "EXACT", "ASSEMBLY" and the like."""
    with open(os.path.join(os.path.dirname(FILE), "..", "toolchain", "options.def")) as file:
        rows = re.findall(r'^X\(CLANG, ([^"]*),\s*"(.*)"\)', file.read(), re.M)
    return [option for use, option in rows if any("RTC_USE_" + name in use for name in uses)]


def tried_with(toolchain):
    return [name for name, _, tried in chips() if tried == toolchain]
