"""Expected results of std/losses, rl and metrics: torch.nn.functional and autograd in f64, or the
published recursion as a loop."""
import math

import torch
from torch.nn import functional as F

from cases import LIST, Draw, Family, rounded
from philox import bits, normal, uniform


AWKWARD = [math.nan, -math.inf, 1e4, math.inf, -1e4]


def awkward(x, where):
    """x with what no arithmetic survives where nothing may look."""
    x = x.clone()
    x[where] = torch.tensor([AWKWARD[i % len(AWKWARD)] for i in range(int(where.sum()))], dtype=x.dtype)
    return x


def with_gradient(family, file, name, loss, given, wanted, numbers=None, label="", rename=None, kinds=None, extra=None,
                  instead=None, **limits):
    """A step that gives `loss` and dNAME for the wanted inputs; rename: names of the gradients; instead:
    inputs that the step is given in the place of those, which come to the same."""
    leaves = {key: value.clone().requires_grad_() if key in wanted else value for key, value in given.items()}
    value = loss(*leaves.values())
    value.backward()
    out = {"loss": value.detach().item(), **(extra or {})}
    for key in wanted:
        out[(rename or {}).get(key, f"d{key}")] = leaves[key].grad
    family.case(name + label, f"std/{file}:{name}", [({**given, **(instead or {})}, out)], numbers=numbers, kinds=kinds, **limits)


def padded_entropies(family, table, target, ignoring):
    """Cross entropy with a loss for every row, of rows that are longer than there are classes."""
    rest = awkward(torch.zeros(7, 5), torch.ones(7, 5, dtype=torch.bool))
    rest[2:] = 3.0

    def one(name, label, smoothing=0.0, z=0.0, ignore=-100, pad=True, given=target, kind="f32", scale=None, place=False):
        logits = rounded(table, kind).requires_grad_()
        each = F.cross_entropy(logits, given, label_smoothing=smoothing, ignore_index=ignore, reduction="none")
        kept = given != ignore
        each = each + torch.where(kept, z * torch.logsumexp(logits, 1) ** 2, 0.0)
        loss = each.sum() / kept.sum()
        (loss if scale is None else scale * each.sum()).backward()
        plain = logits.detach()
        inputs = {"logits": torch.cat([plain, rounded(rest, kind)], 1) if pad else plain, "target": given}
        slopes = torch.cat([logits.grad, torch.zeros_like(rest)], 1) if pad else logits.grad
        out = {"losses": each.detach()}
        if not name.startswith("forward"):
            out["logits" if place else "dlogits"] = slopes
        if scale is None and not name.startswith("forward"):
            out["loss"] = loss.item()
        numbers = {"smoothing": smoothing, "z": z, "ignore": ignore, **({"classes": 12} if pad else {}),
                   **({} if scale is None else {"scale": scale})}
        start = {"logits": inputs.pop("logits")} if place else None
        family.case(f"cross_entropy_{name}{label}", f"std/losses:cross_entropy_{name}", [(inputs, out)], start, numbers,
                    {"logits": kind, "dlogits": kind},
                    tolerance={"logits": [2 ** -8, 1e-7], "dlogits": [2 ** -8, 1e-7]} if kind == "bf16" else None)

    one("forward", "")
    one("forward", "-all", pad=False, z=0.01, smoothing=0.1, given=ignoring)
    one("padded", "")
    one("padded", "-smooth", 0.1, 0.01, given=ignoring)
    one("padded", "-ignore", 0.1, 0.0, 3)
    one("padded", "-all", 0.1, 0.01, 3, pad=False)
    one("padded_bf16", "", 0.1, 0.01, 3, kind="bf16")
    for label, pad in (("", True), ("-all", False)):
        one("rows", label, 0.1, 0.01, given=ignoring, pad=pad, scale=0.125)
        one("rows_bf16", label, 0.1, 0.01, given=ignoring, pad=pad, scale=0.125, kind="bf16")
        one("rows_in_place", label, 0.1, 0.01, given=ignoring, pad=pad, scale=0.125, place=True)
        one("rows_in_place_bf16", label, 0.1, 0.01, given=ignoring, pad=pad, scale=0.125, kind="bf16", place=True)
    family.case("cross_entropy_scale", "std/losses:cross_entropy_scale", [({"target": ignoring}, {"scale": 1 / 5})])
    values = Draw("cross_entropy_mean").numbers((7,), 0, 4)
    values[ignoring == -100] = 0.0
    family.case("cross_entropy_mean", "std/losses:cross_entropy_mean",
                [({"losses": values, "target": ignoring}, {"loss": values.sum().item() / 5})])


