"""lockstep.jax on a GPU's stream: XLA's calls with the stream and the device of a call frame of
CUDA, on the emulated device, whose memory is the host's, so that arrays of the CPU stand for those
of a device."""

import ctypes as C
import os
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
driver = C.CDLL(os.environ["LOCKSTEP_CUDA"])
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy  # noqa: E402
import lockstep.jax as lj  # noqa: E402
from lockstep._api import library  # noqa: E402
from lockstep.jax import _ffi  # noqa: E402

execute = _ffi._execute


class State:
    stream, ordinal, refusal, struct_size = None, 0, None, C.sizeof(_ffi.Api)


def stream_get(pointer):
    if State.refusal:
        error = _ffi.ErrorCreateArgs(
            struct_size=C.sizeof(_ffi.ErrorCreateArgs), message=State.refusal, errc=_ffi.INTERNAL
        )
        return State.api.XLA_FFI_Error_Create(C.byref(error))
    assert pointer.contents.struct_size == C.sizeof(_ffi.StreamGetArgs)
    pointer.contents.stream = State.stream
    return None


def ordinal_get(pointer):
    pointer.contents.device_ordinal = State.ordinal
    return None


CALLBACKS = _ffi.StreamGet(stream_get), _ffi.DeviceOrdinalGet(ordinal_get)


def execute_on_stream(kind, frame):
    """The call as XLA makes it for CUDA: the same frame, and an API that knows streams."""
    State.api = frame.api.contents
    api = _ffi.Api.from_buffer_copy(frame.api.contents)
    api.XLA_FFI_Stream_Get, api.XLA_FFI_DeviceOrdinal_Get = CALLBACKS
    api.struct_size = State.struct_size
    made = _ffi.CallFrame.from_buffer_copy(frame)
    made.api = C.pointer(api)
    execute("cuda", made)


_ffi._execute = execute_on_stream


def new_stream():
    pointer = C.c_void_p()
    assert driver.cuStreamCreate(C.byref(pointer), 0) == 0
    return pointer.value


def memory(array):
    """What lies there now, whatever JAX remembers of it."""
    floats = (C.c_float * array.size).from_address(array.unsafe_buffer_pointer())
    return numpy.array(floats).reshape(array.shape)


class Streams(unittest.TestCase):
    def setUp(self):
        State.stream, State.ordinal, State.refusal = new_stream(), 0, None
        State.struct_size = C.sizeof(_ffi.Api)

    def tearDown(self):
        self.assertEqual(driver.cuStreamSynchronize(C.c_void_p(State.stream)), 0)

    def test_calls(self):
        """Steps and their gradients, optimizers that change donated arrays, on several streams."""
        x, target = jax.random.normal(jax.random.PRNGKey(0), (5, 7)), jnp.arange(5)

        def loss(x):
            return lj.call("std/losses:cross_entropy", x, target, outs=["loss"])

        def reference(x):
            return -jnp.take_along_axis(jax.nn.log_softmax(x), target[:, None], 1).mean()

        both = jax.jit(jax.value_and_grad(loss))
        for _ in range(3):
            State.stream = new_stream()
            value, slope = both(x)
            numpy.testing.assert_allclose(memory(value), reference(x), rtol=1e-6)
            numpy.testing.assert_allclose(memory(slope), jax.grad(reference)(x), atol=1e-6)
        self.assertEqual({key[0] for key in _ffi._streams}, {"cuda"})
        self.assertGreaterEqual(len(_ffi._streams), 3)
        many = jax.jit(jax.vmap(lambda x: lj.call("std/activations:softmax_forward", x)))
        numpy.testing.assert_allclose(memory(many(x[None])), jax.nn.softmax(x)[None], rtol=1e-6)
        adamw = lj.optimizer("std/optim:adamw", lr=0.1)
        params = {"w": jnp.ones((3, 4)), "b": jnp.ones(5)}
        state = adamw.init(params)
        train = jax.jit(adamw.apply, donate_argnums=(1, 2))
        for _ in range(2):
            params, state = train(jax.tree.map(jnp.ones_like, params), params, state)
        numpy.testing.assert_allclose(memory(params["w"]), numpy.full((3, 4), 0.798), atol=1e-3)

    def test_streams(self):
        """Each stream that a frame names has a context on it, with launches of its own; an older
        XLA says no device."""
        double = jax.jit(
            lambda x: lj.call(lj.Step("step d[n](x: f32[n], out y: f32[n]) { y = 2 * x }"), x)
        )
        streams = [State.stream, new_stream()]
        stream_of = library().ls_context_stream
        stream_of.restype, stream_of.argtypes = C.c_void_p, [C.c_void_p]
        for State.struct_size in (C.sizeof(_ffi.Api), _ffi.Api.XLA_FFI_DeviceOrdinal_Get.offset):
            for State.stream in streams:
                y = double(jnp.arange(8, dtype=jnp.float32)).block_until_ready()
                numpy.testing.assert_array_equal(memory(y), 2 * numpy.arange(8))
        self.assertLessEqual({("cuda", 0, stream) for stream in streams}, _ffi._streams.keys())
        for key, context in _ffi._streams.items():
            self.assertEqual(stream_of(context.pointer), key[2])

    def test_failures(self):
        """XLA's own errors go back to it as they are, ours with their words."""
        silu = jax.jit(lambda x: lj.call("std/activations:silu_forward", x))
        for change, text in (
            ({"refusal": b"there is no stream"}, "there is no stream"),
            ({"ordinal": 77}, "cuda:77"),
        ):
            for name, value in change.items():
                setattr(State, name, value)
            with self.assertRaisesRegex(Exception, text):
                silu(jnp.ones(4)).block_until_ready()
            State.refusal, State.ordinal = None, 0


if __name__ == "__main__":
    unittest.main(verbosity=1)
