import torch


class _Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        w = x.float()
        r = torch.rsqrt(w.square().mean(-1, keepdim=True) + eps)
        ctx.save_for_backward(x, weight, r)
        return (w * r * weight.float()).to(x.dtype)

    @staticmethod
    def backward(ctx, g):
        x, weight, r = ctx.saved_tensors
        xh = x.float() * r
        gw = g.float() * weight.float()
        return ((gw * r).to(x.dtype), (g.float() * xh).sum(0).to(weight.dtype), None)


def run(x, weight, eps):
    return _Norm.apply(x, weight, eps)
