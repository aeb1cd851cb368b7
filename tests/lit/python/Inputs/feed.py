"""lockstep.Feed: batches of several producers, threads and processes, in the order of their tickets."""

import ctypes as C
import faulthandler
import gc
import os
import pickle
import sys
import time
import unittest
import weakref

sys.path.insert(0, sys.argv.pop(1))
import numpy  # noqa: E402
import lockstep  # noqa: E402

BATCH, WIDTH = 4, 3
ARRAYS = {"x": ((BATCH, WIDTH), "f32"), "label": ((BATCH,), "i32")}
SUM = "step total[b, k](x: f32[b, k], label: i32[b], out s: f32[b]) { s = sum[k](x) + label }"


def fill(ticket, arrays):
    """Later tickets are sooner done than earlier ones; every fifth batch has one sample less."""
    time.sleep(0.002 * (3 - ticket % 4))
    arrays["x"][...] = ticket
    arrays["label"][:] = range(BATCH)
    return BATCH - 1 if ticket % 5 == 4 else None


def broken(ticket, arrays):
    if ticket == 3:
        raise ValueError("no such file")
    return fill(ticket, arrays)


def ended(ticket, arrays):
    if ticket == 2:
        os._exit(1)
    return fill(ticket, arrays)


class Feeds(unittest.TestCase):
    def expect(self, feed, tickets):
        total = lockstep.Step(SUM)
        for ticket in range(tickets):
            batch = feed.next()
            samples = BATCH - 1 if ticket % 5 == 4 else BATCH
            self.assertEqual(batch["x"].shape, (samples, WIDTH))
            numpy.testing.assert_array_equal(
                total(batch["x"], batch["label"]), 3 * ticket + numpy.arange(samples)
            )

    def test_producers(self):
        for producers in ("threads", "processes"):
            for workers in (1, 3):
                with lockstep.Feed(ARRAYS, producers=producers, slots=4) as feed:
                    feed.start(fill, tickets=23, workers=workers)
                    self.expect(feed, 23)
                    self.assertIsNone(feed.next())
                    statistics = feed.statistics()
                    self.assertEqual(statistics["batches"], 23)
                    self.assertEqual(statistics["slots"], 4)
                    self.assertGreater(statistics["producer_waits"], 0)

    @unittest.skipUnless("LOCKSTEP_CUDA" in os.environ, "the emulated device is not asked for")
    def test_device(self):
        """Copies to a device, whose memory the emulated one's is, too."""
        with lockstep.Feed(ARRAYS, device="cuda:0") as feed:
            feed.start(fill, tickets=7, workers=2)
            for ticket, batch in enumerate(feed):
                interface = batch["x"].__cuda_array_interface__
                samples = BATCH - 1 if ticket % 5 == 4 else BATCH
                self.assertEqual(interface["shape"], (samples, WIDTH))
                self.assertEqual(interface["typestr"], "<f4")
                feed._context.check(feed._api.ls_synchronize(feed._context.pointer))
                x = (C.c_float * (samples * WIDTH)).from_address(interface["data"][0])
                self.assertEqual(list(x), [ticket] * len(x))
            self.assertEqual(feed.statistics()["copies"], 8)  # a short batch is one for each array
        with lockstep.Feed(ARRAYS, device="cuda:0") as feed:
            feed.start(lambda ticket, arrays: feed._context.__enter__())  # as a step of it does
            self.expect_failure(feed, lockstep.LockstepError, "`fill` of a feed on cuda:0")

    def test_iteration(self):
        with lockstep.Feed(ARRAYS) as feed:
            feed.start(fill, tickets=6, workers=2)
            self.assertEqual([batch["x"][0, 0] for batch in feed], list(range(6)))

    def test_claims(self):
        """By hand: out of order, one skipped, one after an exception."""
        feed = lockstep.Feed(ARRAYS, slots=8)
        claims = [feed.claim() for _ in range(4)]
        self.assertEqual([claim.ticket for claim in claims], [0, 1, 2, 3])
        for claim in reversed(claims):
            claim.arrays["x"][...] = claim.ticket
            claim.deliver(0 if claim.ticket == 1 else 2)
        with self.assertRaises(KeyError), feed.claim() as claim:
            claim.arrays["y"]
        with feed.claim() as claim:
            claim.arrays["x"][...] = claim.ticket
        with self.assertRaisesRegex(lockstep.LockstepError, "ticket 5 is not claimed"):
            claim.deliver()
        feed.close()
        self.assertIsNone(feed.claim())
        self.assertEqual([batch["x"][0, 0] for batch in feed], [0, 2, 3, 5])

    def test_views_hold_the_feed(self):
        """What dies is destroyed at the device's next call."""
        total = lockstep.Step(SUM)
        feed = lockstep.Feed(ARRAYS)
        feed.start(fill, tickets=2)
        feed.next()
        x, there = feed.next()["x"], weakref.ref(feed)
        for worker in feed._workers:
            worker.join()
        del feed, worker
        gc.collect()
        total(numpy.ones((1, 1), "f4"), numpy.ones(1, "i4"))
        self.assertIsNotNone(there())
        numpy.testing.assert_array_equal(x, numpy.ones((BATCH, WIDTH)))
        del x
        gc.collect()
        self.assertIsNone(there())

    def test_steps_in_fill(self):
        """A producer calls steps while the taker waits for its batch."""
        total = lockstep.Step(SUM)

        def summed(ticket, arrays):
            time.sleep(0.02)
            label = numpy.zeros(BATCH, "i4")
            arrays["x"][:, 0] = total(numpy.full((BATCH, WIDTH), ticket, "f4"), label)

        with lockstep.Feed(ARRAYS) as feed:
            feed.start(summed, tickets=4, workers=2)
            self.assertEqual([batch["x"][0, 0] for batch in feed], [0, 3, 6, 9])

    def expect_failure(self, feed, cause, message):
        with self.assertRaisesRegex(lockstep.LockstepError, "a producer of the feed failed") as got:
            for _ in feed:
                pass
        self.assertIsInstance(got.exception.__cause__, cause)
        self.assertRegex(str(got.exception.__cause__), message)

    def test_wrong_fills(self):
        """What `fill` returns is no number of samples, or it waits for itself."""
        for wrong, cause, message in (
            (lambda ticket, arrays: BATCH + 1, lockstep.LockstepError, "5 samples"),
            (lambda ticket, arrays: -1, lockstep.LockstepError, "-1 samples"),
            (lambda ticket, arrays: "4", C.ArgumentError, "wrong type"),
            (lambda *_: feed.statistics(), lockstep.LockstepError, "`fill` of a feed on cpu"),
        ):
            with lockstep.Feed(ARRAYS) as feed:
                feed.start(wrong)
                self.expect_failure(feed, cause, message)

    def test_wrong_fill_on_a_thread_of_ones_own(self):
        with lockstep.Feed(ARRAYS, producers="processes") as feed:
            with self.assertRaisesRegex(lockstep.LockstepError, "5 samples"):
                feed.produce(lambda ticket, arrays: BATCH + 1)
            self.expect_failure(feed, lockstep.LockstepError, "5 samples")

    def test_failures(self):
        with lockstep.Feed(ARRAYS) as feed:
            feed.start(broken, workers=2)
            self.expect_failure(feed, ValueError, "no such file")
        with lockstep.Feed(ARRAYS, producers="processes") as feed:
            feed.start(ended)
            with self.assertRaisesRegex(lockstep.LockstepError, "ended without delivering ticket 2"):
                for _ in feed:
                    pass
        for arguments, message in (
            (dict(arrays=ARRAYS, producers="fibres"), "'threads' or 'processes'"),
            (dict(arrays={"x": ((4,), "float32")}), "array `x` is of type 'float32'"),
            (dict(arrays={}), "at least one array"),
            (dict(arrays={"x": ((0, 2), "f32")}), "at least one sample"),
            (dict(arrays=ARRAYS, slots=1), "2 to 64 slots"),
        ):
            with self.assertRaisesRegex(lockstep.LockstepError, message):
                lockstep.Feed(**arguments)
        with self.assertRaisesRegex(lockstep.LockstepError, "cannot be pickled"):
            pickle.dumps(lockstep.Feed(ARRAYS))
        feed = lockstep.Feed(ARRAYS)
        if (child := os.fork()) == 0:
            try:
                feed.claim()
            except lockstep.LockstepError as error:
                os._exit(7 if 'producers="processes"' in str(error) else 1)
            os._exit(2)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(100, exit=True)  # what hangs has failed
    unittest.main()
