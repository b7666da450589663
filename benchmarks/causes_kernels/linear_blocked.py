import torch

BM, BN, BK = 16, 32, 64


def linear(x, weight, bias):
    m, k = x.shape
    n = weight.shape[0]
    out = torch.zeros(m, n, dtype=torch.float32)
    for i in range(0, m, BM):
        for j in range(0, n, BN):
            acc = torch.zeros(min(BM, m - i), min(BN, n - j), dtype=torch.float32)
            for p in range(0, k, BK):
                a = x[i : i + BM, p : p + BK]
                b = weight[j : j + BN, p : p + BK]
                acc += a @ b.t()
            out[i : i + BM, j : j + BN] = acc + bias[j : j + BN]
    return out