def losses():
    family = Family("losses")
    draw = Draw("losses")
    x, y = draw.numbers((41,), -3, 3), draw.numbers((41,), -3, 3)
    x[5] = y[5]

    def one(name, loss, numbers=None, **given):
        given = given or {"x": x, "y": y}
        with_gradient(family, "losses", name, loss, given, ["x"], numbers)

    one("mse_loss", F.mse_loss)
    one("l1_loss", F.l1_loss)
    one("huber_loss", lambda x, y: F.huber_loss(x, y, delta=0.7), {"delta": 0.7})
    hot = draw.integers((41,), 0, 1).double()
    logits = draw.numbers((41,), -5, 5)
    logits[:3] = torch.tensor([60.0, -60.0, 0.0])
    soft = draw.numbers((41,), 0, 1)
    one("bce_loss", lambda x, y: F.binary_cross_entropy_with_logits(x, y, pos_weight=torch.tensor(3.0)),
        {"pos_weight": 3.0}, x=logits, y=soft)

    def focal(x, y):
        chance = torch.sigmoid(x)
        right = chance * y + (1 - chance) * (1 - y)
        weight = 0.3 * y + 0.7 * (1 - y)
        entropy = F.binary_cross_entropy_with_logits(x, y, reduction="none")
        return (weight * (1 - right) ** 1.5 * entropy).mean()

    one("focal_loss", focal, {"alpha": 0.3, "gamma": 1.5}, x=logits[3:], y=hot[3:])

    table, target = draw.numbers((7, 12), -4, 4), draw.integers((7,), 0, 11)
    ignoring = target.clone()
    ignoring[2], ignoring[5] = -100, -100

    def entropy(smoothing=0.0, z=0.0, ignore=-100):
        def loss(logits, target):
            value = F.cross_entropy(logits, target, label_smoothing=smoothing, ignore_index=ignore)
            kept = target != ignore
            return value + z * (torch.logsumexp(logits, 1) ** 2)[kept].mean()
        return loss

    given = {"logits": table, "target": ignoring}
    with_gradient(family, "losses", "cross_entropy", entropy(), given, ["logits"])
    with_gradient(family, "losses", "cross_entropy", entropy(0.1, 0.01), given, ["logits"],
                  {"smoothing": 0.1, "z": 0.01}, "-smooth")
    with_gradient(family, "losses", "cross_entropy", entropy(0.1, 0.0, 3), {"logits": table, "target": target},
                  ["logits"], {"smoothing": 0.1, "ignore": 3}, "-ignore")
    beyond = {"logits": awkward(table, (ignoring == -100)[:, None].expand(7, 12))}
    with_gradient(family, "losses", "cross_entropy", entropy(0.1, 0.01), given, ["logits"],
                  {"smoothing": 0.1, "z": 0.01}, "-behind_ignore", instead=beyond)
    ruled = torch.where(Draw("ruled out").flags((7, 12)), -math.inf, table)
    ruled[torch.arange(7), target] = 1.0
    with_gradient(family, "losses", "cross_entropy", entropy(), {"logits": ruled, "target": target}, ["logits"],
                  label="-ruled_out")
    wide = {"logits": draw.numbers((2, 1100), -9, 9, digits=1), "target": draw.integers((2,), 0, 1099)}
    with_gradient(family, "losses", "cross_entropy", entropy(), wide, ["logits"], label="-wide")
    far = table.clone()
    far[1] *= 100
    with_gradient(family, "losses", "cross_entropy", entropy(), {"logits": far, "target": target}, ["logits"],
                  label="-large")
    narrow = {"logits": draw.numbers((7, 12), -4, 4, "bf16"), "target": ignoring}
    with_gradient(family, "losses", "cross_entropy_bf16", entropy(0.1), narrow, ["logits"], {"smoothing": 0.1},
                  kinds={"logits": "bf16", "dlogits": "bf16"}, tolerance={"dlogits": [2 ** -8, 1e-7]})
    padded_entropies(family, table, target, ignoring)
    with_gradient(family, "losses", "z_loss", lambda logits: 0.01 * (torch.logsumexp(logits, 1) ** 2).mean(),
                  {"logits": table}, ["logits"], {"weight": 0.01})
    teacher = draw.numbers((7, 12), -4, 4)

    def distilled(logits, teacher):
        ours, theirs = F.log_softmax(logits / 2.5, 1), F.log_softmax(teacher / 2.5, 1)
        return 2.5 ** 2 * F.kl_div(ours, theirs, log_target=True, reduction="batchmean")

    with_gradient(family, "losses", "kl_loss", distilled, {"logits": table, "teacher": teacher}, ["logits"],
                  {"temperature": 2.5})
    out = Draw("impossible").flags((7, 12), 0.4)
    both = {"logits": torch.where(out, -1e30, table), "teacher": torch.where(out, -1e30, teacher)}
    never = {"logits": torch.where(out, -math.inf, table), "teacher": torch.where(out, -math.inf, teacher)}
    with_gradient(family, "losses", "kl_loss", distilled, both, ["logits"], {"temperature": 2.5}, "-ruled_out",
                  instead=never)
    with_gradient(family, "losses", "kl_loss", distilled, {"logits": table, "teacher": both["teacher"]}, ["logits"],
                  {"temperature": 2.5}, "-impossible", instead={"teacher": never["teacher"]})

    def between(logits, teacher):
        ours, theirs = F.log_softmax(logits / 1.5, 1), F.log_softmax(teacher / 1.5, 1)
        p, q = theirs.exp(), ours.exp()
        whole = 0.3 * p + 0.7 * q
        middle = torch.log(torch.where(whole == 0, 1.0, whole))
        each = 0.3 * p * torch.where(p == 0, 0.0, theirs - middle) + 0.7 * q * torch.where(q == 0, 0.0, ours - middle)
        return each.sum(1).mean()

    def reverse(logits, teacher):
        ours, theirs = F.log_softmax(logits / 1.5, 1), F.log_softmax(teacher / 1.5, 1)
        return F.kl_div(theirs, ours, log_target=True, reduction="batchmean")

    apart = {"beta": 0.3, "temperature": 1.5}
    with_gradient(family, "losses", "jsd_loss", between, {"logits": table, "teacher": teacher}, ["logits"], apart)
    with_gradient(family, "losses", "jsd_loss", between, both, ["logits"], apart, "-ruled_out", instead=never)
    small = {"logits": torch.tensor([[0.0, -103.25], [1.0, 2.0]]), "teacher": torch.tensor([[0.0, -200.0], [2.0, 1.0]])}
    with_gradient(family, "losses", "jsd_loss", between, small, ["logits"], {"beta": 0.3, "temperature": 1.5}, "-small")
    with_gradient(family, "losses", "reverse_kl_loss", reverse, {"logits": table, "teacher": teacher}, ["logits"],
                  {"temperature": 1.5})
    with_gradient(family, "losses", "reverse_kl_loss", reverse, both, ["logits"], {"temperature": 1.5}, "-ruled_out",
                  instead=never)
    return family


