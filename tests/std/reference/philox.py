"""Random numbers as the language defines them: Philox 4x32-10 (Salmon et al. 2011) under a key made of
seed, step, the call's place and the tensor's number."""
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
