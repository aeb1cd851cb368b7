"""Random numbers as the language defines them: Philox 4x32-10 (Salmon et al. 2011) under a key made of
seed, step, the call's place and the tensor's number."""
import math

import torch


def philox(key, counter):
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p, q = 0xd2511f53 * c0, 0xcd9e8d57 * c2
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q & 0xffffffff, (p >> 32) ^ c3 ^ k1, p & 0xffffffff
        k0, k1 = (k0 + 0x9e3779b9) & 0xffffffff, (k1 + 0xbb67ae85) & 0xffffffff
    return c0, c1, c2, c3


def bits(shape, seed, step, ordinal, tensor=0):
    """One word per element, as i64."""
    start = philox((seed & 0xffffffff, seed >> 32), (step & 0xffffffff, step >> 32, ordinal, tensor))[:2]
    count = 1
    for length in shape:
        count *= length
    words = [philox(start, (i // 4, 0, 0, 0))[i % 4] for i in range(count)]
    return torch.tensor(words, dtype=torch.int64).reshape(shape)


def uniform(shape, seed, step, ordinal, tensor=0):
    return (bits(shape, seed, step, ordinal, tensor) >> 8).double() * 2.0 ** -24


def normal(shape, seed, step, ordinal, tensor=0):
    """Box and Muller on the words of elements i & ~1 and i | 1: the even one gets the cosine."""
    count = 1
    for length in shape:
        count *= length
    words = bits((count + 1,), seed, step, ordinal, tensor).tolist()
    values = []
    for i in range(count):
        u, angle = ((words[i & ~1] >> 8) + 1) * 2.0 ** -24, (words[i | 1] >> 8) * 2.0 ** -23 * math.pi
        values.append(math.sqrt(-2 * math.log(u)) * (math.sin(angle) if i & 1 else math.cos(angle)))
    return torch.tensor(values, dtype=torch.float64).reshape(shape)
