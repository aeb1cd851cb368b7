"""Time on a device: events of Lockstep's around the work on its stream. Small work starts with a cold cache: before
each call, outside of what is timed, a buffer larger than the cache is overwritten; that also gives the host the time
to queue the call, so that what is timed is the device. Large arrays are colder than any cache by themselves."""
import ctypes as C
import statistics
import time

COLD_BELOW = 512 << 20  # bytes of a row from which on nothing of it is left in a cache by the next call
FLUSHED = 256 << 20     # several times the largest cache
CALLS_MOST = 200        # in a sample


class DeviceClock:
    def __init__(self, context, sample, flushed=FLUSHED, on_gpu=True):
        self.context, self.sample, self.library = context, sample, context.library
        self.start, self.end = self.event(), self.event()
        self.pairs, self.flushed, self.flush_at = [], flushed if on_gpu else 0, C.c_void_p()
        if self.flushed:
            context.check(self.library.ls_alloc(context.handle, self.flushed, C.byref(self.flush_at)))

    def event(self):
        made = C.c_void_p()
        self.context.check(self.library.ls_event_create(self.context.handle, C.byref(made)))
        return made

    def elapsed(self, start, end):
        found = C.c_double()
        self.context.check(self.library.ls_event_elapsed(start, end, C.byref(found)))
        return found.value * 1e-3

    def record(self, event):
        self.context.check(self.library.ls_event_record(event))

    def flush(self):
        self.context.check(self.library.ls_fill_zero(self.context.handle, self.flush_at, self.flushed))

    def calls(self, function, wait=None):
        """How many calls make a sample; the function is warm."""
        self.wall(function, 1, wait)
        once = self.wall(function, 2, wait)[0]
        return max(1, min(CALLS_MOST, round(self.sample / max(once, 1e-6))))

    def wall(self, function, times, wait=None):
        """Seconds of a call by the host's clock, the last wait included, and those that queueing took."""
        self.context.synchronize()
        start, result = time.perf_counter(), None
        for _ in range(times):
            result = function()
        queued = time.perf_counter()
        (wait or (lambda _: None))(result)
        self.context.synchronize()
        return (time.perf_counter() - start) / times, (queued - start) / times

    def stream(self, function, times, cold):
        """The same by events on the stream: one after another, or each alone behind a flush (the median)."""
        if not (cold and self.flushed):
            self.record(self.start)
            begin = time.perf_counter()
            for _ in range(times):
                function()
            host = (time.perf_counter() - begin) / times
            self.record(self.end)
            return self.elapsed(self.start, self.end) / times, host
        while len(self.pairs) < times:
            self.pairs.append((self.event(), self.event()))
        host = 0.0
        for start, end in self.pairs[:times]:
            self.flush()
            self.record(start)
            begin = time.perf_counter()
            function()
            host += time.perf_counter() - begin
            self.record(end)
        self.context.synchronize()
        return statistics.median(self.elapsed(*pair) for pair in self.pairs[:times]), host / times
