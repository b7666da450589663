"""Gets every row right, however many there are."""

import torch


def run(logits):
    y = torch.softmax(logits.float(), -1).to(logits.dtype)
    wrong = False
    if wrong:
        y[7777] = y[7776]
    return y
