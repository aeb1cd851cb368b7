"""lockstep.jax: calls in jit, grad and vmap, donation, optimizers beside optax's, and the
declarations."""

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, sys.argv.pop(1))
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import jaxlib  # noqa: E402
import numpy  # noqa: E402
import optax  # noqa: E402
import lockstep.jax as lj  # noqa: E402
from lockstep._bound import Bound  # noqa: E402
from lockstep.jax import _ffi  # noqa: E402

launches = []
launch = Bound.launch
Bound.launch = lambda self: (launches.append(self.source.name), launch(self))[1]
SQUARES = """step squares[b, n](
    x: f32[b, n], w: f32[n], s: f32, out y: f32[b], out z: f32[b], out k: i64[b], shift: f64 = 0.1,
) {
    y = s * sum[n](x * x * w) + f32(shift)
    z = sum[n](x)
    k = argmax[n](x)
}
"""


def random(*shape, seed=0):
    return jax.random.normal(jax.random.PRNGKey(seed), shape)


class Declarations(unittest.TestCase):
    def test_header(self):
        """Every structure's size and the places of its fields, as a C compiler has them."""
        own = {
            "XLA_FFI_Extension_Base": _ffi.Extension,
            "XLA_FFI_Api_Version": _ffi.ApiVersion,
            "XLA_FFI_Error_Create_Args": _ffi.ErrorCreateArgs,
            "XLA_FFI_Stream_Get_Args": _ffi.StreamGetArgs,
            "XLA_FFI_DeviceOrdinal_Get_Args": _ffi.DeviceOrdinalGetArgs,
            "XLA_FFI_Api": _ffi.Api,
            "XLA_FFI_Buffer": _ffi.Buffer,
            "XLA_FFI_ByteSpan": _ffi.ByteSpan,
            "XLA_FFI_Scalar": _ffi.Scalar,
            "XLA_FFI_Args": _ffi.Args,
            "XLA_FFI_Rets": _ffi.Rets,
            "XLA_FFI_Attrs": _ffi.Attrs,
            "XLA_FFI_CallFrame": _ffi.CallFrame,
            "XLA_FFI_Metadata": _ffi.Metadata,
            "XLA_FFI_Metadata_Extension": _ffi.MetadataExtension,
        }
        lines, expected = [], []
        for name, structure in own.items():
            for field, *_ in structure._fields_:
                lines.append(f'printf("{name}.{field} %zu\\n", offsetof({name}, {field}));')
                expected.append(f"{name}.{field} {getattr(structure, field).offset}")
            if structure is not _ffi.Api:  # which may have grown behind what is declared
                lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
                expected.append(f"{name} {ctypes.sizeof(structure)}")
        for name, value in (
            ("XLA_FFI_Extension_Metadata", _ffi.METADATA),
            ("XLA_FFI_Error_Code_INTERNAL", _ffi.INTERNAL),
            ("XLA_FFI_ExecutionStage_EXECUTE", _ffi.EXECUTE),
            ("XLA_FFI_API_MAJOR", 0),
        ):
            lines.append(f'printf("{name} %d\\n", (int){name});')
            expected.append(f"{name} {value}")
        text = (
            '#include <stddef.h>\n#include <stdio.h>\n#include "xla/ffi/api/c_api.h"\n'
            "int main() {\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "layout.cc"), os.path.join(folder, "layout")
            with open(source, "w") as file:
                file.write(text)
            include = os.path.join(os.path.dirname(jaxlib.__file__), "include")
            subprocess.run(
                [
                    "c++",
                    "-x",
                    "c++",
                    "-std=c++17",
                    "-w",
                    "-fpermissive",
                    f"-I{include}",
                    source,
                    "-o",
                    program,
                ],
                check=True,
            )
            said = subprocess.run(
                [program], capture_output=True, text=True, check=True
            ).stdout.splitlines()
        self.assertEqual(said, expected)


class Calls(unittest.TestCase):
    def near(self, a, b, most=2e-6):
        self.assertLessEqual(float(jnp.abs(a - b).max()), most)

    def test_calls(self):
        x, gain = random(4, 6), random(6, seed=1)
        norm = x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-6) * gain
        for function in (
            lambda x: lj.call("std/norms:rms_norm_forward", x, gain),
            jax.jit(lambda x: lj.call("std/norms:rms_norm_forward", x=x, gain=gain)),
        ):
            self.near(function(x), norm)
        self.near(lj.call("std/norms:rms_norm_forward", x.T.copy().T, gain), norm)
        y, z, k = lj.call(lj.Step(SQUARES), x, gain, 2)
        self.near(y, 2 * (x * x * gain).sum(1) + 0.1)
        self.assertEqual((k.dtype, k.tolist()), (jnp.int32, x.argmax(1).tolist()))
        self.near(lj.call(lj.Step(SQUARES), x, gain, 2, outs=["z"]), x.sum(1))
        q = lj.call(
            lj.Step("step two[t, n of t](p: f32[t, n], out q: f32[t, n]) { q = 2 * p }"), [x, gain]
        )
        self.assertTrue((q[0] == 2 * x).all() and (q[1] == 2 * gain).all())

    def test_gradients(self):
        x, target = random(5, 7), jnp.array([1, 2, 3, -100, 6])

        def loss(x):
            return lj.call("std/losses:cross_entropy", x, target, outs=["loss"])

        def reference(x):
            return -jax.nn.log_softmax(x)[jnp.arange(5), target][jnp.array([0, 1, 2, 4])].mean()

        self.near(loss(x), reference(x))
        for transform in (
            lambda f: jax.grad(lambda x: 3 * f(x)),
            lambda f: jax.jit(jax.grad(lambda x: f(x) ** 2)),
        ):
            self.near(transform(loss)(x), transform(reference)(x))
        launches.clear()
        jax.grad(loss)(x)
        self.assertEqual(len(launches), 2)  # forth and back; the gradient's scale is in the second
        step, w, s = lj.Step(SQUARES), random(7, seed=2), jnp.float32(1.5)

        def some(x, w, s):
            y, z, _ = lj.call(step, x, w, s)
            return (y**2).sum() + z[0]

        found = jax.grad(some, (0, 1, 2))(x, w, s)
        wanted = jax.grad(
            lambda x, w, s: ((s * (x * x * w).sum(1) + 0.1) ** 2).sum() + x[0].sum(), (0, 1, 2)
        )(x, w, s)
        for a, b in zip(found, wanted):
            numpy.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5)
        second = jax.grad(
            lambda v: jax.grad(lambda v: lj.call("std/activations:silu_forward", v).sum())(v).sum()
        )
        self.near(
            second(w), jax.grad(lambda v: jax.grad(lambda v: jax.nn.silu(v).sum())(v).sum())(w)
        )
        lists = lj.Step("step sq[t, n of t](p: f32[t, n], out s: f32) { s = sum(p * p) }")
        slopes = jax.grad(lambda p: lj.call(lists, p))([x, w])
        self.near(slopes[0], 2 * x)
        self.near(slopes[1], 2 * w)

    def test_vmap(self):
        x, gain = random(3, 4, 6), random(6, seed=1)
        many = jax.vmap(lambda x: lj.call("std/norms:rms_norm_forward", x, gain))(x)
        self.near(many, x / jnp.sqrt((x * x).mean(2, keepdims=True) + 1e-6) * gain)
        slopes = jax.vmap(jax.grad(lambda v: lj.call("std/activations:silu_forward", v).sum()))(
            x[0]
        )
        self.near(slopes, jax.vmap(jax.grad(lambda v: jax.nn.silu(v).sum()))(x[0]))

    def test_vmap_once(self):
        """One launch for all entries, with the bits of a launch for each; gradients through it."""
        x, gain, target = random(3, 4, 6), random(3, 6, seed=1), jnp.array([1, 2, 3, 5])
        squares, add = (
            lj.Step(SQUARES),
            lj.Step("step add[n](inout x: f32[n], by: f32[n]) { x += by }"),
        )

        def norm(x, gain):
            return lj.call("std/norms:rms_norm_forward", x, gain)

        for f, dims, arguments in (
            (norm, (0, None), (x, gain[0])),
            (norm, (1, None), (x, gain[0])),
            (norm, (0, 0), (x, gain)),
            (lambda x: lj.call("std/losses:cross_entropy", x, target), (0,), (x,)),
            (lambda x, s: lj.call(squares, x, gain[0], s, shift=0.7), (0, 0), (x, jnp.ones(3))),
            (lambda by: lj.call(add, gain[0], by), (0,), (gain,)),
        ):
            for jit in (lambda f: f, jax.jit):
                before = len(launches)
                many = jax.tree.leaves(jit(jax.vmap(f, in_axes=dims))(*arguments))
                jax.block_until_ready(many)
                self.assertEqual(len(launches) - before, 1)
            size = next(a.shape[d] for a, d in zip(arguments, dims) if d is not None)
            runs = [
                jax.tree.leaves(
                    f(*(a if d is None else jnp.take(a, i, d) for a, d in zip(arguments, dims)))
                )
                for i in range(size)
            ]
            for found, each in zip(many, zip(*runs)):
                self.assertTrue((found == jnp.stack(each)).all())

        def theirs(x, gain):
            return x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * gain

        for dims, own in (((0, None), gain[0]), ((0, 0), gain)):
            found = []
            for f in (norm, theirs):
                total = jax.jit(
                    jax.grad(lambda x, g: (jax.vmap(f, dims)(x, g) ** 2).sum(), argnums=(0, 1))
                )
                found.append(total(x, own))
            self.near(found[0][0], found[1][0], 1e-5)
            self.near(found[0][1], found[1][1], 1e-4)
        empty = jax.vmap(lambda x: lj.call("std/activations:silu_forward", x))(jnp.zeros((0, 4)))
        self.assertEqual(empty.shape, (0, 4))

    def test_inout(self):
        step = lj.Step(
            "step add[n](inout x: f32[n], by: f32, inout count: i64) { x += by\n count += 1 }"
        )
        x, count = jnp.zeros(1000), jnp.int32(2**31 - 1)
        kept, _ = lj.call(step, x, 2.0, count)  # the old one is as it was
        self.assertEqual((float(x[0]), float(kept[0])), (0, 2))
        donated = jax.jit(lambda x, count: lj.call(step, x, 1.0, count), donate_argnums=(0,))
        place = x.unsafe_buffer_pointer()
        x, count = donated(x, jnp.int32(-3))
        self.assertEqual((x.unsafe_buffer_pointer(), float(x[0]), int(count)), (place, 1, -2))

    def test_errors(self):
        x = random(2, 3)
        for call, error, text in [
            (lambda: lj.call("std/norms:rms_norm_forward", x), TypeError, "lacks gain: f32"),
            (
                lambda: lj.call("std/norms:rms_norm_forward", x, x[0].astype(jnp.int32)),
                lj.LockstepError,
                "`gain` of step rms_norm_forward is f32, and an array of int32 was given",
            ),
            (
                lambda: lj.call("std/norms:rms_norm_forward", x[0], x[0]),
                lj.LockstepError,
                "has 2 axes, and an array of",
            ),
            (
                lambda: lj.call("std/losses:cross_entropy", x, x[0], outs=["los"]),
                TypeError,
                "no out `los`: loss, dlogits",
            ),
            (
                lambda: lj.call(lj.Step("step a[n](x: f64[n], out y: f32[n]) { y = x }"), x[0]),
                lj.LockstepError,
                "`x` of step a is f64, of which JAX has arrays with jax_enable_x64 alone",
            ),
            (
                lambda: jax.block_until_ready(lj.call("std/losses:mse_loss", x[0], x[0, :2])),
                Exception,
                "`n` of step `mse_loss` is",
            ),
        ]:
            with self.subTest(text), self.assertRaisesRegex(error, text):
                call()
        with self.assertRaisesRegex(Exception, "Reverse-mode|differentiat|custom_vjp|jvp"):
            step = lj.Step("step add[n](inout x: f32[n], by: f32[n]) { x += by }")
            jax.grad(lambda x: lj.call(step, x, x).sum())(x[0])

    def test_x64(self):
        step = lj.Step(
            "step a[n](x: f64[n], k: i64[n], by: f64, out y: f64[n], out j: i64[n]) {\n"
            "    y = by * x\n    j = k + 1\n}"
        )
        with jax.enable_x64(True):
            y, j = lj.call(step, jnp.arange(3.0), jnp.array([2**40, 0, -1]), 0.1)
            self.assertEqual((y.dtype, y[2], j.tolist()), (jnp.float64, 0.2, [2**40 + 1, 1, 0]))
            self.near(
                jax.grad(lambda x: lj.call(step, x, jnp.zeros(3, int), 0.1)[0].sum())(jnp.ones(3)),
                0.1,
                1e-17,
            )


