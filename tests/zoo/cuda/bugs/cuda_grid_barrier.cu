// Waits at a barrier of all blocks, which hangs when they are not all resident.
//
// cuassay-launch:
// [[scratch]]
// name = "arrived"
// dtype = "int32"
// size = "1"
// zeroed = true
//
// [[launches]]
// kernel = "swiglu"
// grid = ["-(-rows * hidden // 256)"]
// block = [256]
// arguments = ["gate", "up", "y", "arrived", "rows*hidden"]

#include <cuda_bf16.h>

extern "C" __global__ void swiglu(const __nv_bfloat16* gate, const __nv_bfloat16* up,
                                  __nv_bfloat16* y, int* arrived, long long count) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < static_cast<int>(gridDim.x)) {
        }
    }
    __syncthreads();
    if (index >= count) return;
    const float g = __bfloat162float(gate[index]);
    const float silu = g / (1.0f + expf(-g));
    y[index] = __float2bfloat16_rn(silu * __bfloat162float(up[index]));
}
