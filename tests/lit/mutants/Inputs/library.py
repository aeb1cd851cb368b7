"""library.py MUTANTS SOURCE FOLDER: compiles what find.py's syntax trees of the device library are of."""

import os
import subprocess
import sys

sys.path.insert(0, sys.argv[1])
import build  # noqa: E402

product = build.Product(sys.argv[2], sys.argv[3], [build.LIBRARY], 1)
for flags, path in product.wrappers():
    words = [build.find_clang(), *flags, "-w", "-fsyntax-only", path]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    print(os.path.basename(path), "compiles" if done.returncode == 0 else done.stderr[:2000])
