"""Workers of PyTorch's DataLoader as producers of a lockstep.Feed: the same batches for any number of them."""

import sys

sys.path.insert(0, sys.argv.pop(1))
import torch  # noqa: E402
import lockstep  # noqa: E402

BATCH, TICKETS, PREFETCH = 4, 12, 2


class Batches(torch.utils.data.Dataset):
    """Whichever worker is first takes the next ticket, whose number says what is in it."""

    def __init__(self, feed):
        self.feed = feed

    def __len__(self):
        return TICKETS

    def __getitem__(self, _):
        with self.feed.claim() as claim:
            rows = torch.arange(claim.ticket * BATCH, (claim.ticket + 1) * BATCH)
            torch.from_numpy(claim.arrays["x"])[...] = rows[:, None] * torch.ones(2)
        return claim.ticket


def read(workers):
    feed = lockstep.Feed({"x": ((BATCH, 2), "f32")}, producers="processes", slots=max(workers, 1) * PREFETCH + 2)
    loader = torch.utils.data.DataLoader(
        Batches(feed), batch_size=None, num_workers=workers, prefetch_factor=PREFETCH if workers else None
    )
    return torch.stack([torch.from_numpy(feed.next()["x"]).clone() for _ in loader])


expected = torch.arange(TICKETS * BATCH, dtype=torch.float32).view(TICKETS, BATCH, 1).expand(-1, -1, 2)
for workers in (0, 1, 3):
    assert torch.equal(read(workers), expected), workers
print("the same batches")
