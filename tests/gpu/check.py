#!/usr/bin/env python3
"""The dry run of tests/gpu.sh, where there is no GPU: its parts on the CPU and on the emulated device, small, and
what it must bear: rows that are wrong, crash, hang or say nothing, tools that are missing, a run that is ended.

    python3 tests/gpu/check.py BUILD smoke|faults|worker|rows|steps|inspect..."""
import json
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(os.path.dirname(HERE), "gpu.sh")


def expect(truth, what):
    if not truth:
        raise SystemExit(f"check.py: {what}")


def emulated(build):
    """The environment in which `--device cuda` is the emulated device, and NVML the stand-in."""
    device, monitor = os.path.join(build, "tests", "simt", "emulated_cuda.so"), os.path.join(build, "tests", "monitor")
    return {"LOCKSTEP_CUDA": device, "LOCKSTEP_NVRTC": device, "SIMT_WATCH": "off",
            "LOCKSTEP_NVML": os.path.join(monitor, "stand_in_nvml_new.so"),
            "LOCKSTEP_CUBLAS": os.path.join(build, "tests", "simt", "emulated_blas_cuda.so")}


class Archive:
    """What a run left behind, and nothing but that."""

    def __init__(self, folder, part):
        left = os.listdir(folder)
        expect(left == [f"gpu-{part}.tgz"], f"{part} left {left}")
        with tarfile.open(os.path.join(folder, left[0])) as archive:
            self.files = {name: archive.extractfile(name).read().decode(errors="replace")
                          for name in archive.getnames() if archive.getmember(name).isfile()}
        self.page = self.files[f"gpu-{part}/summary.md"]
        expect(f"gpu-{part}/results.json" in self.files, f"no results in {list(self.files)}\n{self.page}")
        self.results = json.loads(self.files[f"gpu-{part}/results.json"])
        self.rows = self.results["rows"]

    def states(self, wanted, prefix=""):
        """wanted: row -> state; a row's why is shown when it is another."""
        found = {name: of["state"] for name, of in self.rows.items() if name.startswith(prefix)}
        expect(found == wanted, f"rows are {found}, not {wanted}\n"
               + "\n".join(f"{name}: {of.get('why', '')}" for name, of in self.rows.items()))


def arguments(part, build, folder, words, device):
    return ["sh", SCRIPT, part, "--device", device, "--no-build", "--build", build, "--tiny", "--rounds", "1",
            "--wheels", os.path.join(folder, "none"), *words, folder]


def run(part, build, *words, device="cpu", environment=None, passes=True):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(arguments(part, build, folder, words, device), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})})
        expect((done.returncode == 0) == passes, f"{part} {words} ended with {done.returncode}\n{done.stdout}")
        return Archive(folder, part)


def smoke(build):
    found = run("smoke", build, "--only", "^check", device="cuda", environment=emulated(build))
    names = [f"check {name}" for name in
             "devices capture update repeat cooperative feed streams memory monitor torch_stream".split()]
    expect(list(found.rows) == names, f"the checks are {list(found.rows)}")
    expect(found.rows.pop("check torch_stream")["state"] in ("ok", "absent"), "the stream of PyTorch failed")
    found.states({name: "ok" for name in names[:-1]})
    expect("a loop on the device" in found.rows["check repeat"]["says"], "the loop was not on the device")
    expect("blocks 3" in found.rows["check cooperative"]["says"], "no blocks waited for each other")
    expect("Emulated device" in found.page, "the page does not name the device")
    expect("power 301" in found.page, "the page has nothing of the monitor")
    found = run("smoke", build, "--only", "sweep.* (sqrt|to_i64)|whole|matrix 91/")
    states = [of["state"] for of in found.rows.values()]
    expect(states == 4 * ["ok"] and sum(of.get("functions", 0) for of in found.rows.values()) == 16, found.page)
    expect("programs with the interpreter's bits, 0 with others" in found.page, f"no totals\n{found.page}")


