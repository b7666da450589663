"""PyTorch's silu_backward."""

import torch


def run(grad_output, gate, up):
    grad, wide = grad_output.float(), gate.float()
    grad_gate = torch.ops.aten.silu_backward(grad * up.float(), wide)
    return grad_gate.to(gate.dtype), (grad * torch.nn.functional.silu(wide)).to(gate.dtype)
