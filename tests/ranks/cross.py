"""cross.py CHARLM DEVICES [--quick] [cpu] [killed] [devices] [long]: one hash for all of the cross product, or of these parts of it.

charlm trains one layer of 32 channels for 20 steps, with clipping, the loss scale, dropout and
accumulation, once for each number of ranks x engine x threads x host compiler x level of the
processor, then kills a rank of some runs and goes on with another number, and trains a smaller model
on the emulated devices (whose folder is DEVICES), and 1000 steps by each engine. What is not installed is named and left out.
Every hash must be the first one's; the exit status says whether."""
import glob
import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PARTS = ("cpu", "killed", "devices", "long")
RANKS, LIMIT_S = (1, 2, 4, 8), 1800  # a run may take
SMALL = ("--blas none --layers 1 --channels 32 --heads 2 --context 16 --batch 16 --micro 2 --clip 0.2 --warm 3 "
         "--dropout 0.1 --steps 20 --report 10 --evaluate 10 --sample 0 --hash").split()
TINY = ("--layers 1 --channels 32 --heads 2 --context 8 --batch 8 --steps 2 --report 1 --dropout 0.1 --sample 0 "
        "--hash").split()
LAUNCHERS = {  # engine: what stands before the program, and the library that must be there
    "shm": (None, None),
    "Open MPI": (["mpirun.openmpi", "--oversubscribe", "-n"], "libmpi.so.40"),
    "MPICH": (["mpirun.mpich", "-n"], "libmpich.so.12"),
}


LONG = ("--blas none --layers 1 --channels 32 --heads 2 --context 16 --micro 2 --clip 0.5 --dropout 0.1 --steps 1000 "
        "--report 500 --evaluate 500 --sample 0 --hash").split()


def hash_of(output):
    lines = output.splitlines()
    return lines[-1].removeprefix("hash ") if lines and lines[-1].startswith("hash ") else None


def engines_here():
    return [e for e, (command, library) in LAUNCHERS.items()
            if not command or (shutil.which(command[0]) and glob.glob(f"/usr/lib/*/{library}"))]


