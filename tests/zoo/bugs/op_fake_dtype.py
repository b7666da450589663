"""The fake kernel announces the input's dtype, the kernel gives float32."""

import torch


@torch.library.custom_op("zoo_rmsnorm::normalised_bug", mutates_args=())
def normalised(x: torch.Tensor, eps: float) -> torch.Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)


@normalised.register_fake
def _(x, eps):
    return torch.empty_like(x)


def run(x, weight, eps):
    y = normalised(x, eps)
    return (y * weight).to(x.dtype) if y.dtype != x.dtype else y * weight
