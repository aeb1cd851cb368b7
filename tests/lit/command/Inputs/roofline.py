"""roofline.py SVG KERNELS: the picture is well-formed, has a name for each kernel, and no point covers another or leaves the picture; texts
are taken to be as wide as eight pixels a letter at a size of 12."""
import sys
import xml.dom.minidom

document = xml.dom.minidom.parse(sys.argv[1])
root = document.documentElement
width, height = float(root.getAttribute("width")), float(root.getAttribute("height"))
points = [(float(c.getAttribute("cx")), float(c.getAttribute("cy")), float(c.getAttribute("r")))
          for c in document.getElementsByTagName("circle") if float(c.getAttribute("r")) > 5]
names, faults, rows = 0, [], []
for text in document.getElementsByTagName("text"):
    said = "".join(node.data for node in text.childNodes)
    if text.hasAttribute("transform"):
        continue
    size = float(text.getAttribute("font-size") or 12)
    x, y, half = float(text.getAttribute("x")), float(text.getAttribute("y")), len(said) * 8 * size / 12 / 2
    anchor = text.getAttribute("text-anchor")
    left = x - half if anchor == "middle" else x - 2 * half if anchor == "end" else x
    if left < 0 or left + 2 * half > width or not size / 2 < y < height:
        faults.append(f"cut: {said}")
    if "lockstep_" in said:
        names += 1
        rows.append(y)
faults += [f"rows {a} and {b}" for a, b in zip(rows, rows[1:]) if b - a < 14]
for i, a in enumerate(points):
    faults += [f"points {a} and {b}" for b in points[:i] if (a[0] - b[0]) ** 2 + (a[1] - b[1]) ** 2 < (a[2] + b[2] - 0.2) ** 2]
    if not (a[2] <= a[0] <= width - a[2] and a[2] <= a[1] <= height - a[2]):
        faults.append(f"outside: {a}")
if names != int(sys.argv[2]):
    faults.append(f"{names} names of {sys.argv[2]}")
print("\n".join(faults) or f"{len(points)} points, {names} names, nothing covered or cut")
sys.exit(bool(faults))