class Cross:
    def __init__(self, charlm, devices, folder):
        self.charlm, self.devices, self.folder = charlm, devices, folder
        self.failures = self.runs = 0
        self.text = os.path.join(folder, "novel.txt")
        self.novel = os.path.join(os.path.dirname(__file__), "../../examples/charlm/pride-and-prejudice.txt")
        with open(self.novel, "rb") as novel:
            start = novel.read(60000)
        with open(self.text, "wb") as text:
            text.write(start)

    def start(self, arguments, ranks, engine="shm", **variables):
        environment = dict(os.environ, LOCKSTEP_CACHE_DIR=os.path.join(self.folder, "cache"),
                           OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **variables)
        launcher = LAUNCHERS[engine][0]
        command = [self.charlm, "--text", self.text, *arguments]
        if launcher:
            command = [*launcher, str(ranks), *command, "--comm", "mpi"]
        else:
            command += ["--ranks", str(ranks)]
        return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def expect(self, name, wanted, arguments, ranks, engine="shm", **variables):
        """Gives the hash; `wanted` None: it is the first."""
        process = self.start(arguments, ranks, engine, **variables)
        try:
            output, errors = process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = "", process.communicate()[1] + f"\nnot done after {LIMIT_S} s"
        found = hash_of(output)
        self.runs += 1
        if found is None or wanted not in (None, found):
            self.failures += 1
            print(f"{name}: {found or errors.strip()[-300:]}, not {wanted}", flush=True)
        return found

    def on_cpu(self, quick):
        engines = engines_here()
        compilers = [c for c in ("clang", "gcc") if shutil.which(c)]
        levels = ["x86-64-v3"]
        with open("/proc/cpuinfo") as information:
            if "avx512f" in information.read():
                levels.append("x86-64-v4")
        print(f"engines {', '.join(engines)}; compilers {', '.join(compilers)}; levels {', '.join(levels)}", flush=True)
        wanted = None
        threads = (1, 2) if not quick else (2,)
        for compiler, level, engine, count, ranks in itertools.product(compilers, levels, engines, threads, RANKS):
            name = f"{compiler}, {level}, {engine}, {count} threads, {ranks} ranks"
            found = self.expect(name, wanted, ["--device", "cpu", *SMALL], ranks, engine, LOCKSTEP_CC=compiler,
                                LOCKSTEP_CPU=level, LOCKSTEP_THREADS=str(count))
            wanted = wanted or found
        print(f"on the CPU: {self.runs} runs, hash {wanted}", flush=True)
        return wanted

    def of_1000_steps(self):
        """The table of charlm's README, by each engine, on the whole novel."""
        before, wanted, self.text = self.runs, None, self.novel
        for engine, ranks in itertools.product(engines_here(), RANKS):
            found = self.expect(f"1000 steps, {engine}, {ranks} ranks", wanted, ["--device", "cpu", *LONG], ranks, engine)
            wanted = wanted or found
        print(f"1000 steps: {self.runs - before} runs, hash {wanted}", flush=True)

    def killed(self, wanted, ranks, then):
        """A rank is killed some time after the first checkpoint; the run goes on with `then` ranks."""
        saved = os.path.join(self.folder, f"killed-{ranks}-{then}")
        arguments = ["--device", "cpu", *SMALL, "--save", saved, "--every", "1", "--buckets", "2"]
        process = self.start(arguments, ranks)
        while not os.path.exists(saved) and process.poll() is None:
            time.sleep(0.005)
        time.sleep(random.random() * 0.2)
        children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split() if process.poll() is None else []
        if children:
            os.kill(int(random.choice(children)), signal.SIGKILL)
        process.communicate(timeout=120)
        if process.returncode == 0:
            print(f"{ranks} ranks ended before one was killed", flush=True)
        self.expect(f"{ranks} ranks, one killed, then {then}", wanted,
                    ["--device", "cpu", "--blas", "none", "--resume", saved, "--report", "10", "--evaluate", "10",
                     "--sample", "0", "--hash"], then)

    def on_devices(self, quick):
        before, wanted = self.runs, None
        for ranks in RANKS:
            found = self.expect(f"cpu, {ranks} ranks", wanted, ["--device", "cpu", "--blas", "none", *TINY], ranks)
            wanted = wanted or found
        for vendor, compiler, engine in (("cuda", "NVRTC", "nccl"), ("hip", "HIPRTC", "rccl")):
            library = os.path.join(self.devices, f"emulated_{vendor}.so")
            if not os.path.exists(library):
                print(f"no emulated {vendor}", flush=True)
                continue
            arguments = ["--device", vendor, "--blas", os.path.join(self.devices, f"emulated_blas_{vendor}.so"), *TINY]
            variables = {f"LOCKSTEP_{vendor.upper()}": library, f"LOCKSTEP_{compiler}": library,
                         "LOCKSTEP_NCCL": os.path.join(self.devices, f"../driver/stand_in_nccl_{vendor}.so")}
            for ranks in RANKS[:2] if quick else RANKS:
                self.expect(f"emulated {vendor}, {ranks} ranks", wanted, arguments, ranks, **variables)
            for ranks in () if quick else RANKS[1:]:  # beside the backward pass, with streams in some order
                self.expect(f"emulated {vendor}, {ranks} ranks by {engine}", wanted,
                            [*arguments, "--comm", engine, "--buckets", "2"], ranks, SIMT_SEED=str(ranks), **variables)
        print(f"with emulated devices: {self.runs - before} runs, hash {wanted}", flush=True)


def main():
    quick = "--quick" in sys.argv
    words = [a for a in sys.argv[1:] if not a.startswith("--")]
    charlm, devices, *parts = words if len(words) > 1 else sys.exit(__doc__)
    if not set(parts) <= set(PARTS):
        sys.exit(__doc__)
    parts = parts or (PARTS[:-1] if quick else PARTS)
    with tempfile.TemporaryDirectory() as folder:
        cross = Cross(charlm, devices, folder)
        wanted = cross.on_cpu(quick) if "cpu" in parts else None
        before = cross.runs
        if "killed" in parts:
            wanted = wanted or cross.expect("1 rank", None, ["--device", "cpu", *SMALL], 1)
            for ranks, then in ((4, 2), (2, 8), (8, 1)):
                cross.killed(wanted, ranks, then)
            print(f"with a rank killed: {cross.runs - before} runs", flush=True)
        if "devices" in parts:
            cross.on_devices(quick)
        if "long" in parts:
            cross.of_1000_steps()
    print(f"{cross.runs} runs, {cross.failures} with another result")
    return 1 if cross.failures else 0


if __name__ == "__main__":
    sys.exit(main())
