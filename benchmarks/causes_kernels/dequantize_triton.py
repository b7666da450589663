import torch
import triton
import triton.language as tl


@triton.jit
def _dq(Q, S, Y, n, width, groups, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    ok = at < n
    row = at // width
    col = at % width
    q = tl.load(Q + at, mask=ok, other=0).to(tl.float32)
    s = tl.load(S + row * groups + col // 32, mask=ok, other=0.0)
    tl.store(Y + at, q * s, mask=ok)


def dequantize(codes, scales):
    codes, scales = codes.contiguous(), scales.contiguous()
    y = torch.empty(codes.shape, dtype=torch.float32, device=codes.device)
    n = codes.numel()
    _dq[(triton.cdiv(n, 512),)](codes, scales, y, n, codes.shape[1], scales.shape[1], B=512)
    return y
