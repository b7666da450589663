import torch
import triton
import triton.language as tl


@triton.jit
def _rope(X, C, S, Y, half, BLOCK: tl.constexpr):
    t = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    live = i < half
    a = tl.load(X + t * 2 * half + i, mask=live, other=0.0)
    b = tl.load(X + t * 2 * half + half + i, mask=live, other=0.0)
    c = tl.load(C + t * half + i, mask=live, other=0.0)
    s = tl.load(S + t * half + i, mask=live, other=0.0)
    tl.store(Y + t * 2 * half + i, a * c - b * s, mask=live)
    tl.store(Y + t * 2 * half + half + i, b * c + a * s, mask=live)


def rotary(x, cos, sin):
    x, cos, sin = x.contiguous(), cos.contiguous(), sin.contiguous()
    y = torch.empty_like(x)
    half = cos.shape[1]
    _rope[(x.shape[0],)](x, cos, sin, y, half, BLOCK=triton.next_power_of_2(half))
    return y
