"""Float64 inside."""


def run(grad_output, x, weight, rstd):
    grad, scale = grad_output.double(), rstd[:, None].double()
    normed = x.double() * scale
    weighted = grad * weight.double()
    along = (weighted * normed).mean(-1, keepdim=True)
    grad_x = ((weighted - normed * along) * scale).to(x.dtype)
    return grad_x, (grad * normed).sum(0).to(weight.dtype)
