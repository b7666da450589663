// Counts elements in 16 bits: from the 65 536th on it reads the first ones.
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
    const long long place = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (place >= count) return;
    const unsigned short index = static_cast<unsigned short>(place);
    const float g = __bfloat162float(gate[index]);
    const float silu = g / (1.0f + expf(-g));
    y[place] = __float2bfloat16_rn(silu * __bfloat162float(up[index]));
}
