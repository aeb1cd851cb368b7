"""cross.py CHARLM DEVICES RECORD [--quick] [--limit=SECONDS] [PART...]: one hash for all of the cross product, or of these parts of it:

cpu       charlm trains one layer of 32 channels for 20 steps, with clipping, the loss scale, dropout and accumulation, once for each
          number of ranks x engine x threads x host compiler x level of the processor;
killed    at some step of such a run a rank is killed, and what it left goes on with another number of ranks;
devices   a smaller model on the emulated devices, whose folder is DEVICES;
long      1000 steps, as in charlm's README, by each engine and number of ranks.

What is not installed is named and left out. Every hash of a part must be the first one's; the exit status says whether. --quick takes
a third of it; a run that takes longer than the limit, half an hour unless one is given, is ended and counts as a failure. Each run is a
line on stdout, and one of the file RECORD when it has the right hash, with what it was made by: a run that is there is not run again, so
that what was stopped goes on. Another build, script, novel, compiler or MPI begins anew."""
import glob
import hashlib
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

RANKS = (1, 2, 4, 8)
COMPILERS = ("clang", "gcc")
SMALL = ("--blas none --layers 1 --channels 32 --heads 2 --context 16 --batch 16 --micro 2 --clip 0.2 --warm 3 "
         "--dropout 0.1 --steps 20 --report 10 --evaluate 10 --sample 0 --hash").split()
TINY = ("--layers 1 --channels 32 --heads 2 --context 8 --batch 8 --steps 2 --report 1 --dropout 0.1 --sample 0 "
        "--hash").split()
LONG = ("--blas none --layers 1 --channels 32 --heads 2 --context 16 --micro 2 --clip 0.5 --dropout 0.1 --steps 1000 "
        "--report 500 --evaluate 500 --sample 0 --hash").split()
LAUNCHERS = {  # engine: what stands before the program, and the library that must be there
    "shm": (None, None),
    "Open MPI": (["mpirun.openmpi", "--oversubscribe", "-n"], "libmpi.so.40"),
    "MPICH": (["mpirun.mpich", "-n"], "libmpich.so.12"),
}
CHARLM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../examples/charlm")


def hash_of(output):
    lines = output.splitlines()
    return lines[-1].removeprefix("hash ") if lines and lines[-1].startswith("hash ") else None


def engines_here():
    return [e for e, (command, library) in LAUNCHERS.items()
            if not command or (shutil.which(command[0]) and glob.glob(f"/usr/lib/*/{library}"))]


def tools_here():
    """The files of the host compilers and of the engines' launchers and libraries."""
    programs = [*COMPILERS, *(command[0] for command, _ in LAUNCHERS.values() if command)]
    libraries = [path for _, library in LAUNCHERS.values() if library for path in sorted(glob.glob(f"/usr/lib/*/{library}"))]
    return [os.path.realpath(path) for path in [*map(shutil.which, programs), *libraries] if path]


