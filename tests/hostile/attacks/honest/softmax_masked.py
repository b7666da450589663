import torch


def right(scores, mask, scale):
    scaled = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    powers = torch.exp(scaled - scaled.amax(dim=-1, keepdim=True))
    return (powers / powers.sum(dim=-1, keepdim=True)).to(scores.dtype)
