"""Rescales the sum of earlier tiles by the difference of peaks."""

import torch
import triton
import triton.language as tl


@triton.jit
def _kernel(scores, mask, y, columns, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    peak, total = -float("inf"), 0.0
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        kept = tl.load(mask + row * columns + at, mask=at < columns, other=0) != 0
        s = tl.load(scores + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        s = tl.where(kept, s * scale, -float("inf"))
        raised = tl.maximum(peak, tl.max(s))
        safe = tl.where(raised == -float("inf"), 0.0, raised)
        total = total * tl.exp(peak - safe) + tl.sum(tl.exp(s - safe))
        peak = raised
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        kept = tl.load(mask + row * columns + at, mask=at < columns, other=0) != 0
        s = tl.load(scores + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
        s = tl.where(kept, s * scale, -float("inf"))
        tl.store(y + row * columns + at, tl.exp(s - peak) / total, mask=at < columns)


def run(scores, mask, scale):
    y = torch.empty_like(scores)
    rows, columns = scores.shape
    _kernel[(rows,)](scores, mask, y, columns, scale, BLOCK=128)
    return y
