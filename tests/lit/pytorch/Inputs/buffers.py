"""Steps on arrays of Python's own: no PyTorch, no NumPy."""
import array
import copy
import gc
import os
import pickle
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, sys.argv.pop(1))
sys.modules["torch"] = sys.modules["numpy"] = None  # as where they are not installed
import lockstep as lt  # noqa: E402
from lockstep._context import context_of  # noqa: E402

SCALE = """
const gain = 2.0
step scale[n](x: f32[n], by: f32 = 1.0, out y: f32[n], out total: f64) {
    y = gain * by * x
    total = sum(f64(x))
}
"""


def floats(*values):
    return array.array("f", values)


    def __init__(self, values, rows, columns, pitch):
        self.memory = floats(*values)
        self.address, self.shape, self.pitch = self.memory.buffer_info()[0], (rows, columns), pitch


class Steps(unittest.TestCase):
    def test_call(self):
        step = lt.Step(SCALE)
        y, total = step(floats(1, 2, 3), by=10)
        self.assertEqual((list(y), total[()]), ([20, 40, 60], 6))
        y, total = step(x=floats(5))
        self.assertEqual((list(y), total[()]), ([10], 5))
        self.assertEqual(step(floats(1, 2), y=False)[()], 3)
        mine = floats(0, 0)
        result = step(floats(1, 2), y=mine)
        self.assertIs(result.y, mine)
        self.assertEqual((list(mine), result.total[()]), ([2, 4], 3))
        self.assertEqual(list(lt.Step(SCALE, gain=0.5)(floats(4), total=False)), [2])
        self.assertEqual(list(step(floats(), total=False)), [])

    def test_lists(self):
        p, m, v, g = ([floats(*[start] * n) for n in (3, 1, 0)] for start in (1, 0, 0, 2))
        adamw = lt.Step("std/optim:adamw")
        self.assertEqual(adamw(p, m, v, g, lr=0.5, decay=0)[()], 1)  # the count
        self.assertEqual([list(t) for t in p], [[0.5] * 3, [0.5], []])
        count = array.array("i", [1])
        with self.assertRaisesRegex(lt.LockstepError, "`count` of step `adamw` is i32, but .* rank 1"):
            adamw(p, m, v, g, count=count)
        count = memoryview(bytearray(4)).cast("i", ())
        adamw(p=p, m=m, v=v, g=g, count=count)
        self.assertEqual(count[()], 1)
        split = lt.Step("std/optim:split_weights")
        w, low = split([floats(1, -2), floats()])
        self.assertEqual(([t.tolist() for t in w], [list(t) for t in low]),
                         ([[0x3f80, 0xc000], []], [[0, 0], []]))

    def test_scales_of_blocks(self):
        """Lengths of blocks, of expressions; rank-0 inouts with a default begin anew."""
        states = lt.Step("std/optim:lion_8bit")
        scales = [floats(*[0] * 2)]
        p, g = [floats(*[1] * 300)], [floats(*range(300))]
        states(p, [array.array("b", [0] * 300)], scales, g, lr=0.25)
        self.assertAlmostEqual(scales[0][0], 255 * 0.01, places=4)
        self.assertAlmostEqual(scales[0][1], 299 * 0.01, places=4)

    def test_lengths_of_expressions(self):
        step = lt.Step("step tile[h, w = 2 * h + 1](x: f32[h], out y: f32[w]) {\n    y = 3.0 * sum(x)\n}")
        self.assertEqual(list(step(floats(1, 2))), [9] * 5)
        step = lt.Step("step grow[h, w = 2 * h](x: f32[w], out y: f32[h]) {\n    y = 3.0 * sum(x)\n}")
        self.assertEqual(list(step(floats(1, 2))), [9])
        self.assertEqual(list(step(floats(1, 2), y=floats(0))), [9])
        step = lt.Step("step halve[h, w = h // 2](x: f32[w], out y: f32[h]) {\n    y = 3.0 * sum(x)\n}")
        with self.assertRaisesRegex(lt.LockstepError, "how long axis `h` of `y` is"):
            step(floats(1))
        self.assertEqual(list(step(floats(1), y=floats(0, 0))), [3, 3])

    def test_errors(self):
        with self.assertRaisesRegex(lt.CompileError, "`z`(.|\n)*here is named `q`"):
            lt.Step("step a[n](x: f32[n], out y: f32[n]) {\n    y = x + z\n    q = 1\n}")
        with self.assertRaisesRegex(lt.CompileError, "the file has no constant `gane`"):
            lt.Step(SCALE, gane=1)
        with self.assertRaisesRegex(lt.LockstepError, "name one of the steps: .*adamw"):
            lt.Step("std/optim")
        with self.assertRaisesRegex(lt.LockstepError, "there is no step `adamwo`"):
            lt.Step("std/optim:adamwo")
        with self.assertRaisesRegex(lt.LockstepError, "cannot read none.step"):
            lt.Step("none.step")
        step = lt.Step(SCALE)
        with self.assertRaisesRegex(TypeError, "int"):
            lt.Step(5)
        with self.assertRaisesRegex(TypeError, "`w` of step join_weights is a list of tensors, and a int was"):
            lt.Step("std/optim:join_weights")(5, [])
        for arguments, values, error, text in [
                ((), {}, TypeError, "lacks x: f32"),
                ((floats(1), 2, 3), {}, TypeError, "takes 2 arguments, not 3"),
                ((floats(1),), {"x": floats(1)}, TypeError, "`x` twice"),
                ((floats(1),), {"z": 1}, TypeError, "no parameter `z`"),
                ((array.array("d", [1]),), {}, lt.LockstepError, "f64 array of rank 1"),
                ((1.5,), {}, lt.LockstepError, "is a float, not a tensor or a buffer"),
                ((array.array("u", "a"),), {}, lt.LockstepError, "format 'w|format 'u'"),
                ((floats(1, 2),), {"y": floats(1)}, lt.LockstepError, "2 in `x` and 1 in `y`")]:
            with self.assertRaisesRegex(error, text):
                step(*arguments, **values)
        y, total = step(floats(1, 2))  # usable as before
        self.assertEqual(list(y), [2, 4])

    def test_changed_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "scale it.step")
            for gain in (2, 3):
                with open(path, "w") as file:
                    file.write(SCALE.replace("2.0", f"{gain}.0"))
                self.assertEqual(list(lt.Step(path)(floats(2), total=False)), [2 * gain])

    def test_copies(self):
        step = lt.Step(SCALE, gain=3.0)
        for other in (pickle.loads(pickle.dumps(step)), copy.deepcopy(step)):
            self.assertEqual(list(other(floats(2), total=False)), [6])
        self.assertIn("step scale[n](x: f32[n], by: f32, out y: f32[n], out total: f64)", repr(step))

    def test_threads_and_garbage(self):
        step, wrong = lt.Step(SCALE), []

        def work(number):
            for n in range(100):
                own = lt.Step(SCALE) if n % 20 == 0 else step
                own.itself = own  # found by the collector, in an order of its own
                y = own(floats(*[number] * (n + 1)), total=False)
                if list(y) != [2 * number] * (n + 1):
                    wrong.append((number, n))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        self.assertEqual(wrong, [])
        self.assertEqual(list(step(floats(1), total=False)), [2])
        self.assertFalse(context_of().graves)

    def test_fork(self):
        step = lt.Step(SCALE)
        step(floats(1))
        child = os.fork()
        if child == 0:
            os._exit(0 if list(step(floats(7), total=False)) == [14] else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_numbers(self):
        """Defaults are what the source says, in every type."""
        step = lt.Step("step n(a: f32 = 0.001, b: f64 = 0.1, c: i32 = -3, e: bool = true, "
                       "g: i64 = -4, out y: f64) {\n"
                       "    y = f64(a) + b + f64(c) + (if e then 1.0 else 0.0) + f64(g)\n}")
        self.assertEqual([p.default for p in step.signature.parameters],
                         [0.001, 0.1, -3, True, -4, None])
        self.assertAlmostEqual(step()[()], -5.899, places=6)
        self.assertAlmostEqual(step(g=2 ** 40)[()], 2 ** 40 - 1.899, places=3)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=1)
