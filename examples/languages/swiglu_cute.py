"""silu(gate) * up in CuTe DSL: `cuassay check swiglu_cute.py --problem swiglu`."""

import cutlass
import cutlass.cute as cute
import torch
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def _kernel(gate: cute.Tensor, up: cute.Tensor, out: cute.Tensor, count: cutlass.Int64):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = cutlass.Int64(block) * 256 + thread
    if at < count:
        g = gate[at].to(cutlass.Float32)
        u = up[at].to(cutlass.Float32)
        out[at] = (g / (1.0 + cute.math.exp(-g)) * u).to(cutlass.BFloat16)


@cute.jit
def _swiglu(gate: cute.Tensor, up: cute.Tensor, out: cute.Tensor, count: cutlass.Int64):
    _kernel(gate, up, out, count).launch(grid=[(count + 255) // 256, 1, 1], block=[256, 1, 1])


def swiglu(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    flat = [from_dlpack(one.view(-1)).mark_layout_dynamic() for one in (gate, up, out)]
    _swiglu(*flat, out.numel())
    return out
