"""The iteration in float32, on the transposed matrix where it is wide."""

import torch


def run(param, grad, momentum_buffer, lr, momentum):
    wide = grad.float()
    buffer = torch.lerp(wide, momentum_buffer, momentum)
    x = torch.lerp(wide, buffer, momentum)
    x = x / (x.norm() + 1e-7)
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    x = x.T if tall else x
    stretch = max(1.0, grad.shape[0] / grad.shape[1]) ** 0.5
    return param.sub(x, alpha=lr * stretch), buffer
