# The command, started with SIGHUP ignored, receives it while a slow compiler works.
import os
import signal
import subprocess
import sys
import tempfile
import time

with tempfile.TemporaryDirectory() as folder:
    compiler, step = os.path.join(folder, "cc"), os.path.join(folder, "s.step")
    begun = os.path.join(folder, "begun")
    with open(compiler, "w") as file:
        file.write(f"#!/bin/sh\n: >{begun}\nsleep 0.5\nexec cc \"$@\"\n")
    with open(step, "w") as file:
        file.write("step s[n](x: f32[n], out y: f32[n]) {\n    y = x + 1\n}\n")
    os.chmod(compiler, 0o755)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    process = subprocess.Popen([sys.argv[1], "run", step, "x=ones(4)", "--device", "cpu"],
                               env={**os.environ, "LOCKSTEP_CC": compiler, "LOCKSTEP_CACHE": "off"})
    while process.poll() is None and not os.path.exists(begun):
        time.sleep(0.01)
    process.send_signal(signal.SIGHUP)
    sys.exit(process.wait() != 0)
