"""Programs of steps that call steps: each the one before it twice, once, or within many blocks."""
import sys

kind = sys.argv[1]
count, times, blocks = {"double": (40, 2, 0), "chain": (900, 1, 0), "blocks": (9, 1, 99)}[kind]
print("step s0(inout x: f32, c: bool) {\n    x += 1\n}")
for i in range(1, count):
    print(f"step s{i}(inout x: f32, c: bool) {{")
    print("when c {\n" * blocks + f"s{i - 1}(x = x, c = c)\n" * times + "}\n" * blocks + "}")
