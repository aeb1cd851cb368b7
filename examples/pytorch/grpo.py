"""GRPO whose rollouts and whose training compute the same probabilities, to the last bit.

    python3 examples/pytorch/grpo.py [--steps 1000]

The answers are written by a step built ahead of time: C that the system's compiler made a library
of, with nothing of PyTorch's. The same file's other step learns from them on PyTorch's tensors. The
divergence between the two, which elsewhere has to be corrected for, is printed: 0.0, always.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path.append(os.path.join(ROOT, "runtime", "python"))  # of a checkout
sys.path.append(os.path.join(ROOT, "..", "..", "lockstep", "python"))  # or of an installed one
from lockstep.torch import Optimizer, Step  # noqa: E402

FILE = os.path.join(HERE, "grpo.step")
QUESTIONS, ANSWERS, PLACES, TOKENS, HIDDEN = 8, 32, 4, 8, 32


class Arguments(ctypes.Structure):
    """struct rollout_args of the header: lengths, then arrays."""

    _fields_ = [(name, ctypes.c_int64) for name in "bsvh"] + [
        (name, ctypes.c_void_p)
        for name in ("question", "e", "u", "w", "token", "log_prob", "seed", "count")
    ]


def installed(*what):
    """Of a Lockstep that is not built in this tree."""
    return subprocess.check_output(["pkg-config", *what, "lockstep_rt"], text=True).split()


class Rollouts:
    """The step `rollout` as C built ahead of time, in a library of its own."""

    def __init__(self, folder, build):
        command, flags = "lockstep", ["-I", os.path.join(ROOT, "runtime", "include")]
        if os.path.exists(os.path.join(build, "lockstep")):
            command = os.path.join(build, "lockstep")
            flags += [os.path.join(build, "liblockstep_rt.so"), "-Wl,-rpath," + build]
        else:
            flags = installed("--cflags", "--libs")
            flags += ["-Wl,-rpath," + installed("--variable=libdir")[0]]
        source, library = os.path.join(folder, "rollout.c"), os.path.join(folder, "rollout.so")
        made = [command, "build", FILE + ":rollout", "--name", "rollout", "--targets", "cpu"]
        subprocess.run([*made, "-o", folder], check=True, stdout=subprocess.DEVNULL)
        cc = [os.environ.get("CC", "cc"), "-O2", "-fno-math-errno", "-fno-trapping-math"]
        subprocess.run([*cc, "-shared", "-fPIC", source, "-o", library, *flags, "-lm"], check=True)
        self.library, self.context = ctypes.CDLL(library), ctypes.c_void_p()
        self.library.ls_error_message.restype = ctypes.c_char_p
        self.check(self.library.ls_context_create(b"cpu", None, ctypes.byref(self.context)))

    def check(self, status):
        if status:
            raise RuntimeError(self.library.ls_error_message(self.context).decode())

    def __call__(self, question, weights, count):
        """An answer to each question, and the log-probabilities of its tokens."""
        token = torch.empty(len(question), PLACES, dtype=torch.int64)
        log_prob = torch.empty(len(question), PLACES)
        cells = torch.tensor(1), torch.tensor(count)
        arrays = [question, *weights, token, log_prob, *cells]
        lengths = len(question), PLACES, TOKENS, HIDDEN
        given = Arguments(*lengths, *(array.data_ptr() for array in arrays))
        self.check(self.library.rollout_launch(self.context, ctypes.byref(given)))
        self.check(self.library.ls_synchronize(self.context))
        return token, log_prob


def rewards(question, token):
    """How many of the tokens are the one before plus the question, as a share."""
    before = torch.nn.functional.pad(token[:, :-1], (1, 0))
    return ((before + question[:, None]) % TOKENS == token).float().mean(1)


class Training:
    def __init__(self, folder, build=os.path.join(ROOT, "build"), rate=5e-3):
        torch.manual_seed(0)
        shape = TOKENS, HIDDEN
        self.weights = [torch.nn.Parameter(torch.randn(shape) * s) for s in (1.0, 1.0, 0.1)]
        self.rollouts = Rollouts(folder, os.path.abspath(build))
        self.advantages, self.learn = Step("std/rl:grpo_advantages"), Step(FILE + ":learn")
        self.optimizer = Optimizer(self.weights, "std/optim:adamw", lr=rate, weight_decay=0.0)
        self.question = torch.arange(QUESTIONS).repeat_interleave(ANSWERS)
        self.count = 0

    @torch.no_grad()
    def step(self):
        """The mean reward, the divergence of the trainer's policy from the rollouts', and how many
        log-probabilities have other bits: a difference of one may be too
        small to show in kl."""
        token, written = self.rollouts(self.question, self.weights, self.count)
        self.count += 1
        reward = rewards(self.question, token)
        advantage = self.advantages(reward.view(QUESTIONS, ANSWERS)).flatten()
        seen = self.question, token, written, advantage
        log_prob, kl, *gradients = self.learn(*seen, *self.weights)
        for weight, gradient in zip(self.weights, gradients):
            weight.grad = gradient
        self.optimizer.step()
        other = log_prob.view(torch.int32) != written.view(torch.int32)
        return reward.mean().item(), kl.item(), other.sum().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="where Lockstep is")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        training, largest, others = Training(folder, arguments.build), 0.0, 0
        print("step   reward   kl")
        for step in range(1, arguments.steps + 1):
            reward, kl, other = training.step()
            largest, others = max(largest, abs(kl)), others + other
            if step % 100 == 0 or step == arguments.steps or step == 1:
                print(f"{step:5} {reward:7.3f}   {kl}", flush=True)
        print(f"largest kl of {arguments.steps} steps: {largest}; other bits: {others}")


if __name__ == "__main__":
    main()
