"""The iteration of the original: baddbmm-like products in the working dtype."""

import torch


def run(param, grad, momentum_buffer, lr, momentum):
    wide = grad.float()
    buffer = momentum_buffer.lerp(wide, 1.0 - momentum)
    x = wide.lerp(buffer, momentum)
    tall = x.shape[0] > x.shape[1]
    x = x / (x.norm() + 1e-7)  # before the cast: float16 ends at 65504
    x = x.to(grad.dtype)
    x = x.mT if tall else x
    for _ in range(5):
        gram = x @ x.mT
        x = 3.4445 * x + torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315) @ x
    x = x.mT if tall else x
    stretch = max(1.0, grad.shape[0] / grad.shape[1]) ** 0.5
    return param - lr * stretch * x.float(), buffer
