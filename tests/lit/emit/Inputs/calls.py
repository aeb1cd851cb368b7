"""calls.py LINES: a step of so many lines with two uses of costly functions each, a square root and a quotient."""
import sys

count = int(sys.argv[1])
print("step s[n](x: f32[n], e: f64[n], out y: f32[n], out z: f64[n]) {\n    let a0 = x")
for i in range(count):
    print(f"    let a{i + 1} = tanh(a{i}) * sqrt(a{i} * a{i}) + sin(a{i}) / x")
print(f"    y = a{count}\n    z = exp(e) ** e\n}}")
