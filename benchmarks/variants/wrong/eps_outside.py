def run(x, weight, eps):
    w = x.float()
    return (w / (w.square().mean(-1, keepdim=True).sqrt() + eps) * weight.float()).to(x.dtype)