# Programs that end in every way, in the place of those that are built.
FAKES = {"tests/gpu/gpu_smoke": """case $1 in
devices) echo 'ok: 8 bytes as on the CPU' ;;
capture) echo 'FAILED: cuda and the CPU differ from byte 17 of 400 on'; exit 1 ;;
update) kill -SEGV $$ ;;
repeat) echo 'half a' ;;
cooperative) exit 77 ;;
feed) sleep 100 & sleep 100 ;;
*) sleep 100 ;;
esac""", "tests/exec/exec_runner": """echo 'ok first (0.1 s)'
case $* in
*0/96*) echo '  MISMATCH y[3]: 1 and 2'; echo 'FAILED second (0.2 s)'; echo '1 programs passed, 1 failed, 7 runs, 0.3 s'
    exit 1 ;;
*1/96*) kill -ABRT $$ ;;
*) sleep 100 ;;
esac"""}


def fake_build(folder, build):
    for path, text in FAKES.items():
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write("#!/bin/sh\n" + text + "\n")
        os.chmod(path, 0o755)
    os.symlink(os.path.join(build, "lockstep"), os.path.join(folder, "lockstep"))
    return folder


def faults(build):
    with tempfile.TemporaryDirectory() as folder:
        fake = fake_build(folder, build)
        found = run("smoke", fake, "--minutes", "0.13", "--only", "check (d|c|u|r|f|m)|matrix [1-9]/", passes=False)
        wanted = {"check devices": "ok", "check capture": "failed", "check update": "failed",
                  "check repeat": "failed", "check cooperative": "absent", "check feed": "cut off",
                  "check memory": "not run", "check monitor": "not run",
                  **{f"matrix {i}/96": "not run" for i in range(1, 10)}}
        found.states(wanted)
        expect("signal 11" in found.rows["check update"]["why"], f"a crash is called {found.rows['check update']}")
        page = found.page
        expect(0 < page.find("**check capture**: exit status 1: FAILED: cuda and the CPU differ from byte 17")
               < page.find("## Rows"), f"what failed does not come first\n{page}")
        expect(f"`{fake}/tests/gpu/gpu_smoke capture cpu --tiny`" in page, f"no command repeats it\n{page}")
        expect("check monitor (not run): no time was left" in page, f"what was not run is not named\n{page}")
        found = run("smoke", fake, "--minutes", "0.1", "--only", "matrix [123]/", passes=False)
        found.states({"matrix 1/96": "failed", "matrix 2/96": "failed", "matrix 3/96": "cut off"})
        expect("MISMATCH y[3]: 1 and 2" in found.page and "1 with others" in found.page, found.page)
        ended(fake)


