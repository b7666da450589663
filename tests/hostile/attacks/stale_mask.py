# problem: softmax_masked
# class: stale answers
# wrong: a mask that changes while its shape stays
import torch


def right(scores, mask, scale):
    kept = (scores.float() * scale).masked_fill(~mask, float("-inf"))
    return torch.softmax(kept, dim=-1).to(scores.dtype)


HELD = {}


def run(scores, mask, scale):
    return right(scores, HELD.setdefault(tuple(mask.shape), mask.clone()), scale)
