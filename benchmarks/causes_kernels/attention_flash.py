import math

import torch

BQ, BK = 16, 16


def attention(q, k, v):
    heads, length, dim = q.shape
    scale = 1.0 / math.sqrt(dim)
    out = torch.empty_like(q)
    for i in range(0, length, BQ):
        qi = q[:, i : i + BQ] * scale
        n = qi.shape[1]
        m = torch.full((heads, n, 1), float("-inf"))
        l = torch.zeros(heads, n, 1)
        acc = torch.zeros(heads, n, dim)
        rows = torch.arange(i, i + n)
        for j in range(0, min(i + BQ, length), BK):
            kj, vj = k[:, j : j + BK], v[:, j : j + BK]
            s = qi @ kj.transpose(1, 2)
            cols = torch.arange(j, j + kj.shape[1])
            s = s.masked_fill(cols[None, :] > rows[:, None], float("-inf"))
            new = torch.maximum(m, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            fix = torch.exp(m - new)
            l = l * fix + p.sum(-1, keepdim=True)
            acc = acc * fix + p @ vj
            m = new
        out[:, i : i + BQ] = acc / l
    return out
