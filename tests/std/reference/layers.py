"""Expected results of std/activations and std/norms: torch.nn.functional and its autograd in f64."""
import torch
from torch.nn import functional as F

from cases import Draw, Family, rounded
from philox import uniform

KINKS = [0.0, 1.0, -1.0, 3.0, -3.0, 6.0, -6.0, 0.5, 12.0, -12.0, 30.0, -30.0, 100.0, -100.0]


def inputs(draw, kind="f32"):
    return torch.cat([torch.tensor(KINKS), draw.numbers((21,), -4, 4, kind, 2)])


def pair(family, file, name, forward, given, wanted, numbers=None, bf16=(), out="y", **limits):
    """A forward step and its backward step. given: inputs by name, wanted: those with a gradient;
    forward takes and gives tensors; out: name or names of the outputs."""
    outs = [out] if isinstance(out, str) else out
    draw = Draw(name + " backward")
    leaves = {key: value.clone().requires_grad_(key in wanted) for key, value in given.items()}
    results = forward(*leaves.values())
    results = results if isinstance(results, tuple) else (results,)
    kinds = {key: "bf16" for key in bf16}
    upstream = {f"d{key}": draw.numbers(tuple(result.shape), -2, 2, kinds.get(f"d{key}", "f32"), 2)
                for key, result in zip(outs, results)}
    sum((result * upstream[f"d{key}"]).sum() for key, result in zip(outs, results)).backward()
    coarse = {key: [2 ** -8, 1e-6] for key in bf16}
    limits = {"absolute": 2e-6, "relative": 4e-6, **limits, "tolerance": {**coarse, **limits.get("tolerance", {})}}
    suffix = "_bf16" if bf16 else ""
    stem = name.removesuffix(suffix)
    label = limits.pop("label", "")
    family.case(f"{stem}_forward{suffix}{label}", f"std/{file}:{stem}_forward{suffix}",
                [(given, {key: result.detach() for key, result in zip(outs, results)})], numbers=numbers, kinds=kinds,
                **limits)
    family.case(f"{stem}_backward{suffix}{label}", f"std/{file}:{stem}_backward{suffix}",
                [({**given, **upstream}, {f"d{key}": leaves[key].grad for key in wanted})], numbers=numbers,
                kinds=kinds, **limits)


def activations():
    family = Family("activations")

    def one(name, function, numbers=None, bf16=False):
        draw = Draw(name)
        kind = "bf16" if bf16 else "f32"
        x = rounded(inputs(draw, kind), kind)
        pair(family, "activations", name, function, {"x": x}, ["x"], numbers,
             ("x", "y", "dx", "dy") if bf16 else ())

    one("relu", F.relu)
    one("relu6", F.relu6)
    one("relu_squared", lambda x: F.relu(x) ** 2)
    one("leaky_relu", lambda x: F.leaky_relu(x, 0.2), {"slope": 0.2})
    one("elu", lambda x: F.elu(x, 0.7), {"alpha": 0.7})
    one("selu", F.selu)
    one("gelu", F.gelu)
    one("gelu_bf16", F.gelu, bf16=True)
    one("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"))
    one("gelu_tanh_bf16", lambda x: F.gelu(x, approximate="tanh"), bf16=True)
    one("silu", F.silu)
    one("silu_bf16", F.silu, bf16=True)
    one("mish", F.mish)
    one("hardswish", F.hardswish)
    one("hardsigmoid", F.hardsigmoid)
    one("softplus", F.softplus)
    one("log_sigmoid", F.logsigmoid)
    one("softsign", F.softsign)
    one("sigmoid", torch.sigmoid)
    one("tanh", torch.tanh)
    draw = Draw("bias_gelu")
    pair(family, "activations", "bias_gelu", lambda x, bias: F.gelu(x + bias),
         {"x": draw.numbers((5, 7), -3, 3), "bias": draw.numbers((7,))}, ["x", "bias"])
    for name, function in {"softmax": F.softmax, "log_softmax": F.log_softmax}.items():
        for rows, columns in ((5, 33), (0, 4), (3, 0), (2, 1), (2, 1030)):
            x = Draw(f"{name} {columns}").numbers((rows, columns), -9, 9)
            pair(family, "activations", name, lambda x: function(x, 1), {"x": x}, ["x"], label=f"-{rows}x{columns}",
                 absolute=1e-5)
        x = Draw(name + "_bf16").numbers((4, 20), -5, 5, "bf16", 2)
        pair(family, "activations", name + "_bf16", lambda x: function(x, 1), {"x": x}, ["x"], None,
             ("x", "y", "dx", "dy"))
    keep = uniform((50,), 7, 3, 0) >= 0.3
    pair(family, "activations", "dropout", lambda x: torch.where(keep, x / 0.7, 0.0), {"x": draw.numbers((50,))}, ["x"],
         {"drop": 0.3, "seed": 7, "count": 3})

    gated = {"glu": torch.sigmoid, "swiglu": F.silu, "geglu": F.gelu, "reglu": F.relu}
    for name, function in gated.items():
        for suffix in ("", "_bf16") if name in ("swiglu", "geglu") else ("",):
            kind = "bf16" if suffix else "f32"
            draw = Draw(name + suffix)
            gate, up = rounded(inputs(draw, kind), kind), draw.numbers((35,), -2, 2, kind, 2)
            names = ("gate", "up", "y", "dgate", "dup", "dy") if suffix else ()
            pair(family, "activations", name + suffix, lambda gate, up: function(gate) * up, {"gate": gate, "up": up},
                 ["gate", "up"], bf16=names)
        if name == "reglu":
            continue
        for suffix in ("", "_bf16") if name == "swiglu" else ("",):
            kind = "bf16" if suffix else "f32"
            x = Draw("packed " + name + suffix).numbers((3, 10), -3, 3, kind, 2)
            names = ("x", "y", "dx", "dy") if suffix else ()
            pair(family, "activations", f"packed_{name}{suffix}", lambda x: function(x[:, :5]) * x[:, 5:], {"x": x},
                 ["x"], bf16=names, sizes="h=5")
    return family


