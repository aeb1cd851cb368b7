"""common_moments.py TRACE NAME: in a trace of several ranks, whether each time that all of them do NAME there is a moment at which all are
in it, as there is for an exchange when their clocks agree."""
import json
import sys

with open(sys.argv[1]) as file:
    events = json.load(file)["traceEvents"]
names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
spans = {process: [] for process in names}
for e in events:
    if e["ph"] == "X" and e["name"] == sys.argv[2] and e["cat"] == "host":
        spans[e["pid"]].append((e["ts"], e["ts"] + e["dur"]))
counts = {len(rows) for rows in spans.values()}
if len(counts) != 1:
    sys.exit(f"the ranks do it a different number of times: {counts}")
for rows in zip(*spans.values()):
    if max(begin for begin, _ in rows) > min(end for _, end in rows):
        sys.exit(f"no moment of all: {rows}")
print(f"{', '.join(names.values())}: {counts.pop()} times {sys.argv[2]}, each with a moment of all")
