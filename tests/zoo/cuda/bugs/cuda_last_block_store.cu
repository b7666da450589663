// Tests for the end with <= and stores one element beyond it.
//
// cuassay-launch:
// [[launches]]
// kernel = "swiglu"
// grid = ["rows * hidden // 256 + 1"]
// block = [256]
// arguments = ["gate", "up", "y", "rows*hidden"]

#include <cuda_bf16.h>

extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up,
                                  __nv_bfloat16* y, long long count) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index <= count) {
        const float g = index < count ? __bfloat162float(gate[index]) : 0.0f;
        const float u = index < count ? __bfloat162float(up[index]) : 0.0f;
        y[index] = __float2bfloat16_rn(g / (1.0f + expf(-g)) * u);
    }
}
