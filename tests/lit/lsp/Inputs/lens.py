"""Between the lines: inferred types, a line above each step; and the layout."""
import json
import math
import re
import subprocess
import unittest

from client import COMMAND, Client, Failed, Test, apply

TEXT = """step s[b, k](x: f32[b, k], out y: f32[b, k]) {
    let m = mean[k](x)
    let c, d = grad(sum(x * x), x, x)
    let two = 2.0
    y = scan[k](0.0, acc, acc + x) - m * two
}

step t[n](inout x: f32[n], seen: i64) {
    x *= f32(seen)
}
"""
GOOD = TEXT.replace("    let c, d = grad(sum(x * x), x, x)\n", "")


class Lens(Test):
    options = ("--size", "b=4K,k=256", "--peak", "100")

    def hints(self, text, first=0, last=100):
        self.client.open(self.uri(), text)
        result = self.client.request("textDocument/inlayHint", {"textDocument": {"uri": self.uri()}, "range": {
            "start": {"line": first, "character": 0}, "end": {"line": last, "character": 0}}})
        lines = text.split("\n")
        return [lines[h["position"]["line"]][:h["position"]["character"]].split()[-1] + h["label"] for h in result]

    def test_hints(self):
        self.assertEqual(self.hints(GOOD), ["m: f32[b]", "acc: f32[b, k]"])
        self.assertEqual(self.hints(GOOD, 2), ["acc: f32[b, k]"])
        self.assertEqual(self.hints(GOOD, 0, 1), ["m: f32[b]"])

    def test_hints_in_functions(self):
        """Of a function that is called with one type, or with several."""
        call = "step s[n](x: f32[n], out y: f32[n], h: f64[n], out z: f64[n]) {{\n    y = f(x)\n    z = {}\n}}\n"
        text = "fn f(a) {\n    let b = a * a\n    return b\n}\n"
        self.assertEqual(self.hints(text + call.format("h")), ["b: f32[n]"])
        self.assertEqual(self.hints(text + call.format("f(h)")), [])

    def lenses(self, text):
        self.client.open(self.uri(), text)
        result = self.client.request("textDocument/codeLens", {"textDocument": {"uri": self.uri()}})
        return [(l["range"]["start"]["line"], self.client.request("codeLens/resolve", l)["command"]["title"]) for l in result]

    def test_lenses(self):
        """The figures are those of explain."""
        (line, first), (_, second) = self.lenses(GOOD)
        self.assertEqual(line, 0)
        self.write("a.step", GOOD)
        text = subprocess.run([COMMAND, "explain", "--plan", self.path("a.step") + ":s", "--size", "b=4K,k=256", "--peak", "100"],
                              capture_output=True, text=True, check=True).stdout
        launches, moved = re.search(r"(\d+) launch\w*, ([\d.]+ \w+) moved", text).groups()
        self.assertTrue(first.startswith(f"{launches} launch"), first)
        self.assertIn("bytes per element of b x k", first)
        self.assertIn(f"for {moved} at 100 GB/s, b=4096 k=256", first)
        self.assertRegex(second, r"^1 launch · 8.01 bytes per element of n · .* n=1024$")

    def test_time(self):
        """Predicted by the model of advise, which knows of operations: far from what memory alone would take."""
        hot = "step s[b, k](x: f32[b, k], out y: f32[b, k]) {\n    y = tanh(exp(x) * sin(x) + log(1 + x * x))\n}\n"
        self.write("hot.step", hot)
        found = subprocess.run([COMMAND, "advise", self.path("hot.step"), "--size", "b=4K,k=256", "--peak", "100", "--device", "cpu",
                                "--json"], capture_output=True, text=True, check=True).stdout
        advised = json.loads(found)["time_s"]
        ((_, title),) = self.lenses(hot)
        number, unit = re.search(r" · ([\d.]+) (us|ms|s) \(instructions\) for 8.0+ MiB at 100 GB/s", title).groups()
        shown = float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]
        self.assertLess(abs(math.log2(shown / advised)), 4, (shown, advised))  # the CPU, which may be busy, is measured anew
        self.assertGreater(shown, 2 * (8 << 20) / 100e9)

    def test_no_time(self):
        """Where nothing can be measured."""
        client = Client("--peak", "100", environment={"LOCKSTEP_CC": "/none", "LOCKSTEP_CACHE": "off"})
        client.open("file:///l.step", GOOD)
        result = client.request("textDocument/codeLens", {"textDocument": {"uri": "file:///l.step"}})
        titles = [client.request("codeLens/resolve", l)["command"]["title"] for l in result]
        self.assertRegex(titles[0], r"^2 launches · .* · no time: .*/none")
        self.assertEqual(client.close(), 0)

    def test_no_plan(self):
        (_, title), _ = self.lenses(GOOD.replace("mean[k](x)", "wrong"))
        self.assertEqual(title, "no plan: the file has errors")
        with self.assertRaises(Failed):
            self.client.request("codeLens/resolve", {"data": {"uri": "file:///none", "step": "s"}, "range": {}})

    def test_settings(self):
        client = Client(initializationOptions={"sizes": {"n": "1M", "b": 3}, "peak": 10})
        client.open("file:///l.step", GOOD)
        result = client.request("textDocument/codeLens", {"textDocument": {"uri": "file:///l.step"}})
        titles = [client.request("codeLens/resolve", l)["command"]["title"] for l in result]
        self.assertIn("at 10 GB/s, b=3 k=1024", titles[0])
        self.assertIn("at 10 GB/s, n=1048576", titles[1])
        self.assertEqual(client.close(), 0)

    def format(self, text):
        self.client.open(self.uri("f.step"), text)
        return self.client.request("textDocument/formatting", {"textDocument": {"uri": self.uri("f.step")}, "options": {
            "tabSize": 4, "insertSpaces": True}})

    def test_format(self):
        self.assertEqual(self.format(GOOD), [])
        ugly = "# \U0001f600\nstep   s[n](x:f32[n],out y:f32[n]){\n  y=x   *2.0 # \u00e4\n\n\n}"
        self.write("f.step", ugly)
        subprocess.run([COMMAND, "fmt", self.path("f.step")], check=True)
        with open(self.path("f.step")) as file:
            self.assertEqual(apply(ugly, self.format(ugly)), file.read())
        with self.assertRaises(Failed) as raised:
            self.format("step s[")
        self.assertEqual(raised.exception.code, -32803)


if __name__ == "__main__":
    unittest.main()