def layer_norm(x, gain, shift, eps=1e-5):
    return F.layer_norm(x, x.shape[1:], gain, shift, eps)


def rms_norm(x, gain, eps=1e-6):
    return F.rms_norm(x, x.shape[1:], gain, eps)


def saved_norms(family, name, shape, kind, size):
    """The steps that hand statistics on. They are given rounded to f32, and the gradients are those of
    autograd, taken where the statistics are computed."""
    layer = name == "layer_norm"
    suffix = "_bf16" if kind == "bf16" else ""
    label = f"{suffix}-{shape[0]}x{shape[1]}"
    draw = Draw(f"saved {name}{label}")
    x = draw.numbers(shape, -size, size, kind, 2 if size > 1 else 3)
    gain, shift, dy = draw.numbers(shape[1:], 0.5, 1.5), draw.numbers(shape[1:]), draw.numbers(shape, -2, 2, kind, 2)
    eps = 0.1 if kind == "bf16" else 1e-5 if layer else 1e-6
    leaves = [value.clone().requires_grad_() for value in ([x, gain, shift] if layer else [x, gain])]
    y = (layer_norm if layer else rms_norm)(*leaves, eps)
    y.backward(dy)
    mean = x.mean(1) if layer else torch.zeros(shape[0])
    rstd = 1 / torch.sqrt(((x - mean[:, None]) ** 2).mean(1) + eps)
    saved = {"mean": mean, "rstd": rstd} if layer else {"rstd": rstd}
    names = ["dgain", "dshift"] if layer else ["dgain"]
    slopes = dict(zip(names, [leaf.grad for leaf in leaves[1:]]))
    kinds = dict.fromkeys(("x", "y", "dx", "dy"), kind)
    limits = {"absolute": 1e-5, "relative": 4e-6, "kinds": kinds}
    if suffix:
        limits["tolerance"] = {key: [2 ** -8, 1e-5] for key in kinds}
    given = {"x": x, "gain": gain}
    family.case(f"{name}_forward_saved{label}", f"std/norms:{name}_forward_saved{suffix}",
                [({**given, **({"shift": shift} if layer else {})}, {"y": y.detach(), **saved})],
                numbers={"eps": eps}, **limits)
    given = {**given, "dy": dy, **{key: rounded(value, "f32") for key, value in saved.items()}}
    family.case(f"{name}_backward_saved{label}", f"std/norms:{name}_backward_saved{suffix}",
                [(given, {"dx": leaves[0].grad, **slopes})], **limits)
    start = {key: draw.numbers(shape[1:]) for key in names}
    family.case(f"{name}_backward_accumulate{label}", f"std/norms:{name}_backward_accumulate{suffix}",
                [(given, {"dx": leaves[0].grad, **{key: start[key] + count * slopes[key] for key in names}})
                 for count in (1, 2)], start, **limits)


