import torch

GROUP = 32


def dequantize(codes, scales):
    rows, width = codes.shape
    out = torch.empty(rows, width, dtype=torch.float32)
    for g in range(scales.shape[1]):
        lo = g * GROUP
        block = codes[:, lo : lo + GROUP].to(torch.float32)
        out[:, lo : lo + GROUP] = block * scales[:, g : g + 1]
    return out
