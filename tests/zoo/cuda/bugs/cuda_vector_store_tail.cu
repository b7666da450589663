// Stores pairs of results, the second one of the last pair beyond the end.
//
// cuassay-launch:
// [[launches]]
// kernel = "swiglu"
// grid = ["-(-rows * hidden // 512)"]
// block = [256]
// arguments = ["gate", "up", "y", "rows*hidden"]

#include <cuda_bf16.h>

__device__ float glu(const __nv_bfloat16* gate, const __nv_bfloat16* up, long long index,
                     long long count) {
    if (index >= count) return 0.0f;
    const float g = __bfloat162float(gate[index]);
    return g / (1.0f + expf(-g)) * __bfloat162float(up[index]);
}

extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up,
                                  __nv_bfloat16* y, long long count) {
    const long long first = (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x) * 2;
    if (first >= count) return;
    __nv_bfloat162 both;
    both.x = __float2bfloat16_rn(glu(gate, up, first, count));
    both.y = __float2bfloat16_rn(glu(gate, up, first + 1, count));
    if (first < count)
        *reinterpret_cast<__nv_bfloat162*>(y + first) = both;
    else
        y[first] = both.x;
}
