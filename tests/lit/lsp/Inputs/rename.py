"""Rename: every place and no other, in all files, or a refusal."""
import unittest

from client import Failed, Test, apply, cut, position

TEXT = """const rate = 0.1
fn half(value) = value / 2
step s[n](x: f32[n], inout y: f32[n], scale: f32 = 1.0) {
    let a = half(x) * rate
    when scale > 0.0 {
        let inner = a * scale
        y = inner
    }
    let r = scan[n](0.0, acc, acc + a)
    y += r
}
step t[n](x: f32[n], inout y: f32[n]) {
    s(x = x, y = y)
}
"""


class Rename(Test):
    def rename(self, text, before, new, name="a.step"):
        place = position(text, text.index(before) + len(before))
        return self.client.request("textDocument/rename", self.client.at(self.uri(name), place, newName=new))["changes"]

    def refused(self, before, new, message):
        with self.assertRaises(Failed) as raised:
            self.rename(TEXT, before, new)
        self.assertIn(message, str(raised.exception))

    def setUp(self):
        super().setUp()
        self.client.open(self.uri(), TEXT)

    def test_names(self):
        for before, old, new, count in (
                ("const ", "rate", "speed", 2), ("fn ", "half", "halved", 2), ("half(", "value", "v", 2), ("step s[", "n", "m", 4),
                ("s[n](", "x", "input", 3), ("inout ", "y", "result", 4), ("let ", "a", "all_of_it", 3), ("scan[n](0.0, ", "acc", "sum", 2),
                ("        let ", "inner", "hidden", 2), ("step ", "s", "first", 2), ("1.0) {\n    let ", "a", "exp", 3)):
            edits = self.rename(TEXT, before, new)[self.uri()]
            self.assertEqual({cut(TEXT, e["range"]) for e in edits}, {old})
            self.assertEqual(len(edits), count, (before, old))
            self.client.open(self.uri("b.step"), apply(TEXT, edits))
            self.assertEqual(self.client.published(self.uri("b.step")), [])

    def test_refused(self):
        self.refused("let ", "x", "`x` is already a parameter")
        self.refused("const ", "x", "`rate` would mean another thing then")
        self.refused("const ", "scale", "a.step:4:23: `rate` would mean another thing then")
        self.refused("        let ", "a", "would be an error")
        self.refused("0.0, ", "a", "`a` is already")
        self.refused("const ", "let", "would be an error")
        self.refused("const ", "f32", "would be an error")
        self.refused("const ", "two words", "is no name")
        self.refused("const ", "", "is no name")
        self.refused("    let r = ", "x", "a function of the language")
        self.refused("a = half(x) ", "x", "no name here")

    def test_refused_with_errors(self):
        self.client.change(self.uri(), TEXT.replace("y += r", "y += wrong"))
        self.refused("const ", "speed", "has errors, so that names may be missed")

    def test_function_that_hides_one_of_the_language(self):
        text = "fn mine(a) = a\nstep s[n](x: f32[n], out y: f32[n]) {\n    y = mine(x) + exp(x)\n}\n"
        self.client.open(self.uri("c.step"), text)
        with self.assertRaises(Failed) as raised:
            self.rename(text, "fn ", "exp", "c.step")
        self.assertIn("c.step:3:19: `exp` would mean another thing then", str(raised.exception))

    def test_derived_names(self):
        text = ("step f[n](x: f32[n], out y: f32[n]) {\n    y = x * x\n}\nstep b = backward f\n"
                "step c[n](x: f32[n], d: f32[n], out e: f32[n]) {\n    b(x = x, dy = d, dx = e)\n}\n")
        self.client.open(self.uri("d.step"), text)
        with self.assertRaises(Failed):
            self.rename(text, "step f[n](", "z", "d.step")
        edits = self.rename(text, "step ", "forward", "d.step")[self.uri("d.step")]
        self.assertEqual(len(edits), 2)

    def test_prepare(self):
        place = self.client.at(self.uri(), position(TEXT, TEXT.index("rate\n    when")))
        result = self.client.request("textDocument/prepareRename", place)
        self.assertEqual((cut(TEXT, result["range"]), result["placeholder"]), ("rate", "rate"))
        with self.assertRaises(Failed):
            self.client.request("textDocument/prepareRename", self.client.at(self.uri(), {"line": 0, "character": 1}))


class Files(Test):
    """A name of one file, in files of the workspace that are open and that are not."""
    def setUp(self):
        super().setUp()
        self.client.close()
        from client import Client
        self.client = Client(rootUri=self.uri(""))
        self.lib = "fn twice(a) = a + a\nconst two = 2\n"
        self.open_user = 'import "lib"\nstep s[n](x: f32[n], out y: f32[n]) {\n    y = twice(x)\n}\n'
        self.closed_user = 'import "lib" as l\nstep s[n](x: f32[n], out y: f32[n]) {\n    y = l.twice(x) * l.two\n}\n'
        self.other = "fn twice(a) = 2 * a\n"
        self.write("lib.step", self.lib)
        self.write("closed.step", self.closed_user)
        self.write("other.step", self.other)
        self.client.open(self.uri("open.step"), self.open_user)

    def rename(self, new):
        place = position(self.open_user, self.open_user.index("twice"))
        return self.client.request("textDocument/rename", self.client.at(self.uri("open.step"), place, newName=new))["changes"]

    def test_all_files(self):
        changes = self.rename("doubled")
        self.assertEqual(set(changes), {self.uri("lib.step"), self.uri("open.step"), self.uri("closed.step")})
        self.assertEqual(apply(self.closed_user, changes[self.uri("closed.step")]), self.closed_user.replace("twice", "doubled"))
        self.assertEqual(apply(self.lib, changes[self.uri("lib.step")]), self.lib.replace("twice", "doubled"))

    def test_references_of_all_files(self):
        place = position(self.open_user, self.open_user.index("twice"))
        result = self.client.request("textDocument/references", self.client.at(
            self.uri("open.step"), place, context={"includeDeclaration": True}))
        self.assertEqual(sorted(r["uri"] for r in result), sorted(self.uri(n) for n in ("lib.step", "open.step", "closed.step")))

    def test_unsaved(self):
        self.client.open(self.uri("closed.step"), self.closed_user.replace("l.twice(x)", "l.twice(l.twice(x))"))
        self.assertEqual(len(self.rename("doubled")[self.uri("closed.step")]), 2)

    def test_refused_for_another_file(self):
        self.write("closed.step", self.closed_user + "fn doubled(a) = nothing\n")
        with self.assertRaises(Failed) as raised:
            self.rename("doubled")
        self.assertIn("closed.step has errors", str(raised.exception))
        self.write("closed.step", self.open_user + "fn doubled(a) = a\n")
        with self.assertRaises(Failed) as raised:
            self.rename("doubled")
        self.assertIn("would mean another thing", str(raised.exception))

    def test_library(self):
        text = 'import "std/norms"\nstep s(a: f32, out y: f32) {\n    y = norm_scale(a, a)\n}\n'
        self.client.open(self.uri("d.step"), text)
        place = position(text, text.index("norm_scale"))
        with self.assertRaises(Failed) as raised:
            self.client.request("textDocument/rename", self.client.at(self.uri("d.step"), place, newName="x"))
        self.assertIn("belongs to the standard library", str(raised.exception))


if __name__ == "__main__":
    unittest.main()