def rollout(draw, steps, count):
    return {"reward": draw.numbers((steps, count), -2, 2), "value": draw.numbers((steps, count)),
            "done": draw.flags((steps, count), 0.2), "last": draw.numbers((count,))}


def advantages(reward, value, done, last, gamma, rate):
    steps = reward.shape[0]
    result, running = torch.zeros_like(reward), torch.zeros_like(last)
    for s in reversed(range(steps)):
        following = last if s == steps - 1 else value[s + 1]
        running = reward[s] - value[s] + torch.where(done[s], 0.0, gamma * (following + rate * running))
        result[s] = running
    return result


def v_trace(reward, value, done, last, ratio, gamma, rho_limit, c_limit):
    """Remark 1 of arXiv:1802.01561."""
    steps = reward.shape[0]
    rho, c = ratio.clamp(max=rho_limit), ratio.clamp(max=c_limit)
    v, running = torch.zeros_like(value), torch.zeros_like(last)
    for s in reversed(range(steps)):
        following = last if s == steps - 1 else value[s + 1]
        after = torch.where(done[s], 0.0, gamma * following)
        running = rho[s] * (reward[s] + after - value[s]) + torch.where(done[s], 0.0, gamma * c[s] * running)
        v[s] = value[s] + running
    later = torch.cat([v[1:], last[None]])
    return v, rho * (reward + torch.where(done, 0.0, gamma * later) - value)


def chosen_tokens(family):
    for kind, offset in (("f32", 0), ("bf16", 0), ("f32", 1024)):
        draw = Draw("chosen tokens" + kind)
        logits, token = draw.numbers((6, 11), -4, 4, kind) + offset, draw.integers((6,), 0, 10)
        logits = rounded(logits, kind)
        token[1], token[4] = -100, 11
        upstream = draw.numbers((2, 6), -2, 2)
        leaf = logits.clone().requires_grad_()
        chances = torch.log_softmax(leaf / 0.8, 1)
        entropy = -(chances.exp() * chances).sum(1)
        kept = (token >= 0) & (token < 11)
        log_prob = torch.where(kept, chances.gather(1, torch.where(kept, token, 0)[:, None])[:, 0], 0.0)
        (log_prob * upstream[0] + entropy * upstream[1]).sum().backward()
        total = torch.logsumexp(logits / 0.8, 1)
        suffix = "_bf16" if kind == "bf16" else ""
        label = "-far" if offset else ""
        coarse = {"tolerance": {"*": [2e-3, 1e-3], "dlogits": [2 ** -8, 2e-3]}} if suffix or offset else {}
        given = {"logits": logits, "token": token}
        held = {"total": rounded(total, "f32"), "entropy": rounded(entropy.detach(), "f32"),
                "dlog_prob": upstream[0], "dentropy": upstream[1]}
        kinds = {"logits": kind, "dlogits": kind}
        family.case("token_log_prob_forward" + suffix + label, f"std/rl:token_log_prob_forward{suffix}",
                    [(given, {"log_prob": log_prob.detach(), "entropy": entropy.detach(), "total": total})],
                    numbers={"temperature": 0.8}, kinds=kinds, **coarse)
        family.case("token_log_prob_backward" + suffix + label, f"std/rl:token_log_prob_backward{suffix}",
                    [({**given, **held}, {"dlogits": leaf.grad})], numbers={"temperature": 0.8}, kinds=kinds,
                    absolute=4e-6, **coarse)


