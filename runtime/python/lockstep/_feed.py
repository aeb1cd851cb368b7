"""Batches that several producers fill while steps compute."""

from __future__ import annotations

import ctypes as C
import math
import multiprocessing
import os
import threading
from typing import Any, Callable, Iterator, Mapping, Sequence, Union

from ._api import BYTES, FORMATS, OK, TYPES, FeedArray, FeedStatistics, LockstepError, Tensor, fail
from ._arrays import NUMPY_TYPES
from ._context import Context, Handle, Owner, context_of, filling

try:
    import numpy
except ImportError:  # arrays are memoryviews then
    numpy = None  # type: ignore[assignment]

PRODUCERS = {"threads": 2, "processes": 4}  # LS_FEED_THREADS, LS_FEED_PROCESSES
Arrays = dict[str, Any]
Fill = Callable[[int, Arrays], Union[int, None]]


class _Memory:
    """An array at an address, for what reads `__cuda_array_interface__`."""

    def __init__(self, address: int, type: int, shape: tuple[int, ...], keep: Any) -> None:
        letter = NUMPY_TYPES[type]
        self.keep = keep
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": shape,
            "strides": None,
            "typestr": "|b1" if letter == "?" else ("<" if BYTES[type] > 1 else "|") + letter,
        }


def _view(address: int, type: int, shape: tuple[int, ...], keep: Any) -> Any:
    memory = (C.c_char * (BYTES[type] * math.prod(shape))).from_address(address)
    setattr(memory, "keep", keep)  # the array holds it, and it holds the feed
    if numpy is not None:
        return numpy.frombuffer(memory, NUMPY_TYPES[type]).reshape(shape)
    return memoryview(memory).cast("B").cast(FORMATS[TYPES[type]], shape)


class Claim:
    """A slot that is being filled: `arrays` to write to, and which of all batches it is, `ticket`,
    counted from 0. In a `with` it is delivered at the end, or after an exception skipped."""

    def __init__(self, feed: Feed, ticket: int, arrays: Arrays) -> None:
        self.feed, self.ticket, self.arrays = feed, ticket, arrays

    def deliver(self, samples: int | None = None) -> None:
        """So many samples are there, all of a batch when not said; 0 skips the ticket."""
        self.feed._deliver(self.ticket, self.feed._batch if samples is None else samples)
        self.arrays = {}

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self.arrays:
            self.deliver(None if kind is None else 0)


