"""PyTorch's own backward kernel in float32."""

import torch


def run(grad_output, x, weight, eps):
    wide, scale = x.float(), weight.float()
    shape = [x.shape[-1]]
    _, mean, rstd = torch.native_layer_norm(wide, shape, scale, None, eps)
    grads = torch.ops.aten.native_layer_norm_backward(
        grad_output.float(), wide, shape, mean, rstd, scale, torch.zeros_like(scale), [True] * 3
    )
    return tuple(grad.to(x.dtype) for grad in grads)
