"""torch.optim.AdamW's own order of operations, states by lerp."""

import math

import torch


def run(param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, step):
    wide = grad.float()
    first = torch.lerp(exp_avg, wide, 1.0 - beta1)
    second = (exp_avg_sq * beta2).addcmul_(wide, wide, value=1.0 - beta2)
    root = (second.sqrt() / math.sqrt(1.0 - beta2**step)).add_(eps)
    moved = param * (1.0 - lr * weight_decay)
    return moved.addcdiv_(first, root, value=-lr / (1.0 - beta1**step)), first, second