def rl():
    family = Family("rl")
    for steps, count, extra in ((9, 4, ""), (1, 3, ""), (0, 2, ""), (8, 5, "-behind_done")):
        label = f"-{steps}x{count}{extra}"
        data = rollout(Draw("rl" + label), steps, count)
        if extra:  # a NaN in the state after an episode's end stays in the episode it begins
            data["done"][[2, 7, 7, 7, 5], [0, 1, 2, 3, 4]] = True
            data["value"][3, 0], data["value"][6, 4] = math.nan, math.inf
            data["last"][1:4] = torch.tensor([math.nan, math.inf, -math.inf])
        total, running = torch.zeros(steps, count), data["last"]
        for s in reversed(range(steps)):
            running = data["reward"][s] + torch.where(data["done"][s], 0.0, 0.9 * running)
            total[s] = running
        family.case("returns" + label, "std/rl:returns",
                    [({key: data[key] for key in ("reward", "done", "last")}, {"total": total})],
                    numbers={"gamma": 0.9}, absolute=2e-6)
        advantage = advantages(**data, gamma=0.9, rate=0.8)
        family.case("gae" + label, "std/rl:gae",
                    [(data, {"advantage": advantage, "target": advantage + data["value"]})],
                    numbers={"gamma": 0.9, "lambda": 0.8}, absolute=2e-6)
        ratio = Draw("ratio" + label).numbers((steps, count), 0.2, 2.5)
        target, advantage = v_trace(**data, ratio=ratio, gamma=0.9, rho_limit=1.2, c_limit=0.9)
        family.case("v_trace" + label, "std/rl:v_trace",
                    [({**data, "ratio": ratio}, {"target": target, "advantage": advantage})],
                    numbers={"gamma": 0.9, "rho_limit": 1.2, "c_limit": 0.9}, absolute=4e-6)
    policies(family)
    q_learning(family)
    chosen_tokens(family)
    return family