def digest_of(files):
    digest = hashlib.sha256()
    for name in files:
        digest.update(os.path.basename(name).encode() + b"\0")
        with open(name, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def kill(call, number):
    try:
        call(number, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended


def ranks_below(process, program):
    """The processes below one that run the program and have none below them that does."""
    found = []
    for children in glob.glob(f"/proc/{process}/task/*/children"):
        try:
            with open(children) as file:
                below = file.read().split()
        except OSError:
            continue  # it has ended
        for child in below:
            deeper = ranks_below(child, program)
            try:
                own = os.path.samefile(f"/proc/{child}/exe", program)
            except OSError:
                own = False
            found += deeper or ([int(child)] if own else [])
    return found


def complete_lines(path):
    """Those of a file that another process may have left in the middle of one, which is ended then."""
    if not os.path.exists(path):
        return []
    with open(path, "r+", encoding="utf-8") as file:
        *lines, torn = file.read().split("\n")
        file.write("\n" if torn else "")
    return lines


class Cross:
    def __init__(self, charlm, devices, record, folder, limit):
        self.charlm, self.devices, self.record, self.folder, self.limit = charlm, devices, record, folder, limit
        self.failures = self.runs = self.before = 0
        self.novel = os.path.join(CHARLM, "pride-and-prejudice.txt")
        self.text = os.path.join(folder, "novel.txt")
        with open(self.novel, "rb") as novel, open(self.text, "wb") as text:
            text.write(novel.read(60000))
        made_by = [os.path.abspath(__file__), charlm, os.path.join(CHARLM, "charlm.step"), self.novel, *tools_here(),
                   *sorted(glob.glob(os.path.join(devices, "emulated_*.so"))),
                   *sorted(glob.glob(os.path.join(devices, "../driver/stand_in_nccl_*.so")))]
        self.digest = digest_of(made_by)
        rows = [line.split(" ", 2) for line in complete_lines(record)]
        self.done = {row[2]: row[1] for row in rows if len(row) == 3 and row[0] == self.digest}

    def start(self, arguments, ranks, engine="shm", text=None, errors=subprocess.PIPE, **variables):
        environment = dict(os.environ, LOCKSTEP_CACHE_DIR=os.path.join(self.folder, "cache"),
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables)
        launcher = LAUNCHERS[engine][0]
        command = [self.charlm, "--text", text or self.text, *arguments]
        if launcher:
            command = [*launcher, str(ranks), *command, "--comm", "mpi"]
        else:
            command += ["--ranks", str(ranks)]
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=errors,
                                start_new_session=True)

    def end(self, process):
        """Kills a launcher and its ranks, which may have groups of their own."""
        for rank in ranks_below(process.pid, self.charlm):
            kill(os.kill, rank)
        kill(os.killpg, process.pid)

    def judge(self, at, name, wanted, found, words, begin):
        """Prints what came of a run, and keeps what is right."""
        self.runs += 1
        good = found is not None and wanted in (None, found)
        self.failures += not good
        print(f"{at}, {name}: {found or words.strip()[-300:]}{'' if good else f', not {wanted}'}, {time.monotonic() - begin:.1f} s",
              flush=True)
        if good:
            with open(self.record, "a", encoding="utf-8") as file:
                file.write(f"{self.digest} {found} {name}\n")

    def was_done(self, name, wanted):
        """Whether the record has it, whose hash is held against this one."""
        if name not in self.done:
            return False
        self.before += 1
        if self.done[name] != wanted:
            self.failures += 1
            print(f"{name}: {self.done[name]}, not {wanted}", flush=True)
        return True

    def run(self, arguments, ranks, engine="shm", text=None, **variables):
        """Gives the hash, or None, and what was said."""
        process = self.start(arguments, ranks, engine, text, **variables)
        try:
            output, errors = process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            self.end(process)
            output, errors = "", process.communicate()[1] + f"\nnot done after {self.limit} s"
        return hash_of(output), errors

    def all_of(self, part, rows):
        """Runs rows of a part, (name, arguments, ranks, keywords), that must have one hash; gives it."""
        wanted = next((self.done[row[0]] for row in rows if row[0] in self.done), None)
        for number, (name, arguments, ranks, keywords) in enumerate(rows):
            if self.was_done(name, wanted):
                continue
            begin = time.monotonic()
            found, words = self.run(arguments, ranks, **keywords)
            self.judge(f"{number + 1} of {len(rows)}", name, wanted, found, words, begin)
            wanted = wanted or found
        print(f"{part}: {len(rows)} runs, hash {wanted}", flush=True)
        return wanted

    # ---- the parts ----

    def on_cpu(self, quick):
        compilers = [c for c in COMPILERS if shutil.which(c)]
        levels = ["x86-64-v3"]
        with open("/proc/cpuinfo") as information:
            if "avx512f" in information.read():
                levels.append("x86-64-v4")
        print(f"engines {', '.join(engines_here())}; compilers {', '.join(compilers)}; levels {', '.join(levels)}", flush=True)
        rows = [(f"{compiler}, {level}, {engine}, {count} threads, {ranks} ranks", ["--device", "cpu", *SMALL], ranks,
                 {"engine": engine, "LOCKSTEP_CC": compiler, "LOCKSTEP_CPU": level, "LOCKSTEP_THREADS": str(count)})
                for compiler, level, engine, count, ranks in
                itertools.product(compilers, levels, engines_here(), (2,) if quick else (1, 2), RANKS)]
        return self.all_of("cpu", rows)

    def kill_one(self, ranks, engine, saved):
        """Trains and saves each step, until a rank is killed; gives whether one was, after how many checkpoints, and whether the run
        had to be ended at the limit."""
        late = threading.Event()
        with tempfile.TemporaryFile() as errors:  # a pipe that nobody reads would hold the ranks
            process = self.start(["--device", "cpu", *SMALL, "--save", saved, "--every", "1", "--buckets", "2"], ranks, engine,
                                 errors=errors)
            timer = threading.Timer(self.limit, lambda: (late.set(), self.end(process)))
            timer.start()
            count, last = 0, random.randrange(1, 17)
            for line in process.stdout:
                count += line.startswith("saved")
                if count == last:
                    break
            time.sleep(random.random() * 0.02)
            kill(os.kill, random.choice(ranks_below(process.pid, self.charlm) or [process.pid]))
            count += sum(line.startswith("saved") for line in process.stdout)
            status = process.wait()
            timer.cancel()
        return status != 0 and os.path.exists(saved), count, late.is_set()

    def killed(self, quick):
        wanted = self.all_of("killed, what comes of a run that is not", [("1 rank", ["--device", "cpu", *SMALL], 1, {})])
        rows = list(itertools.product(engines_here()[:1] if quick else engines_here(), ((4, 2), (2, 8), (8, 1), (1, 4))))
        for number, (engine, (ranks, then)) in enumerate(rows):
            name, begin = f"{ranks} ranks by {engine}, one killed, then {then}", time.monotonic()
            if self.was_done(name, wanted):
                continue
            saved, killed, count, late = os.path.join(self.folder, f"killed-{ranks}-{then}-{engine}"), False, 0, False
            for _ in range(5):  # one may have ended before
                killed, count, late = self.kill_one(ranks, engine, saved)
                if killed or late:
                    break
            found, words = None, f"no rank of {ranks} was killed"
            if late:
                words = f"the others not done after {self.limit} s"
            elif killed:
                arguments = ["--device", "cpu", "--blas", "none", "--resume", saved, "--report", "10", "--evaluate", "10",
                             "--sample", "0", "--hash"]
                found, words = self.run(arguments, then)
            self.judge(f"{number + 1} of {len(rows)}, after {count} checkpoints of 20", name, wanted, found, words, begin)

    def on_devices(self, quick):
        rows = [(f"the same on the CPU, {ranks} ranks", ["--device", "cpu", "--blas", "none", *TINY], ranks, {}) for ranks in RANKS]
        for vendor, compiler, own in (("cuda", "NVRTC", "nccl"), ("hip", "HIPRTC", "rccl")):
            library = os.path.join(self.devices, f"emulated_{vendor}.so")
            if not os.path.exists(library):
                print(f"no emulated {vendor}", flush=True)
                continue
            arguments = ["--device", vendor, "--blas", os.path.join(self.devices, f"emulated_blas_{vendor}.so"), *TINY]
            variables = {f"LOCKSTEP_{vendor.upper()}": library, f"LOCKSTEP_{compiler}": library,
                         "LOCKSTEP_NCCL": os.path.join(self.devices, f"../driver/stand_in_nccl_{vendor}.so")}
            for ranks in RANKS[:2] if quick else RANKS:
                rows.append((f"emulated {vendor}, {ranks} ranks", arguments, ranks, variables))
            for ranks in () if quick else RANKS[1:]:  # beside the backward pass, with streams in some order
                rows.append((f"emulated {vendor}, {ranks} ranks by {own}", [*arguments, "--comm", own, "--buckets", "2"], ranks,
                             {"SIMT_SEED": str(ranks), **variables}))
            for engine, ranks in () if quick else itertools.product(engines_here()[1:], RANKS):
                rows.append((f"emulated {vendor}, {ranks} ranks by {engine}", arguments, ranks, {"engine": engine, **variables}))
        rows.sort(key=lambda row: row[2])  # the shorter first
        self.all_of("devices", rows)

    def of_1000_steps(self, quick):
        """The table of charlm's README, by each engine, on the whole novel."""
        self.all_of("long", [(f"1000 steps, {engine}, {ranks} ranks", ["--device", "cpu", *LONG], ranks,
                              {"engine": engine, "text": self.novel})
                             for ranks, engine in itertools.product(RANKS[:2] if quick else RANKS, engines_here())])


def main():
    parts = {"cpu": Cross.on_cpu, "killed": Cross.killed, "devices": Cross.on_devices, "long": Cross.of_1000_steps}
    quick = "--quick" in sys.argv
    limit = next((float(a.removeprefix("--limit=")) for a in sys.argv if a.startswith("--limit=")), 1800)
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    charlm, devices, record, *chosen = words if len(words) > 2 else sys.exit(__doc__)
    if not set(chosen) <= set(parts):
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        cross = Cross(charlm, devices, record, folder, limit)
        for name, part in parts.items():
            if name in chosen or not (chosen or (quick and name == "long")):
                part(cross, quick)
    print(f"{cross.runs} runs, {cross.failures} with another result; {cross.before} of an earlier time")
    return 1 if cross.failures else 0


if __name__ == "__main__":
    sys.exit(main())
