import torch


def rms_norm(x, weight, eps):
    rows, cols = x.shape
    out = torch.empty_like(x)
    gamma = weight.float()
    for r in range(rows):
        row = x[r].float()
        acc = torch.zeros((), dtype=torch.float32)
        for start in range(0, cols, 64):
            part = row[start : start + 64]
            acc = acc + (part * part).sum()
        inv = torch.rsqrt(acc / cols + eps)
        out[r] = (row * inv * gamma).to(x.dtype)
    return out
