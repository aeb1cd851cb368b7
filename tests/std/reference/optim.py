"""Expected results of std/optim: torch.optim where it has the optimizer, else the paper's formula."""
import math

import torch

from cases import LIST, MATRICES, Draw, Family, copies, rounded

STEP = "std/optim:"


def with_torch(family, name, make, states, numbers=None, options=None, shapes=LIST, kinds=None, counter=True,
               step=None, copy=None, size=1.0, rates=(0.1, 0.05, 0.2), extra=None, blank=None, count=3, **tolerances):
    """A case against a class of torch.optim. states: {our name: theirs}; options: keyword arguments of
    the class; rates: one lr per launch, or None for the default, which is then tested; copy: (name,
    type) of a working copy; extra: our name of a rank-0 value and what reads it from their state;
    blank: {our name: state of an empty tensor}, where PyTorch takes none."""
    draw = Draw(name)
    kinds = kinds or {}
    grad_kind = kinds.get("g", "f32")
    start = draw.list(shapes, -size, size, digits=3 if size == 1 else 5)
    params = [torch.nn.Parameter(value.clone()) for value in start]
    optimizer = make([param for param in params if param.numel() or not blank], **(options or {}))
    launches = []

    def state_of(param, ours, theirs):
        if blank and not param.numel():
            return blank[ours](param)
        state = optimizer.state[param]
        return theirs(state).clone() if callable(theirs) else state[theirs].clone()

    for number in range(count):
        digits = 2 if grad_kind == "f32" else 3
        grads = draw.list(shapes, kind=grad_kind, digits=digits)
        given = {"g": grads}
        if rates is not None:
            optimizer.param_groups[0]["lr"] = rates[number]
            given["lr"] = rates[number]
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        optimizer.step()
        out = {"p": copies(params)}
        for ours, theirs in states.items():
            out[ours] = [state_of(param, ours, theirs) for param in params]
        if copy:
            out[copy[0]] = [rounded(value, copy[1]) for value in copies(params)]
        if counter:
            out["count"] = number + 1
        if extra:
            out[extra[0]] = extra[1](optimizer.state[params[0]])
        launches.append((given, out))
    begin = {"p": start, **{ours: [torch.zeros_like(value) for value in launches[0][1][ours]] for ours in states}}
    if counter:
        begin["count"] = None
    if extra:
        begin[extra[0]] = None
    if copy:
        tolerances.setdefault("tolerance", {})[copy[0]] = [2 ** -8, 1e-6]
    family.case(name, STEP + (step or name), launches, begin, numbers, kinds, **tolerances)


def with_formula(family, name, update, states, hyper, shapes=LIST, kinds=None, counter=True, step=None, size=1.0,
                 rates=(0.1, 0.05, 0.2), start_state=None, rank0=None, also=None, copy=None, defaults=False,
                 **tolerances):
    """A case against a formula: update(p, g, state, count, lr, **hyper) gives the new p of one tensor
    and changes its state, a dict that starts with zeros. rank0: a rank-0 state, the same for every
    tensor. also: outputs computed from the state. defaults: hyper are the step's own defaults, not
    passed."""
    draw = Draw(name)
    kinds = kinds or {}
    params = draw.list(shapes, -size, size, digits=3 if size == 1 else 5)
    begin = {"p": copies(params)}
    tensor_states = []
    for index, param in enumerate(params):
        state = {key: torch.zeros_like(param) for key in states}
        if start_state:
            state.update(start_state(param))
        tensor_states.append(state)
    for key in states:
        begin[key] = [state[key].clone() for state in tensor_states]
    if counter:
        begin["count"] = None
    for key in rank0 or {}:
        begin[key] = None
        for state in tensor_states:
            state[key] = rank0[key]
    launches = []
    for number in range(3):
        grads = draw.list(shapes, kind=kinds.get("g", "f32"), digits=2 if kinds.get("g", "f32") == "f32" else 3)
        given = {"g": grads}
        if rates is not None and isinstance(rates, tuple):
            given["lr"] = rates[number]
        lr = rates[number] if isinstance(rates, tuple) else rates
        params = [update(param, grad, state, number + 1, lr, **hyper)
                  for param, grad, state in zip(params, grads, tensor_states)]
        out = {"p": copies(params)}
        for key in states:
            out[key] = [state[key].clone() for state in tensor_states]
        for key in rank0 or {}:
            out[key] = float(tensor_states[0][key])
        if counter:
            out["count"] = number + 1
        if copy:
            out[copy[0]] = [rounded(value, copy[1]) for value in params]
        if isinstance(rates, float):
            given.pop("lr", None)
        launches.append((given, out))
    if copy:
        tolerances.setdefault("tolerance", {})[copy[0]] = [2 ** -8, 1e-6]
    family.case(name, STEP + (step or name), launches, begin, None if defaults else hyper, kinds, **tolerances)


