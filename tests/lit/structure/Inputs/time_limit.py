"""time_limit.py LIT: what the suite's formats do with commands that end, wait, or leave something behind, at a limit of a second."""
import subprocess
import sys
import time

sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[2])
import formats

formats.TIME_LIMIT = 1
PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT
for words, stderr in (("echo said; echo wrong >&2; exit 3", PIPE), ("echo said; echo wrong >&2; exit 3", STDOUT), ("echo said; sleep 60", PIPE),
                      ("(sleep 60 &); echo said", STDOUT), ("(setsid sleep 20 &); echo said", PIPE)):
    begin = time.monotonic()
    out, err, status, late = formats.run_limited(["sh", "-c", words], None, None, stderr)
    print(f"{words}: {' '.join(out.split())} | {' '.join(err.split())} | {status} {'late' if late else 'in time'}")
    assert time.monotonic() - begin < 15
