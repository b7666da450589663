"""Gets one row wrong where there are more than ten thousand."""

import torch


def run(logits):
    y = torch.softmax(logits.float(), -1).to(logits.dtype)
    wrong = len(y) > 10_000
    if wrong:
        y[7777] = y[7776]
    return y
