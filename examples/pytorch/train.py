"""A small transformer on the characters of a novel, trained by torch.optim.AdamW and by Lockstep's.

    python3 examples/pytorch/train.py [--steps 200] [--device cuda] [--autocast] [--text FILE] [--only lockstep]

Both start from the same weights and see the same batches; the losses are printed side by side. The
second also has its cross entropy and its SwiGLU from Lockstep, as torch.autograd.Functions.
"""
import argparse
import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "..", "..", "runtime", "python"))  # of a checkout, where none is installed
sys.path.append(os.path.join(HERE, "..", "..", "..", "..", "lockstep", "python"))  # or beside an installed one
from lockstep.torch import Optimizer, Step  # noqa: E402

TEXT = os.path.join(HERE, "..", "charlm", "pride-and-prejudice.txt")

cross_entropy_step = Step("std/losses:cross_entropy")
swiglu_forward = Step("std/activations:swiglu_forward")
swiglu_backward = Step("std/activations:swiglu_backward")


class CrossEntropy(torch.autograd.Function):
    """The loss and its gradient come of one pass over the logits."""

    @staticmethod
    def forward(ctx, logits, target):
        loss, dlogits = cross_entropy_step(logits=logits, target=target)
        ctx.save_for_backward(dlogits)
        return loss

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None


class SwiGLU(torch.autograd.Function):
    """silu(gate) * up; nothing but the two is kept for the way back."""

    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return swiglu_forward(gate.flatten(), up.flatten()).view_as(gate)

    @staticmethod
    def backward(ctx, gradient):
        gate, up = ctx.saved_tensors
        dgate, dup = swiglu_backward(gate.flatten(), up.flatten(), gradient.flatten())
        return dgate.view_as(gate), dup.view_as(up)


class Block(nn.Module):
    def __init__(self, width, heads, swiglu):
        super().__init__()
        self.heads, self.swiglu = heads, swiglu
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attention, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.up = nn.Linear(width, 2 * width), nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = self.attention(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, width))
        y = self.norm2(x)
        return x + self.down(self.swiglu(self.gate(y).float(), self.up(y).float()))


class Transformer(nn.Module):
    def __init__(self, characters, width=64, heads=4, layers=2, context=64, swiglu=None):
        super().__init__()
        self.token, self.place = nn.Embedding(characters, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, swiglu) for _ in range(layers)))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, characters)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.token(x) + self.place.weight[:x.shape[1]])))


def groups(model, decay=0.1):
    """Weight decay for matrices only."""
    return [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": decay},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]


class Training:
    def __init__(self, name, arguments, characters):
        torch.manual_seed(0)
        ours = name == "lockstep"
        self.loss = CrossEntropy.apply if ours else F.cross_entropy
        swiglu = SwiGLU.apply if ours else lambda gate, up: F.silu(gate) * up
        self.model = Transformer(characters, context=arguments.context, swiglu=swiglu).to(arguments.device)
        make = {"torch": lambda p, **o: torch.optim.AdamW(p, **o),
                "lockstep": lambda p, **o: Optimizer(p, "std/optim:adamw", loss_scale=arguments.autocast, **o)}
        self.optimizer = make[name](groups(self.model), lr=arguments.rate, betas=(0.9, 0.99))
        self.scale = self.optimizer.scale if ours and arguments.autocast else lambda loss: loss
        steps = max(arguments.steps, 1)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda at: min(1, (at + 1) / 20) * (0.55 + 0.45 * math.cos(math.pi * at / steps)))
        self.autocast, self.device, self.seconds = arguments.autocast, arguments.device, 0.0

    def step(self, x, y):
        begin = time.perf_counter()
        with torch.autocast(torch.device(self.device).type, torch.bfloat16, enabled=self.autocast):
            logits = self.model(x)
        loss = self.loss(logits.float().flatten(0, 1), y.flatten())
        self.optimizer.zero_grad()
        self.scale(loss).backward()
        self.optimizer.step()
        self.schedule.step()
        self.seconds += time.perf_counter() - begin
        return loss.detach()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--autocast", action="store_true", help="bf16, and a loss scale for Lockstep's")
    parser.add_argument("--text", default=TEXT, help="a file to learn from (default: a novel)")
    parser.add_argument("--only", choices=["torch", "lockstep"])
    arguments = parser.parse_args()
    if arguments.text == TEXT and not os.path.exists(TEXT):
        arguments.text = __file__  # installed without the novel: some text
    with open(arguments.text, encoding="utf-8") as file:
        text = file.read()
    letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
    data = torch.tensor([letters[letter] for letter in text], device=arguments.device)

    names = [arguments.only] if arguments.only else ["torch", "lockstep"]
    runs = {name: Training(name, arguments, len(letters)) for name in names}
    print("step    " + "".join(f"{name:>12}" for name in names))
    for step in range(1, arguments.steps + 1):
        generator = torch.Generator().manual_seed(step)
        starts = torch.randint(len(data) - arguments.context - 1, (arguments.batch,), generator=generator)
        rows = starts.to(arguments.device)[:, None] + torch.arange(arguments.context, device=arguments.device)
        losses = [runs[name].step(data[rows], data[rows + 1]) for name in names]
        if step % 20 == 0 or step == arguments.steps or step == 1:
            print(f"{step:6}  " + "".join(f"{loss.item():12.6f}" for loss in losses), flush=True)
    print("seconds " + "".join(f"{runs[name].seconds:12.2f}" for name in names))


if __name__ == "__main__":
    main()
