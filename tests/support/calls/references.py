import torch
from kern import Out


def kwonly(x, *, weight, eps):
    v = x.float()
    return (v * torch.rsqrt(v.pow(2).mean(-1, keepdim=True) + eps) * weight.float()).to(x.dtype)


def with_config(x, config, mode="mean", residual=None, kind=None):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + config.eps)
    return y * config.scale


def lists(xs, weights):
    return [x * w for x, w in zip(xs, weights)]


def nested(state):
    return Out(
        state["a"] + state["more"]["b"], {"mean": state["a"].mean(-1), "n": state["a"].sum()}
    )


def into(x, out):
    torch.mul(x, 2, out=out)


def double(x):
    return x * 2


def in_place(x):
    x *= 2
    return x


class RefLinear(torch.nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.proj = torch.nn.Linear(n, m)
        self.gain = torch.nn.Parameter(torch.rand(m))

    def forward(self, x):
        return torch.nn.functional.linear(x, self.proj.weight, self.proj.bias) * self.gain
