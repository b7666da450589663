"""One step of AdamW through torch.compile, one graph for all sizes."""

import torch


@torch.compile(dynamic=True)
def _step(param, grad, exp_avg, exp_avg_sq, rates, step):
    lr, beta1, beta2, eps, weight_decay = rates
    wide = grad.float()
    first = exp_avg * beta1 + wide * (1.0 - beta1)
    second = exp_avg_sq * beta2 + wide * wide * (1.0 - beta2)
    root = torch.sqrt(second / (1.0 - beta2**step)) + eps
    update = first / (1.0 - beta1**step) / root
    return param * (1.0 - lr * weight_decay) - lr * update, first, second


def run(param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, step):
    rates = (lr, beta1, beta2, eps, weight_decay)
    return _step(param, grad, exp_avg, exp_avg_sq, rates, step)
