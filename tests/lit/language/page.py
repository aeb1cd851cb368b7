"""Runs the programs of a Markdown page and compares what they print with the page.

    page.py LOCKSTEP PAGE [--only WORD] [--update]

A block that opens with ```step NAME (or c NAME) is written to the file NAME; each line of a console block that
begins with `$ lockstep` is run beside these files, and the lines below it must be what comes out, errors included.
--only takes the console blocks whose commands hold a word; --update writes what came out into the page.
"""
import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.M | re.S)


def outcome(lockstep, command, folder):
    """What a command prints: results, then messages. The line that names the device is left out."""
    words = shlex.split(command)
    assert words[0] == "lockstep", command
    environment = dict(os.environ, NO_COLOR="1", LOCKSTEP_DEVICE="cpu")
    done = subprocess.run([lockstep] + words[1:], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=300)
    messages = [line for line in done.stderr.splitlines() if not line.startswith("lockstep: running on")]
    return "".join(line + "\n" for line in done.stdout.splitlines() + messages)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("lockstep")
    parser.add_argument("page")
    parser.add_argument("--only", default="")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    lockstep = os.path.abspath(options.lockstep)
    with open(options.page) as file:
        page = file.read()
    commands = failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for language, name, text in BLOCK.findall(page):
            if name and language in ("step", "c"):
                with open(os.path.join(folder, name), "w") as file:
                    file.write(text)

        def console(match):
            nonlocal commands, failures
            if match.group(1) != "console" or options.only not in match.group(3):
                return match.group(0)
            lines = []
            for command in re.findall(r"^\$ (.*)$", match.group(3), re.M):
                commands += 1
                lines.append(f"$ {command}\n" + outcome(lockstep, command, folder))
            found = "".join(lines)
            if found != match.group(3) and not options.update:
                failures += 1
                print("".join(difflib.unified_diff(match.group(3).splitlines(True), found.splitlines(True),
                                                   "the page", "what came out")))
            return f"```console\n{found}```"

        updated = BLOCK.sub(console, page)
    if options.update:
        with open(options.page, "w") as file:
            file.write(updated)
    print(f"{commands} commands, {failures} differences")
    return 1 if failures or not commands else 0


sys.exit(main())
