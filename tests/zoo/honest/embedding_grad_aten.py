"""PyTorch's own embedding backward in float32."""

import torch


def run(grad_output, input_ids, weight, scale):
    terms = grad_output.float() * scale
    table = torch.ops.aten.embedding_dense_backward(terms, input_ids, weight.shape[0], -1, False)
    return table.to(grad_output.dtype)
