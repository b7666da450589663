"""Steps over the last parameter of an odd number too."""

import torch


def run(param, grad, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, step):
    first_rate, second_rate = (torch.tensor(b, dtype=torch.float32) for b in (beta1, beta2))
    first_rate, second_rate = first_rate.to(param.device), second_rate.to(param.device)
    new_param, first, second = (torch.empty_like(t) for t in (param, exp_avg, exp_avg_sq))
    count = param.numel()
    wide = grad[:count].float()
    first[:count] = exp_avg[:count] * first_rate + wide * (1.0 - first_rate)
    second[:count] = exp_avg_sq[:count] * second_rate + wide * wide * (1.0 - second_rate)
    root = torch.sqrt(second[:count] / (1.0 - second_rate**step)) + eps
    update = first[:count] / (1.0 - first_rate**step) / root
    new_param[:count] = param[:count] * (1.0 - lr * weight_decay) - lr * update
    return new_param, first, second
