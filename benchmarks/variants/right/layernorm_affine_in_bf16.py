from torch.nn import functional as F


def run(x, weight, bias, eps):
    h = F.layer_norm(x.float(), x.shape[-1:], eps=eps).to(x.dtype)
    return h * weight + bias
