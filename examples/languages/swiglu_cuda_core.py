"""silu(gate) * up by cuda.core: `cuassay check swiglu_cuda_core.py --problem swiglu`."""

import functools

import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, Stream, launch

_SOURCE = r"""
typedef unsigned short bf16;
__device__ float wide(bf16 x) { return __uint_as_float((unsigned)x << 16); }
extern "C" __global__ void swiglu(const bf16* gate, const bf16* up, bf16* out, long long count) {
  long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
  if (i >= count) return;
  float g = wide(gate[i]);
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out[i]) : "f"(g / (1 + expf(-g)) * wide(up[i])));
}
"""


@functools.cache
def _kernel(index):
    device = Device(index)
    device.set_current()
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    return Program(_SOURCE, code_type="c++", options=options).compile("cubin").get_kernel("swiglu")


def swiglu(gate, up):
    gate, up = gate.contiguous(), up.contiguous()
    out, count = torch.empty_like(gate), gate.numel()
    kernel = _kernel(gate.device.index)
    stream = Stream.from_handle(torch.cuda.current_stream(gate.device).cuda_stream)
    config = LaunchConfig(grid=-(-count // 256), block=256)
    launch(stream, config, kernel, gate.data_ptr(), up.data_ptr(), out.data_ptr(), count)
    return out
