"""PyTorch as people write it (eager), with its fused and foreach optimizers, and under torch.compile."""
import torch
from torch.nn import functional as F

aten = torch.ops.aten
TENSORS_COMPILED = 200  # more compile for many minutes
EPS, BETAS, DECAY, RATE = 1e-8, (0.9, 0.999), 0.01, 1e-3


def optimizer(tensors, device, step=10.0, **how):
    parameters, states = [], {}
    for p, m, v, g in zip(*(tensors[key] for key in "pmvg")):
        parameter = torch.nn.Parameter(p)
        parameter.grad = g
        parameters.append(parameter)
        states[parameter] = {"step": torch.tensor(step, device=device), "exp_avg": m, "exp_avg_sq": v}
    made = torch.optim.AdamW(parameters, lr=RATE, betas=BETAS, eps=EPS, weight_decay=DECAY, **how)
    made.state.update(states)
    return made


def compiled_step(made, tensors):
    def refused():
        raise RuntimeError(f"the compiled step of {tensors} tensors takes many minutes to compile")
    return torch.compile(lambda: made.step(), dynamic=False) if tensors <= TENSORS_COMPILED else refused


def listed(tensors):
    return {key: value if isinstance(value, list) else [value] for key, value in tensors.items()}


def amp_phase(tensors, device, **how):
    """As torch.amp.GradScaler, clip_grad_norm_ and an averaged model do it, without their host reads."""
    wide = [g.float() for g in tensors["g"]]
    made = optimizer({**tensors, "g": wide}, device, **how)
    scale = torch.full((), 1024.0, device=device)
    growth = torch.zeros((), dtype=torch.int32, device=device)
    found = torch.zeros((), device=device)
    made.grad_scale, made.found_inf = None, found

    @torch.no_grad()
    def run():
        torch._foreach_copy_(wide, tensors["g"])
        found.zero_()
        torch._amp_foreach_non_finite_check_and_unscale_(wide, found, 1 / scale)
        torch.nn.utils.clip_grad_norm_([p for group in made.param_groups for p in group["params"]], 1.0,
                                       foreach=True)
        made.step()
        torch._foreach_lerp_(tensors["average"], tensors["p"], 0.01)
        torch._foreach_copy_(tensors["w"], tensors["p"])
        torch._amp_update_scale_(scale, growth, found, 2.0, 0.5, 2000)
    return run


def folded_phase(tensors, device):
    """The same with as few passes as fused AdamW allows: its own unscaling also clips."""
    wide = [g.float() for g in tensors["g"]]
    made = optimizer({**tensors, "g": wide}, device, fused=True)
    scale = torch.full((), 1024.0, device=device)
    growth = torch.zeros((), dtype=torch.int32, device=device)

    @torch.no_grad()
    def run():
        norms = torch._foreach_norm(tensors["g"], 2, torch.float32)
        total = torch.linalg.vector_norm(torch.stack(norms)) / scale
        made.found_inf = (~torch.isfinite(total)).float()
        made.grad_scale = scale / torch.clamp(1 / (total + 1e-6), max=1.0)
        torch._foreach_copy_(wide, tensors["g"])
        made.step()
        torch._foreach_lerp_(tensors["average"], tensors["p"], 0.01)
        torch._foreach_copy_(tensors["w"], tensors["p"])
        torch._amp_update_scale_(scale, growth, made.found_inf, 2.0, 0.5, 2000)
    return run


def swiglu_backward(gate, up, dy):
    return aten.silu_backward(dy * up, gate), dy * F.silu(gate)


def matched(gain, x):
    """On the CPU its norms take f32 gains beside bf16, and sum the columns in f32 only then."""
    return gain if x.device.type == "cpu" else gain.to(x.dtype)


def rms_norm_backward(x, gain, dy):
    wide, slope = x.float(), dy.float()
    rate = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    unit = wide * rate
    scaled = slope * gain
    dx = rate * (scaled - unit * (scaled * unit).mean(-1, keepdim=True))
    return dx.to(x.dtype), (slope * unit).sum(0)


def layer_norm_backward(x, gain, dy):
    wide, slope = x.float(), dy.float()
    centred = wide - wide.mean(-1, keepdim=True)
    rate = torch.rsqrt(centred.square().mean(-1, keepdim=True) + 1e-5)
    unit, scaled = centred * rate, slope * gain
    dx = rate * (scaled - scaled.mean(-1, keepdim=True) - unit * (scaled * unit).mean(-1, keepdim=True))
    return dx.to(x.dtype), (slope * unit).sum(0), slope.sum(0)


def cross_entropy(logits, target):
    return F.cross_entropy(logits.float(), target)


def with_gradient(loss, logits, target):
    logits = logits.detach().requires_grad_()

    def run():
        value = loss(logits, target)
        return value.detach(), torch.autograd.grad(value, logits)[0]
    return run


# work -> (function, the parameters it takes)
FORMULAS = {
    "gelu": (F.gelu, ("x",)),
    "gelu_backward": (lambda x, dy: aten.gelu_backward(dy, x), ("x", "dy")),
    "swiglu": (lambda gate, up: F.silu(gate) * up, ("gate", "up")),
    "swiglu_backward": (swiglu_backward, ("gate", "up", "dy")),
    "softmax": (lambda x: torch.softmax(x, -1), ("x",)),
    "layer_norm": (lambda x, gain, shift: F.layer_norm(x, gain.shape, matched(gain, x), matched(shift, x)),
                   ("x", "gain", "shift")),
    "rms_norm": (lambda x, gain: F.rms_norm(x, gain.shape, gain.to(x.dtype), 1e-6), ("x", "gain")),
    "rms_norm_backward": (rms_norm_backward, ("x", "gain", "dy")),
    "layer_norm_backward": (layer_norm_backward, ("x", "gain", "dy")),
    "sum": (lambda x: x.sum(), ("x",)),
    "any_nan": (lambda x: torch.isnan(x).any(), ("x",)),
    "norm": (torch.linalg.vector_norm, ("x",)),
    "cross_entropy_forward": (cross_entropy, ("logits", "target")),
}


