"""Writes a step whose `let`s are called as the words of the emitter's own lines, the keywords of C and C++ and the
types of the preludes; then, with texts of it, complains about each one that kept such a name there.

words.py ROOT                 the step
words.py ROOT TEXT...         the check
"""
import os
import re
import sys

LANGUAGE = set("import const fn return step let when if then else and or not true false inf nan pi "
               "in out inout of as math from reverse backward f64 f32 i64 i32 u64 u32 bool f16 bf16 e4m3 "
               "e5m2 i8 u8 i16 u16".split())
OTHERS = ("asm auto break case catch char class compl constexpr continue default delete do double enum "
          "explicit extern float for friend goto inline int long mutable namespace new operator private "
          "protected public register restrict short signed sizeof static struct switch template this "
          "throw try typedef typeid typename union unsigned using virtual void volatile while xor "
          "wchar_t bool8 main linux unix threadIdx blockIdx blockDim gridDim warpSize NULL")


def words(root):
    found = set(OTHERS.split())
    text = open(os.path.join(root, "compiler", "emit", "names.c")).read()
    for name in ("nest_words", "frame_words"):
        body = re.search(rf'{name}\[\] =\n((?:\s*"[^"]*"\n?)+);', text)
        found |= set("".join(re.findall(r'"([^"]*)"', body[1])).split())
    return sorted(word for word in found - LANGUAGE if not word.startswith(("ls_", "_")))


names = words(sys.argv[1])
if len(sys.argv) == 2:
    print("step words[outermost, fastest](x: f32[outermost, fastest], out y: f32[outermost, fastest],")
    print("    out total: f32[outermost], out columns_total: f32[fastest]) {")
    for number, name in enumerate(names):
        print(f"    let {name} = exp({names[number - 1] if number else 'x'})")
    together = " * ".join(names)
    print(f"    y = {together}\n    total = sum[fastest]({together})")
    print(f"    columns_total = sum[outermost]({together})\n}}")
for text in sys.argv[2:]:
    source = open(text).read()
    taken = [name for name in names if re.search(rf"\bconst f32 {name} = ", source)]
    renamed = sum(f"const f32 {name}_2 = " in source for name in names)
    print(f"{os.path.basename(text).split('.')[-1]}: kept: {' '.join(taken) or 'none'}; "
          f"renamed: {'all' if renamed == len(names) else renamed}")