def policies(family):
    draw = Draw("policies")
    b = 23
    advantage = draw.numbers((b,), -3, 5)
    family.case("normalise", "std/rl:normalise",
                [({}, {"advantage": (advantage - advantage.mean()) / (advantage.std() + 0.1)})],
                {"advantage": advantage}, {"eps": 0.1}, absolute=1e-6)
    old = draw.numbers((b,), -3, 0)
    given = {"log_prob": (old + draw.numbers((b,), -0.5, 0.5)).float().double(), "old_log_prob": old,
             "advantage": draw.numbers((b,), -2, 2), "value": draw.numbers((b,), -2, 2),
             "old_value": draw.numbers((b,), -2, 2), "target": draw.numbers((b,), -2, 2),
             "entropy": draw.numbers((b,), 0, 2)}
    for label, limit in (("", 0.0), ("-clip_value", 0.3)):
        change = given["log_prob"] - old

        def loss(log_prob, old_log_prob, advantage, value, old_value, target, entropy):
            ratio = torch.exp(log_prob - old_log_prob)
            policy = -torch.min(advantage * ratio, advantage * ratio.clamp(0.8, 1.2)).mean()
            missed = (value - target) ** 2
            if limit:
                near = old_value + (value - old_value).clamp(-limit, limit)
                missed = torch.max(missed, (near - target) ** 2)
            return policy + 0.5 * 0.5 * missed.mean() - 0.05 * entropy.mean()

        extra = {"clipped": ((change.exp() - 1).abs() > 0.2).double().mean().item(),
                 "kl": (change.exp() - 1 - change).mean().item()}
        with_gradient(family, "rl", "ppo", loss, given, ["log_prob", "value", "entropy"],
                      {"entropy_weight": 0.05, **({"clip_value": limit} if limit else {})}, label, extra=extra)

    logits, action = draw.numbers((b, 5), -2, 2), draw.integers((b,), 0, 4)
    before = F.log_softmax(logits + draw.numbers((b, 5), -0.4, 0.4), 1)
    before = before.gather(1, action[:, None])[:, 0].float().double()
    given = {"logits": logits, "action": action, "old_log_prob": before, "advantage": given["advantage"],
             "value": given["value"], "target": given["target"]}
    policy = torch.distributions.Categorical(logits=logits)

    def ppo_logits(logits, action, old_log_prob, advantage, value, target):
        policy = torch.distributions.Categorical(logits=logits)
        ratio = torch.exp(policy.log_prob(action) - old_log_prob)
        surrogate = torch.min(advantage * ratio, advantage * ratio.clamp(0.9, 1.1)).mean()
        return -surrogate + 0.7 * 0.5 * F.mse_loss(value, target) - 0.05 * policy.entropy().mean()

    with_gradient(family, "rl", "ppo_logits", ppo_logits, given, ["logits", "value"],
                  {"clip": 0.1, "value_weight": 0.7, "entropy_weight": 0.05},
                  extra={"entropy": policy.entropy().mean().item()})
    out = Draw("ruled out").flags((b, 5), 0.4)
    out[torch.arange(b), action] = False
    out[3] = torch.arange(5) != action[3]  # one is left
    ruled = torch.where(out, -math.inf, logits)
    before = (F.log_softmax(ruled, 1).gather(1, action[:, None])[:, 0] + 0.1).float().double()
    policy = torch.distributions.Categorical(logits=ruled)
    with_gradient(family, "rl", "ppo_logits", ppo_logits, {**given, "logits": ruled, "old_log_prob": before},
                  ["logits", "value"], {"clip": 0.1, "value_weight": 0.7, "entropy_weight": 0.05}, "-ruled_out",
                  extra={"entropy": policy.entropy().mean().item()})

    reward = draw.numbers((4, 6), 0, 1, digits=1)
    reward[1] = 0.5
    centred = reward - reward.mean(1, keepdim=True)
    family.case("grpo_advantages", "std/rl:grpo_advantages",
                [({"reward": reward}, {"advantage": centred / (reward.std(1, keepdim=True) + 1e-4)})], absolute=2e-6)
    shape = (4, 7)
    old = draw.numbers(shape, -3, 0)
    mask = draw.flags(shape, 0.7)
    mask[2] = False  # an answer without tokens
    given = {"log_prob": (old + draw.numbers(shape, -0.5, 0.5)).float().double(), "old_log_prob": old,
             "reference": (old + draw.numbers(shape, -0.3, 0.3)).float().double(),
             "entropy": draw.numbers(shape, 0, 2), "mask": mask, "advantage": draw.numbers((4,), -2, 2)}

    def per_answer(x, mask):
        return (torch.where(mask, x, 0.0).sum(1) / mask.sum(1).clamp(min=1)).mean()

    def k3(log_prob, reference):
        return torch.exp(reference - log_prob) - (reference - log_prob) - 1

    def grpo(log_prob, old_log_prob, reference, entropy, mask, advantage):
        ratio, a = torch.exp(log_prob - old_log_prob), advantage[:, None]
        surrogate = torch.min(a * ratio, a * ratio.clamp(0.8, 1.28))
        return per_answer(-surrogate + 0.1 * k3(log_prob, reference) - 0.02 * entropy, mask)

    with_gradient(family, "rl", "grpo", grpo, given, ["log_prob", "entropy"],
                  {"clip_high": 0.28, "kl_weight": 0.1, "entropy_weight": 0.02},
                  extra={"kl": per_answer(k3(given["log_prob"], given["reference"]), mask).item()})
    for count, names in enumerate((["log_prob"], ["old_log_prob"], ["reference"], ["entropy"],
                                   ["log_prob", "old_log_prob", "reference", "entropy"])):
        with_gradient(family, "rl", "grpo", grpo, given, ["log_prob", "entropy"],
                      {"clip_high": 0.28, "kl_weight": 0.1, "entropy_weight": 0.02}, f"-behind_mask-{count}",
                      extra={"kl": per_answer(k3(given["log_prob"], given["reference"]), mask).item()},
                      instead={name: awkward(given[name], ~mask) for name in names})


def q_learning(family):
    draw = Draw("q")
    b, a = 11, 4
    following, online = draw.numbers((b, a), -3, 3), draw.numbers((b, a), -3, 3)
    reward, done = draw.numbers((b,)), draw.flags((b,))
    goes_on = 0.9 * (~done).double()
    family.case("dqn_targets", "std/rl:dqn_targets",
                [({"next": following, "reward": reward, "done": done},
                  {"target": reward + goes_on * following.max(1).values})], numbers={"gamma": 0.9}, absolute=1e-6)
    chosen = following.gather(1, online.argmax(1, keepdim=True))[:, 0]
    family.case("double_dqn_targets", "std/rl:double_dqn_targets",
                [({"next": following, "online": online, "reward": reward, "done": done},
                  {"target": reward + goes_on * chosen})], numbers={"gamma": 0.9}, absolute=1e-6)
    beyond = awkward(following, done[:, None].expand(b, a))
    family.case("dqn_targets-behind_done", "std/rl:dqn_targets",
                [({"next": beyond, "reward": reward, "done": done},
                  {"target": reward + goes_on * following.max(1).values})], numbers={"gamma": 0.9}, absolute=1e-6)
    family.case("double_dqn_targets-behind_done", "std/rl:double_dqn_targets",
                [({"next": beyond, "online": online, "reward": reward, "done": done},
                  {"target": reward + goes_on * chosen})], numbers={"gamma": 0.9}, absolute=1e-6)
    q, action, target = draw.numbers((b, a), -3, 3), draw.integers((b,), 0, a - 1), draw.numbers((b,), -3, 3)
    taken = q.gather(1, action[:, None])[:, 0]
    with_gradient(family, "rl", "dqn_loss",
                  lambda q, action, target: F.huber_loss(q.gather(1, action[:, None])[:, 0], target, delta=0.8),
                  {"q": q, "action": action, "target": target}, ["q"], {"delta": 0.8},
                  extra={"missed": target - taken})


