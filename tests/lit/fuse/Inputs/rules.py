"""rules.py COMPILER/FUSE TESTS...: the rules of check*.c that no text test has seen broken."""
import glob
import re
import sys

rules = set()
for path in glob.glob(sys.argv[1] + "/check*.c"):
    text = re.sub(r'"\s*"', "", re.sub(r"/\*.*?\*/", "", open(path).read(), flags=re.S))
    for string in re.findall(r'"((?:[^"\\]|\\.)*)"', text):
        string = string.rpartition("%s: ")[2]
        if string.count(" ") > 2 and "%" not in string:
            rules.add(string)
tests = "".join(open(path).read() for path in sys.argv[2:])
unseen = [rule for rule in sorted(rules) if rule not in tests]
for rule in unseen:
    print("no test breaks:", rule)
print(f"{len(rules)} rules, {len(unseen)} not seen to fire")
