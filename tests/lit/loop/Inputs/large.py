"""A nest with very much of one thing."""
import sys

bodies = {
    "loops": ["  " * depth + f"loop i{depth}: serial 1" for depth in range(1, 100)],
    "parentheses": ["  let a = " + "(" * 100000],
    "value": ["  let a = 1" + " + 1" * 100000],
    "index": ["  let a = [1" + " + 1" * 100000 + "]"],
    "names": [f"  let a{number} = 1" for number in range(20000)],
}
print("\n".join(["nest large warps 1 lanes 1 width 1"] + bodies[sys.argv[1]]))
