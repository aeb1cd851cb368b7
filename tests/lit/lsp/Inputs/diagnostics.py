"""Errors while typing: places in the client's units, edits, files that are open in the editor only."""
import unittest

from client import Test, apply, cut, marked, position

GOOD = "step s[n](x: f32[n], out y: f32[n]) {\n    y = x\n}\n"


class Diagnostics(Test):
    def found(self, text, name="a.step"):
        self.client.open(self.uri(name), text)
        return self.client.published(self.uri(name))

    def test_none(self):
        self.assertEqual(self.found(GOOD), [])
        self.assertEqual(self.client.versions[self.uri()], 1)

    def test_place_and_help(self):
        text = "step s[n](value: f32[n], out y: f32[n]) {\n    y = valu\n}\n"
        error, = self.found(text)
        self.assertEqual(cut(text, error["range"]), "valu")
        self.assertEqual((error["severity"], error["code"], error["source"]), (1, "unknown-name", "lockstep"))
        self.assertIn("help: did you mean `value`?", error["message"])
        self.assertEqual([r["message"] for r in error["relatedInformation"]], ["did you mean `value`?"])

    def test_notes_are_related(self):
        text = "step s[n](x: f32[n], out y: f32[n]) {\n    let a = x\n    let a = x\n    y = a\n}\n"
        error, = self.found(text)
        related, = error["relatedInformation"]
        self.assertEqual(cut(text, related["location"]["range"]), "a")
        self.assertEqual(related["location"]["range"]["start"]["line"], 1)
        self.assertEqual(related["location"]["uri"], self.uri())

    def test_units(self):
        """Characters outside of the basic plane are two units; the compiler counts characters, and bytes."""
        text = "step s[n](x: f32[n], out y: f32[n]) {\n    y = x # \u00e4\u20ac\U0001f600\n    \U0001f600 y = wrong\n}\n"
        places = {cut(text, e["range"]) for e in self.found(text)}
        self.assertIn("\U0001f600", places)
        text = "# \U0001f600\U0001f600\nstep s(out y: f32) {\n    y = if \"\U0001f600\" then 1.0 else 2.0\n}\n"
        for error in self.found(text, "b.step"):
            self.assertTrue(cut(text, error["range"]))

    def test_carriage_returns(self):
        text = "step s(out y: f32) {\r\n    y = wrong\r\n}\r\n"
        error, = self.found(text)
        self.assertEqual(error["range"]["start"], {"line": 1, "character": 8})
        self.assertEqual(error["range"]["end"], {"line": 1, "character": 13})

    def test_incremental_edits(self):
        """Edits as an editor sends them give what the whole text gives."""
        text = "# \U0001f600 \u00e4\nstep s[n](x: f32[n], out y: f32[n]) {\n    y = x # \U0001f600\n}\n"
        self.assertEqual(self.found(text), [])
        for version, (old, new) in enumerate((("x #", "xx #"), ("xx #", "x * 2.0 #"), ("\u00e4\n", "\U0001f600\u00e4\r\n"),
                                              ("2.0 # \U0001f600", "wrong # \U0001f600 \u00e4"), ("wrong", "x"),
                                              ("}\n", ""), ("* x", "* x\n}\n")), 2):
            start = text.index(old)
            span = {"start": position(text, start), "end": position(text, start + len(old))}
            self.client.edit(self.uri(), span["start"], span["end"], new, version)
            text = apply(text, [{"range": span, "newText": new}])
            found = self.client.published(self.uri())
            self.assertEqual(self.client.versions[self.uri()], version)
            self.assertEqual(found, [dict(e, relatedInformation=[dict(r, location=dict(r["location"], uri=self.uri())) for r in e[
                "relatedInformation"]]) for e in self.found(text, f"whole{version}.step")], text)

    def test_utf8(self):
        from client import Client
        client = Client(capabilities={"general": {"positionEncodings": ["utf-8", "utf-16"]}})
        self.assertEqual(client.server["capabilities"]["positionEncoding"], "utf-8")
        client.open("file:///u.step", "step s(out y: f32) {\n    \u00e4 y = 1.0\n}\n")
        error = client.published("file:///u.step")[0]
        self.assertEqual((error["range"]["start"]["character"], error["range"]["end"]["character"]), (4, 6))
        self.assertEqual(client.close(), 0)

    def test_unsaved_import(self):
        """An importer sees what the editor has, at once, and what is on disk once that is closed."""
        self.write("lib.step", "fn twice(a) = a + a\n")
        program = 'import "lib"\nstep s[n](x: f32[n], out y: f32[n]) {\n    y = thrice(x)\n}\n'
        error, = self.found(program)
        self.assertIn("thrice", error["message"])
        self.client.open(self.uri("lib.step"), "fn thrice(a) = 3 * a\n")
        self.assertEqual(self.client.published(self.uri()), [])
        self.client.change(self.uri("lib.step"), "fn thrice(a) = 3 * b\n")
        error, = self.client.published(self.uri())
        self.assertEqual(cut(program, error["range"]), "lib", "an error of another file stands at its import")
        self.assertEqual(error["relatedInformation"][0]["location"]["uri"], self.uri("lib.step"))
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri("lib.step")}})
        error, = self.client.published(self.uri())
        self.assertIn("thrice", error["message"])

    def test_import_appears(self):
        error, = self.found('import "later"\nstep s(out y: f32) {\n    y = f(1.0)\n}\n')
        self.assertEqual(error["code"], "import-missing")
        self.client.open(self.uri("later.step"), "fn f(a) = a\n")
        self.assertEqual(self.client.published(self.uri()), [])

    def test_closed(self):
        self.found("nonsense\n")
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": self.uri()}})
        self.assertEqual(self.client.published(self.uri()), [])

    def test_plans(self):
        """What only a plan tells comes when nothing is typed for a while."""
        text = """step s[t, b](x: f32[t, b], w: f32[b], inout h: f32[b], out dw: f32[b]) {
    for t {
        h = tanh(h * w + x)
    }
    dw = grad(sum(h * w), w)
}
"""
        self.assertEqual(self.found(text), [])
        error, = self.client.published(self.uri())
        self.assertEqual((error["code"], cut(text, error["range"])), ("grad-loop", "sum(h * w)"))
        self.client.change(self.uri(), GOOD, 2)
        self.assertEqual(self.client.published(self.uri()), [])
        self.assertIsNone(self.client.receive(1), "a program that can be built has no more messages")


if __name__ == "__main__":
    unittest.main()
