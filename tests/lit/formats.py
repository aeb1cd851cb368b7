"""lit formats for texts and for programs, so that one runner and one summary serve every test."""
import os
import signal
import subprocess

import lit.formats
import lit.Test
import lit.TestRunner
import lit.util

TIME_LIMIT = 900  # seconds; the slowest test takes a fifth of it on two quiet cores


def escaped(path):
    """A path as the shell reads it, bare or within the single quotes of a script for another shell."""
    return path.replace(" ", "\\ ")


def run_limited(command, cwd, env, stderr=subprocess.PIPE):
    """Output, errors (where they have a pipe of their own), exit status and whether the time limit ended the command, with its process group. A process that left the group may
    hold the output; it is not waited for."""
    process = subprocess.Popen(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                               text=True, errors="replace", start_new_session=True)
    try:
        out, err = process.communicate(timeout=TIME_LIMIT)
        return out, err or "", process.returncode, False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
    said = f"stopped after {TIME_LIMIT} s\n"
    try:
        out, err = process.communicate(timeout=10)
    except subprocess.TimeoutExpired as held:
        out, err = ((text or b"").decode(errors="replace") for text in (held.stdout, held.stderr))
        said += "a process that it started still holds its output\n"
        for pipe in filter(None, (process.stdout, process.stderr)):
            pipe.close()
        process.wait()
    return out, (err or "") + said, process.returncode, True


def execute_command(command, cwd=None, env=None, input=None, timeout=0):
    """Stands in for lit.util.executeCommand, whose time limit needs psutil and does not end what a script left behind."""
    out, err, status, late = run_limited(command, cwd, env)
    if late:
        raise lit.util.ExecuteCommandTimeoutException(f"Reached timeout of {TIME_LIMIT} seconds", out, err, status)
    return out, err, status


class Texts(lit.formats.ShTest):
    """lit's own format for texts, save that a checkout's path may have spaces, and that each has a time limit."""

    def execute(self, test, lit_config):
        lit.util.executeCommand = execute_command
        directory, base = lit.TestRunner.getTempPaths(test)
        source = test.getSourcePath()
        paths = [("%s", source), ("%S", os.path.dirname(source)), ("%t", base + ".tmp"), ("%T", directory)]
        return lit.TestRunner.executeShTest(test, lit_config, self.execute_external,
                                            [(name, escaped(path)) for name, path in paths])


class Programs(lit.formats.TestFormat):
    """Each executable in `folders` is a test. A program in `listed` names its tests, one a line, when
    called with --list, and runs one of them with --only NAME and the words that `listed` has for it.
    The programs of a folder in `environments` have its variables too, unless they have an entry of their own.
    Exit status 77 means skipped."""

    def __init__(self, root, source, folders, environments, helpers, listed):
        self.root, self.source = root, source
        self.folders, self.environments, self.helpers, self.listed = folders, environments, helpers, listed

    def getTestsInDirectory(self, suite, path_in_suite, lit_config, local_config):
        if path_in_suite:
            return
        for folder in self.folders:
            directory = os.path.join(self.root, folder)
            for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
                path = os.path.join(directory, name)
                if self.is_program(path) and path not in self.listed:
                    yield self.test(suite, local_config, (folder, name), [path])
        for path, words in self.listed.items():
            if not self.is_program(path):
                continue
            listing = subprocess.run([path, "--list"], stdout=subprocess.PIPE, text=True,
                                     env=dict(local_config.environment), check=True).stdout
            folder = os.path.basename(os.path.dirname(path))
            for name in listing.split():
                yield self.test(suite, local_config, (folder, name), [path, "--only", name, *words])

    def is_program(self, path):
        name = os.path.basename(path)
        if name in self.helpers or name.endswith((".so", ".a", ".helper", "_helper", "_worker")):
            return False
        if not os.path.isfile(path) or not os.access(path, os.X_OK):
            return False
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF"

    def test(self, suite, local_config, path, command):
        test = lit.Test.Test(suite, path, local_config)
        test.command = command
        return test

    def execute(self, test, lit_config):
        folder, name = test.path_in_suite
        added = self.environments.get(f"{folder}/{name}", self.environments.get(folder, {}))
        environment = dict(test.config.environment, **added)
        out, err, status, late = run_limited(test.command, self.source, environment, subprocess.STDOUT)
        report = f"$ {' '.join(test.command)}\n{out}{err}exit status {status}\n"
        if late:
            return lit.Test.TIMEOUT, report
        if status == 77:
            return lit.Test.UNSUPPORTED, report
        return (lit.Test.PASS if status == 0 else lit.Test.FAIL), report