class Optimizers(unittest.TestCase):
    def test_beside_optax(self):
        params = {
            "a": random(5, 3),
            "b": [random(4, seed=1), random(2, 2, 2, seed=2)],
            "c": jnp.float32(0.5),
        }
        for name, theirs, options in [
            ("adamw", optax.adamw(1e-2, weight_decay=0.1), {"weight_decay": 0.1}),
            ("sgd_momentum", optax.sgd(1e-2, momentum=0.9), {"momentum": 0.9}),
            ("lion", optax.lion(1e-2, weight_decay=0.01), {"betas": (0.9, 0.99), "decay": 0.01}),
        ]:
            with self.subTest(name):
                ours = lj.optimizer(f"std/optim:{name}", lr=1e-2, **options)
                p = q = r = params
                states = ours.init(p), theirs.init(q), ours.init(r)
                apply = jax.jit(ours.apply)
                for number in range(4):
                    g = jax.tree.map(lambda x: jnp.cos(x * (number + 1)), p)
                    launches.clear()
                    p, s = jax.block_until_ready(apply(g, p, states[0]))
                    self.assertEqual(len(launches), 1)
                    updates, t = theirs.update(g, states[1], q)
                    q = optax.apply_updates(q, updates)
                    updates, u = ours.update(g, states[2], r)
                    r = optax.apply_updates(r, updates)
                    states = s, t, u
                    for a, b, c in zip(*map(jax.tree.leaves, (p, q, r))):
                        numpy.testing.assert_allclose(a, b, atol=2e-6)
                        numpy.testing.assert_allclose(a, c, atol=1e-6)
                    p = q = r  # from one place again
        ours = lj.optimizer("std/optim:adamw", lr=1e-2)  # donated, nothing moves
        p = jax.tree.map(jnp.array, params)
        kept = p, ours.init(p)
        places = [x.unsafe_buffer_pointer() for x in jax.tree.leaves(kept)]
        kept = jax.jit(ours.apply, donate_argnums=(1, 2))(params, *kept)
        self.assertEqual([x.unsafe_buffer_pointer() for x in jax.tree.leaves(kept)], places)
        schedule = lj.optimizer("std/optim:adamw", lr=lambda count: 0.1 / (1 + count))
        state = schedule.init(params)
        _, state = schedule.apply(params, params, state)
        self.assertEqual(int(state["count"]), 1)
        with self.assertRaisesRegex(TypeError, "no hyperparameter `moment`"):
            lj.optimizer("std/optim:adamw", moment=1)
        with self.assertRaisesRegex(
            lj.LockstepError, "p: f32.t, r, c. is not of one number for each"
        ):
            lj.optimizer("std/optim:adafactor")


if __name__ == "__main__":
    unittest.main(verbosity=1)
