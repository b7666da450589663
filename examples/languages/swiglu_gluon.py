"""silu(gate) * up in Gluon: `cuassay check swiglu_gluon.py --problem swiglu`."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@gluon.jit
def _swiglu(gate, up, out, count, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([8], [32], [4], [0])
    at = gl.program_id(0).to(gl.int64) * BLOCK + gl.arange(0, BLOCK, layout=layout)
    mask = at < count
    g = gl.load(gate + at, mask=mask, other=0.0).to(gl.float32)
    u = gl.load(up + at, mask=mask, other=0.0).to(gl.float32)
    gl.store(out + at, (g / (1.0 + gl.exp(-g)) * u).to(gl.bfloat16), mask=mask)


def swiglu(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    _swiglu[(-(-out.numel() // 1024),)](gate, up, out, out.numel(), BLOCK=1024)
    return out
