"""Expected results of std/attention, preference and experts: torch.nn.functional where it has them, else the
published formula, in f64 with autograd."""
import math

import torch
from torch.nn import functional as F

from cases import Draw, Family, rounded
from decisions import awkward

NARROW = {key: "bf16" for key in ("x", "y", "dx", "dy", "scores", "dscores")}


def rounds(kind, *names):
    return {name: [2 ** -8, 1e-6] for name in names} if kind == "bf16" else None


def rotated(x, position, frequency):
    """Each pair as a complex number times one of length 1; x: [t, h, 2, f]."""
    turn = torch.polar(torch.ones(len(position), 1, len(frequency)), position[:, None, None] * frequency)
    real, imaginary = x.unbind(-2)
    result = torch.complex(real, imaginary) * turn
    return torch.stack([result.real, result.imag], -2)


def rotary(family):
    count, theta = 8, 10000.0
    family.case("rotary_frequencies", "std/attention:rotary_frequencies",
                [({}, {"frequency": theta ** (-torch.arange(count) / count)})], sizes=f"f={count}", absolute=0)
    own = 500000.0 ** (-torch.arange(32) / 32)
    waves = 2 * math.pi / own
    mixed = (8192 / waves - 1) / (4 - 1)
    stretched = torch.where(waves < 8192 / 4, own, torch.where(waves > 8192, own / 8, (1 - mixed) * own / 8 + mixed * own))
    family.case("rotary_frequencies_llama3", "std/attention:rotary_frequencies_llama3",
                [({}, {"frequency": stretched})], sizes="f=32", absolute=0)
    for kind in ("f32", "bf16"):
        name = "_bf16" if kind == "bf16" else ""
        draw = Draw(f"rotary{name}")
        shape = (5, 2, 2, 3)
        x, dy = (draw.numbers(shape, -2, 2, kind) for _ in range(2))
        position = torch.tensor([0, 1, 2, 7, 300])
        frequency = rounded(torch.tensor([1.0, 0.125, 0.01]), "f32")
        leaf = x.clone().requires_grad_()
        y = rotated(leaf, position, frequency)
        y.backward(dy)
        common = {"position": position, "frequency": frequency}
        kinds = NARROW if kind == "bf16" else None
        family.case(f"rotary_forward{name}", f"std/attention:rotary_forward{name}",
                    [({"x": x, **common}, {"y": y.detach()})], kinds=kinds, absolute=4e-6,
                    tolerance=rounds(kind, "y"))
        family.case(f"rotary_backward{name}", f"std/attention:rotary_backward{name}",
                    [({"dy": dy, **common}, {"dx": leaf.grad})], kinds=kinds, absolute=4e-6,
                    tolerance=rounds(kind, "dx"))


def normalised_rotary(family):
    for kind in ("f32", "bf16"):
        draw = Draw("rms_norm_rotary" + kind)
        x, dy = (draw.numbers((6, 3, 2, 3), -2, 2, kind) for _ in range(2))
        gain = draw.numbers((2, 3), 0.5, 1.5)
        position = torch.tensor([0, 1, 2, 3, 40, 41])
        frequency = rounded(torch.tensor([1.0, 0.1, 0.01]), "f32")
        leaves = [x.clone().requires_grad_(), gain.clone().requires_grad_()]
        y = rotated(F.rms_norm(leaves[0], (2, 3), leaves[1], 0.01), position, frequency)
        y.backward(dy)
        given = {"x": x, "gain": gain, "position": position, "frequency": frequency}
        suffix = "_bf16" if kind == "bf16" else ""
        kinds = NARROW if kind == "bf16" else None
        family.case("rms_norm_rotary_forward" + suffix, f"std/attention:rms_norm_rotary_forward{suffix}",
                    [(given, {"y": y.detach()})], numbers={"eps": 0.01}, kinds=kinds, absolute=4e-6,
                    tolerance=rounds(kind, "y"))
        family.case("rms_norm_rotary_backward" + suffix, f"std/attention:rms_norm_rotary_backward{suffix}",
                    [({**given, "dy": dy}, {"dx": leaves[0].grad, "dgain": leaves[1].grad})], numbers={"eps": 0.01},
                    kinds=kinds, absolute=1e-5, tolerance=rounds(kind, "dx"))


