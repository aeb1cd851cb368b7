"""FILE WORD:COUNT...: how many instructions of an assembly text begin with each word."""
import sys

with open(sys.argv[1]) as file:
    first = [words[1] if words[0].startswith("@") else words[0] for words in map(str.split, file) if len(words) > 1]
for wanted in sys.argv[2:]:
    word, count = wanted.rsplit(":", 1)
    found = sum(name.startswith(word) for name in first)
    if found != int(count):
        sys.exit(f"{found} {word}, expected {count}")
