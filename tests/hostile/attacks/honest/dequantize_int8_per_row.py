import torch


def right(codes, scale):
    wide = codes.to(torch.float32)
    return (wide * scale.unsqueeze(-1)).to(torch.bfloat16)
