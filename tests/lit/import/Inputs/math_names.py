"""Holds what the language page says of <math.h> against the header: the functions of f32 that are texts are
those it names, and those of C11 that are not there are those it says so of.    math_names.py PAGE HEADER"""
import re
import sys

C11 = """acos asin atan atan2 cos sin tan acosh asinh atanh cosh sinh tanh exp exp2 expm1 frexp ilogb ldexp log log10
log1p log2 logb modf scalbn scalbln cbrt fabs hypot pow sqrt erf erfc lgamma tgamma ceil floor nearbyint rint lrint
llrint round lround llround trunc fmod remainder remquo copysign nan nextafter nexttoward fdim fmax fmin fma"""
HYPERBOLIC = {"sinhf", "coshf", "asinhf", "acoshf", "atanhf"}  # the page names them so; tanhf is the device's

with open(sys.argv[1], encoding="utf-8") as file:
    page = " ".join(file.read().split())
with open(sys.argv[2], encoding="utf-8") as file:
    header = file.read()
SENTENCE = "the rest of f32, `([^`]*)`, the hyperbolic ones and .*?; (what answers .*?) are not there"
named, missing = re.search(SENTENCE, page).groups()
named = set(named.split()) | HYPERBOLIC
missing = {name for words in re.findall(r"`([^`]*)`", missing) for name in words.split()}
texts = set(re.findall(r"^static inline [a-z ]+ ([a-z0-9]+f)\(", header, re.MULTILINE))
there = texts | set(re.findall(r"^#define ([a-z0-9]+f) ls_", header, re.MULTILINE))
absent = {name + "f" for name in C11.split()} - there
wrong = [(texts - named, "a text that the page does not name"),
         (named - texts, "named on the page, but no text"),
         (absent - missing, "not there, and the page does not say so"),
         (missing - absent, "there, though the page says that it is not")]
for names, what in wrong:
    for name in sorted(names):
        print(f"{name}: {what}")
sys.exit(any(names for names, _ in wrong))
