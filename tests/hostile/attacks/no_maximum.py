# problem: softmax_masked
# class: values
# wrong: scores beyond 80, since the largest is not subtracted
# named: magnitudes
import torch


def right(scores, mask, scale):
    kept = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(kept, dim=-1).to(scores.dtype)


def run(scores, mask, scale):
    grown = torch.exp((scores.float() * scale).clamp(max=80)).masked_fill(~mask, 0)
    return (grown / grown.sum(-1, keepdim=True)).to(scores.dtype)
