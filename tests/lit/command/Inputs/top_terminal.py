"""Runs `lockstep top` on a pseudo-terminal: what it draws stays within the window, it follows a new size, and however
it ends the terminal is as it was.    top_terminal.py LOCKSTEP [--show]"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

LIMIT = 20  # seconds until something that should have happened counts as missing


class Screen:
    """As much of a terminal as the command uses. What does not fit is an error, not a wrapped line."""

    def __init__(self, width, height):
        self.resize(width, height)
        self.second, self.cursor, self.colors, self.frames, self.rest = False, True, 0, 0, b""

    def resize(self, width, height):
        self.width, self.height, self.row, self.column = width, height, 0, 0
        self.cells = [[" "] * width for _ in range(height)]

    def control(self, code):
        if code == "\033[H":
            self.row = self.column = 0
            self.frames += 1
        elif code == "\033[K":
            self.cells[self.row][self.column:] = [" "] * (self.width - self.column)
        elif code == "\033[J":
            for row in self.cells[self.row + 1:]:
                row[:] = [" "] * self.width
        elif code == "\033[2J":
            self.cells = [[" "] * self.width for _ in range(self.height)]
        elif code in ("\033[?1049h", "\033[?1049l"):
            self.second = code.endswith("h")
        elif code in ("\033[?25h", "\033[?25l"):
            self.cursor = code.endswith("h")
        elif code.endswith("m"):
            self.colors += 1
        else:
            raise AssertionError(f"the terminal got {code!r}")

    def write(self, data):
        data = self.rest + data
        text = data.decode("utf-8", "ignore")
        cut = text.rfind("\033")
        if cut >= 0 and not re.match(r"\033\[[?0-9;]*[A-Za-z]", text[cut:]):
            self.rest, text = text[cut:].encode(), text[:cut]  # the end of it comes later
        else:
            text = text.rstrip("\r")  # its \n may come later
            self.rest = data[len(text.encode()):]
        for part in re.findall(r"\033\[[?0-9;]*[A-Za-z]|\r+\n|[^\033\r]+|.", text, re.S):
            if part.startswith("\033"):
                self.control(part)
            elif part.endswith("\r\n"):  # the terminal's driver doubles the \r
                self.row, self.column = self.row + 1, 0
                assert self.row < self.height, "the picture is higher than the window"
            else:
                assert "\n" not in part and "\r" not in part, f"a line's end within {part!r}"
                assert self.column + len(part) <= self.width, f"{part!r} goes beyond column {self.width}"
                self.cells[self.row][self.column:self.column + len(part)] = part
                self.column += len(part)

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)


class Top:
    def __init__(self, width, height, *words, **environment):
        self.main, self.side = pty.openpty()
        self.set_size(width, height)
        self.modes = termios.tcgetattr(self.side)
        self.screen = Screen(width, height)
        values = dict(os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8")
        values.pop("NO_COLOR", None)
        values.update(environment)
        self.process = subprocess.Popen([sys.argv[1], "top", *words], stdin=self.side, stdout=self.side, env=values,
                                        start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def set_size(self, width, height):
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def read(self, until, what):
        end = time.monotonic() + LIMIT
        while not until():
            assert time.monotonic() < end, f"{what} did not come; the screen is\n{self.screen.text()}"
            if select.select([self.main], [], [], 0.05)[0]:
                self.screen.write(os.read(self.main, 65536))

    def frames(self, count):
        goal = self.screen.frames + count
        self.read(lambda: self.screen.frames >= goal, f"{count} frames")
        self.read(lambda: not select.select([self.main], [], [], 0.02)[0], "the rest of a frame")

    def key(self, text):
        os.write(self.main, text.encode())

    def end(self, status=0):
        self.read(lambda: self.process.poll() is not None and not select.select([self.main], [], [], 0)[0], "the end")
        assert self.process.returncode == status, self.process.returncode
        assert not self.screen.second and self.screen.cursor, "the screen was not put back"
        assert termios.tcgetattr(self.side) == self.modes, "the terminal's modes were not put back"
        os.close(self.main)
        os.close(self.side)
        self.process = None


def show(title, top):
    if "--show" in sys.argv:
        print(f"== {title}\n{top.screen.text()}")


for width, height in ((80, 24), (132, 50), (50, 14), (24, 6), (10, 2), (1, 1), (300, 100)):
    top = Top(width, height, "--interval", "0.1")
    top.frames(3)
    screen = top.screen.text()
    show(f"{width} x {height}", top)
    assert screen.startswith("lockstep top"[:width]), screen
    if height >= 14:
        assert "cpu" in screen and "memory" in screen and "utilisation" in screen, screen
    if height > 2 and width >= 40:
        assert "cpu" in screen and " of " in screen, screen
    assert top.screen.colors > 0
    top.key("q")
    top.end()

# A new size in between: larger, smaller.
top = Top(80, 24, "--interval", "30")
top.frames(1)
for width, height in ((120, 40), (30, 5), (80, 24)):
    top.screen.resize(width, height)
    top.set_size(width, height)
    os.kill(top.process.pid, signal.SIGWINCH)
    top.frames(1)
    assert top.screen.text().startswith("lockstep top"), top.screen.text()
show("resized", top)
top.key("x")  # means nothing
top.key("\x03")  # ctrl-C is a signal here, as in a shell
top.end()

for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    top = Top(80, 24, "--interval", "30")
    top.frames(1)
    assert top.screen.second and not top.screen.cursor
    os.kill(top.process.pid, number)
    top.end()

# ctrl-Z gives the terminal back, and fg takes it again.
top = Top(80, 24, "--interval", "30")
top.frames(1)
os.kill(top.process.pid, signal.SIGTSTP)
os.waitpid(top.process.pid, os.WUNTRACED)
top.read(lambda: not top.screen.second and top.screen.cursor, "the first screen")
assert termios.tcgetattr(top.side) == top.modes
os.kill(top.process.pid, signal.SIGCONT)
top.frames(1)
assert top.screen.second and not top.screen.cursor
top.key("q")
top.end()

# Without colour; without Unicode.
top = Top(80, 24, "--interval", "0.1", NO_COLOR="1", LC_ALL="C")
top.frames(4)
assert top.screen.colors == 0 and top.screen.text().isascii()
assert re.search(r"memory +\d.*[_.:=+*#-]{2}", top.screen.text()), top.screen.text()
show("plain", top)
top.key("q")
top.end()

# What Lockstep's processes hold by label, from another process: its arrays come, and go when it ends.
held = re.compile(r"^ +[\d.]+ [KMG]iB step scale: output y +[▁-█]+", re.M)
run = subprocess.Popen([sys.argv[1], "run", os.path.join(os.path.dirname(os.path.abspath(__file__)), "scale.step"), "x=zeros(3000000)",
                        "--repeat", "1000000000", "--device", "cpu"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    top = Top(120, 60, "--interval", "0.2", "--device", "cpu")
    top.read(lambda: held.search(top.screen.text()), "the memory of another process")
    show("memory by label", top)
    top.key("q")
    top.end()
    values = json.loads(subprocess.run([sys.argv[1], "top", "--device", "cpu", "--json"], capture_output=True, check=True).stdout)
    labels = {row["label"]: row["bytes"] for row in values["devices"][0]["labels"]}
    assert labels["step scale: output y"] >= 2 * 3000000, labels
finally:
    run.kill()
    run.wait()

# A GPU whose library is there, and one whose is not: stand-ins of the tests.
build = os.path.join(os.path.dirname(sys.argv[1]), "tests")
cuda = {"LOCKSTEP_CUDA": f"{build}/driver/stand_in_cuda.so", "LOCKSTEP_NVML": f"{build}/monitor/stand_in_nvml_new.so"}
if all(os.path.exists(path) for path in cuda.values()):
    top = Top(100, 160, "--interval", "0.1", **cuda)  # with what other processes hold
    top.frames(4)
    screen = top.screen.text()
    show("two GPUs", top)
    assert re.search(r"cuda:0 .*\n.*utilisation +51 %", screen) and "301 of 701 W" in screen, screen
    assert re.search(r"cuda:1 .*\n.*utilisation +50 %", screen) and "300 of 700 W" in screen, screen
    assert "200.0 MB/s" in screen and "4000000" in screen, screen
    spent = re.search(r"energy +(\d+) J spent +[▁-█]*([▁-█]{2})", screen)
    assert spent and 0 < int(spent[1]) < 301 * LIMIT, screen
    top.frames(3)
    later = re.search(r"energy +(\d+) J spent", top.screen.text())
    assert int(later[1]) > int(spent[1]), top.screen.text()
    top.key("q")
    top.end()
    top = Top(100, 12, "--interval", "0.1", **cuda)
    top.frames(2)
    show("two GPUs in few lines", top)
    assert re.search(r"^cuda:1 +50 % +40.0 GiB of 80.0 GiB +300 of 700 W +40 C", top.screen.text(), re.M)
    top.key("q")
    top.end()
    top = Top(100, 40, "--interval", "0.1", **dict(cuda, LOCKSTEP_NVML="/nowhere.so"))
    top.frames(2)
    assert "  cannot be watched: /nowhere.so cannot be loaded" in top.screen.text(), top.screen.text()
    show("without NVML", top)
    top.key("q")
    top.end()
print("all well")
