import torch
import triton
import triton.language as tl


@triton.jit
def _fwd(g_ptr, u_ptr, o_ptr, numel, BS: tl.constexpr):
    offs = tl.program_id(0) * BS + tl.arange(0, BS)
    ok = offs < numel
    g = tl.load(g_ptr + offs, mask=ok, other=0.0)
    u = tl.load(u_ptr + offs, mask=ok, other=0.0)
    s = 1.0 / (1.0 + tl.exp(-g))
    tl.store(o_ptr + offs, g * s * u, mask=ok)


def swiglu(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    grid = (triton.cdiv(gate.numel(), 256),)
    _fwd[grid](gate, up, out, gate.numel(), BS=256)
    return out
