"""examples/charlm's model and training step in PyTorch: the same parameters from its checkpoint, the same shapes and
arithmetic, PyTorch's own attention, fused AdamW. No loss scale: f32 needs none.

A process of its own, for cpu.py: CHECKPOINT TEXT as arguments; prints the validation losses as JSON, then for each
line "LABEL<tab>STEPS" on stdin how many seconds that many steps took."""
import json
import struct
import sys
import time

import torch
from torch.nn import functional as F

WARM, STEPS, RATE, LAST = 50, 500, 0.005, 0.1


def read_checkpoint(path):
    """name -> tensor of the weights, and the options that shaped them."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    found = {}
    for name, of in header.items():
        if name.startswith("weights."):
            begin, end = of["data_offsets"]
            values = torch.frombuffer(data, dtype=torch.float32, count=(end - begin) // 4, offset=begin)
            found[name[len("weights."):]] = values.reshape(of["shape"]).clone()
    return found, header["__metadata__"]


class Model(torch.nn.Module):
    def __init__(self, weights, options):
        super().__init__()
        self.layers, self.heads = int(options["layers"]), int(options["heads"])
        self.names = {name: "of_" + name.replace(".", "_") for name in weights}
        for name, value in weights.items():
            self.register_parameter(self.names[name], torch.nn.Parameter(value))

    def of(self, name):
        return getattr(self, self.names[name])

    def norm(self, x, name):
        gain = self.of(name)
        return F.rms_norm(x, gain.shape, gain, 1e-6)

    def forward(self, text, target):
        batch, length = text.shape
        x = self.of("letters")[text] + self.of("places")
        for i in range(self.layers):
            at = f"layer{i:02d}."
            qkv = F.linear(self.norm(x, at + "norm1"), self.of(at + "qkv"))
            q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in qkv.chunk(3, -1))
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + F.linear(mixed.transpose(1, 2).reshape(x.shape), self.of(at + "project"))
            gate, up = F.linear(self.norm(x, at + "norm2"), self.of(at + "up")).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, self.of(at + "down"))
        logits = F.linear(self.norm(x, "norm"), self.of("head"))
        return F.cross_entropy(logits.flatten(0, 1), target.flatten())


class Trainer:
    def __init__(self, weights, options, text, compiled):
        self.model, self.text = Model(weights, options), text
        self.loss = torch.compile(self.model, dynamic=False) if compiled else self.model
        self.batch, self.length = int(options["batch"]), int(options["context"])
        decay = [p for p in self.model.parameters() if p.dim() > 1]
        rest = [p for p in self.model.parameters() if p.dim() < 2]
        self.optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1},
                                            {"params": rest, "weight_decay": 0.0}], lr=RATE, fused=True)
        warm = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1 / WARM, 1.0, WARM)
        fall = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, STEPS - WARM, RATE * LAST)
        self.schedule = torch.optim.lr_scheduler.SequentialLR(self.optimizer, [warm, fall], [WARM])

    def windows(self, start):
        at = start[:, None] + torch.arange(self.length, device=start.device)
        return self.text[at], self.text[at + 1]

    def train(self, steps):
        for _ in range(steps):
            start = torch.randint(len(self.text) - self.length, (self.batch,), device=self.text.device)
            self.loss(*self.windows(start)).backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()

    @torch.no_grad()
    def validate(self, text):
        """The mean loss of whole batches of windows, one behind the other, as charlm does it."""
        keep, self.text, losses = self.text, text, []
        windows = (len(text) - 1) // self.length
        for i in range(windows // self.batch):
            start = (i * self.batch + torch.arange(self.batch)) * self.length
            losses.append(self.model(*self.windows(start)).item())
        self.text = keep
        return sum(losses) / len(losses)


def trainers(checkpoint, path):
    """label -> Trainer, and the loss that its weights have on the last tenth of the text."""
    with open(path, "rb") as file:
        data = file.read()
    letters = {c: i for i, c in enumerate(sorted(set(data)))}
    text = torch.tensor([letters[c] for c in data])
    training = len(data) - len(data) // 10
    found = {}
    for label, compiled in (("torch eager, fused AdamW", False), ("torch compiled, fused AdamW", True)):
        weights, options = read_checkpoint(checkpoint)
        trainer = Trainer(weights, options, text[:training], compiled)
        found[label] = trainer, trainer.validate(text[training:])
    return found


def main():
    found = trainers(*sys.argv[1:3])
    for trainer, _ in found.values():
        trainer.train(2)
    print(json.dumps({label: loss for label, (_, loss) in found.items()}), flush=True)
    for line in sys.stdin:
        label, steps = line.rstrip("\n").split("\t")
        start = time.perf_counter()
        found[label][0].train(int(steps))
        print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    main()
