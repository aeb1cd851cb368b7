"""The execution matrix in shards, every bit against the interpreter: a shard is a process, so one that crashes or
is cut off costs its own programs only, and what it had done until then counts."""
import os
import re

from running import Row


def read(status, text):
    """Counts from the lines that exec_runner prints as it goes; a crash is a failure with the program it was at."""
    passed = re.findall(r"^ok (\S+)", text, re.M)
    failed = re.findall(r"^FAILED (\S+)", text, re.M)
    last = re.search(r"(\d+) programs passed, (\d+) failed, (\d+) runs", text)
    wrong = [line.strip() for line in text.splitlines() if re.match(r"\s+(MISMATCH|FAILED)|\s+\S+.*differ", line)]
    facts = {"passed": len(passed), "failed": len(failed), "runs": int(last.group(3)) if last else 0,
             "says": f"{len(passed)} programs right" + (f", {len(failed)} wrong: {' '.join(failed[:5])}" if failed else "")}
    if failed:
        facts.update(why="wrong: " + " ".join(failed[:20]), wrong=wrong[:10] or failed)
    elif last is None and status > 0:
        facts["why"] = f"it ended with {status} after {passed[-1] if passed else 'nothing'}"
    return status == 0 and last is not None and int(last.group(1)) > 0 and not failed, facts


def rows(build, device, shards, quick, limit, name="matrix", seed=None):
    runner = os.path.join(build, "tests", "exec", "exec_runner")
    made = []
    for shard in range(shards):
        command = [runner, "--device", device, "--shard", f"{shard}/{shards}"]
        command += ["--quick"] if quick else []
        command += ["--seed", str(seed)] if seed else []
        made.append(Row(f"{name} {shard + 1}/{shards}", command, limit, read))
    return made


def totals(results):
    """One line for all shards."""
    shards = [of for name, of in results["rows"].items() if name.startswith("matrix")]
    if not shards:
        return []
    count = lambda key: sum(of.get(key, 0) for of in shards)
    done = sum(of["state"] in ("ok", "failed") for of in shards)
    return [f"Execution matrix: {count('passed')} programs with the interpreter's bits, {count('failed')} with others, "
            f"{count('runs')} runs; {done} of {len(shards)} shards to their end.", ""]