def saved_layer_norm_backward(x, gain, dy):
    """Eager PyTorch has saved the mean and the rate in the forward pass."""
    gain = matched(gain, x)
    _, mean, rate = aten.native_layer_norm(x, list(gain.shape), gain, None, 1e-5)
    return lambda: aten.native_layer_norm_backward(dy, x, list(gain.shape), mean, rate, gain, gain, [True] * 3)


def linreg_classic(x, y, batches):
    """As people write it."""
    model = torch.nn.Linear(x.shape[1], 1)
    optimizer, criterion = torch.optim.SGD(model.parameters(), lr=0.01), torch.nn.MSELoss()
    torch.nn.init.zeros_(model.weight), torch.nn.init.zeros_(model.bias)
    xs, ys = x.chunk(batches), y[:, None].chunk(batches)

    def epochs(count):
        for step in range(count * batches):
            optimizer.zero_grad()
            loss = criterion(model(xs[step % batches]), ys[step % batches])
            loss.backward()
            optimizer.step()
            if torch.isnan(loss):
                raise ValueError("NaN")
    return epochs, lambda: [*model.weight[0].tolist(), model.bias.item()]


def linreg_by_hand(x, y, batches, compiled):
    """The gradient written out, in place, without autograd; a look for NaN every 50 steps."""
    w, bias = torch.zeros(x.shape[1], 1), torch.zeros(1)
    total, bad = torch.zeros(()), torch.zeros((), dtype=torch.bool)
    xs, ys = x.chunk(batches), y[:, None].chunk(batches)

    def step(xb, yb):
        error = torch.addmm(bias, xb, w) - yb
        loss = error.square().mean()
        error = error * (2 / xb.shape[0])
        w.addmm_(xb.t(), error, alpha=-0.01)
        bias.sub_(error.sum(0), alpha=0.01)
        total.add_(loss, alpha=xb.shape[0])
        bad.logical_or_(torch.isnan(loss))
    step = torch.compile(step, dynamic=False) if compiled else step

    @torch.no_grad()
    def epochs(count):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # faster than two for matrices this small
        for i in range(count * batches):
            step(xs[i % batches], ys[i % batches])
            if i % 50 == 49 and bad.item():
                raise ValueError("NaN")
        torch.set_num_threads(threads)
    return epochs, lambda: [*w[:, 0].tolist(), bias.item()]


class Peer:
    name = "torch"

    def __init__(self, device):
        self.device, self.version = device, torch.__version__

    def candidates(self, case, tensors):
        on_gpu = self.device != "cpu"
        if case.work in ("adamw", "amp_phase"):
            tensors = listed(tensors)
        if case.work == "adamw":
            return {"torch fused": optimizer(tensors, self.device, fused=True).step,
                    "torch foreach": optimizer(tensors, self.device, foreach=True, capturable=on_gpu).step,
                    "torch compiled": compiled_step(optimizer(tensors, self.device, foreach=True,
                                                              capturable=on_gpu), len(tensors["p"]))}
        if case.work == "amp_phase":
            return {"torch, fused AdamW": amp_phase(tensors, self.device, fused=True),
                    "torch, folded by hand": folded_phase(tensors, self.device)}
        if case.work == "cross_entropy":
            values = tensors["logits"], tensors["target"]
            return {"torch eager": with_gradient(cross_entropy, *values),
                    "torch compiled": with_gradient(torch.compile(cross_entropy, dynamic=False), *values)}
        if case.work not in FORMULAS:
            return {}
        formula, names = FORMULAS[case.work]
        values = [tensors[name] for name in names]
        compiled = torch.compile(formula, dynamic=False)
        eager = lambda: formula(*values)
        if case.work == "layer_norm_backward":
            eager = saved_layer_norm_backward(*values)
        return {"torch eager": torch.no_grad()(eager),
                "torch compiled": torch.no_grad()(lambda: compiled(*values))}

    def linreg(self, x, y, batches):
        x, y = view(x), view(y)
        return {"torch, nn.Linear + SGD + isnan": linreg_classic(x, y, batches),
                "torch, gradients by hand, no autograd": linreg_by_hand(x, y, batches, False),
                "torch, gradients by hand, compiled": linreg_by_hand(x, y, batches, True)}


def view(memory):
    """A tensor over memory that stays."""
    kind = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64}[memory.dtype]
    flat = torch.frombuffer(memory.buffer(), dtype=kind)
    return flat.as_strided(memory.shape, (memory.pitch, 1)) if memory.pitch else flat.view(memory.shape)


def results(case, value):
    """In the order of case.results: tensors; None: in the row's own arrays."""
    if case.work in ("adamw", "amp_phase"):
        return [None] * len(case.results)
    return list(value) if isinstance(value, (tuple, list)) else [value]


def raw(tensor):
    """(address, type, elements, what keeps it) of a result."""
    kind = {torch.float32: "f32", torch.bfloat16: "bf16", torch.int64: "i64"}
    tensor = tensor.detach().contiguous()
    if tensor.dtype not in kind:
        tensor = tensor.float()
    return tensor.data_ptr(), kind[tensor.dtype], tensor.numel(), tensor


def open(device):
    if device == "cuda" and not torch.cuda.is_available():
        raise ImportError("PyTorch sees no CUDA device")
    return Peer(device)