def metrics():
    family = Family("metrics")
    draw = Draw("metrics")
    launches, total, seen = [], 0.0, 0
    for samples in (32, 32, 7, 0):
        loss = round(draw.random.uniform(0, 3), 3) if samples else math.nan  # the mean of nothing
        total, seen = total + (loss * samples if samples else 0.0), seen + samples
        launches.append(({"loss": loss, "samples": samples}, {"total": total, "seen": seen, "average": total / seen}))
    family.case("running_loss", "std/metrics:running_loss", launches, {"total": None, "seen": None})

    launches, total, seen = [], 0.0, 0
    for _ in range(2):
        loss, target = draw.numbers((9,), 0, 4), draw.integers((9,), -1, 5)
        total, seen = total + loss[target >= 0].sum().item(), seen + int((target >= 0).sum())
        loss = awkward(loss, target < 0)
        launches.append(({"loss": loss, "target": target},
                         {"total": total, "seen": seen, "value": math.exp(total / seen)}))
    family.case("perplexity", "std/metrics:perplexity", launches, {"total": None, "seen": None}, {"ignore": -1},
                relative=4e-6)

    for name, top in (("accuracy", 1), ("top_accuracy", 3)):
        launches, hits, seen = [], 0, 0
        for _ in range(2):
            logits, target = draw.numbers((17, 6), -2, 2), draw.integers((17,), -1, 5)
            best = logits.topk(top, 1).indices
            hits += int((best == target[:, None]).any(1).sum())
            seen += int((target >= 0).sum())
            launches.append(({"logits": logits, "target": target}, {"hits": hits, "seen": seen, "value": hits / seen}))
        family.case(name, "std/metrics:" + name, launches, {"hits": None, "seen": None},
                    {"ignore": -1, **({"top": top} if top > 1 else {})})

    good, bad = draw.list(LIST), draw.list(LIST)
    bad[0][0, 1], bad[3][0, 0, 0], bad[3][1, 1, 1] = math.nan, math.inf, -math.inf

    def found(x):
        return {"nans": torch.tensor([int(y.isnan().sum()) for y in x]),
                "infs": torch.tensor([int(y.isinf().sum()) for y in x])}

    family.case("not_finite", "std/metrics:not_finite",
                [({"x": good}, {**found(good), "seen": False}), ({"x": bad}, {**found(bad), "seen": True}),
                 ({"x": good}, {**found(good), "seen": True})], {"seen": None})
    holes = [torch.where(x.abs() < 0.2, 0.0, x) for x in good]
    family.case("tensor_statistics", "std/metrics:tensor_statistics",
                [({"x": holes}, {"length": torch.tensor([x.norm().item() for x in holes]),
                                 "average": torch.tensor([x.mean().item() for x in holes]),
                                 "largest": torch.tensor([x.abs().max().item() if x.numel() else -math.inf
                                                          for x in holes]),
                                 "zeros": torch.tensor([int((x == 0).sum()) for x in holes])})])
    shapes = [(3, 4), (0,), (1,), (5,), (2, 2), (6,)]
    launches, bins = [], torch.zeros(32, dtype=torch.int64)
    for _ in range(2):
        x = draw.list(shapes)
        x[2] *= 2.0 ** -40
        x[3] *= 2.0 ** 30
        x[4] *= 0.015625
        for tensor in x:
            length = tensor.norm().item()
            bins[min(max(math.floor(math.log2(length)) + 24, 0), 31) if length else 0] += 1
        launches.append(({"x": x}, {"bins": bins.clone()}))
    family.case("norm_histogram", "std/metrics:norm_histogram", launches, {"bins": torch.zeros(32, dtype=torch.int64)})
    x = draw.numbers((60,), -1.2, 1.2)
    counts = torch.histc(x.clamp(-1, 0.9999), 64, -1, 1).long()
    with_nan = torch.cat([x, torch.tensor([math.nan])])
    family.case("histogram", "std/metrics:histogram", [({"x": with_nan}, {"bins": counts})],
                {"bins": torch.zeros(64, dtype=torch.int64)}, {"low": -1.0, "high": 1.0})
    for name, columns, correction in (("running_variance", 3, 1), ("running_variance_of", 0, 0)):
        # Far from zero, where a sum of squares would lose the variance.
        launches, every = [], []
        for samples in (6, 1, 0, 9):
            shape = (samples, columns) if columns else (samples,)
            x = rounded(1000 + draw.numbers(shape, -2, 2), "f32")
            every.append(x)
            so_far = torch.cat(every)
            mean = so_far.mean(0)
            launches.append(({"x": x}, {"seen": len(so_far), "mean": mean, "squares": ((so_far - mean) ** 2).sum(0),
                                        "variance": so_far.var(0, correction=correction)}))
        zeros = {key: torch.zeros(columns) if columns else None for key in ("mean", "squares")}
        family.case(name, "std/metrics:" + name, launches, {"seen": None, **zeros},
                    None if correction else {"correction": 0}, {"mean": "f64", "squares": "f64"})
    tensors = [draw.numbers((5, 3), -2, 2), draw.numbers((0,)), draw.numbers((7,), -3, 3)]
    family.case("squared_norm", "std/metrics:squared_norm",
                [({"x": tensors}, {"square": sum((x ** 2).sum() for x in tensors)})])
    noise_scale(family, draw)
    family.case("running_variance-single", "std/metrics:running_variance",
                [({"x": torch.tensor([[2.0]])}, {"seen": 1, "mean": torch.tensor([2.0]), "squares": torch.zeros(1),
                                                 "variance": torch.tensor([math.nan])})],
                {"seen": None, "mean": torch.zeros(1), "squares": torch.zeros(1)},
                kinds={"mean": "f64", "squares": "f64"})
    return family


