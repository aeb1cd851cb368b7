"""Hover, definition, references, highlights, symbols, completion, signatures."""
import os
import unittest

from client import Test, apply, cut, position

TEXT = """# A file.
import "std/norms" as norms
import "lib"
const beta = 0.9 # the decay

# The square.
fn square(a) = a * a
# One update.
step update[b, k = 64](
    x: f32[b, k],          # the inputs
    inout w: f32[k],
    out y: f32[b, k],
    lr: f32 = 0.01,
) {
    let scale = rsqrt(mean[k](x ** 2) + 1e-6)
    let z = square(x) * scale * beta
    when lr > 0.0 {
        let inner = lr * 2.0
        w -= inner * sum[b](z * x)
    }
    let run = scan[k](0.0, acc, acc + x)
    y = twice(z + run) + norms.norm_scale(lr, lr)
}
step update_bwd[b, k](x: f32[b, k], out y: f32[b, k]) {
    other(u = x, v = y)
}
step other[b, k](u: f32[b, k], out v: f32[b, k]) {
    v = u
}
"""
LIB = "# Doubles.\nfn twice(a) = a + a\n"


def read(path):
    with open(path) as file:
        return file.read()


class Names(Test):
    def setUp(self):
        super().setUp()
        self.write("lib.step", LIB)
        self.client.open(self.uri(), TEXT)

    def place(self, before, name):
        """Of `name` behind the text `before`."""
        return self.client.at(self.uri(), position(TEXT, TEXT.index(before + name) + len(before)))

    def hover(self, before, name):
        result = self.client.request("textDocument/hover", self.place(before, name))
        self.assertIn(name, cut(TEXT, result["range"]))
        return result["contents"]["value"]

    def test_hover(self):
        for before, name, facts in (
                ("", "beta", ["const beta = 0.9", "value: `0.9`", "the decay"]),
                ("fn ", "square", ["fn square(a) = a * a", "The square."]),
                ("step ", "update", ["step update[b, k = 64](x: f32[b, k], inout w: f32[k], out y: f32[b, k], lr: f32 = 0.01)",
                                     "One update."]),
                ("inout ", "w", ["inout w: f32[k]", "type: `f32[k]`", "shape: 64", "parameter of `update`"]),
                ("let ", "scale", ["type: `f32[b]`", "error: at most 7.502 * 2^-24 of the value where sums have up to 1,024 "
                                   "elements, 5 more for each factor of 1,024"]),
                ("let ", "z", ["type: `f32[b, k]`", "shape: b x 64"]),
                ("", "rsqrt", ["rsqrt(x)", "1 / sqrt(x)"]),
                ("0.0, ", "acc", ["running value of a scan", "type: `f32[b, k]`"]),
                ("", "twice", ["fn twice(a) = a + a", "Doubles."]),
                ("norms.", "norm_scale", ["norm_scale"]),
                ("[b, ", "k", ["k = 64", "axis of `update`"])):
            text = self.hover(before, name)
            for fact in facts:
                self.assertIn(fact, text)

    def test_hover_of_expressions(self):
        text = self.hover("k](x ", "** 2")
        self.assertIn("x ** 2", text)
        self.assertIn("error: at most 1 * 2^-24 of the value", text)
        self.assertIsNone(self.client.request("textDocument/hover", self.client.at(self.uri(), {"line": 4, "character": 0})))

    def test_bounds(self):
        """What follows from how a value is written, and what does not."""
        for value, bound in (("x * x", "at most 1 * 2^-24 of the value"), ("x * x * x", "at most 2 * 2^-24 of the value"),
                             ("x ** 3", "at most 2 * 2^-24 of the value"), ("-abs(x)", "exact"), ("x * y + y", None),
                             ("x * x + abs(y)", "at most 2 * 2^-24 of the value"), ("sqrt(x * x)", "at most 1.5 * 2^-24 of the value"),
                             ("exp(x)", "at most 1.78 * 2^-24 of the value"), ("exp(x * y)", None), ("x - y", "at most 1 * 2^-24 of the value"),
                             ("sum[t, n](x * x)", "at most 21 * 2^-24 of the value where sums have up to 1,024 elements, 20 more for each "
                              "factor of 1,024"), ("sum[n](x)", None), ("bf16(x)", "at most 3.277e+04 * 2^-24 of the value"),
                             ("square(x)", "at most 1 * 2^-24 of the value"), ("lerp(x, y, 0.5)", None), ("f64(x)", "exact"),
                             ("f64(x) * f64(y)", "at most 1 * 2^-53 of the value"), ("if x > y then x else y", "exact"),
                             ("tanh(x) + tanh(y)", None)):
            text = (f"fn square(a) = a * a\nstep s[t, n of t](x: f32[t, n], y: f32[t, n], inout seen: bool) {{\n    let a = {value}\n"
                    "    seen = any(isnan(x + f32(a)))\n}\n")
            self.client.open(self.uri("c.step"), text)
            self.assertEqual(self.client.published(self.uri("c.step")), [], value)
            found = self.client.request("textDocument/hover", self.client.at(self.uri("c.step"), position(text, text.index("let a") + 4)))
            lines = [line for line in found["contents"]["value"].split("\n") if line.startswith("error: ")]
            self.assertEqual(lines, [f"error: {bound}"] if bound else [], value)

    def definition(self, before, name):
        result = self.client.request("textDocument/definition", self.place(before, name))
        if result is None:
            return None
        path = result["uri"][len("file://"):]
        text = TEXT if result["uri"] == self.uri() else read(path)
        return os.path.basename(path), cut(text, result["range"]), result["range"]["start"]["line"]

    def test_definition(self):
        self.assertEqual(self.definition("scale * ", "beta"), ("a.step", "beta", 3))
        self.assertEqual(self.definition("z = ", "square"), ("a.step", "square", 6))
        self.assertEqual(self.definition("y = ", "twice"), ("lib.step", "twice", 1))
        self.assertEqual(self.definition('import "', "lib"), ("lib.step", "", 0))
        self.assertEqual(self.definition("norms.", "norm_scale")[:2], ("norms.step", "norm_scale"))
        self.assertEqual(self.definition("", "norms.norm_scale"), ("a.step", "norms", 1))
        self.assertEqual(self.definition("mean[", "k"), ("a.step", "k", 8))
        self.assertEqual(self.definition("acc, ", "acc"), ("a.step", "acc", 20))
        self.assertEqual(self.definition("other(", "u"), ("a.step", "u", 26))
        self.assertEqual(self.definition("w -= ", "inner"), ("a.step", "inner", 17))
        self.assertIsNone(self.definition("", "rsqrt"))

    def test_library_is_written_once_and_kept_right(self):
        result = self.client.request("textDocument/definition", self.place("norms.", "norm_scale"))
        path = result["uri"][len("file://"):]
        right = read(path)
        with open(path, "w") as file:
            file.write("changed")
        self.client.request("textDocument/definition", self.place("norms.", "norm_scale"))
        self.assertEqual(read(path), right)

    def test_references(self):
        def found(declaration):
            result = self.client.request("textDocument/references", dict(self.place("z = ", "square"), context={
                "includeDeclaration": declaration}))
            return sorted(r["range"]["start"]["line"] for r in result)
        self.assertEqual(found(True), [6, 15])
        self.assertEqual(found(False), [15])

    def test_highlight(self):
        result = self.client.request("textDocument/documentHighlight", self.place("inout ", "w"))
        self.assertEqual([r["range"]["start"]["line"] for r in result], [10, 18])

    def test_symbols(self):
        result = self.client.request("textDocument/documentSymbol", {"textDocument": {"uri": self.uri()}})
        self.assertEqual([s["name"] for s in result], ["norms", "beta", "square", "update", "update_bwd", "other"])
        update = result[3]
        self.assertEqual([c["name"] for c in update["children"]],
                         ["b", "k", "x", "w", "y", "lr", "scale", "z", "inner", "run", "acc"])
        self.assertEqual(cut(TEXT, update["range"]).split("\n")[-1], "}")
        self.assertEqual(cut(TEXT, update["selectionRange"]), "update")

    def labels(self, text, name="c.step"):
        result = self.client.request("textDocument/completion", self.open(text, name))
        return {item["label"]: item for item in result}

    def test_completion_of_names(self):
        found = self.labels(TEXT.replace("w -= inner", "w -= inn|er"))
        self.assertFalse({"inner", "scale", "z", "x", "w", "k", "lr", "beta", "square", "twice", "norms", "update", "exp",
                              "sum", "f32", "let", "softmax_forward"} - set(found))
        self.assertNotIn("run", found, "what is bound below")
        self.assertNotIn("u", found, "of another step")
        self.assertEqual(found["square"]["detail"], "fn square(a) = a * a")
        self.assertEqual(found["z"]["detail"], "f32[b, k]")
        order = sorted(found.values(), key=lambda item: item["sortText"])
        self.assertLess(order.index(found["inner"]), order.index(found["exp"]))
        self.assertLess(order.index(found["exp"]), order.index(found["softmax_forward"]))

    def test_completion_imports(self):
        found = self.labels(TEXT.replace("y = twice", "y = |twice"))
        edit = found["softmax_forward"]["additionalTextEdits"]
        text = apply(TEXT, edit)
        self.assertEqual(text.split("\n")[3][:12], 'import "std/')
        bare = self.labels("step s(out y: f32) {\n    y = |\n}\n", "bare.step")
        self.assertEqual(apply("step", bare["softmax_forward"]["additionalTextEdits"]).split("\n")[1], "step")
        self.assertNotIn("inner", bare)

    def test_completion_behind_a_dot(self):
        found = self.labels(TEXT.replace("norms.norm_scale(lr, lr)", "norms.|"))
        self.assertIn("norm_scale", found)
        self.assertNotIn("exp", found)

    def test_completion_of_arguments(self):
        found = self.labels(TEXT.replace("other(u = x, v = y)", "other(|"))
        self.assertIn("u = ", found)
        self.assertIn("v = ", found)
        self.assertNotIn("lr = ", found)

    def test_completion_of_paths(self):
        found = self.labels('import "std/|"\n')
        self.assertFalse({"std/norms", "std/optim", "lib.step"} - set(found))
        self.assertNotIn("exp", found)

    def test_no_completion_in_comments(self):
        self.assertEqual(self.labels("# so |\n"), {})

    def test_signature(self):
        result = self.client.request("textDocument/signatureHelp", self.open(
            TEXT.replace("other(u = x, v = y)", "other(u = x, |"), "c.step"))
        self.assertEqual(result["signatures"][0]["label"], "step other[b, k](u: f32[b, k], out v: f32[b, k])")
        self.assertEqual(result["activeParameter"], 1)
        result = self.client.request("textDocument/signatureHelp", self.open("fn f(a) = clamp(a, 0.0, |", "d.step"))
        self.assertEqual(result["signatures"][0]["label"], "clamp(x, low, high)")
        self.assertEqual(result["activeParameter"], 2)
        self.assertIsNone(self.client.request("textDocument/signatureHelp", self.open("fn f(a) = |a\n", "e.step")))

    def test_broken_text(self):
        """Names are there while a statement, a head or the end is missing."""
        for text in (TEXT.replace("let run = scan[k](0.0, acc, acc + x)", "let run = scal|"),
                     TEXT.replace("y = twice(z + run) + norms.norm_scale(lr, lr)\n}", "y = |"),
                     TEXT.replace("lr: f32 = 0.01,\n) {", "lr: f32 = ,\n) {\n|")):
            found = self.labels(text)
            self.assertFalse({"x", "w", "k", "beta"} - set(found), text)


if __name__ == "__main__":
    unittest.main()
