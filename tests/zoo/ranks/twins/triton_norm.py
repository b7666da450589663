"""The sum by an asynchronous collective, then sum and norm of a row by a Triton kernel."""

import torch
import torch.distributed as dist
import triton
import triton.language as tl


@triton.jit
def _norm(total, residual, weight, y, out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    place = tl.arange(0, BLOCK)
    inside = place < columns
    whole = tl.load(total + row + place, mask=inside, other=0.0)
    whole += tl.load(residual + row + place, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(whole * whole, 0) / columns + eps)
    factor = tl.load(weight + place, mask=inside, other=0.0).to(tl.float32)
    tl.store(y + row + place, whole * scale * factor, mask=inside)
    tl.store(out + row + place, whole, mask=inside)


def run(x, residual, weight, eps, group=None):
    total = x.float()
    begun = dist.all_reduce(total, group=group, async_op=True)
    y, out = torch.empty_like(x), torch.empty_like(x)
    begun.wait()
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    _norm[(rows,)](total, residual, weight, y, out, columns, eps, BLOCK=block)
    return y, out
