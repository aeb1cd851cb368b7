"""Runs fast_functions of grades.step on the CPU in both grades: `math fast` is close to exact, and not it."""
import re
import subprocess
import sys

lockstep, program = sys.argv[1:3]
x = "full(64, 0.1)", "uniform(4096; 7)"


def outputs(grade, values):
    text = subprocess.run([lockstep, "run", program + ":fast_functions", "x=" + values, "--device", "cpu", "--math",
                           grade, "-o", "y=-", "-o", "z=-", "-o", "r=-", "-o", "q=-"],
                          capture_output=True, text=True, check=True).stdout
    return [float(word) for word in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?(?=[\s\]])", text)]


different = 0
for values in x:
    exact, fast = outputs("exact", values), outputs("fast", values)
    assert len(exact) == len(fast) > 3, (len(exact), len(fast))
    for a, b in zip(exact, fast):
        assert abs(a - b) <= 2e-3 * abs(a) + 1e-3, (a, b)
        different += a != b
print("close,", "other bits" if different else "the same bits")
