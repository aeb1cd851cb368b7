"""Draws every step of the library and looks at what `explain --svg` gave: no text is wider than its box, no edge carries 0 B, each
phase stands in one kernel, and no array or kernel stands alone.    drawn.py LOCKSTEP ROOT [STEP...]

Widths come from the font files that stand in for the families of the drawing here (fc-match), and of Courier, which is 0.6 wide."""
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree as tree

lockstep, root = sys.argv[1:3]


def advance_widths(path):
    """Of the printable characters of ASCII, as shares of the font's size."""
    with open(path, "rb") as file:
        data = file.read()
    tables = {}
    for i in range(struct.unpack(">H", data[4:6])[0]):
        tag, _, offset, _ = struct.unpack(">4sIII", data[12 + 16 * i:28 + 16 * i])
        tables[tag] = offset

    def short(offset):
        return struct.unpack(">H", data[offset:offset + 2])[0]

    units, metrics, cmap = short(tables[b"head"] + 18), short(tables[b"hhea"] + 34), tables[b"cmap"]
    for i in range(short(cmap + 2)):
        platform, encoding, offset = struct.unpack(">HHI", data[cmap + 4 + 8 * i:cmap + 12 + 8 * i])
        if (platform, encoding) == (3, 1) and short(cmap + offset) == 4:
            sub = cmap + offset
    count = short(sub + 6) // 2
    ends, starts = sub + 14, sub + 16 + 2 * count
    deltas, ranges = starts + 2 * count, starts + 4 * count

    def glyph(code):
        for i in range(count):
            if code <= short(ends + 2 * i):
                if code < short(starts + 2 * i):
                    return 0
                shift = short(ranges + 2 * i)
                if not shift:
                    return (code + short(deltas + 2 * i)) & 0xffff
                return short(ranges + 2 * i + shift + 2 * (code - short(starts + 2 * i)))
        return 0

    return {chr(c): short(tables[b"hmtx"] + 4 * min(glyph(c), metrics - 1)) / units for c in range(32, 127)}


def font(family):
    if not shutil.which("fc-match"):
        return None
    path = subprocess.run(["fc-match", "-f", "%{file}", family], capture_output=True, text=True).stdout
    try:
        return advance_widths(path)
    except (OSError, KeyError, UnboundLocalError, struct.error):
        return None


fonts = {"Courier": [{chr(c): 0.6 for c in range(32, 127)}, font("Courier")], "Helvetica": [font("Helvetica")],
         "Helvetica bold": [font("Helvetica:bold")]}
measured = 0


def width_of(text, element):
    """In the widest font that may stand in."""
    global measured
    family = element.get("font-family").split(",")[0] + (" bold" if element.get("font-weight") == "bold" else "")
    known = [f for f in fonts[family] if f]
    measured += bool(known)
    return max((sum(f.get(c, 1) for c in text) for f in known), default=0) * float(element.get("font-size"))


def points(text):
    numbers = [float(n) for n in re.findall(r"-?\d+\.?\d*", text)]
    return numbers[0::2], numbers[1::2]


def boxes(node):
    for shape in node:
        if shape.tag.endswith("polygon"):
            yield points(shape.get("points"))
        elif shape.tag.endswith("path") and shape.get("d"):
            yield points(shape.get("d"))


def faults_of(svg):
    """What is wrong with one drawing."""
    drawing = tree.fromstring(svg)
    ends, shown = set(), {}
    names = [g for g in drawing.iter() if g.tag.endswith("}g") and g.get("class") in ("node", "graph")]
    for group in drawing.iter():
        title = next((e.text for e in group if e.tag.endswith("}title")), "")
        if group.get("class") == "edge":
            labels = [e.text for e in group if e.tag.endswith("}text")]
            if "0 B" in labels:
                yield f"an edge of 0 B: {title}"
            if any(e.tag.endswith("}path") and e.get("stroke") not in (None, "none", "transparent") for e in group):
                ends.update(title.split("->"))
    for group in names:
        title = next((e.text for e in group if e.tag.endswith("}title")), "")
        around = list(boxes(group))
        if not around:
            continue  # what has no box
        left, right = min(min(x) for x, _ in around), max(max(x) for x, _ in around)
        for element in group:
            if not element.tag.endswith("}text"):
                continue
            text, x = element.text or "", float(element.get("x"))
            width = width_of(text, element)
            begin = {"middle": x - width / 2, "end": x - width}.get(element.get("text-anchor"), x)
            if begin < left - 0.01 or begin + width > right + 0.01:
                yield f"text beyond its box: {title}: {text!r} from {begin:.1f} to {begin + width:.1f}, the box {left:.1f} to {right:.1f}"
            if title.startswith("kernel_"):
                shown.setdefault(text, []).append(title)
        if group.get("class") == "node" and title not in ends:
            yield f"stands alone: {title}"
    for text, where in shown.items():
        if re.match(r"\w+: |\w+ [-+*/|&]?= ", text) and len(set(where)) > 1 and " for each " not in text and " over " not in text:
            yield f"stands in several kernels: {text!r} in {', '.join(where)}"


steps = sys.argv[3:]
if not steps:
    for path in sorted(glob.glob(os.path.join(root, "templates", "std", "**", "*.step"), recursive=True)):
        with open(path) as file:
            steps += [f"{path}:{name}" for name in re.findall(r"^step (\w+)", file.read(), re.M)]
found = drawn = loops = 0
for step in steps:
    result = subprocess.run([lockstep, "explain", "--plan", "--target", "cpu", "--svg", step], capture_output=True, text=True)
    if result.returncode:
        loops += 1
        print(result.stderr)
        continue
    drawn += 1
    for fault in faults_of(result.stdout):
        found += 1
        print(f"{step.rsplit('/', 1)[-1]}: {fault}")
print(f"{drawn} steps drawn, {loops} not, {found} faults, {measured} texts measured")
sys.exit(found > 0 or not drawn or not measured)
