"""ranks.py RANKS [DIVIDE [REPEATS]]: the optimizer phase of GPT-2's 148 tensors, each divided by DIVIDE, shared out by processes of
this machine: Lockstep's (the program `ranks` in LOCKSTEP_BENCH_RANKS or build/tests/bench/ranks) and PyTorch's, torch.distributed with
gloo and ZeroRedundancyOptimizer around AdamW. PyTorch's phase is an all-reduce of one flat buffer of all gradients, clip_grad_norm_ and
the step with its broadcast of the weights. They run in turns, ROUNDS times; printed are the medians and the ratio, one JSON object.
Each process has as many threads as there are processors for each."""
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS, WARM, LAYERS, WIDTH = 3, 3, 12, 768


def lengths(divide):
    layer = [WIDTH, WIDTH, 3 * WIDTH * WIDTH, 3 * WIDTH, WIDTH * WIDTH, WIDTH, WIDTH, WIDTH, 4 * WIDTH * WIDTH, 4 * WIDTH,
             4 * WIDTH * WIDTH, WIDTH]
    return [-(-n // divide) for n in [50257 * WIDTH, 1024 * WIDTH] + layer * LAYERS + [WIDTH, WIDTH]]


def torch_rank(rank, ranks, divide, repeats, store, result):
    import torch
    import torch.distributed as dist
    from torch.distributed.optim import ZeroRedundancyOptimizer
    torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks))
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    sizes = lengths(divide)
    parameters = [torch.nn.Parameter(torch.linspace(-0.03, 0.03, n)) for n in sizes]
    flat = torch.linspace(-0.003, 0.003, sum(sizes))
    for parameter, piece in zip(parameters, flat.split(sizes)):
        parameter.grad = piece
    optimizer = ZeroRedundancyOptimizer(parameters, optimizer_class=torch.optim.AdamW, lr=1e-3, foreach=True)
    best = float("inf")
    for i in range(WARM + repeats):
        dist.barrier()
        begin = time.monotonic()
        dist.all_reduce(flat)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        dist.barrier()
        if i >= WARM:
            best = min(best, 1e3 * (time.monotonic() - begin))
    if rank == 0:
        with open(result, "w") as out:
            out.write(str(best))
    dist.destroy_process_group()


def run_torch(ranks, divide, repeats):
    with tempfile.TemporaryDirectory() as folder:
        store, result = os.path.join(folder, "store"), os.path.join(folder, "result")
        children = [subprocess.Popen([sys.executable, __file__, "--torch", str(k), str(ranks), str(divide), str(repeats), store,
                                      result]) for k in range(ranks)]
        if any([child.wait() for child in children]):
            sys.exit("ranks.py: PyTorch's processes failed")
        with open(result) as file:
            return float(file.read())


def run_lockstep(ranks, divide, repeats):
    program = os.environ.get("LOCKSTEP_BENCH_RANKS", "build/tests/bench/ranks")
    threads = str(max(1, len(os.sched_getaffinity(0)) // ranks))
    out = subprocess.run([program, str(ranks), str(divide), str(repeats)], check=True, capture_output=True, text=True,
                         env=dict(os.environ, LOCKSTEP_THREADS=threads))
    return json.loads(out.stdout)


def main(words):
    ranks, divide, repeats = [int(word) for word in words] + [8, 10][len(words) - 1:]
    own, peers, rows = [], [], []
    for _ in range(ROUNDS):
        rows.append(run_lockstep(ranks, divide, repeats))
        own.append(rows[-1]["step_ms"])
        peers.append(run_torch(ranks, divide, repeats))
    alone = run_lockstep(1, divide, repeats)["step_ms"] # on all threads
    row = rows[own.index(statistics.median_low(own))]
    row.update(torch_ms=statistics.median(peers), times=round(statistics.median(peers) / statistics.median(own), 2),
               one_rank_all_threads_ms=alone)
    print(json.dumps(row))


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--torch":
        torch_rank(*[int(word) for word in sys.argv[2:6]], *sys.argv[6:8])
    elif 2 <= len(sys.argv) <= 4:
        main(sys.argv[1:])
    else:
        sys.exit(__doc__)
