"""Reads the JSON of explain and prints what can be told of it without its figures' every digit."""
import json
import sys

for step in json.load(sys.stdin)["steps"]:
    kernels = step["kernels"]
    print(step["name"], f"launches={step['launches']}", f"minimum={step['bytes_minimum']}",
          f"moved_at_least_minimum={step['bytes_moved'] >= step['bytes_minimum']}",
          f"temporaries={step['temporary_bytes'] > 0}")
    for kernel in kernels:
        print(kernel["name"], kernel["share"], f"read={kernel['bytes_read']}",
              f"why={'yes' if kernel['why_split'] else 'no'}")
    moved = sum(kernel["bytes_read"] + kernel["bytes_written"] for kernel in kernels)
    print("the kernels' bytes are the step's:", moved == step["bytes_moved"] and step["launches"] == len(kernels))
