"""decisions.py LOCKSTEP README FOLDER: every command of Lockstep that a page names below its heading "Out of memory" runs, in that folder."""
import re
import subprocess
import sys

lockstep, page, folder = sys.argv[1:]
with open(page) as file:
    text = file.read()
text = text[text.index("## Out of memory"):]
commands = [re.sub(r"\s+", " ", found) for found in re.findall(r"`(lockstep\s[^`]+)`", text)]
failed = 0
for command in commands:
    done = subprocess.run(["sh", "-c", command.replace("lockstep", f"'{lockstep}'", 1)], cwd=folder, capture_output=True, text=True)
    if done.returncode or not (done.stdout + done.stderr).strip():
        print(f"{command}: status {done.returncode}\n{done.stderr}")
        failed += 1
print(f"{len(commands)} commands, {failed} failed")
sys.exit(failed > 0)
