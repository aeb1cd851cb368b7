# A copy of the command that runs as root whoever starts it, started by nobody with an environment
# that names what to run and where to write.
import os
import shutil
import subprocess
import sys
import tempfile

NOBODY = 65534
if os.geteuid() == 0:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        command, marker = os.path.join(folder, "lockstep"), os.path.join(folder, "marker")
        compiler, step = os.path.join(folder, "cc"), os.path.join(folder, "s.step")
        shutil.copy(sys.argv[1], command)
        with open(compiler, "w") as file:
            file.write(f"#!/bin/sh\n: >{marker}\nexit 1\n")
        with open(step, "w") as file:
            file.write("step s[n](x: f32[n], out y: f32[n]) {\n    y = x + 1\n}\n")
        os.chmod(compiler, 0o755)
        hostile = {"LOCKSTEP_CC": compiler, "LOCKSTEP_DUMP": os.path.join(folder, "dump"),
                   "LOCKSTEP_CACHE_DIR": os.path.join(folder, "cache"), "PATH": folder,
                   "COMPILER_PATH": folder, "TMPDIR": folder, "HOME": folder}
        for secure in (False, True):  # the first shows that the markers would be seen
            os.chmod(command, 0o4755 if secure else 0o755)
            done = subprocess.run([command, "run", step, "x=ones(4)", "--device", "cpu"], env=hostile,
                                  capture_output=True, text=True, cwd="/",
                                  user=NOBODY if secure else None)
            seen = [name for name in ("marker", "dump", "cache") if
                    os.path.exists(os.path.join(folder, name))]
            nosuid = secure and os.statvfs(folder).f_flag & os.ST_NOSUID
            if secure and not nosuid and (seen or done.returncode):
                print("believed", seen, done.stderr)
            if not secure and "marker" not in seen:
                print("believed nothing at all", done.stderr)
            for name in seen:
                path = os.path.join(folder, name)
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
print("done")
