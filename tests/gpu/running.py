"""Rows of a part, run as processes with limits: whatever one of them does, the others have their turn and the
results so far are in the archive."""
import concurrent.futures
import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import threading
import time

PACK_EVERY = 15.0  # seconds: a machine that is taken away leaves an archive that is no older


class Row:
    """One thing to do: a name, a command, and what `read` makes of its output: read(status, text) gives
    (whether it passed, facts). `why`: it cannot be done here, and why."""

    def __init__(self, name, command, limit=120.0, read=None, environment=None, why=None):
        self.name, self.command, self.limit = name, command, limit
        self.read = read or (lambda status, text: (status == 0, {}))
        self.environment, self.why = environment or {}, why


class Part:
    """Name, folder, deadline and results of one of the four parts."""

    def __init__(self, name, folder, archive, minutes):
        self.name, self.folder, self.archive = name, folder, archive
        self.start = time.monotonic()
        self.end = self.start + 60 * minutes
        self.least = min(5.0, 6 * minutes)  # seconds that must be left for a row to begin
        self.results = {"part": name, "minutes": minutes, "machine": {}, "rows": {}, "state": "running"}
        self.processes, self.lock, self.packed = set(), threading.RLock(), 0.0
        self.stopped = ""  # why, once it was
        self.write_summary = lambda part: None
        os.makedirs(os.path.join(folder, "logs"), exist_ok=True)

    def left(self):
        return self.end - time.monotonic()

    def log_path(self, name):
        plain = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)
        return os.path.join(self.folder, "logs", plain[:120] + ".log")

    def note(self, name, state, **facts):
        """Keeps a row's result, and all of them on the disk."""
        with self.lock:
            self.results["rows"][name] = {"state": state, **facts}
            print(f"[{time.monotonic() - self.start:5.0f} s] {state:8s} {name} "
                  f"{facts.get('says', facts.get('why', ''))}".rstrip(), flush=True)
            self.save(False)

    def save(self, pack):
        with self.lock:
            path = os.path.join(self.folder, "results.json")
            with open(path + ".part", "w") as file:
                json.dump(self.results, file, indent=1)
            os.replace(path + ".part", path)
            self.write_summary(self)
            if pack or time.monotonic() - self.packed > PACK_EVERY:
                self.pack()
                self.packed = time.monotonic()

    def pack(self):
        with tarfile.open(self.archive + ".part", "w:gz") as archive:
            archive.add(self.folder, arcname=os.path.basename(self.folder))
        os.replace(self.archive + ".part", self.archive)

    def stop(self, why):
        """Ends what runs; what has not begun does not begin."""
        self.stopped = self.stopped or why
        for process in list(self.processes):
            kill(process)

    # ---- processes ----

    def begin(self, command, environment, **streams):
        process = subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True, **streams)
        self.processes.add(process)
        if self.stopped:
            kill(process)
        return process

    def run(self, row):
        """Runs the row, unless there is no time left for it; gives what was kept of it."""
        said = shlex.join(row.command)
        for name, value in row.environment.items():
            said = f"{name}={shlex.quote(value)} {said}"
        if row.why:
            self.note(row.name, "absent", why=row.why, command=said)
            return
        if self.stopped or self.left() < min(self.least, row.limit / 2):
            self.note(row.name, "not run", why="no time was left", command=said)
            return
        limit, start, path = min(row.limit, self.left()), time.monotonic(), self.log_path(row.name)
        late = False
        with open(path, "wb") as log:
            try:
                process = self.begin(row.command, row.environment, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=subprocess.STDOUT)
            except OSError as error:
                self.note(row.name, "failed", why=str(error), command=said)
                return
            try:
                status = process.wait(limit)
            except subprocess.TimeoutExpired:
                late = True
                kill(process)
                status = process.wait()
        self.processes.discard(process)
        kill(process)  # what it may have left running
        with open(path, errors="replace") as log:
            text = log.read()
        took = time.monotonic() - start
        try:
            passed, facts = row.read(status, text)
        except Exception as error:  # output of another form than expected
            passed, facts = False, {"why": f"its output cannot be read: {type(error).__name__}: {error}"}
        if self.stopped:
            state, facts["why"] = "stopped", "the part was ended while it ran"
        elif late:
            cut = limit < row.limit
            state = "cut off" if cut and not facts.get("wrong") else "failed"
            facts["why"] = f"it ran for {limit:.0f} s, " + ("the time that was left" if cut else "its limit")
        else:
            state = "absent" if status == 77 else "ok" if passed else "failed"
        if state == "absent":
            facts["why"] = (text.strip().splitlines() or ["it says that it cannot be done here"])[-1][:200]
        if state == "failed" and "why" not in facts:
            facts["why"] = reason(status, text)
        self.note(row.name, state, seconds=round(took, 2), status=status, command=said, **facts)

    def run_all(self, rows, together=1):
        """Rows in their order, so many at a time."""
        if together == 1:
            for row in rows:
                self.run(row)
            return
        with concurrent.futures.ThreadPoolExecutor(together) as pool:
            for done in [pool.submit(self.run, row) for row in rows]:
                done.result()


