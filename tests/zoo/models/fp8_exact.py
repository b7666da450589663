"""An exact product, scaled in float32."""

import torch


def run(a, b, scale_a, scale_b):
    product = a.float() @ b.float().T
    return (product * scale_a[:, None] * scale_b).to(torch.bfloat16)
