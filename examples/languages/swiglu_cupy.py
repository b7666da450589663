"""silu(gate) * up by CuPy's RawKernel: `cuassay check swiglu_cupy.py --problem swiglu`."""

import cupy
import torch

_SWIGLU = cupy.RawKernel(
    r"""
typedef unsigned short bf16;
__device__ float wide(bf16 x) { return __uint_as_float((unsigned)x << 16); }
extern "C" __global__ void swiglu(const bf16* gate, const bf16* up, bf16* out, long long count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
  float g = wide(gate[i]);
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out[i]) : "f"(g / (1 + expf(-g)) * wide(up[i])));
}
""",
    "swiglu",
)


def swiglu(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    out, count = torch.empty_like(gate), gate.numel()
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream(gate.device).cuda_stream)
    with cupy.cuda.Device(gate.device.index), stream:
        given = (gate.data_ptr(), up.data_ptr(), out.data_ptr(), count)
        _SWIGLU((-(-count // 256),), (256,), given)
    return out
