"""Subtracts that term."""


def run(grad_output, x, weight, rstd):
    grad, scale = grad_output.float(), rstd[:, None]
    normed = x.float() * scale
    weighted = grad * weight.float()
    grad_x = ((weighted - normed * (weighted * normed).mean(-1, keepdim=True)) * scale).to(x.dtype)
    return grad_x, (grad * normed).sum(0).to(weight.dtype)