def ended(fake):
    """Ended while a row runs: the archive has the rows up to there. Killed: it has them, too."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with tempfile.TemporaryDirectory() as folder:
            process = subprocess.Popen(arguments("smoke", fake, folder, ["--only", "check (devices|feed|memory)"], "cpu"),
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
                                       env={**os.environ, "TMPDIR": folder})
            for line in process.stdout:
                if b"check devices" in line:
                    break
            time.sleep(0.5)
            if number == signal.SIGTERM:
                process.terminate()
                expect(process.wait(20) == 143, "the status of a run that was ended")
                found = Archive(folder, "smoke")
                found.states({"check devices": "ok", "check feed": "stopped", "check memory": "not run"})
                expect("ended from outside" in found.page, found.page)
            else:
                os.killpg(process.pid, number)
                process.wait(20)
                with tarfile.open(os.path.join(folder, "gpu-smoke.tgz")) as archive:
                    expect("gpu-smoke/summary.md" in archive.getnames(), "a killed run left no page")
            process.stdout.close()
            time.sleep(0.2)
            alive = subprocess.run(["pgrep", "-f", f"{fake}/tests/gpu/gpu_smoke"], stdout=subprocess.PIPE, text=True)
            if number == signal.SIGTERM:
                expect(not alive.stdout, f"processes were left behind: {alive.stdout}")
            for pid in alive.stdout.split():
                os.killpg(int(pid), signal.SIGKILL)  # what nobody could end any more


# ---- the measuring parts ----

TOOLS = os.path.join(HERE, "fakes")  # ncu, compute-sanitizer and nvidia-smi, as they print


def with_tools(build, **more):
    return {**emulated(build), "PATH": TOOLS + os.pathsep + os.environ["PATH"], **more}


def rows(build):
    found = run("rows", build, "--only", "GELU forward bf16|softmax f32 2 ", device="cuda", environment=with_tools(build))
    found.states({"GELU forward bf16": "ok", "softmax f32 2 × 768": "ok"})
    for row in found.rows.values():
        expect(row["found"]["candidates"].keys() == {"lockstep", "lockstep graph"}, f"{row['found']}")
        expect(row["found"]["limit_s"] > 0 and row["found"]["rounds"] == 1, f"{row['found']}")
    for word in ("| row | limit GB/s | GB/s | of the datasheet | lockstep | lockstep graph |", "clocks.sm 1980 1980 1980",
                 "nvidia-smi driver_version: 580.1", "reasons for lower clocks 0x0000000000000004"):
        expect(word in found.page, f"no {word!r} in\n{found.page}")
    with tempfile.TemporaryDirectory() as folder:  # a wheel of a peer that is brought along
        with zipfile.ZipFile(os.path.join(folder, "liger_kernel-0.0.7-py3-none-any.whl"), "w") as wheel:
            wheel.writestr("liger_kernel-0.0.7.dist-info/METADATA", "Name: liger-kernel\nVersion: 0.0.7\n")
        found = run("rows", build, "--only", "^sum f32, 64", "--wheels", folder, environment=emulated(build))
    found.states({"sum f32, 64 Ki elements": "ok"})
    expect("liger-kernel: 0.0.7" in found.page and "wheels: liger_kernel-0.0.7" in found.page, found.page)
    traffic()
    distances()


def traffic():
    """The traffic-only kernel by the real NVRTC: every access is of 16 bytes, and none is dropped."""
    import ctypes
    import machine
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "bench"))
    from device_traffic import EACH, compiled, text_of
    files = [file for file in machine.libraries("nvrtc") if "builtins" not in file]
    if not files:
        return
    library = ctypes.CDLL(files[0])
    for roles in (("read",), ("read", "write"), ("update", "update", "update", "read")):
        ptx = compiled(library, text_of(roles), "--gpu-architecture=compute_80", "PTX").value.decode()
        loads, stores = sum(r != "write" for r in roles), sum(r != "read" for r in roles)
        wanted = {"ld.global.v4": 2 * EACH * loads, "st.global.v4": 2 * EACH * stores + 1, "ld.global": 2 * EACH * loads,
                  ".local": 0}
        got = {word: ptx.count(word) for word in wanted}
        expect(got == wanted, f"{roles}: {got}, not {wanted}")


def distances():
    """A candidate that computes something else, and a row without Lockstep, fail."""
    import measure
    own = {"gb_s": 1.0, "fraction_of_copy": 1.0}
    expect(measure.say({"candidates": {"lockstep": own}, "failed": {"jax": "no such module"}})[0], "a row is refused")
    passed, facts = measure.say({"candidates": {"lockstep": own},
                                 "failed": {"triton": "ValueError: its results differ from Lockstep's by 0.3"}})
    expect(not passed and "differ" in facts["why"], "other results pass")
    expect(not measure.say({"candidates": {}, "failed": {"row": "no memory"}})[0], "a row without Lockstep passes")


def steps(build):
    names = ("linreg: launches", "linreg in", "AdamW f32, 1 Mi", "first launch, cold", "charlm f32", "charlm in")
    found = run("steps", build, "--only", "|".join(names), device="cuda", environment=with_tools(build))
    for name in ("linreg in PyTorch", "charlm in PyTorch"):
        expect(found.rows.pop(name)["state"] in ("ok", "absent"), f"{name} failed")
    found.states({"linreg: launches, replays, one call": "ok", "first launch, cold": "ok", "charlm f32": "ok",
                  "AdamW f32, 1 Mi elements": "ok"})
    expect("emulated_blas_cuda.so" in found.rows["charlm f32"]["says"], f"{found.rows['charlm f32']}")
    expect({"launches", "replays", "repeat"} == set(found.rows["linreg: launches, replays, one call"]["rates"]), found.page)
    expect("| loop |" in found.page and "characters/s" in found.page, found.page)


def inspect(build):
    only = "ncu (GELU|sum)|(memcheck|racecheck|synccheck) scans$"
    found = run("inspect", build, "--only", only, device="cuda", environment=with_tools(build))
    found.states({"ncu GELU forward bf16": "ok", "ncu sum f32, 64 Ki elements": "ok", "memcheck scans": "ok",
                  "racecheck scans": "ok", "synccheck scans": "ok"})
    for word in ("| row | kernel | time ns | DRAM % | SM % | L2 hits % | warps % | registers | stalls |",
                 "| 12,345 | 87.25 | 31.5 | 12.5 | 88.75 | 32 | long_scoreboard 9.2, lg_throttle 1.5, wait 0.9 |",
                 "| scans | 0 errors | 0 errors | 0 errors |"):
        expect(word in found.page, f"no {word!r} in\n{found.page}")
    found = run("inspect", build, "--only", "matrix 124/")
    found.states({"matrix 124/128": "ok"})
    expect(found.rows["matrix 124/128"]["passed"] >= 1 and " 1 of 1 shards" in found.page, found.page)
    for fault, name, why in (("column", "ncu sum f32, 64 Ki elements", "ncu gave nothing for DRAM %"),
                             ("denied", "ncu sum f32, 64 Ki elements", "ERR_NVGPUCTRPERM"),
                             ("write", "memcheck scans", "Invalid __global__ write of size 4 bytes"),
                             ("silent", "memcheck scans", "no output")):
        found = run("inspect", build, "--only", f"^{name}$", device="cuda", passes=False,
                    environment=with_tools(build, FAKE_FAULT=fault))
        found.states({name: "failed"})
        expect(why in found.rows[name]["why"], f"{fault}: {found.rows[name]}")
    found = run("inspect", build, "--only", "ncu sum|memcheck scans$", device="cuda", environment=emulated(build))
    found.states({"ncu sum f32, 64 Ki elements": "absent", "memcheck scans": "absent"})
    expect("ncu is not on the PATH" in found.page, found.page)


WORKER = """import json, os, sys, time
for line in sys.stdin:
    row = json.loads(line)["row"]
    if row == "crashes": os.abort()
    if row == "hangs": time.sleep(100)
    if row == "babbles": print("not JSON", flush=True)
    else: print(json.dumps({"row": row, "worker": os.getpid()}), flush=True)
