"""kill_while_saving.py N... -- COMMAND: for each N and the one behind it, trains with N ranks that save after every step, kills one of
them at a moment that nobody chose once a few checkpoints are there, and goes on with the next number of ranks to the end. Printed is a line
for each, with the hash. Fails where something else than the checkpoint is left, or a rank ends without a word."""
import glob
import os
import random
import signal
import subprocess
import sys
import time

at = sys.argv.index("--")
numbers, command = sys.argv[1:at], sys.argv[at + 1:]
for ranks, then in zip(numbers, numbers[1:]):
    saved = f"saved-{ranks}"
    process = subprocess.Popen([*command, "--ranks", ranks, "--save", saved], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    checkpoints, wanted = 0, random.randrange(3, 20)
    for line in process.stdout:
        checkpoints += line.startswith("saved")
        if checkpoints == wanted:
            break
    time.sleep(random.random() * 0.02)
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        children = file.read().split()
    os.kill(int(random.choice(children)) if children else process.pid, signal.SIGKILL)
    checkpoints += sum(line.startswith("saved") for line in process.stdout)
    if process.wait() == 0:
        sys.exit(f"{ranks} ranks ended before one was killed")
    said = process.stderr.read()
    if said.count(" ended while rank ") != int(ranks) - 1:
        sys.exit(f"not every other of {ranks} ranks says which one was killed:\n{said}")
    for left in glob.glob(saved + ".*") if ranks != "1" else []:
        sys.exit(f"{left} is left")
    run = subprocess.run([*command, "--ranks", then, "--resume", saved, "--save", saved, "--hash"], check=True, stdout=subprocess.PIPE,
                         text=True)
    print(f"{ranks} ranks, one killed after {checkpoints} checkpoints, then {then}: {run.stdout.splitlines()[-1]}", flush=True)
