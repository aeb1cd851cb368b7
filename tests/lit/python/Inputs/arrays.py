"""lockstep on NumPy's arrays."""

import ctypes as C
import io
import contextlib
import sys
import unittest
import xml.etree.ElementTree

sys.path.insert(0, sys.argv.pop(1))
import numpy  # noqa: E402
import lockstep  # noqa: E402
from lockstep import _notebook, _plan  # noqa: E402

DOUBLE = "step double[n](x: f32[n], out y: f32[n]) { y = 2 * x }"


class Exported:
    """An array that has `__dlpack__` and nothing else, as those of other frameworks."""

    def __init__(self, array, old=False):
        self.array, self.old = array, old

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("no max_version here")
        return self.array.__dlpack__(**options)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.double = lockstep.Step(DOUBLE)

    def test_numpy(self):
        x = numpy.arange(12, dtype="f4").reshape(3, 4)
        rows = lockstep.Step(
            "step rows[b, c](x: f32[b, c], out y: f32[b], out p: f32[b, c]) {\n"
            "    y = sum[c](x)\n    p = x\n}"
        )
        y, p = rows(x.T)  # as it lies
        self.assertIsInstance(y, numpy.ndarray)
        numpy.testing.assert_array_equal(y, x.sum(0))
        numpy.testing.assert_array_equal(p, x.T)
        numpy.testing.assert_array_equal(self.double(x[1, ::-2]), 2 * x[1, ::-2])
        self.assertEqual(self.double(numpy.empty(0, "f4")).shape, (0,))
        total = lockstep.Step("step t[n](x: f64[n], by: f64 = 1.0, out s: f64) { s = by * sum(x) }")
        self.assertEqual(total(numpy.ones(5), by=numpy.float64(2)), 10)
        self.assertEqual(total(numpy.ones(5), by=numpy.array(3.0)).shape, ())
        packed = lockstep.Step(
            "step half[b, h, w = 2 * h + 1](x: f32[b, w], out y: f32[b, h]) { y = 1 }"
        )
        self.assertEqual(packed(numpy.ones((3, 9), "f4")).shape, (3, 4))
        with self.assertRaisesRegex(lockstep.LockstepError, "`w`"):
            packed(numpy.ones((3, 8), "f4"))
        halved = lockstep.Step("step half[h, w = h // 2](x: f32[w], out y: f32[h]) { y = 1 }")
        with self.assertRaisesRegex(lockstep.LockstepError, "`h` of `y` is does not follow"):
            halved(numpy.ones(4, "f4"))
        with self.assertRaisesRegex(
            lockstep.LockstepError, "`x` of step double .*f32|f32.*`x`|f64 array"
        ):
            self.double(numpy.ones(3))

    def test_readonly(self):
        x = numpy.ones(3, "f4")
        x.flags.writeable = False
        numpy.testing.assert_array_equal(self.double(x), [2, 2, 2])
        numpy.testing.assert_array_equal(self.double(memoryview(x)), [2, 2, 2])
        for out in (x, memoryview(x)):
            with self.assertRaisesRegex(
                lockstep.LockstepError, "`y` of step double is written, and the array is"
            ):
                self.double(numpy.ones(3, "f4"), y=out)

    def test_dlpack(self):
        for old in (False, True):
            x = numpy.arange(6, dtype="f4").reshape(2, 3)
            numpy.testing.assert_array_equal(self.double(Exported(x[1], old)), [6, 8, 10])
            numpy.testing.assert_array_equal(self.double(Exported(x[:, 1], old)), [2, 8])
            out = numpy.zeros(3, "f4")
            self.double(Exported(x[0], old), y=Exported(out, old))
            numpy.testing.assert_array_equal(out, [0, 2, 4])
        with self.assertRaisesRegex(lockstep.LockstepError, "type 5 with 64 bits"):
            self.double(Exported(numpy.ones(3, "c8")))

        class Elsewhere(Exported):  # on a GPU, as the capsule says
            def __dlpack__(self, **options):
                capsule = super().__dlpack__()
                pointer = C.pythonapi.PyCapsule_GetPointer
                pointer.restype, pointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]
                C.c_int.from_address(pointer(capsule, b"dltensor") + 8).value = 2
                return capsule

        with self.assertRaisesRegex(
            lockstep.LockstepError, "`x` of step double is on device 2:0 of DLPack's"
        ):
            self.double(Elsewhere(x[0]))

    def test_lists(self):
        p, m, v, g = ([numpy.full(n, start, "f4") for n in (3, 1, 0)] for start in (1, 0, 0, 2))
        count = lockstep.Step("std/optim:adamw")(p, m, v, g, lr=0.5, decay=0)
        self.assertEqual(count, 1)
        numpy.testing.assert_array_equal(p[0], [0.5] * 3)
        with self.assertRaisesRegex(
            TypeError, "`p` of step adamw is a list of tensors, and a ndarray was given"
        ):
            lockstep.Step("std/optim:adamw")(p[0], m, v, g)

    def test_decorator(self):
        @lockstep.step
        def scale(x, by=2.0):
            """step scale[n](x: f32[n], by: f32 = 2.0, out y: f32[n]) { y = by * x }"""

        numpy.testing.assert_array_equal(scale(numpy.ones(2, "f4"), by=3), [3, 3])
        self.assertIn("step scale[n]", scale.__doc__)
        with self.assertRaisesRegex(TypeError, "the docstring of bare is to be the step's text"):

            @lockstep.step
            def bare(x):
                pass

        line = sys._getframe().f_lineno + 4  # where `wrong` is multiplied
        with self.assertRaises(lockstep.CompileError) as caught:
            lockstep.step("""
                step bad[n](x: f32[n], out y: f32[n]) {
                    y = x * wrong
                }
            """)
        self.assertIn(
            f"arrays.py:{line}:29: error: nothing here is named `wrong`", str(caught.exception)
        )
        self.assertRegex(str(caught.exception), r"\n {2,}y = x \* wrong\n +\^~~~~")
        numpy.testing.assert_array_equal(
            lockstep.step(
                "const k = 2.0\nstep k2[n](x: f32[n], out y: f32[n]) { y = k * x }", k=5.0
            )(numpy.ones(1, "f4")),
            [5],
        )

    def test_graph(self):
        step = lockstep.Step(
            "step add[n](inout x: f32[n], by: f32, inout count: i64) { x += by\n count += 1 }"
        )
        x, by, count = numpy.zeros(4, "f4"), numpy.array(1, "f4"), numpy.array(0)
        with lockstep.graph() as g:
            step(x, by, count)
            doubled = self.double(x)
        self.assertEqual((x[0], count), (0, 0))  # recorded, not run
        g.launch()
        numpy.testing.assert_array_equal(doubled, [2] * 4)
        by[()] = 3  # read at each replay
        g.repeat(10)
        numpy.testing.assert_array_equal(doubled, [62] * 4)
        self.assertEqual(count, 11)
        self.assertEqual((g.statistics()["launches"], g.statistics()["replays"]), (2, 11))
        numpy.testing.assert_array_equal(
            self.double(numpy.ones(1, "f4")), [2]
        )  # as before, not recorded
        with self.assertRaisesRegex(ValueError, "mine"):
            with lockstep.graph() as g:
                step(x, by, count)
                raise ValueError("mine")
        with self.assertRaisesRegex(
            lockstep.LockstepError, "nothing was recorded yet, or the recording failed"
        ):
            g.launch()
        with self.assertRaisesRegex(lockstep.LockstepError, "`n`|f32"):
            with lockstep.graph() as g:
                step(numpy.zeros(3, "f8"), by, count)
        with self.assertRaisesRegex(lockstep.LockstepError, "inside of another"):
            with lockstep.graph(), lockstep.graph():
                pass
        self.assertEqual(count, 11)
        step(x, by, count)
        self.assertEqual(count, 12)

    def test_batch_invariance(self):
        """A row's results have the same bits alone and among others."""
        random = numpy.random.default_rng(0)
        x, gain = random.standard_normal((64, 1000), "f4"), random.standard_normal(1000, "f4")
        target = random.integers(0, 1000, 64)
        log_probability = lockstep.Step(
            "step lp[b, c](x: f32[b, c], target: i64[b], out y: f32[b]) {\n"
            "    y = x[b, target] - logsumexp[c](x)\n}"
        )
        for name, step, more in (
            ("rms_norm", lockstep.Step("std/norms:rms_norm_forward"), (gain,)),
            ("softmax", lockstep.Step("std/activations:softmax_forward"), ()),
            ("log-probability", log_probability, None),
        ):

            def rows(b):
                result = step(x[:b], *((target[:b],) if more is None else more))
                return result[0] if isinstance(result, tuple) else result

            every = rows(64)
            for b in (1, 7):
                with self.subTest(name, batch=b):
                    self.assertEqual(rows(b).tobytes(), every[:b].tobytes())

    def test_magic(self):
        class Shell:
            execution_count, user_ns = 7, {}

        shown = []
        shell, show, _notebook.show = Shell(), _notebook.show, shown.append
        try:
            out, error = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
                _notebook.run_cell(
                    shell, "n=1K", DOUBLE + "\nstep half[n](x: f32[n], out y: f32[n]) { y = x / 2 }"
                )
                _notebook.run_cell(
                    shell, "", "step a[n](x: f32[n], out y: f32[n]) {\n    y = x * z\n}"
                )
                _notebook.run_cell(shell, "n=many", DOUBLE)
                _notebook.run_cell(shell, "m=3", DOUBLE)
        finally:
            _notebook.show = show
        numpy.testing.assert_array_equal(shell.user_ns["half"](numpy.ones(1, "f4")), [0.5])
        self.assertRegex(
            out.getvalue(),
            r"<step double\[n\].*\ndouble: [\d.]+ us a call, [\d.e-]+ GB/s\n<step half",
        )
        self.assertEqual(len(shown), 2)
        self.assertIn("half: 1 launch, 8 KiB moved, at least 8 KiB", shown[1]._repr_svg_())
        self.assertIn(
            "In[7]:2:13: error: nothing here is named `z`\n      y = x * z\n              ^",
            error.getvalue(),
        )
        self.assertIn("`n=many` is no length of an axis", error.getvalue())
        self.assertIn("no step of the cell has an axis `m`", error.getvalue())

    def test_drawing_of_loops(self):
        """The bytes of an iteration are called so, with what a launch moves once beside them."""
        step = lockstep.step(
            """step powers_of_all_those_rows[t, b](x: f32[t, b], inout a_state_with_such_a_long_name: f32[b]) {
                for t { a_state_with_such_a_long_name = a_state_with_such_a_long_name * x }
            }"""
        )
        drawn = _plan.drawing(step, {"t": 40, "b": 1 << 20})
        self.assertIn(", for t</text>", drawn)
        self.assertIn("8 MiB read, 4 MiB written in an iteration</text>", drawn)
        self.assertNotIn("once", drawn)
        root = xml.etree.ElementTree.fromstring(drawn)
        width = float(root.get("width"))
        for text in root.iter("{http://www.w3.org/2000/svg}text"):
            at, size = float(text.get("x")), 7 * len(text.text)
            begin = {"middle": at - size / 2, "end": at - size}.get(text.get("text-anchor"), at)
            self.assertGreaterEqual(begin, 0, text.text)
            self.assertLessEqual(begin + size, width, text.text)
        kernel = {"name": "k", "share": "lanes", "loops": "for t", "bytes_read": 4096, "bytes_written": 0, "bytes_once": 8192}
        self.assertEqual(
            _plan._lines(kernel),
            ["k", "lanes, for t", "4 KiB read, 0 B written in an iteration", "8 KiB once in a launch"],
        )

    def test_lengths_of_loops(self):
        step = lockstep.step(
            """step powers[t, b](x: f32[b], inout s: f32[b]) {
                for t { s = s * x }
            }"""
        )
        x, s = numpy.array([1, 2, 3], "f4"), numpy.ones(3, "f4")
        with self.assertRaisesRegex(lockstep.LockstepError, "`t`"):
            step(x=x, s=s)
        step.set_length(t=3)
        step(x=x, s=s)
        numpy.testing.assert_array_equal(s, [1, 8, 27])
        step.set_length(t=1)
        step(x=x, s=s)
        numpy.testing.assert_array_equal(s, [1, 16, 81])
        with self.assertRaisesRegex(lockstep.LockstepError, "u"):
            step.set_length(u=1)

    def test_timed_arrays(self):
        step = lockstep.Step("std/losses:cross_entropy")
        made = _plan.made_arrays(step, {"b": 3, "c": 5})
        self.assertEqual((made["logits"].shape, made["target"].dtype), ((3, 5), numpy.int64))
        median, rate = _plan.timing(lockstep.Step("std/optim:adamw"), {"t": 2, "n": 100}, 0.01)
        self.assertTrue(median > 0 and rate > 0)
        with self.assertRaisesRegex(
            lockstep.LockstepError, "step cross_entropy: give the length of axis `c`"
        ):
            _plan.made_arrays(step, {"b": 3})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