class Feed:
    """A ring of batches: producers fill slots, `next` gives them to steps in the order of their
    tickets, whoever was first:

        feed = lockstep.Feed({"x": ((64, 784), "f32"), "label": ((64,), "i32")})
        feed.start(fill, tickets=1000, workers=4)      # fill(ticket, arrays) writes a batch
        for batch in feed:                             # {"x": array, "label": array}
            loss = train(batch["x"], batch["label"], w)

    What a ticket's number says decides what a training sees, not which producer took it.
    `producers` are "threads" of this process, or "processes" forked from it after the feed was
    made, such as the workers of PyTorch's DataLoader; the slots are memory that they share. The
    arrays of a batch are read until the next one is taken. On a GPU ("cuda:0") they are what
    `torch.as_tensor` and CuPy take, copied while the device computes. `slots`: batches in the ring,
    2 to 64; 0 for 3.
    """

    def __init__(
        self,
        arrays: Mapping[str, tuple[Sequence[int], str]],
        *,
        producers: str = "threads",
        slots: int = 0,
        device: Any = "cpu",
    ) -> None:
        if producers not in PRODUCERS:
            raise LockstepError(f"producers are 'threads' or 'processes', not {producers!r}")
        for name, (_, type) in arrays.items():
            if type not in TYPES:
                raise LockstepError(f"array `{name}` is of type {type!r}; types are {TYPES}")
        kind, _, index = str(device).partition(":")
        home = context_of(kind, None if kind == "cpu" else int(index or 0))
        self._names, self._process = tuple(arrays), os.getpid()
        self._types = tuple(TYPES.index(type) for _, type in arrays.values())
        self._shapes = tuple(tuple(map(int, shape)) for shape, _ in arrays.values())
        self._batch = self._shapes[0][0] if self._shapes and self._shapes[0] else 0
        self._forks, self._on_host = producers == "processes", kind == "cpu"
        self._workers: list[Any] = []
        self._failure: BaseException | None = None
        given, kept = (FeedArray * max(len(arrays), 1))(), []
        for made, name, type_, shape in zip(given, self._names, self._types, self._shapes):
            kept.append((C.c_int64 * max(len(shape), 1))(*shape))
            made.name, made.type, made.rank, made.shape = name.encode(), type_, len(shape), kept[-1]
        # Who waits for a batch holds the feed's context. A CPU's step has ended when its call
        # returns, in whatever context, so that a feed there has its own, and `fill` may call steps.
        self._context, self._api, own = home, home.api, None
        with home:  # which buries the dead
            if kind == "cpu":
                self._context = Context(kind, None)
                own = Handle(home, self._context.pointer, self._api.ls_context_destroy, None)
                self._context_owner = Owner(own)
        with self._context as context:
            pointer = C.c_void_p()
            context.check(
                context.api.ls_feed_create(
                    context.pointer,
                    given,
                    len(arrays),
                    slots,
                    PRODUCERS[producers],
                    C.byref(pointer),
                )
            )
            self._owner = Owner(Handle(home, pointer, context.api.ls_feed_destroy, own))

    def __reduce__(self) -> Any:
        raise LockstepError(
            "a lockstep.Feed cannot be pickled: its producers are threads, or processes that were "
            "forked (multiprocessing's start method 'fork')"
        )

    # ---- producers: any thread, or any process forked from the feed's ----

    def claim(self) -> Claim | None:
        """The next ticket, with a slot, for which it waits; None: the feed is closed. As of `fill`
        (see `start`), what it takes to deliver it may not include a step of the feed's GPU."""
        ticket, slots = C.c_uint64(), (C.c_void_p * len(self._names))()
        if self._process != os.getpid() and not self._forks:
            raise LockstepError('this feed was made without producers="processes"')
        if self._api.ls_feed_claim(self._owner.handle.pointer, C.byref(ticket), slots) != OK:
            return None
        arrays = {
            name: _view(address or 0, type, shape, self)
            for name, address, type, shape in zip(self._names, slots, self._types, self._shapes)
        }
        return Claim(self, ticket.value, arrays)

    def _deliver(self, ticket: int, samples: int) -> None:
        status = self._api.ls_feed_deliver(self._owner.handle.pointer, ticket, samples)
        if status != OK:
            fail(status, self._api.ls_error_message(None))

    def close(self) -> None:
        """No ticket is given any more; batches that were delivered are still taken."""
        self._api.ls_feed_close(self._owner.handle.pointer)

    def produce(self, fill: Fill, tickets: int | None = None) -> None:
        """Fills tickets below `tickets`, or for ever: fill(ticket, arrays) gives how many samples
        there are, None for a full batch. Closes the feed behind the last. What fails is raised
        here, and by `next` where this is the feed's own process; a batch that another process was
        filling stays claimed, and `next` says so once that process has ended."""
        while (claim := self.claim()) is not None:
            if tickets is not None and claim.ticket >= tickets:
                claim.deliver(0)
                self.close()
                return
            before, filling.context = filling.context, self._context
            try:
                claim.deliver(fill(claim.ticket, claim.arrays))
            except BaseException as error:
                if self._process == os.getpid():
                    self._failure = self._failure or error  # ahead of the skip, which wakes `next`
                    claim.deliver(0)
                    self.close()
                raise
            finally:
                filling.context = before

    def start(self, fill: Fill, tickets: int | None = None, workers: int = 1) -> None:
        """Starts so many producers, which `produce`: threads, or processes that are forked. An
        exception in a thread ends the feed, and `next` raises it; one in a process ends that
        process, which prints it, and `next` raises "producer process ... ended". `fill` does not
        use the feed itself, and on a GPU calls no step of the feed's device: that raises."""
        for _ in range(workers):
            worker: Any
            if self._forks:
                fork: Any = multiprocessing.get_context("fork")
                worker = fork.Process(target=self.produce, args=(fill, tickets), daemon=True)
            else:
                worker = threading.Thread(target=self._run, args=(fill, tickets), daemon=True)
            worker.start()
            self._workers.append(worker)

    def _run(self, fill: Fill, tickets: int | None) -> None:
        try:
            self.produce(fill, tickets)
        except BaseException as error:  # of the claim, too
            self._failure = self._failure or error
            self.close()

    # ---- who takes ----

    def next(self) -> Arrays | None:
        """The next batch, in the order of the tickets, whose arrays are read until the one after
        it is taken; None: the feed is closed, and that was all."""
        with self._context as context:
            status = self._api.ls_feed_next(self._owner.handle.pointer)
            if self._failure is not None:
                raise LockstepError("a producer of the feed failed") from self._failure
            if status != OK:
                message = self._api.ls_error_message(context.pointer)
                if b"is closed and has no more batches" in (message or b""):
                    return None
                fail(status, message)
            return {name: self._array(context, i) for i, name in enumerate(self._names)}

    def _array(self, context: Context, index: int) -> Any:
        tensor = Tensor()
        context.check(
            self._api.ls_feed_tensor(self._owner.handle.pointer, index, C.byref(tensor))
        )
        shape = tuple(tensor.shape[i] for i in range(tensor.rank))
        make = _view if self._on_host else _Memory
        return make(tensor.data or 0, self._types[index], shape, self)

    def __iter__(self) -> Iterator[Arrays]:
        while (batch := self.next()) is not None:
            yield batch

    def statistics(self) -> dict[str, float]:
        """Where time goes: how often and how long `next` waited for a producer or a copy, how many
        batches the device had to wait for (ls_feed_statistics)."""
        made = FeedStatistics()
        with self._context:
            self._api.ls_feed_stats(self._owner.handle.pointer, C.byref(made))
        return {field[0]: getattr(made, field[0]) for field in FeedStatistics._fields_}

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.close()
        for worker in self._workers:
            worker.join()