def batch_norm(family):
    for label, shape in (("", (5, 3, 4)), ("-rows", (9, 3, 1))):
        draw = Draw("batch_norm" + label)
        x, dy = draw.numbers(shape, -1, 3), draw.numbers(shape, -2, 2)
        gain, shift = draw.numbers((3,), 0.5, 1.5), draw.numbers((3,))
        start = {"running_mean": draw.numbers((3,)), "running_variance": draw.numbers((3,), 0.5, 2)}
        leaves = [value.clone().requires_grad_() for value in (x, gain, shift)]
        mean, variance = start["running_mean"].clone(), start["running_variance"].clone()
        launches = []
        center, rstd = x.mean((0, 2)), 1 / torch.sqrt(x.var((0, 2), unbiased=False) + 0.01)
        for _ in range(2):
            y = F.batch_norm(leaves[0], mean, variance, leaves[1], leaves[2], True, 0.2, 0.01)
            launches.append(({"x": x, "gain": gain, "shift": shift},
                             {"y": y.detach(), "center": center, "rstd": rstd, "running_mean": mean.clone(),
                              "running_variance": variance.clone()}))
        y.backward(dy)
        numbers = {"eps": 0.01}
        family.case("batch_norm_forward" + label, "std/norms:batch_norm_forward", launches, start,
                    {**numbers, "momentum": 0.2}, absolute=2e-6)
        given = {"x": x, "gain": gain, "center": rounded(center, "f32"), "rstd": rounded(rstd, "f32"), "dy": dy}
        family.case("batch_norm_backward" + label, "std/norms:batch_norm_backward",
                    [(given, {name: leaf.grad for name, leaf in zip(("dx", "dgain", "dshift"), leaves)})],
                    absolute=1e-5)
        after = F.batch_norm(x, start["running_mean"], start["running_variance"], gain, shift, False, 0.0, 0.01)
        family.case("batch_norm_inference" + label, "std/norms:batch_norm_inference",
                    [({"x": x, "gain": gain, "shift": shift, **start}, {"y": after})], numbers=numbers, absolute=2e-6)


def norms():
    family = Family("norms")
    for rows, columns in ((5, 33), (1, 1), (0, 4), (2, 1030)):
        label = f"-{rows}x{columns}"
        draw = Draw("norms" + label)
        digits = 2
        size = 0.1 if columns == 33 else 2  # where eps can be seen
        x, residual = [draw.numbers((rows, columns), -size, size, digits=digits if size > 1 else 3) for _ in range(2)]
        gain, shift = draw.numbers((columns,), 0.5, 1.5, digits=digits), draw.numbers((columns,), digits=digits)
        # Gradients along a row cancel: dx is a small difference of larger values.
        limits = {"label": label, "absolute": 1e-5}
        pair(family, "norms", "layer_norm", layer_norm, {"x": x, "gain": gain, "shift": shift},
             ["x", "gain", "shift"], **limits)
        pair(family, "norms", "rms_norm", rms_norm, {"x": x, "gain": gain}, ["x", "gain"], **limits)
        if columns > 100:
            continue
        pair(family, "norms", "residual_layer_norm",
             lambda x, residual, gain, shift: (x + residual, layer_norm(x + residual, gain, shift)),
             {"x": x, "residual": residual, "gain": gain, "shift": shift}, ["x", "residual", "gain", "shift"],
             out=["h", "y"], **limits)
        pair(family, "norms", "residual_rms_norm",
             lambda x, residual, gain: (x + residual, rms_norm(x + residual, gain)),
             {"x": x, "residual": residual, "gain": gain}, ["x", "residual", "gain"], out=["h", "y"], **limits)
        for name in ("layer_norm", "rms_norm"):
            saved_norms(family, name, (rows, columns), "f32", size)
    for name in ("layer_norm", "rms_norm"):
        saved_norms(family, name, (2, 140), "f32", 2)
        saved_norms(family, name, (4, 20), "bf16", 2)
    draw = Draw("narrow norms")
    x, residual = [draw.numbers((4, 20), -2, 2, "bf16") for _ in range(2)]
    gain, shift = draw.numbers((20,), 0.5, 1.5), draw.numbers((20,))
    names = ("x", "y", "dx", "dy")
    large = {"eps": 0.1}
    pair(family, "norms", "layer_norm_bf16", lambda x, gain, shift: layer_norm(x, gain, shift, 0.1),
         {"x": x, "gain": gain, "shift": shift}, ["x", "gain", "shift"], large, bf16=names, absolute=1e-5)
    pair(family, "norms", "rms_norm_bf16", lambda x, gain: rms_norm(x, gain, 0.1), {"x": x, "gain": gain},
         ["x", "gain"], large, bf16=names, absolute=1e-5)
    pair(family, "norms", "residual_rms_norm_bf16",
         lambda x, residual, gain: (x + residual, rms_norm(x + residual, gain, 0.1)),
         {"x": x, "residual": residual, "gain": gain}, ["x", "residual", "gain"], large, out=["h", "y"],
         bf16=(*names, "residual", "dresidual", "h", "dh"), absolute=1e-5)
    keep = uniform((4, 20), 11, 5, 0) >= 0.25
    numbers = {"drop": 0.25, "seed": 11, "count": 5, "eps": 0.1}

    def dropped(x):
        return torch.where(keep, x / 0.75, 0.0)

    pair(family, "norms", "dropout_layer_norm",
         lambda x, residual, gain, shift: (dropped(x) + residual, layer_norm(dropped(x) + residual, gain, shift, 0.1)),
         {"x": x, "residual": residual, "gain": gain, "shift": shift}, ["x", "residual", "gain", "shift"], numbers,
         out=["h", "y"], absolute=1e-5)
    pair(family, "norms", "dropout_rms_norm",
         lambda x, residual, gain: (dropped(x) + residual, rms_norm(dropped(x) + residual, gain, 0.1)),
         {"x": x, "residual": residual, "gain": gain}, ["x", "residual", "gain"], numbers, out=["h", "y"],
         absolute=1e-5)

    def group_norm(x, gain, shift):
        b, g, c, n = x.shape
        return F.group_norm(x.reshape(b, g * c, n), g, gain.reshape(-1), shift.reshape(-1), 1e-5).reshape(x.shape)

    pair(family, "norms", "group_norm", group_norm,
         {"x": draw.numbers((2, 3, 4, 5), -2, 2), "gain": draw.numbers((3, 4), 0.5, 1.5),
          "shift": draw.numbers((3, 4))},
         ["x", "gain", "shift"], absolute=1e-5)
    batch_norm(family)
    return family