"""


def worker(_):
    """Rows of a worker that dies or hangs are its rows alone."""
    from running import Part, Worker, python
    with tempfile.TemporaryDirectory() as folder:
        part = Part("rows", os.path.join(folder, "gpu-rows"), os.path.join(folder, "gpu-rows.tgz"), 1)
        one = Worker(part, [*python(), "-c", WORKER])
        one.run(["first", "second", "crashes", "third", "hangs", "babbles", "last"], 2.0,
                lambda found: (True, {"worker": found["worker"]}), str)
        states = {name: of["state"] for name, of in part.results["rows"].items()}
        expect(states == {"first": "ok", "second": "ok", "crashes": "failed", "third": "ok", "hangs": "failed",
                          "babbles": "failed", "last": "ok"}, f"the worker's rows: {part.results['rows']}")
        of = part.results["rows"]
        expect(of["first"]["worker"] == of["second"]["worker"] != of["third"]["worker"], "one worker for all, or none")
        expect("signal 6" in of["crashes"]["why"] and "took more than" in of["hangs"]["why"], f"{of}")


def main():
    build, parts = os.path.abspath(sys.argv[1]), sys.argv[2:]
    start = time.monotonic()
    for part in parts:
        globals()[part](build)
    print(f"ok: {' '.join(parts)}, {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
