"""Stands in for PyPI's ziglang, `python -m ziglang cc ...`, by the compiler of this machine."""
import os
import sys

assert sys.argv[1] == "cc", sys.argv
os.environ["PATH"] = "/usr/bin:/bin"  # where that compiler finds its parts
os.execv(os.environ["REAL_CC"], ["cc", *sys.argv[2:]])
