"""The fruit catcher of examples/grpo beside a plain C loop (catcher.c), and beside other programs that train it.

    python3 tests/bench/catcher.py [--build BUILD] [--rounds 5] [--iterations 100,600] [--peer "python3 FILE"]...

Each program runs on one thread, in turns, with few and with many iterations; the difference of the processor
times is that of the iterations, without start and compiles, and a busy neighbour changes it little. The last
argument of a peer's command is the number of iterations; what it plays must be 256 environments of 40 ticks.
Printed are medians over the rounds, and peak memory as the system counts it."""
import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS = 256 * 40  # of environments, in an iteration


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"), help="Lockstep's build folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iterations", default="100,600", help="few and many")
    parser.add_argument("--peer", action="append", default=[], metavar="COMMAND",
                        help="another program, which is given the number of iterations; may stand several times")
    options = parser.parse_args()
    try:
        options.few, options.many = map(int, options.iterations.split(","))
    except ValueError:
        parser.error(f"--iterations is `{options.iterations}`; it takes two numbers, such as 100,600")
    if not 0 < options.few < options.many or options.rounds < 1:
        parser.error("--iterations takes few and then more, and --rounds at least 1")
    return options


def run(command):
    """Processor seconds and peak MiB of a run."""
    threads = {"LOCKSTEP_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with tempfile.TemporaryFile() as told:
        child = subprocess.Popen(command, env={**os.environ, **threads}, stdout=told, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode:
            told.seek(0)
            sys.exit(f"{shlex.join(command)} failed:\n{told.read().decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    options = arguments()
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "catcher")
        subprocess.run(["gcc", "-std=gnu11", "-Ofast", "-march=native", os.path.join(HERE, "catcher.c"), "-o", plain,
                        "-lm"], check=True)
        lockstep = [os.path.join(options.build, "examples", "grpo", "grpo"), "--device", "cpu", "--report", "50",
                    "--iterations"]
        programs = {"Lockstep": lockstep, "plain C": [plain]}
        programs.update({command: shlex.split(command) for command in options.peer})
        speeds, peaks = {name: [] for name in programs}, dict.fromkeys(programs, 0)
        run([*lockstep, "1"])  # its kernels are in the cache from here on
        for _ in range(options.rounds):
            for name, command in programs.items():
                few, _ = run([*command, str(options.few)])
                many, peak = run([*command, str(options.many)])
                speeds[name].append((options.many - options.few) * STEPS / max(many - few, 1e-9))
                peaks[name] = max(peaks[name], peak)
    print("| | environment steps/s | Lockstep over it | µs an iteration | peak memory |\n| --- | --- | --- | --- | --- |")
    for name in programs:
        speed = statistics.median(speeds[name])
        ratio = statistics.median(a / b for a, b in zip(speeds["Lockstep"], speeds[name]))
        print(f"| {name} | {speed:,.0f} | {ratio:.2f} | {1e6 * STEPS / speed:,.0f} | {peaks[name]:.1f} MiB |")


if __name__ == "__main__":
    main()
