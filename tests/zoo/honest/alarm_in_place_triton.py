"""RMSNorm in place on a copy: where a row is short, threads load what others overwrite."""

import triton
import triton.language as tl


@triton.jit
def _kernel(x, weight, hidden, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)  # the largest call has more than 2^31 elements
    columns = tl.arange(0, BLOCK)
    inside = columns < hidden
    values = tl.load(x + row * hidden + columns, mask=inside, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(values * values) / hidden + eps)
    scale = tl.load(weight + columns, mask=inside, other=0.0).to(tl.float32)
    result = values * rstd * scale
    tl.store(x + row * hidden + columns, result.to(x.dtype.element_ty), mask=inside)


def run(x, weight, eps):
    y = x.clone()
    hidden = x.shape[1]
    block = triton.next_power_of_2(hidden)
    _kernel[(x.shape[0],)](y, weight, hidden, eps, BLOCK=block, num_warps=8)
    return y