def embedding():
    family = Family("embedding")
    for kind, suffix in (("f32", ""), ("bf16", "_bf16")):
        draw = Draw("embedding" + suffix)
        table, start = draw.numbers((11, 6), kind=kind), draw.numbers((11, 6))
        token, dy = draw.integers((4, 10), 0, 10).reshape(-1), draw.numbers((40, 6), kind=kind)
        token[:3] = torch.tensor([7, 7, 0])
        kinds = dict.fromkeys(("table", "y", "dy"), kind)
        family.case("embedding_forward" + suffix, f"std/embedding:embedding_forward{suffix}",
                    [({"table": table, "token": token}, {"y": F.embedding(token, table)})], kinds=kinds)
        for label, padding in (("", -1), ("-padding", 7)):
            leaf = table.clone().requires_grad_()
            F.embedding(token, leaf, padding_idx=None if padding < 0 else padding).backward(dy)
            numbers = {"padding": padding} if padding >= 0 else None
            family.case(f"embedding_backward{suffix}{label}", f"std/embedding:embedding_backward{suffix}",
                        [({"table": table, "token": token, "dy": dy}, {"dtable": leaf.grad})], None, numbers, kinds)
            family.case(f"embedding_backward_accumulate{suffix}{label}",
                        f"std/embedding:embedding_backward_accumulate{suffix}",
                        [({"token": token, "dy": dy}, {"dtable": start + count * leaf.grad}) for count in (1, 2)],
                        {"dtable": start}, numbers, kinds)
    # A token beyond the table reads 0 and passes nothing on; no tokens at all leave zeros.
    given = {"table": table, "token": torch.tensor([3, 11, -1])}
    dy = Draw("beyond").numbers((3, 6))
    slopes = torch.zeros(11, 6)
    slopes[3] = dy[0]
    family.case("embedding_forward-beyond", "std/embedding:embedding_forward",
                [(given, {"y": torch.stack([table[3], torch.zeros(6), torch.zeros(6)])})])
    family.case("embedding_backward-beyond", "std/embedding:embedding_backward",
                [({**given, "dy": dy}, {"dtable": slopes})])
    family.case("embedding_backward-none", "std/embedding:embedding_backward",
                [({"table": table, "token": token[:0], "dy": dy[:0]}, {"dtable": torch.zeros(11, 6)})])
    place = torch.tensor([2, 0, 4, 2, -1, 5])
    hot = F.one_hot(place.clamp(0, 4), 5).double()
    hot[4:] = 0
    family.case("one_hot", "std/embedding:one_hot", [({"index": place}, {"y": hot})], sizes="c=5")
    family.case("one_hot-smooth", "std/embedding:one_hot", [({"index": place}, {"y": 0.1 + 0.8 * hot})],
                numbers={"on": 0.9, "off": 0.1}, sizes="c=5")
    return family


FAMILIES = [activations, norms, embedding]
