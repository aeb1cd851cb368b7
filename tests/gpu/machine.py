"""What the machine is: devices, driver, clocks, versions, and where the vendor's libraries lie."""
import glob
import importlib.metadata
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time

PEERS = ("torch", "triton", "jax", "cupy-cuda13x", "cupy-cuda12x", "liger-kernel", "numpy")
# GB/s of device memory by the datasheets; the longest name that is part of the device's counts.
DATASHEET = {"H200": 4800, "H100 80GB HBM3": 3350, "H100 SXM5": 3350, "H100 PCIe": 2039, "H100 NVL": 3938,
             "GH200": 4000, "B200": 8000, "A100-SXM4-80GB": 2039, "A100 80GB PCIe": 1935, "A100-SXM4-40GB": 1555,
             "L40S": 864, "L4": 300, "RTX 4090": 1008, "RTX 3090": 936, "MI300X": 5300, "MI250X": 3277}
FIELDS = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "clocks_event_reasons.active")


def said(command, environment=None, limit=20):
    """The output of a command, or why there is none, in one line."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit,
                              env={**os.environ, **(environment or {})}, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, f"{os.path.basename(command[0])}: {error}".replace("\n", " ")
    return done.returncode == 0, done.stdout


def libraries(name):
    """Files called lib<name>.so..., in the places where toolkits and wheels put them; the best first."""
    places = ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/*/lib", "/usr/local/cuda-*/lib64",
              "/usr/local/cuda-*/targets/*/lib", "/opt/cuda/lib64", "/usr/lib/*-linux-gnu", "/usr/lib64"]
    places += os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for base in sys.path:
        places += [os.path.join(base, "nvidia", "*", "lib")] if base.endswith("-packages") else []
    found = []
    for place in filter(None, places):
        found += sorted(glob.glob(os.path.join(place, f"lib{name}.so*")), key=len)
    return list(dict.fromkeys(found))


def toolkit_environment(device):
    """Where NVRTC is, for processes of Lockstep; what the caller has set stays."""
    found = {}
    if device.startswith("cuda") and "LOCKSTEP_NVRTC" not in os.environ:
        files = [file for file in libraries("nvrtc") if "builtins" not in file and "static" not in file]
        found = {"LOCKSTEP_NVRTC": files[0]} if files else {}
    return found


def version_of(command, *words):
    path = shutil.which(command)
    if not path:
        return "not on the PATH"
    passed, text = said([path, *(words or ("--version",))])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    numbered = [line for line in lines if re.search(r"\d+\.\d+", line)]
    return (numbered or lines or ["says nothing"])[0][:120] if passed else f"does not run: {text.strip()[:100]}"


def smi(fields):
    """The fields of the first device as nvidia-smi gives them, or why not."""
    path = shutil.which("nvidia-smi")
    if not path:
        return None, "nvidia-smi is not on the PATH"
    passed, text = said([path, "--query-gpu=" + ",".join(fields), "--format=csv,noheader,nounits"])
    words = [word.strip() for word in text.strip().splitlines()[0].split(",")] if text.strip() else []
    if not passed or len(words) != len(fields):
        return None, f"nvidia-smi: {text.strip()[:200] or 'no output'}"
    return dict(zip(fields, words)), None


def readings(build, device):
    """One sample of Lockstep's own monitor: name -> number, or None and why."""
    passed, text = said([os.path.join(build, "lockstep"), "top", "--once", "--json", "--device", device])
    try:
        found = json.loads(text)["devices"][0] if passed else None
    except (ValueError, KeyError, IndexError):
        found = None
    if not found or found.get("unknown_because"):
        return None, (found or {}).get("unknown_because") or text.strip()[:200]
    return {key: value for key, value in found.items() if isinstance(value, (int, float))}, None


def describe(build, device):
    """All of it, for the head of a summary."""
    facts = {"device": device, "processors": os.cpu_count(), "python": sys.version.split()[0]}
    passed, text = said([os.path.join(build, "lockstep"), "devices"])
    facts["devices"] = text.strip().splitlines() if text.strip() else ["lockstep devices said nothing"]
    facts["lockstep"] = version_of(os.path.join(build, "lockstep"))
    passed, text = said(["git", "-C", os.path.dirname(os.path.abspath(__file__)), "describe", "--always", "--dirty=+"])
    facts["commit"] = text.strip() if passed else "not known (no repository here)"
    for tool in ("cmake", "cc", "nvcc", "ncu", "compute-sanitizer"):
        facts[tool] = version_of(tool)
    for peer in PEERS:
        try:
            facts[peer] = importlib.metadata.version(peer)
        except importlib.metadata.PackageNotFoundError:
            continue
    found, why = smi(("name", "driver_version", "memory.total", "clocks.max.sm", "clocks.max.mem", "power.limit"))
    facts.update({f"nvidia-smi {key}": value for key, value in found.items()} if found else {"nvidia-smi": why})
    found, why = readings(build, device)
    facts["monitor"] = found if found else why
    facts["nvrtc"] = os.environ.get("LOCKSTEP_NVRTC") or toolkit_environment(device).get("LOCKSTEP_NVRTC", "the loader's")
    facts["cublas"] = (libraries("cublas") or ["not found"])[0]
    return facts


def datasheet(name):
    """GB/s of the device called so, or None."""
    fitting = [key for key in DATASHEET if key in name]
    return DATASHEET[max(fitting, key=len)] if fitting else None


class Clocks:
    """Clocks and power while a part runs, twice a second, into a file of the part."""

    def __init__(self, part, build, device):
        self.part, self.build, self.device = part, build, device
        self.path, self.process, self.over = os.path.join(part.folder, "clocks.csv"), None, threading.Event()

    def __enter__(self):
        if self.device == "cpu":
            return self
        if shutil.which("nvidia-smi"):
            with open(self.path, "w") as file:
                self.process = self.part.begin(
                    ["nvidia-smi", "--query-gpu=" + ",".join(FIELDS), "--format=csv,noheader,nounits", "-lms", "500"],
                    {}, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
        else:
            self.thread = threading.Thread(target=self.sample, daemon=True)
            self.thread.start()
        return self

    def sample(self):
        while not self.over.wait(2):
            found, _ = readings(self.build, self.device)
            if found:
                with open(self.path, "a") as file:
                    print(*(found.get(key, "") for key in ("clock", "memory_clock", "power", "temperature")), "",
                          sep=", ", file=file)

    def __exit__(self, *_):
        self.over.set()
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.part.processes.discard(self.process)
        self.part.results["machine"]["clocks while it ran"] = clocks_of(self.path)
        self.part.save(False)


def clocks_of(path):
    """Lowest, median and highest of each field, and which reasons for lower clocks were given."""
    columns, reasons = {}, set()
    try:
        with open(path) as file:
            for line in file:
                words = [word.strip() for word in line.split(",")]
                for name, word in zip(FIELDS[:4], words):
                    try:
                        columns.setdefault(name, []).append(float(word))
                    except ValueError:
                        continue
                reasons |= set(words[4:5]) - {"", "0x0000000000000000"}
    except OSError:
        return "not recorded"
    found = {name: f"{min(of):g} {statistics.median(of):g} {max(of):g}" for name, of in columns.items()}
    if not found:
        return "not recorded"
    return {**found, **({"reasons for lower clocks": " ".join(sorted(reasons))} if reasons else {})}
