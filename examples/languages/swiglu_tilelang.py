"""silu(gate) * up in TileLang: `cuassay check swiglu_tilelang.py --problem swiglu`."""

import functools

import tilelang
import tilelang.language as T
import torch


@functools.cache
def _swiglu(block):
    count = T.dynamic("count")

    @tilelang.jit
    def build():
        @T.prim_func
        def kernel(
            gate: T.Tensor((count,), "bfloat16"),
            up: T.Tensor((count,), "bfloat16"),
            out: T.Tensor((count,), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(count, block), threads=block) as number:
                for lane in T.Parallel(block):
                    at = number * block + lane
                    if at < count:
                        g = T.cast(gate[at], "float32")
                        out[at] = T.cast(
                            g / (1.0 + T.exp(-g)) * T.cast(up[at], "float32"), "bfloat16"
                        )

        return kernel

    return build()


def swiglu(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    out = torch.empty_like(gate)
    _swiglu(256)(gate.view(-1), up.view(-1), out.view(-1))
    return out