SMALL = {"size": 0.01, "rates": None, "relative": 2e-6, "absolute": 4e-9}  # for defaults: lr is small


def doubles(*states):
    """A case in f64: nine digits are recorded, which f32 does not reach."""
    return {"kinds": dict.fromkeys(("p", "g", *states), "f64"), "relative": 6e-9, "absolute": 1e-12}


def sgd():
    family = Family("sgd")
    with_torch(family, "sgd", torch.optim.SGD, {}, {"decay": 0.1}, {"weight_decay": 0.1}, counter=False)
    with_torch(family, "sgd-defaults", torch.optim.SGD, {}, counter=False, step="sgd", **SMALL)
    buffer = {"m": "momentum_buffer"}
    with_torch(family, "sgd_momentum", torch.optim.SGD, buffer,
               {"momentum": 0.8, "dampening": 0.3, "decay": 0.1},
               {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1})
    with_torch(family, "sgd_nesterov", torch.optim.SGD, buffer, {"decay": 0.1, "nesterov": True},
               {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, step="sgd_momentum")
    # Steps of which the last average.
    with_torch(family, "asgd", torch.optim.ASGD, {"average": "ax"},
               {"lr": 0.1, "lambd": 0.1, "alpha": 0.6, "t0": 1.0, "decay": 0.1},
               {"lr": 0.1, "lambd": 0.1, "alpha": 0.6, "t0": 1, "weight_decay": 0.1}, rates=None, count=5)
    with_torch(family, "asgd-defaults", torch.optim.ASGD, {"average": "ax"}, step="asgd", **SMALL)
    mixed = {"kinds": {"g": "bf16", "w": "bf16"}, "copy": ("w", "bf16"), "step": "sgd_momentum_mixed"}
    with_torch(family, "sgd_momentum_mixed", torch.optim.SGD, buffer, {"decay": 0.1, "dampening": 0.3},
               {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}, **mixed)
    with_torch(family, "sgd_momentum_mixed-nesterov", torch.optim.SGD, buffer, {"nesterov": True},
               {"lr": 0.1, "momentum": 0.9, "nesterov": True}, **mixed)
    half = {"kinds": {"g": "f16", "w": "f16"}, "copy": ("w", "f16"), "step": "sgd_momentum_mixed_f16"}
    with_torch(family, "sgd_momentum_mixed_f16", torch.optim.SGD, buffer, {"decay": 0.1, "dampening": 0.3},
               {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}, **half)
    with_torch(family, "sgd_f64", torch.optim.SGD, {}, {"decay": 0.1}, {"weight_decay": 0.1}, counter=False,
               **doubles())
    with_torch(family, "sgd_momentum_f64", torch.optim.SGD, buffer,
               {"momentum": 0.8, "dampening": 0.3, "decay": 0.1, "nesterov": False},
               {"lr": 0.1, "momentum": 0.8, "dampening": 0.3, "weight_decay": 0.1}, **doubles("m"))
    return family


MOMENTS = {"m": "exp_avg", "v": "exp_avg_sq"}
BETAS = {"beta1": 0.8, "beta2": 0.95}


def adam():
    family = Family("adam")
    options = {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}
    numbers = {**BETAS, "eps": 1e-3, "decay": 0.1}
    highest = {**MOMENTS, "v_max": "max_exp_avg_sq"}
    with_torch(family, "adam", torch.optim.Adam, MOMENTS, numbers, options)
    with_torch(family, "adam-defaults", torch.optim.Adam, MOMENTS, step="adam", **SMALL)
    with_torch(family, "amsgrad", torch.optim.Adam, highest, numbers, {**options, "amsgrad": True})
    with_torch(family, "amsgrad-defaults", torch.optim.Adam, highest, None, {"amsgrad": True}, step="amsgrad", **SMALL)
    largest = {"m": "exp_avg", "u": "exp_inf"}
    with_torch(family, "adamax", torch.optim.Adamax, largest, numbers, options)
    with_torch(family, "adamax-defaults", torch.optim.Adamax, largest, step="adamax", **SMALL)
    with_torch(family, "adamw", torch.optim.AdamW, MOMENTS, numbers, options)
    with_torch(family, "adamw-defaults", torch.optim.AdamW, MOMENTS, step="adamw", **SMALL)
    with_torch(family, "adamw-long", torch.optim.AdamW, MOMENTS, numbers, options, step="adamw",
               shapes=[(1,), (1031,), (0, 4)], count=2)
    with_torch(family, "adamw_mixed", torch.optim.AdamW, MOMENTS, numbers, options,
               kinds={"g": "bf16", "w": "bf16"}, copy=("w", "bf16"))
    with_torch(family, "adamw_mixed_f16", torch.optim.AdamW, MOMENTS, numbers, options,
               kinds={"g": "f16", "w": "f16"}, copy=("w", "f16"))
    with_torch(family, "adam_f64", torch.optim.Adam, MOMENTS, numbers, options, **doubles("m", "v"))
    with_torch(family, "adamw_f64", torch.optim.AdamW, MOMENTS, numbers, options, **doubles("m", "v"))
    with_torch(family, "adamw_amsgrad", torch.optim.AdamW, highest, numbers, {**options, "amsgrad": True})
    grouped(family)
    with_torch(family, "nadam", torch.optim.NAdam, MOMENTS, {**numbers, "momentum_decay": 0.05},
               {**options, "momentum_decay": 0.05},
               extra=("mu_product", lambda state: state["mu_product"].item()))
    with_torch(family, "nadam-defaults", torch.optim.NAdam, MOMENTS, step="nadam",
               extra=("mu_product", lambda state: state["mu_product"].item()), **SMALL)
    # beta2 such that two steps are not trusted and the third is.
    with_torch(family, "radam", torch.optim.RAdam, MOMENTS, {**numbers, "beta2": 0.9},
               {**options, "betas": (0.8, 0.9)}, shapes=LIST)
    with_torch(family, "radam-defaults", torch.optim.RAdam, MOMENTS, step="radam", **SMALL)
    with_torch(family, "nadam-decoupled", torch.optim.NAdam, MOMENTS, {**numbers, "decoupled": True},
               {**options, "decoupled_weight_decay": True}, step="nadam",
               extra=("mu_product", lambda state: state["mu_product"].item()))
    with_torch(family, "radam-decoupled", torch.optim.RAdam, MOMENTS, {**numbers, "beta2": 0.9, "decoupled": True},
               {**options, "betas": (0.8, 0.9), "decoupled_weight_decay": True}, step="radam")
    rectified(family)
    return family


def grouped(family):
    draw = Draw("adamw_grouped")
    start = draw.list(LIST)
    params = [torch.nn.Parameter(value.clone()) for value in start]
    scales, decays = draw.numbers((4,), 0.5, 2), draw.numbers((4,), 0, 0.2)
    optimizer = torch.optim.AdamW([{"params": [param], "lr": 0.1 * scale.item(), "weight_decay": decay.item(),
                                    "eps": 1e-3}
                                   for param, scale, decay in zip(params, scales, decays)])
    launches = []
    for number in range(3):
        grads = draw.list(LIST, digits=2)
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        optimizer.step()
        out = {"p": copies(params), "count": number + 1}
        for ours, theirs in MOMENTS.items():
            out[ours] = [optimizer.state[param][theirs].clone() for param in params]
        launches.append(({"g": grads, "lr_scale": scales, "decay": decays}, out))
    zeros = [torch.zeros_like(value) for value in start]
    family.case("adamw_grouped", STEP + "adamw_grouped", launches,
                {"p": start, "m": zeros, "v": zeros, "count": None}, {"lr": 0.1, "eps": 1e-3})


def rectified(family):
    """RAdam from step 20 on, where the rectification matters."""
    draw = Draw("radam-late")
    start = draw.list(LIST)
    params = [torch.nn.Parameter(value.clone()) for value in start]
    optimizer = torch.optim.RAdam(params, lr=0.1, eps=1e-2)
    launches, begin = [], None
    for number in range(22):
        grads = draw.list(LIST, digits=2)
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        optimizer.step()
        if number < 19:
            continue
        out = {"p": copies(params), "count": number + 1}
        for ours, theirs in MOMENTS.items():
            out[ours] = [optimizer.state[param][theirs].clone() for param in params]
        if begin is None:
            for param in params:  # what goes on is what the file can hold
                param.data = rounded(param.data, "f32")
                for theirs in MOMENTS.values():
                    state = optimizer.state[param]
                    state[theirs].copy_(rounded(state[theirs], "f32"))
            begin = {"p": copies(params), "count": number + 1}
            for ours, theirs in MOMENTS.items():
                begin[ours] = [optimizer.state[param][theirs].clone() for param in params]
        else:
            launches.append(({"g": grads}, out))
    family.case("radam-late", STEP + "radam", launches, begin, {"lr": 0.1, "eps": 1e-2})


def adaptive():
    family = Family("adaptive")
    with_torch(family, "adagrad", torch.optim.Adagrad, {"total": "sum"}, {"lr_decay": 0.1, "decay": 0.1, "eps": 1e-3},
               {"lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-3})
    with_torch(family, "adagrad-defaults", torch.optim.Adagrad, {"total": "sum"}, step="adagrad", **SMALL)
    square = {"v": "square_avg"}
    options = {"alpha": 0.9, "eps": 1e-3, "weight_decay": 0.1}
    numbers = {"alpha": 0.9, "eps": 1e-3, "decay": 0.1}
    with_torch(family, "rmsprop", torch.optim.RMSprop, square, numbers, options, counter=False)
    with_torch(family, "rmsprop-defaults", torch.optim.RMSprop, square, step="rmsprop", counter=False, **SMALL)
    with_torch(family, "rmsprop_momentum", torch.optim.RMSprop, {**square, "m": "momentum_buffer"},
               {**numbers, "momentum": 0.8}, {**options, "momentum": 0.8}, counter=False, absolute=1e-6)
    with_torch(family, "rmsprop_centered", torch.optim.RMSprop,
               {**square, "average": "grad_avg", "m": "momentum_buffer"}, {**numbers, "momentum": 0.8},
               {**options, "momentum": 0.8, "centered": True}, counter=False, relative=1e-5, absolute=2e-6)
    with_torch(family, "adadelta", torch.optim.Adadelta, {"v": "square_avg", "moved": "acc_delta"},
               {"rho": 0.8, "eps": 1e-2, "decay": 0.1}, {"rho": 0.8, "eps": 1e-2, "weight_decay": 0.1}, counter=False)
    with_torch(family, "adadelta-defaults", torch.optim.Adadelta, {"v": "square_avg", "moved": "acc_delta"},
               step="adadelta", counter=False, **SMALL)
    # Sizes that reach both bounds, signs that change.
    rprop = {"g_last": "prev", "size": "step_size"}
    with_torch(family, "rprop", torch.optim.Rprop, rprop,
               {"lr": 0.05, "shrink": 0.5, "grow": 1.5, "least": 0.02, "most": 0.1},
               {"lr": 0.05, "etas": (0.5, 1.5), "step_sizes": (0.02, 0.1)}, rates=None, count=6)
    with_torch(family, "rprop-defaults", torch.optim.Rprop, rprop, step="rprop", **SMALL)
    return family


def adafactor():
    family = Family("adafactor")
    # PyTorch divides by the size of an empty matrix; the step leaves its averages at zero.
    factors = {"row": lambda s: s["row_var"][:, 0], "col": lambda s: s["col_var"][0]}
    blank = {"row": lambda p: torch.zeros(p.shape[0]), "col": lambda p: torch.zeros(p.shape[1])}
    numbers = {"beta2_decay": -0.7, "eps1": 1e-4, "eps2": 1e-2, "clip": 1.05, "decay": 0.1}
    options = {"beta2_decay": -0.7, "eps": (1e-4, 1e-2), "d": 1.05, "weight_decay": 0.1}
    with_torch(family, "adafactor", torch.optim.Adafactor, factors, numbers, options, shapes=MATRICES, blank=blank,
               rates=(0.1, 0.9, 0.05))
    eps = {"eps": (torch.finfo(torch.float32).eps, 1e-3)}
    with_torch(family, "adafactor-defaults", torch.optim.Adafactor, factors, None, eps, shapes=MATRICES, blank=blank,
               step="adafactor", **SMALL)
    lengths = [(7,), (1,), (40,)]
    with_torch(family, "adafactor_vector", torch.optim.Adafactor, {"v": "variance"}, numbers, options, shapes=lengths,
               rates=(0.1, 0.9, 0.05))
    with_torch(family, "adafactor_vector-defaults", torch.optim.Adafactor, {"v": "variance"}, None, eps,
               shapes=lengths, step="adafactor_vector", **SMALL)
    return family


def lion_update(p, g, s, count, lr, beta1, beta2, decay, kind="f64"):
    c = beta1 * s["m"] + (1 - beta1) * g
    p = p - lr * (torch.sign(c) + decay * p)
    s["m"] = rounded(beta2 * s["m"] + (1 - beta2) * g, kind)
    return p


def lars_update(p, g, s, count, lr, momentum, decay, trust, scaled=True):
    weights, gradients = p.norm(), g.norm()
    ratio = 1.0
    if scaled and weights > 0 and gradients > 0:
        ratio = trust * weights / (gradients + decay * weights)
    s["m"] = momentum * s["m"] + lr * ratio * (g + decay * p)
    return p - s["m"]


def averages(s, g, beta1, beta2):
    s["m"] = beta1 * s["m"] + (1 - beta1) * g
    s["v"] = beta2 * s["v"] + (1 - beta2) * g * g


def lamb_update(p, g, s, count, lr, beta1, beta2, eps, decay, scaled=True):
    averages(s, g, beta1, beta2)
    u = s["m"] / (1 - beta1 ** count) / ((s["v"] / (1 - beta2 ** count)).sqrt() + eps) + decay * p
    weights, updates = p.norm(), u.norm()
    return p - lr * (weights / updates if scaled and weights > 0 and updates > 0 else 1.0) * u


def adan_update(p, g, s, count, lr, beta1, beta2, beta3, eps, decay):
    change = g - s["g_last"] if count > 1 else torch.zeros_like(g)
    s["m"] = beta1 * s["m"] + (1 - beta1) * g
    s["d"] = beta2 * s["d"] + (1 - beta2) * change
    s["v"] = beta3 * s["v"] + (1 - beta3) * (g + beta2 * change) ** 2
    s["g_last"] = g.clone()
    m, d, v = s["m"] / (1 - beta1 ** count), s["d"] / (1 - beta2 ** count), s["v"] / (1 - beta3 ** count)
    return (p - lr * (m + beta2 * d) / (v.sqrt() + eps)) / (1 + lr * decay)


def ademamix_update(p, g, s, count, lr, beta1, beta2, beta3, alpha, warmup, eps, decay):
    averages(s, g, beta1, beta2)
    if warmup:
        weight = min(count * alpha / warmup, alpha)
        part = min(count / warmup, 1.0)
        kept = min(math.exp(math.log(beta1) * math.log(beta3)
                            / ((1 - part) * math.log(beta3) + part * math.log(beta1))), beta3)
    else:
        weight, kept = alpha, beta3
    s["slow"] = kept * s["slow"] + (1 - kept) * g
    m, v = s["m"] / (1 - beta1 ** count), s["v"] / (1 - beta2 ** count)
    return p - lr * ((m + weight * s["slow"]) / (v.sqrt() + eps) + decay * p)


def layerwise(family, name, update, states, hyper):
    """A step with a rate, a decay and a say in the scaling for every tensor: the update of the plain one,
    for a tensor that is left out with its ratio replaced by 1."""
    draw = Draw(name)
    p = draw.list(LIST)
    scales, decays = draw.numbers((4,), 0.5, 2), draw.numbers((4,), 0, 0.2)
    adapt = torch.tensor([False, True, True, True])
    state = [{key: torch.zeros_like(x) for key in states} for x in p]
    counter = name == "lamb_grouped"
    begin = {"p": copies(p), **{key: [s[key].clone() for s in state] for key in states},
             **({"count": None} if counter else {})}
    launches = []
    for number, lr in enumerate((0.1, 0.05), 1):
        g = draw.list(LIST, digits=2)
        p = [update(a, b, s, number, lr * scale.item(), decay=decay.item(), scaled=bool(on), **hyper)
             for a, b, s, scale, decay, on in zip(p, g, state, scales, decays, adapt)]
        launches.append(({"g": g, "lr": lr, "lr_scale": scales, "decay": decays, "adapt": adapt},
                         {"p": copies(p), **{key: [s[key].clone() for s in state] for key in states},
                          **({"count": number} if counter else {})}))
    family.case(name, STEP + name, launches, begin, hyper)


def schedule_free(family, name, make, states, numbers, options, count=4, rates=(0.1, 0.05, 0.2, 0.1), size=1.0,
                  absolute=1e-6):
    """A case against a class of the package schedulefree, and its eval and train."""
    draw = Draw(name)
    start = draw.list(LIST, -size, size, digits=3 if size == 1 else 5)
    params = [torch.nn.Parameter(value.clone()) for value in start]
    optimizer = make(params, foreach=False, **options)
    optimizer.train()
    group = optimizer.param_groups[0]
    launches = []
    for number in range(count):
        grads = draw.list(LIST, digits=2)
        given = {"g": grads}
        if rates:
            group["lr"] = given["lr"] = rates[number]
        for param, grad in zip(params, grads):
            param.grad = grad.clone()
        optimizer.step()
        out = {"p": copies(params), "count": number + 1, "weights": group["weight_sum"], "lr_max": group["lr_max"]}
        for ours, theirs in states.items():
            out[ours] = [optimizer.state[param][theirs].clone() for param in params]
        launches.append((given, out))
    begin = {"p": start, **{ours: copies(start) if ours == "z" else [torch.zeros_like(x) for x in start]
                            for ours in states}, "count": None, "weights": None, "lr_max": None}
    step = "schedule_free_" + name.split("-")[0].removeprefix("schedule_free_")
    family.case(name, STEP + step, launches, begin, numbers, absolute=absolute,
                tolerance={"weights": [1e-6, 0], "lr_max": [1e-7, 0]})
    return params, optimizer


def free_of_schedules():
    from schedulefree import AdamWScheduleFree, SGDScheduleFree

    family = Family("schedule_free")
    moments = {"z": "z", "v": "exp_avg_sq"}
    schedule_free(family, "schedule_free_adamw", AdamWScheduleFree, moments,
                  {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "decay": 0.1, "warmup": 3, "power": 0.5, "lr_power": 1.5},
                  {"betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1, "warmup_steps": 3, "r": 0.5,
                   "weight_lr_power": 1.5})
    schedule_free(family, "schedule_free_adamw-defaults", AdamWScheduleFree, moments, None, {}, rates=None, size=0.01,
                  absolute=1e-8)
    schedule_free(family, "schedule_free_adamw-still", AdamWScheduleFree, moments, {"warmup": 2, "decay": 0.1},
                  {"warmup_steps": 2, "weight_decay": 0.1}, rates=(0.0, 0.0, 0.1, 0.2))
    schedule_free(family, "schedule_free_sgd", SGDScheduleFree, {"z": "z"},
                  {"beta1": 0.8, "decay": 0.1, "warmup": 3, "power": 0.5, "lr_power": 1.5},
                  {"momentum": 0.8, "weight_decay": 0.1, "warmup_steps": 3, "r": 0.5, "weight_lr_power": 1.5})
    params, optimizer = schedule_free(family, "schedule_free_sgd-defaults", SGDScheduleFree, {"z": "z"}, None, {},
                                      rates=None)
    p = [rounded(x.detach(), "f32") for x in params]
    z = [rounded(optimizer.state[x]["z"], "f32") for x in params]
    for param, value, iterate in zip(params, p, z):
        param.data = value.clone()
        optimizer.state[param]["z"] = iterate
    optimizer.eval()
    average = copies(params)
    family.case("schedule_free_average", STEP + "schedule_free_average", [({"p": p, "z": z}, {"x": average})])
    family.case("schedule_free_eval", STEP + "schedule_free_eval", [({"z": z}, {"p": average})], {"p": p})
    x = [rounded(value, "f32") for value in average]
    for param, value in zip(params, x):
        param.data = value.clone()
    optimizer.train()
    family.case("schedule_free_train", STEP + "schedule_free_train", [({"z": z}, {"p": copies(params)})], {"p": x})
    return family


def others():
    family = Family("optim_others")
    lion = {"beta1": 0.8, "beta2": 0.95, "decay": 0.1}
    with_formula(family, "lion", lion_update, ["m"], lion, counter=False)
    with_formula(family, "lion-defaults", lion_update, ["m"], {"beta1": 0.9, "beta2": 0.99, "decay": 0.0}, step="lion",
                 counter=False, defaults=True, rates=1e-4, size=0.01, absolute=4e-9)
    for kind, suffix, unit in (("bf16", "", 2 ** -8), ("f16", "_f16", 2 ** -11)):
        with_formula(family, "lion_mixed" + suffix,
                     lambda *values, kind=kind, **rest: lion_update(*values, kind=kind, **rest), ["m"], lion,
                     kinds=dict.fromkeys(("m", "g", "w"), kind), copy=("w", kind), counter=False,
                     tolerance={"m": [unit, 1e-6]})
    with_formula(family, "lion_f64", lion_update, ["m"], lion, counter=False, **doubles("m"))
    lars = {"momentum": 0.8, "decay": 0.1, "trust": 0.02}
    with_formula(family, "lars", lars_update, ["m"], lars, counter=False)
    with_formula(family, "lars-defaults", lars_update, ["m"], {"momentum": 0.9, "decay": 0.0, "trust": 1e-3},
                 step="lars", counter=False, defaults=True, rates=0.1, size=0.01, absolute=1e-9)
    layerwise(family, "lars_grouped", lars_update, ["m"], {"momentum": 0.8, "trust": 0.02})
    layerwise(family, "lamb_grouped", lamb_update, ["m", "v"], {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3})
    lamb = {"beta1": 0.8, "beta2": 0.95, "eps": 1e-3, "decay": 0.1}
    with_formula(family, "lamb", lamb_update, ["m", "v"], lamb)
    with_formula(family, "lamb-defaults", lamb_update, ["m", "v"],
                 {"beta1": 0.9, "beta2": 0.999, "eps": 1e-6, "decay": 0.01}, step="lamb", defaults=True, rates=1e-3,
                 size=0.01, absolute=4e-9)
    adan = {"beta1": 0.9, "beta2": 0.8, "beta3": 0.95, "eps": 1e-3, "decay": 0.1}
    with_formula(family, "adan", adan_update, ["m", "d", "v", "g_last"], adan)
    with_formula(family, "adan-defaults", adan_update, ["m", "d", "v", "g_last"],
                 {"beta1": 0.98, "beta2": 0.92, "beta3": 0.99, "eps": 1e-8, "decay": 0.0}, step="adan",
                 defaults=True, rates=1e-3, size=0.01, absolute=4e-9)
    mix = {"beta1": 0.8, "beta2": 0.95, "beta3": 0.99, "alpha": 3.0, "warmup": 2, "eps": 1e-3, "decay": 0.1}
    with_formula(family, "ademamix", ademamix_update, ["m", "slow", "v"], mix, absolute=1e-6)
    with_formula(family, "ademamix-defaults", ademamix_update, ["m", "slow", "v"],
                 {"beta1": 0.9, "beta2": 0.999, "beta3": 0.9999, "alpha": 5.0, "warmup": 0, "eps": 1e-8, "decay": 0.0},
                 step="ademamix", defaults=True, rates=1e-3, size=0.01, absolute=4e-9)
    sophia(family)
    muon(family)
    return family


def sophia(family):
    draw = Draw("sophia")
    p, m, h = draw.list(LIST), [torch.zeros(shape) for shape in LIST], draw.list(LIST, -0.2, 1.0)
    begin, launches = {"p": p, "m": m}, []
    for rate in (0.1, 0.05):
        g = draw.list(LIST, digits=2)
        m = [0.8 * a + 0.2 * b for a, b in zip(m, g)]
        p = [a - rate * (torch.clamp(b / torch.clamp(0.5 * c, min=1e-2), -1, 1) + 0.1 * a)
             for a, b, c in zip(p, m, h)]
        launches.append(({"g": g, "h": h, "lr": rate}, {"p": p, "m": m}))
    family.case("sophia", STEP + "sophia", launches, begin, {"beta1": 0.8, "gamma": 0.5, "eps": 1e-2, "decay": 0.1})
    u, hu, h = draw.list(LIST, -2, 2), draw.list(LIST), draw.list(LIST, 0, 1)
    family.case("sophia_hessian", STEP + "sophia_hessian",
                [({"u": u, "hu": hu}, {"h": [0.99 * a + 0.01 * b * c for a, b, c in zip(h, u, hu)]})], {"h": h})
    family.case("sophia_gauss_newton", STEP + "sophia_gauss_newton",
                [({"g": u, "batch": 30.0}, {"h": [0.9 * a + 0.1 * 30 * b * b for a, b in zip(h, u)]})], {"h": h},
                {"beta2": 0.9})


def muon(family):
    shapes = [(3, 5), (1, 1), (6, 2)]
    draw = Draw("muon")
    coarse = {"x": [2 ** -8, 1e-6], "o": [2 ** -8, 1e-6]}
    for name, numbers in (("muon_momentum", {}), ("muon_momentum-plain", {"nesterov": False, "momentum": 0.8})):
        m = [torch.zeros(shape) for shape in shapes]
        begin, launches = {"m": m}, []
        keep, ahead = numbers.get("momentum", 0.95), numbers.get("nesterov", True)
        for _ in range(2):
            g = draw.list(shapes, digits=2)
            m = [keep * a + (1 - keep) * b for a, b in zip(m, g)]
            u = [keep * a + (1 - keep) * b for a, b in zip(m, g)] if ahead else m
            launches.append(({"g": g}, {"m": m, "x": [a / a.norm() for a in u]}))
        family.case(name, STEP + "muon_momentum", launches, begin, numbers, {"x": "bf16"}, tolerance=coarse)
    square = [(3, 3), (1, 1), (4, 4)]
    a, aa = draw.list(square, kind="bf16"), draw.list(square, kind="bf16")
    family.case("muon_gram", STEP + "muon_gram",
                [({"gram": a, "gram_squared": aa}, {"o": [-4.775 * x + 2.0315 * y for x, y in zip(a, aa)]})],
                kinds={"gram": "bf16", "gram_squared": "bf16", "o": "bf16"}, tolerance=coarse)
    x, bx = draw.list(shapes, kind="bf16"), draw.list(shapes, kind="bf16")
    family.case("muon_polynomial", STEP + "muon_polynomial",
                [({"product": bx}, {"x": [3.4445 * a + b for a, b in zip(x, bx)]})], {"x": x},
                kinds={"product": "bf16", "x": "bf16"}, tolerance=coarse)
    # The update alone, against torch.optim.Muon whose orthogonalisation is replaced by ours.
    for name, match in (("muon_update", None), ("muon_update-match", "match_rms_adamw")):
        p, x = draw.list(shapes), draw.list(shapes, kind="bf16")
        params = [torch.nn.Parameter(value.clone()) for value in p]
        original = torch.optim._muon._zeropower_via_newtonschulz
        ready = iter(x)
        torch.optim._muon._zeropower_via_newtonschulz = lambda *_: next(ready)
        optimizer = torch.optim.Muon(params, lr=0.1, weight_decay=0.1, adjust_lr_fn=match)
        for param in params:
            param.grad = torch.ones_like(param)
        optimizer.step()
        torch.optim._muon._zeropower_via_newtonschulz = original
        family.case(name, STEP + "muon_update", [({"x": x}, {"p": copies(params)})], {"p": p},
                    {"lr": 0.1, "match_adamw": match is not None}, {"x": "bf16"})


FAMILIES = [sgd, adam, adaptive, adafactor, others, free_of_schedules]
