"""Checks a trace file against the Trace Event Format: the fields that Perfetto and chrome://tracing need, tracks with
names, events in order and nested.    trace_format.py FILE"""
import json
import math
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    trace = json.load(file)
assert trace["displayTimeUnit"] in ("ms", "ns"), trace["displayTimeUnit"]
assert all(isinstance(value, str) for value in trace["otherData"].values())
names, spans, memory = {}, {}, {}
for event in trace["traceEvents"]:
    if event["ph"] == "C":
        assert math.isfinite(event["ts"]) and event["args"]["bytes"] >= 0, event
        memory.setdefault(event["name"], []).append(event["args"]["bytes"])
        continue
    assert event["ph"] in ("M", "X") and isinstance(event["name"], str) and event["name"], event
    assert isinstance(event["pid"], int) and isinstance(event["tid"], int), event
    if event["ph"] == "M":
        if event["name"] == "thread_name":
            names[event["tid"]] = event["args"]["name"]
        continue
    assert isinstance(event["cat"], str) and math.isfinite(event["ts"]) and event["dur"] >= 0, event
    spans.setdefault(event["tid"], []).append(event)
assert set(spans) <= set(names), (set(spans), names)
for track, events in spans.items():
    assert events == sorted(events, key=lambda event: event["ts"]), f"track {track} is not in order"
    ends = []
    for event in events:
        while ends and ends[-1] <= event["ts"] + 0.01:
            ends.pop()
        end = event["ts"] + event["dur"]
        assert not ends or end <= ends[-1] + 0.01, f"{event} reaches beyond what holds it"
        ends.append(end)
kinds = {}
for events in spans.values():
    for event in events:
        kinds[event["cat"]] = kinds.get(event["cat"], 0) + 1
        args = event["args"]
        if event["cat"] == "kernel" and args["bytes_read"] + args["bytes_written"] and event["dur"] > 1:
            rate = (args["bytes_read"] + args["bytes_written"]) / event["dur"] * 1e-3
            assert abs(rate - args["gb_s"]) <= 0.01 * rate + 0.001, (rate, args)
print("tracks:", ", ".join(sorted(name.split(" ")[0] for name in names.values())))
print("events:", ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
for name, values in sorted(memory.items()):
    print(f"{name}: at most {max(values)} bytes")