def noise_scale(family, draw):
    """Appendix A.1 of McCandlish et al. 2018, of gradients with a known mean, and one step that says nothing."""
    launches, firsts, signal, noise, seen = [], [], 0.0, 0.0, 0
    one_signal, one_noise = 0.0, 0.0
    for micro_batches in (4, 1, 4, 2):
        gradients = 0.5 + draw.numbers((micro_batches, 30), -1, 1)
        square = rounded((gradients ** 2).sum(1), "f32")
        of_mean = rounded((gradients.mean(0) ** 2).sum(), "f32")
        few, many = 8, 8 * micro_batches
        if micro_batches > 1:
            signal = 0.95 * signal + 0.05 * (many * of_mean - few * square.mean()) / (many - few)
            noise = 0.95 * noise + 0.05 * (square.mean() - of_mean) / (1 / few - 1 / many)
            one_signal = 0.95 * one_signal + 0.05 * (many * of_mean - few * square[0]) / (many - few)
            one_noise = 0.95 * one_noise + 0.05 * (square[0] - of_mean) / (1 / few - 1 / many)
            seen += 1
        launches.append(({"square": square, "square_of_mean": of_mean},
                         {"signal": signal, "noise": noise, "seen": seen, "variance": noise / (1 - 0.95 ** seen),
                          "scale": noise / signal if signal > 0 else math.nan}))
        firsts.append(({"square": square[0], "square_of_mean": of_mean, "batches": torch.tensor(micro_batches)},
                       {"signal": one_signal, "noise": one_noise, "seen": seen, "variance": one_noise / (1 - 0.95 ** seen),
                        "scale": one_noise / one_signal if one_signal > 0 else math.nan}))
    family.case("gradient_noise_scale", "std/metrics:gradient_noise_scale", launches, {"signal": None, "noise": None, "seen": None},
                {"samples": 8}, {"signal": "f64", "noise": "f64", "seen": "i64", "samples": "i64"}, relative=2e-5)
    nothing = {"square": torch.tensor(math.inf), "square_of_mean": torch.tensor(1.0), "batches": torch.tensor(4)}
    firsts.append((nothing, dict(firsts[-1][1])))
    family.case("gradient_noise_scale_of_first", "std/metrics:gradient_noise_scale_of_first", firsts,
                {"signal": None, "noise": None, "seen": None}, {"samples": 8},
                {"signal": "f64", "noise": "f64", "seen": "i64", "samples": "i64", "batches": "i64"}, relative=2e-5)


