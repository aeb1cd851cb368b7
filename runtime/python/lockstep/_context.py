"""Contexts, one for each device of this process, and the C objects that are made from them."""

from __future__ import annotations

import collections
import ctypes as C
import os
import threading
from typing import Any, Callable

from ._api import OK, LockstepError, fail, library


class Handle:
    """A C object that goes after those made from it, in whatever order Python lets go of them, and
    on whatever thread: what dies is left to the context's next call."""

    def __init__(
        self,
        context: Context,
        pointer: C.c_void_p,
        destroy: Callable[[C.c_void_p], None],
        parent: Handle | None,
    ) -> None:
        self.context, self.pointer, self.destroy, self.parent = context, pointer, destroy, parent
        self.children, self.dead = 0, False
        if parent:
            parent.children += 1

    def bury(self) -> None:
        self.dead = True
        if self.children == 0:
            self.destroy(self.pointer)
            if self.parent:
                self.parent.children -= 1
                if self.parent.dead:
                    self.parent.bury()


class Owner:
    """What Python's objects hold of a Handle."""

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def __del__(self) -> None:
        self.handle.context.graves.append(self.handle)


class Streams:
    """Which stream of a GPU is current and whether it is captured: of nobody, until a framework
    says so."""

    def current(self, index: int) -> Any:
        return None

    def capturing(self) -> bool:
        return False


streams = [Streams()]  # lockstep.torch puts PyTorch's here


def capturing() -> bool:
    """Whether the framework's current stream is recorded in a graph of its own."""
    return streams[0].capturing()


class Filling(threading.local):
    """The context of the feed whose `fill` the thread is in."""

    context: Context | None = None


filling = Filling()


class Context:
    """A device's ls_context, its programs, and the stream it works on; used under its lock."""

    def __init__(self, kind: str, index: int | None) -> None:
        self.lock = threading.RLock()
        self.graves: collections.deque[Handle] = collections.deque()
        self.programs: dict[Any, Owner] = {}
        self.api, self.pointer = library(), C.c_void_p()
        self.index, self.stream = index, None
        self.name = kind if index is None else f"{kind}:{index}"
        self.recording: list[Any] | None = None  # of lockstep.graph: launches to come
        # The handle of CUDA's default stream; HIP's is waited for by a stream of the context's own.
        self.default_stream = 1 if kind == "cuda" else None
        status = self.api.ls_context_create(self.name.encode(), None, C.byref(self.pointer))
        if status != OK:
            fail(status, self.api.ls_error_message(None))

    def check(self, status: int) -> None:
        if status != OK:
            fail(status, self.api.ls_error_message(self.pointer))

    def __enter__(self) -> Context:
        if filling.context is self:  # the lock may be of who waits for this very batch
            raise LockstepError(
                f"`fill` of a feed on {self.name} uses what next() holds while it waits for the "
                "batch: the feed, or a step of its GPU"
            )
        self.lock.acquire()
        try:
            while self.graves:
                self.graves.popleft().bury()
            if self.index is not None:
                self.follow(streams[0].current(self.index))
        except BaseException:
            self.lock.release()
            raise
        return self

    def __exit__(self, *failure: object) -> None:
        self.lock.release()

    def follow(self, stream: Any) -> None:
        """Goes on on the framework's current stream, after what was queued on the one before."""
        if stream is None or stream == self.stream:
            return
        if self.stream is not None and not capturing():
            stream.wait_stream(self.stream)  # on the device
        self.check(
            self.api.ls_context_use_stream(self.pointer, stream.cuda_stream or self.default_stream)
        )
        self.stream = stream

    def step(self, source: Any) -> Owner:
        """A new step of the source, whose program is made once."""
        programs, key = source.programs(self)
        made, options, pointer = programs.get(key), source.options(), C.c_void_p()
        if made is None:
            if source.text is None:
                status = self.api.ls_program_load(
                    self.pointer, source.file.encode(), C.byref(options), C.byref(pointer)
                )
            else:
                data = source.text.encode()
                status = self.api.ls_program_load_text(
                    self.pointer,
                    source.file.encode(),
                    data,
                    len(data),
                    C.byref(options),
                    C.byref(pointer),
                )
            self.check(status)
            made = programs[key] = Owner(Handle(self, pointer, self.api.ls_program_destroy, None))
            pointer = C.c_void_p()
        program = made.handle
        self.check(self.api.ls_step_create(program.pointer, source.name.encode(), C.byref(pointer)))
        return Owner(Handle(self, pointer, self.api.ls_step_destroy, program))


_contexts: dict[tuple[str, int | None], Context] = {}
_contexts_lock = threading.Lock()


def context_of(kind: str = "cpu", index: int | None = None) -> Context:
    """The context of a device: "cpu", or "cuda" or "hip" with its number."""
    with _contexts_lock:
        if (kind, index) not in _contexts:
            _contexts[kind, index] = Context(kind, index)
        return _contexts[kind, index]


def _after_fork() -> None:  # the parent's threads and devices are not the child's
    global _contexts_lock
    _contexts_lock = threading.Lock()
    _contexts.clear()


os.register_at_fork(after_in_child=_after_fork)