def kill(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)  # a session of its own: its helpers too
    except (ProcessLookupError, PermissionError):
        pass


def reason(status, text):
    """Why a command failed, in a line: what says so, else its last words."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    marked = [line for line in lines if "FAILED" in line or "MISMATCH" in line or "rror" in line]
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return f"{how}: {(marked or lines or ['no output'])[0 if marked else -1]}"[:300]


class Worker:
    """A script that does one row after another, so that what it loads it loads once: a line of JSON on its stdin, and
    one on its stdout, for each. When it dies, or takes too long over a row, that row failed, and another
    worker does the rest."""

    def __init__(self, part, command, environment=None):
        self.part, self.command, self.environment = part, command, environment or {}
        self.process, self.log = None, os.path.join(part.folder, "logs", "worker.log")

    def ask(self, name, seconds, limit):
        """What the worker found for the row, for which it should take so many seconds; raises RuntimeError or
        TimeoutError."""
        if self.process is None:
            with open(self.log, "ab") as log:
                self.process = self.part.begin(self.command, self.environment, stdin=subprocess.PIPE,
                                               stdout=subprocess.PIPE, stderr=log)
        answer = []
        asked = json.dumps({"row": name, "seconds": seconds})
        reader = threading.Thread(target=lambda: answer.append(self.exchange(asked)), daemon=True)
        reader.start()
        reader.join(limit)
        if reader.is_alive():
            self.end()
            reader.join(5)
            raise TimeoutError(f"it took more than {limit:.0f} s")
        if not answer or not answer[0]:
            status = self.end(5)
            raise RuntimeError(f"the process ended, {'signal' if status < 0 else 'exit status'} {abs(status)}: "
                               f"{self.last_words()}")
        return json.loads(answer[0])

    def exchange(self, asked):
        try:
            self.process.stdin.write(asked.encode() + b"\n")
            self.process.stdin.flush()
            return self.process.stdout.readline()
        except (OSError, ValueError):
            return b""

    def last_words(self):
        with open(self.log, errors="replace") as log:
            lines = [line.strip() for line in log.read()[-4000:].splitlines() if line.strip()]
        return (lines or ["it said nothing"])[-1][:200]

    def end(self, patience=0.0):
        """Its exit status; it is killed when it has not ended after so many seconds."""
        if self.process is None:
            return 0
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            kill(self.process)
            status = self.process.wait()
        kill(self.process)
        self.part.processes.discard(self.process)
        self.process = None
        return status

    def run(self, names, limit, say, again):
        """say(found) gives (whether it passed, facts). again(name): the command that does the row alone."""
        for i, name in enumerate(names):
            if self.part.stopped or self.part.left() < self.part.least:
                self.part.note(name, "not run", why="no time was left", command=again(name))
                continue
            start, left = time.monotonic(), self.part.left()
            allowed = min(limit, left)
            try:
                found = self.ask(name, min(0.8 * allowed, 2 * left / (len(names) - i)), allowed)
                passed, facts = say(found)
                state = "ok" if passed else "failed"
            except (RuntimeError, TimeoutError, json.JSONDecodeError) as error:
                state, facts = "failed", {"why": str(error)}
                if self.part.stopped:
                    state = "stopped"
                elif isinstance(error, TimeoutError) and allowed < limit:
                    state = "cut off"
            self.part.note(name, state, seconds=round(time.monotonic() - start, 2), command=again(name), **facts)
        self.end()


def python():
    """This one, without files of compiled modules in the source tree."""
    return [sys.executable, "-B"]
