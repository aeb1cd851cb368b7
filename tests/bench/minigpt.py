"""What examples/llmc takes from Lockstep beside plain C of the same, by gcc -O3 and by -Ofast.

    python3 tests/bench/minigpt.py [--build BUILD] [--rounds 3] [--steps 12] [--load] [--sizes NAME,...]

Each round is a run of `minigpt --compare`, which trains the three forms side by side on one thread and takes the
median of the processor times of each step; printed are medians over the rounds, and for all but the products also
the lowest and highest ratio."""
import argparse
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SIZES = {
    "characters": "--layers 4 --channels 128 --heads 4 --context 64 --batch 16",
    "narrow": "--layers 4 --channels 96 --heads 3 --context 32 --batch 4",
    "gpt2": "--layers 2 --channels 768 --heads 12 --context 256 --batch 1 --classes 50257",
    "tiny": "--layers 1 --channels 32 --heads 2 --context 16 --batch 4",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(HERE, "..", "..", "build"), help="Lockstep's build folder")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12, help="training steps of a round")
    parser.add_argument("--sizes", default="characters,narrow,gpt2", help="of " + ", ".join(SIZES))
    parser.add_argument("--load", action="store_true", help="steps compiled at run time, not ahead of time")
    options = parser.parse_args()
    options.sizes = options.sizes.split(",")
    for name in options.sizes:
        if name not in SIZES:
            parser.error(f"--sizes names `{name}`; there are {', '.join(SIZES)}")
    if options.rounds < 1 or options.steps < 1:
        parser.error("--rounds and --steps take at least 1")
    return options


def run(options, size):
    """The rows of one run: the step's name, its calls, and milliseconds of plain C, -Ofast and Lockstep."""
    command = [os.path.join(options.build, "examples", "llmc", "minigpt"), "--compare", "--steps", str(options.steps),
               *SIZES[size].split(), *(["--load"] if options.load else [])]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LOCKSTEP_THREADS": "1"})
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stderr}")
    rows = re.findall(r"^(\w[\w ]*?) +(\d+) +([\d.]+) +([\d.]+) +([\d.]+) +[\d.]+ +[\d.]+$", done.stdout, re.M)
    return {name: (int(calls), [float(time) for time in times]) for name, calls, *times in rows}


def table(options, size):
    rounds = [run(options, size) for _ in range(options.rounds)]
    print(f"{size}: {SIZES[size]}\n\n| ms of a training step | calls | plain C | -Ofast | Lockstep | plain / Lockstep "
          "| -Ofast / Lockstep |\n| --- | --- | --- | --- | --- | --- | --- |")
    for name, (calls, _) in rounds[0].items():
        times = [statistics.median(row[name][1][form] for row in rounds) for form in range(3)]
        ratios = [sorted(row[name][1][form] / max(row[name][1][2], 1e-4) for row in rounds) for form in range(2)]
        middle = [f"{statistics.median(ratio):.2f}" for ratio in ratios]
        if name == "all but the products":
            middle = [f"{text} ({ratio[0]:.2f} to {ratio[-1]:.2f})" for text, ratio in zip(middle, ratios)]
        print(f"| {name} | {calls} | {times[0]:.3f} | {times[1]:.3f} | {times[2]:.3f} | {middle[0]} | {middle[1]} |")
    print()


def main():
    options = arguments()
    for size in options.sizes:
        table(options, size)


if __name__ == "__main__":
    main()
