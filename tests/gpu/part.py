#!/usr/bin/env python3
"""One part of tests/gpu.sh, which builds what this needs: smoke, rows, steps or inspect. Leaves ARCHIVE, a .tgz with
a folder: summary.md to be read first, results.json, clocks.csv, and logs/ with what each row printed. It is written
anew all along, so that a run that is killed leaves what it had."""
import argparse
import importlib
import os
import re
import signal
import sys
import threading
import time
import zipfile

import machine
import summary
from running import Part

PARTS = {"smoke": "smoke", "rows": "measure_rows", "steps": "measure_steps", "inspect": "look_inside"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("archive", help="the .tgz that is left")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--build", required=True)
    parser.add_argument("--work", required=True, help="an empty folder, for what goes into the archive")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name matches")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--wheels", default="", metavar="DIR", help="wheels of peers that the machine lacks")
    parser.add_argument("--tiny", action="store_true", help="small sizes, to see that it works")
    parser.add_argument("--list", action="store_true", help="the names of the rows")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    options.jobs = os.cpu_count() or 1
    return options


def wheels_on_path(folder, work):
    """Pure Python wheels serve unpacked: Triton reads the text of its kernels from files."""
    names = sorted(name for name in os.listdir(folder) if name.endswith("-none-any.whl")) if os.path.isdir(folder) else []
    unpacked = os.path.join(work, "wheels")
    for name in names:
        with zipfile.ZipFile(os.path.join(folder, name)) as wheel:
            wheel.extractall(unpacked)
    if names:
        os.environ["PYTHONPATH"] = os.pathsep.join([unpacked, *filter(None, [os.environ.get("PYTHONPATH")])])
        sys.path.insert(0, unpacked)  # for the versions on the page
    return names


def finish(part, state):
    part.results["state"] = state
    part.results["seconds"] = round(time.monotonic() - part.start, 1)
    part.save(True)


def main():
    options = arguments()
    module = importlib.import_module(PARTS[options.part])
    os.environ.update(machine.toolkit_environment(options.device))
    os.environ.setdefault("LOCKSTEP_CACHE_DIR", os.path.join(options.build, "gpu-cache"))
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    wanted = lambda name: re.search(options.only, name) is not None
    if options.list:
        print("\n".join(filter(wanted, module.names(options))))
        return 0
    part = Part(options.part, os.path.join(options.work, "gpu-" + options.part), os.path.abspath(options.archive),
                options.minutes)
    part.write_summary = lambda of: summary.write(of, module.TABLES)
    # Ended from outside: what runs is killed, the rest is not begun, the page and the archive are made.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: part.stop("ended from outside"))
    wheels = wheels_on_path(options.wheels, options.work)
    late = threading.Timer(60 * options.minutes + 10, part.stop, ["its time was over"])  # rows have limits of their own
    late.daemon = True
    late.start()
    part.results["machine"] = {**machine.describe(options.build, options.device), "wheels": " ".join(wheels) or "none",
                               "command": " ".join(sys.argv)}
    part.save(True)
    with machine.Clocks(part, options.build, options.device):
        module.run(part, options, wanted)
    late.cancel()
    state = part.stopped or "done"
    finish(part, state)
    rows = part.results["rows"]
    bad = [name for name, of in rows.items() if of["state"] in ("failed", "stopped")]
    print(f"{summary.counted(rows)}; {part.archive}")
    return 1 if bad or state != "done" or not rows else 0


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads that wait for a process that does not end are not waited for