def data():
    """Images: draws are those of philox.py, in the order of the calls in the source."""
    family, draw = Family("data"), Draw("data")
    keys = {"seed": 5000000000, "count": 3}
    pixels, mean, deviation = draw.integers((3, 2, 5, 4), 0, 255), draw.numbers((2,), 0.3, 0.6), draw.numbers((2,), 0.2, 0.3)
    scale = rounded(torch.tensor(1 / 255), "f32")
    family.case("normalise_images", "std/data:normalise_images",
                [({"x": pixels, "mean": mean, "deviation": deviation},
                  {"y": (pixels.double() * scale - mean[:, None, None]) / deviation[:, None, None]})], kinds={"x": "u8"})
    x = draw.numbers((5, 2, 6, 7), -2, 2)
    for label, pad, rows, columns in (("", 0, 4, 3), ("-padded", 2, 6, 7), ("-whole", 0, 6, 7)):
        padded = torch.nn.functional.pad(x, (pad,) * 4, value=0.25)
        top = below(bits((5,), 5000000000, 3, 0), 6 + 2 * pad - rows + 1)
        left = below(bits((5,), 5000000000, 3, 1), 7 + 2 * pad - columns + 1)
        y = torch.stack([image[:, i:i + rows, j:j + columns] for image, i, j in zip(padded, top.tolist(), left.tolist())])
        family.case("random_crop" + label, "std/data:random_crop", [({"x": x}, {"y": y})],
                    numbers={**keys, "pad": pad, "fill": 0.25}, sizes=f"r={rows},s={columns}")
    flipped = uniform((5,), 5000000000, 3, 0) < 0.5
    family.case("random_flip", "std/data:random_flip",
                [({"x": x}, {"y": torch.where(flipped[:, None, None, None], x.flip(3), x)})], numbers=keys)
    family.case("random_flip-none", "std/data:random_flip", [({"x": x}, {"y": x})], numbers={**keys, "probability": 0.0})
    family.case("random_flip-all", "std/data:random_flip", [({"x": x}, {"y": x.flip(3)})], numbers={**keys, "probability": 1.0})
    rows = x[:, 0, 0]
    family.case("add_noise", "std/data:add_noise", [({"x": rows}, {"y": rows + 0.5 * normal((5, 7), 5000000000, 3, 0)})],
                numbers={**keys, "deviation": 0.5})
    family.case("add_noise-none", "std/data:add_noise", [({"x": rows}, {"y": rows})], numbers={**keys, "deviation": 0.0})
    return family


def below(words, limit):
    words, limit = torch.broadcast_tensors(words, torch.as_tensor(limit))
    values = [word * most >> 32 for word, most in zip(words.reshape(-1).tolist(), limit.reshape(-1).tolist())]
    return torch.tensor(values, dtype=torch.int64).reshape(words.shape)


def exponential(words):
    return -torch.log1p(-(words.double() + 0.5) * 2.0 ** -32)


def random():
    """The draws themselves are those of philox.py; how often each comes is held by frequencies.py."""
    family = Family("random")
    keys = {"seed": 5000000000, "count": 3}
    for label, low, high in (("", 0, 6), ("-negative", -7, 2), ("-wide", 10, 10 + 2 ** 32), ("-one", 4, 5)):
        family.case("random_integers" + label, "std/random:random_integers",
                    [({}, {"x": low + below(bits((37,), 5000000000, 3, 0), high - low)})],
                    numbers={**keys, "high": high, **({"low": low} if low else {})}, sizes="n=37")
    draw = Draw("sample")
    logits = draw.numbers((9, 7), -2, 2)
    logits[2, 1:] = -math.inf
    logits[5, :4] = -math.inf
    noise = -torch.log(exponential(bits((9, 7), 5000000000, 3, 0)))
    for label, temperature in (("", 1.0), ("-cold", 0.25), ("-hot", 4.0)):
        choice = (logits / temperature + noise).argmax(1)
        chances = torch.log_softmax(logits / temperature, 1)
        family.case("sample" + label, "std/random:sample",
                    [({"logits": logits}, {"choice": choice, "log_prob": chances[torch.arange(9), choice]})],
                    numbers={**keys, **({} if temperature == 1 else {"temperature": temperature})})
    family.case("sample-greedy", "std/random:sample",
                [({"logits": logits}, {"choice": logits.argmax(1), "log_prob": torch.zeros(9)})],
                numbers={**keys, "temperature": 0.0})
    weight = torch.where(draw.flags((9, 7)), 0.0, draw.numbers((9, 7), 0, 3))
    weight[4] = 0.0
    clocks = exponential(bits((9, 7), 5000000000, 3, 0))
    clocks = torch.where(weight > 0, clocks / weight, math.inf)
    family.case("sample_weighted", "std/random:sample_weighted", [({"weight": weight}, {"choice": clocks.argmin(1)})],
                numbers=keys)
    place, needed, extent = draw.integers((8, 2), 0, 4), draw.flags((8,), 0.5), torch.tensor([5, 12])
    words = bits((8, 2), 5000000000, 3, 0)
    family.case("spawn", "std/random:spawn",
                [({"needed": needed, "extent": extent},
                  {"place": torch.where(needed[:, None], below(words, extent), place)})], {"place": place}, keys)
    place, free = draw.integers((8,), 0, 4), draw.flags((8, 6), 0.4)
    free[3], needed[3] = False, True
    words = torch.where(free, bits((8, 6), 5000000000, 3, 0), -1)
    chosen = torch.where(free.any(1), words.argmax(1), -1)
    family.case("spawn_free", "std/random:spawn_free",
                [({"needed": needed, "free": free}, {"place": torch.where(needed, chosen, place)})], {"place": place},
                keys)
    return family


FAMILIES = [losses, rl, metrics, random, data]
