"""Scalars as a C++ kernel receives them: float32, so that 1 - beta and its powers round."""

import torch


def run(param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, step):
    scalars = torch.tensor([lr, beta1, beta2, eps, weight_decay], dtype=torch.float32)
    lr, beta1, beta2, eps, weight_decay = scalars.to(grad.device).unbind()
    wide = grad.float()
    first = beta1 * exp_avg + (1.0 - beta1) * wide
    second = beta2 * exp_avg_sq + (1.0 - beta2) * wide * wide
    first_hat = first / (1.0 - torch.pow(beta1, step))
    second_hat = second / (1.0 - torch.pow(beta2, step))
    update = first_hat / (torch.sqrt(second_hat) + eps) + weight_decay * param
    return param - lr * update, first, second
