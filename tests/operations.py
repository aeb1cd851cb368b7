"""The rows of compiler/ir/ops.def, for the tests that are written in Python."""
import collections
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.path.join(ROOT, "compiler", "ir", "ops.def")
Operation = collections.namedtuple("Operation", "id name operands rule flags cost work f64 lite form")


def operations():
    with open(TABLE) as file:
        text = file.read()
    cell = r"([^,\s]+),\s*"
    rows = [Operation(id, name, int(count), rule, flags, int(cost), int(work), f64 == "1", lite, form)
            for id, name, count, rule, flags, cost, work, f64, lite, form
            in re.findall(r"^X\(" + cell * 10 + '"', text, re.MULTILINE)]
    assert len(rows) == len(re.findall(r"^X\(", text, re.MULTILINE)) > 90, "ops.def does not read as before"
    return rows


def functions():
    """Those that are a function of floats, of one operand: what sweeps and tables of functions hold."""
    return [row for row in operations() if row.rule == "FLOAT" and row.operands == 1 and row.form == "CALL"]
