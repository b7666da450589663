"""torch's own gradient of SiLU and product."""

import torch
import torch.nn.functional as F


def run(grad_output, gate, up):
    g, u = gate.detach().requires_grad_(), up.detach().requires_grad_()
    with torch.enable_grad():
        y = F.silu(g) * u
    return torch.autograd.grad(y, (g, u), grad_output)