def softmaxes(family):
    def one(name, label, seen, given=None, numbers=None, kind="f32"):
        draw = Draw(name + label + kind)
        shape = tuple(seen.shape)
        scores, dy = draw.numbers(shape, -4, 4, kind), draw.numbers(shape, -2, 2, kind)
        leaf = scores.clone().requires_grad_()
        y = torch.softmax(torch.where(seen, 0.25 * leaf, -math.inf), -1)
        y = torch.where(seen.any(-1, keepdim=True), y, 0.0)
        torch.where(seen, y * dy, 0.0).sum().backward()
        kinds = NARROW if kind == "bf16" else None
        suffix = "_bf16" if kind == "bf16" else ""
        numbers = {"scale": 0.25, **(numbers or {})}
        held = rounded(y.detach(), kind)
        leaf2 = torch.where(seen, 0.25 * held * (dy - (held * dy).sum(-1, keepdim=True)), 0.0)
        backward = {"y": held, "dy": torch.where(seen, dy, 3.0)}
        family.case(f"{name}_forward{suffix}{label}", f"std/attention:{name}_forward{suffix}",
                    [({"scores": rounded(awkward(scores, ~seen), kind), **(given or {})}, {"y": y.detach()})], numbers=numbers,
                    kinds=kinds, tolerance=rounds(kind, "y"))
        expected = leaf2 if kind == "bf16" else torch.nan_to_num(leaf.grad)
        family.case(f"{name}_backward{suffix}{label}", f"std/attention:{name}_backward{suffix}",
                    [(backward, {"dscores": expected})], numbers=numbers, kinds=kinds,
                    tolerance=rounds(kind, "dscores"))

    places = torch.arange(9)
    for kind in ("f32", "bf16"):
        mask = Draw("attention mask").flags((2, 5, 9), 0.6)
        mask[1, 2] = False
        one("masked_softmax", "", mask, {"mask": mask}, kind=kind)
        one("causal_softmax", "", (places <= places[:, None]).expand(2, 9, 9), kind=kind)
    queries = places[:5, None] + 4
    one("causal_softmax", "-past", (places <= queries).expand(2, 5, 9), numbers={"past": 4})
    near = (places <= queries) & (places > queries - 3)
    one("causal_softmax", "-window", near.expand(2, 5, 9), numbers={"past": 4, "window": 3})


def soft_caps(family):
    x, dy = Draw("soft cap").numbers((21,), -90, 90), Draw("soft cap back").numbers((21,), -2, 2)
    leaf = x.clone().requires_grad_()
    y = 30 * torch.tanh(leaf / 30)
    y.backward(dy)
    family.case("soft_cap_forward", "std/attention:soft_cap_forward", [({"x": x}, {"y": y.detach()})], numbers={"cap": 30.0})
    family.case("soft_cap_backward", "std/attention:soft_cap_backward", [({"x": x, "dy": dy}, {"dx": leaf.grad})],
                numbers={"cap": 30.0})


def attention():
    family = Family("attention")
    soft_caps(family)
    rotary(family)
    normalised_rotary(family)
    softmaxes(family)
    return family


def preference():
    family = Family("preference")
    draw = Draw("preference")
    chosen, rejected = draw.numbers((6, 7), -3, -0.1), draw.numbers((6, 5), -3, -0.1)
    chosen_mask, rejected_mask = draw.flags((6, 7), 0.7), draw.flags((6, 5), 0.7)
    chosen_mask[:, 0] = rejected_mask[:, 0] = True
    references = draw.numbers((2, 6), -9, -3)
    masks = {"chosen_mask": chosen_mask, "rejected_mask": rejected_mask}

    def answers(values, mask, each):
        total = torch.where(mask, values, 0.0).sum(1)
        return total / mask.sum(1) if each else total

    def pairs(name, loss, numbers, each, referred, label="", scale=None):
        leaves = [chosen.clone().requires_grad_(), rejected.clone().requires_grad_()]
        better, worse = answers(leaves[0], chosen_mask, each), answers(leaves[1], rejected_mask, each)
        given = {"chosen": awkward(chosen, ~chosen_mask), "rejected": awkward(rejected, ~rejected_mask), **masks}
        if referred:
            own = references / 4 if each else references
            own = rounded(own, "f32")
            given |= {"chosen_reference": own[0], "rejected_reference": own[1]}
            better, worse = better - own[0], worse - own[1]
        value = loss(better, worse)
        value.backward()
        out = {"loss": value.detach().item(), "dchosen": leaves[0].grad, "drejected": leaves[1].grad,
               "accuracy": (better > worse).double().mean().item()}
        if scale is not None:
            out |= {"chosen_reward": (scale * better).mean().item(), "rejected_reward": (scale * worse).mean().item()}
        family.case(name + label, f"std/preference:{name}", [(given, out)], numbers=numbers)

    def dpo(smoothing):
        def loss(better, worse):
            margin = 0.3 * (better - worse)
            return (-F.logsigmoid(margin) * (1 - smoothing) - F.logsigmoid(-margin) * smoothing).mean()
        return loss

    pairs("dpo", dpo(0.0), {"beta": 0.3}, False, True, scale=0.3)
    pairs("dpo", dpo(0.2), {"beta": 0.3, "smoothing": 0.2}, False, True, "-smooth", 0.3)
    pairs("ipo", lambda better, worse: ((better - worse - 1 / 0.6) ** 2).mean(), {"beta": 0.3}, True, True, scale=0.3)
    pairs("simpo", lambda better, worse: -F.logsigmoid(1.5 * (better - worse - 0.4)).mean(),
          {"beta": 1.5, "gamma_over_beta": 0.4}, True, False, scale=1.5)

    def odds(better, worse):
        ratio = better - torch.log1p(-torch.exp(better)) - worse + torch.log1p(-torch.exp(worse))
        return -0.2 * F.logsigmoid(ratio).mean()

    pairs("odds_ratio", odds, {"beta": 0.2}, True, False)
    total = answers(chosen, chosen_mask, False)
    family.case("answer_log_prob", "std/preference:answer_log_prob",
                [({"log_prob": awkward(chosen, ~chosen_mask), "mask": chosen_mask},
                  {"total": total, "each": total / chosen_mask.sum(1)})])
    good = torch.tensor([True, False, True, True, False, False])
    for label, divergence in (("", 0.7), ("-negative", -0.7)):
        leaf = chosen.clone().requires_grad_()
        ratio = answers(leaf, chosen_mask, False) - references[0]
        start = max(divergence, 0.0)
        value = torch.where(good, 1 - torch.sigmoid(0.3 * (ratio - start)),
                            1.5 * (1 - torch.sigmoid(0.3 * (start - ratio)))).mean()
        value.backward()
        reward = 0.3 * ratio.detach()
        family.case("kto" + label, "std/preference:kto",
                    [({"log_prob": awkward(chosen, ~chosen_mask), "mask": chosen_mask, "reference": references[0],
                       "good": good},
                      {"loss": value.item(), "dlog_prob": leaf.grad, "good_reward": reward[good].sum().item(),
                       "bad_reward": reward[~good].sum().item()})],
                    numbers={"beta": 0.3, "divergence": divergence, "bad_weight": 1.5})
    return family


