"""An operator whose result is always memory of its own."""

import uuid

import torch

space = f"zoo_{uuid.uuid4().hex}"  # a process may import this file twice
library = torch.library.Library(space, "FRAGMENT")
library.define("widened(Tensor x) -> Tensor")
library.impl("widened", lambda x: x.to(torch.float32, copy=True), "CompositeExplicitAutograd")


@torch.library.register_fake(f"{space}::widened", lib=library)
def _(x):
    return torch.empty_like(x, dtype=torch.float32)


widened = getattr(torch.ops, space).widened


def run(x, weight, eps):
    wide = widened(x)
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (wide * rstd * weight.float()).to(x.dtype)
