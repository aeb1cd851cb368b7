"""Prints 'N passed, N failed[, N skipped]' for a result file of lit; exits 1 unless all is well."""
import collections
import json
import sys

codes = collections.Counter(test["code"] for test in json.load(open(sys.argv[1]))["tests"])
passed = codes["PASS"] + codes["FLAKYPASS"] + codes["XFAIL"]
skipped = codes["UNSUPPORTED"] + codes["SKIPPED"] + codes["EXCLUDED"]
failed = sum(codes.values()) - passed - skipped
print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
sys.exit(1 if failed or not passed else 0)
