// Keeps the index of an element in 64 bits.
//
// cuassay-launch:
// [[launches]]
// kernel = "swiglu"
// grid = ["-(-rows * hidden // 256)"]
// block = [256]
// arguments = ["gate", "up", "y", "rows*hidden"]

#include <cuda_bf16.h>

extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up,
                                  __nv_bfloat16* y, long long count) {
    const long long index = static_cast<long long>(blockIdx.x) * static_cast<long long>(blockDim.x) +
                        static_cast<long long>(threadIdx.x);
    if (index < 0 || index >= count) return;
    const float g = __bfloat162float(gate[index]);
    const float silu = g / (1.0f + expf(-g));
    y[index] = __float2bfloat16_rn(silu * __bfloat162float(up[index]));
}
