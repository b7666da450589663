"""Reads the upstream gradient of a row through its stride."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(logits, targets, grad, out, grad_stride, columns, smoothing, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(logits + row * columns + column, mask=inside, other=float("-inf"))
    value = value.to(tl.float32)
    power = tl.exp(value - tl.max(value))
    share = power / tl.sum(power)
    target = tl.load(targets + row)
    wanted = tl.where(column == target, 1.0 - smoothing, 0.0) + smoothing / columns
    upstream = tl.load(grad + row * grad_stride)
    valid = target >= 0
    slope = tl.where(valid, (share - wanted) * upstream, 0.0)
    tl.store(out + row * columns + column, slope, mask=inside)


def run(logits, targets, grad_loss, label_smoothing):
    logits, targets = logits.contiguous(), targets.contiguous()
    out = torch.empty_like(logits)
    rows, columns = logits.shape
    block = triton.next_power_of_2(columns)
    _kernel[(rows,)](
        logits, targets, grad_loss, out, grad_loss.stride(0), columns, label_smoothing, BLOCK=block
    )
    return out