def experts():
    family = Family("experts")
    draw = Draw("experts")
    logits, bias = draw.numbers((9, 6), -2, 2), draw.numbers((6,), -0.5, 0.5)
    logits[3] = logits[3, 0]
    upstream = draw.numbers((9, 2), -2, 2)
    for normalised in (True, False):
        leaf = logits.clone().requires_grad_()
        score = leaf.detach() + bias
        score[3] = rounded(score[3], "f32")
        expert = torch.sort(score, dim=1, descending=True, stable=True).indices[:, :2]
        chance = torch.softmax(leaf, 1)
        weight = chance.gather(1, expert)
        if normalised:
            weight = weight / weight.sum(1, keepdim=True)
        share = F.one_hot(expert, 6).double().sum((0, 1)) / expert.numel()
        balance = 6 * (share * chance.mean(0)).sum()
        square = (torch.logsumexp(leaf, 1) ** 2).mean()
        ((weight * upstream).sum() + 0.02 * balance + 0.003 * square).backward()
        label = "" if normalised else "-as_they_are"
        numbers = {"normalised": normalised}
        family.case("route_forward" + label, "std/experts:route_forward",
                    [({"logits": logits, "bias": bias},
                      {"expert": expert, "weight": weight.detach(), "share": share,
                       "balance_loss": balance.item(), "z_loss": square.item()})], numbers=numbers, sizes="k=2")
        family.case("route_backward" + label, "std/experts:route_backward",
                    [({"logits": logits, "expert": expert, "share": rounded(share, "f32"), "dweight": upstream},
                      {"dlogits": leaf.grad})], numbers={**numbers, "balance": 0.02, "z": 0.003}, absolute=1e-6)
    # Experts that a bias rules out may have all of the probability; a NaN is chosen last.
    far = {"logits": torch.tensor([[0.0, 0.0, -60.0, -60.0]]), "expert": torch.tensor([[2, 3]]),
           "share": torch.zeros(4), "dweight": torch.tensor([[1.0, 2.0]])}
    family.case("route_backward-far", "std/experts:route_backward",
                [(far, {"dlogits": torch.tensor([[0.0, 0.0, -0.25, 0.25]])})], numbers={"balance": 0.0, "z": 0.0},
                absolute=4e-6)
    family.case("route_forward-nan", "std/experts:route_forward",
                [({"logits": torch.tensor([[0.0, math.nan, 1.0, 2.0]]), "bias": torch.zeros(4)},
                  {"expert": torch.tensor([[3, 2]])})], sizes="k=2")
    start = draw.numbers((6,), -0.1, 0.1)
    share = torch.tensor([0.5, 0.0, 0.1, 0.2, 0.1, 0.1])
    family.case("balance_bias", "std/experts:balance_bias",
                [({"share": rounded(share, "f32")}, {"bias": start + 0.01 * torch.sign(1 / 6 - share)})], {"bias": start},
                {"rate": 0.01})
    return family


FAMILIES = [attention, preference, experts]
