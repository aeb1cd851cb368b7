"""Launches that are recorded once and replayed with one call."""

from __future__ import annotations

import ctypes as C
import sys
from typing import Any

from ._api import GraphStatistics, LockstepError
from ._context import Context, Handle, Owner, context_of


class graph:
    """Records the steps (and lockstep.torch.Optimizer steps) called inside, and replays them:

        with lockstep.graph() as g:
            loss = train(x, y, w)       # recorded, not run: `loss` is where replays will write it
        for _ in range(1000):
            g.launch()                  # or all in one call: g.repeat(1000)

    What was recorded keeps the arrays it was called with; replays read what they hold then. Numbers
    are those of the recording: give what is to change as a rank-0 array. On the CPU a replay has
    finished when it returns; on a GPU it is queued on the framework's current stream, and `device`
    is needed there: "cuda:0", or a torch.device. An exception inside leaves no graph.
    """

    def __init__(self, device: Any = "cpu") -> None:
        kind, _, index = str(device).partition(":")
        if kind == "cuda" and _is_hip():
            kind = "hip"
        self._context: Context = context_of(kind, None if kind == "cpu" else int(index or 0))
        self._owner: Owner | None = None
        self._kept: list[Any] = []

    def __enter__(self) -> graph:
        context = self._context
        context.__enter__()  # the lock is held: nobody else's launches get in
        if context.recording is not None:
            context.__exit__()
            raise LockstepError("lockstep.graph inside of another: record them one after the other")
        context.recording = []
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        context = self._context
        self._kept, context.recording = context.recording or [], None
        try:
            if kind is None:
                self._record([bound for bound in self._kept if not isinstance(bound, tuple)])
        finally:
            context.__exit__()

    def _record(self, launches: list[Any]) -> None:
        context, pointer = self._context, C.c_void_p()
        if context.index is not None:  # CUDA's default stream cannot be captured
            context.check(context.api.ls_context_use_stream(context.pointer, None))
        try:
            context.check(context.api.ls_graph_begin(context.pointer))
            for bound in launches:  # one that fails spoils the graph, and ls_graph_end says why
                context.api.ls_step_launch(bound.pointer)
            context.check(context.api.ls_graph_end(context.pointer, C.byref(pointer)))
        finally:
            stream, context.stream = context.stream, None
            if stream is not None:
                context.follow(stream)
        self._owner = Owner(Handle(context, pointer, context.api.ls_graph_destroy, None))

    def _pointer(self) -> C.c_void_p:
        if self._owner is None:
            raise LockstepError("lockstep.graph: nothing was recorded yet, or the recording failed")
        return self._owner.handle.pointer

    def launch(self) -> None:
        """Replays it once."""
        with self._context as context:
            context.check(context.api.ls_graph_launch(self._pointer()))

    def repeat(self, times: int) -> None:
        """Replays it so many times, one after another, with one call."""
        with self._context as context:
            context.check(context.api.ls_graph_repeat(self._pointer(), times))

    def statistics(self) -> dict[str, int]:
        """Launches in a replay, replays so far, and whether the driver has it as a graph
        (`native`)."""
        made = GraphStatistics()
        with self._context as context:
            context.check(context.api.ls_graph_stats(self._pointer(), C.byref(made)))
        return {field[0]: getattr(made, field[0]) for field in GraphStatistics._fields_}


def _is_hip() -> bool:
    torch = sys.modules.get("torch")
    return bool(torch is not None and torch.version.hip)
