// Four blocks a row add up one sum; each waits until three have added.
//
// cuassay-launch:
// [[scratch]]
// name = "state"
// dtype = "float32"
// size = "2 * rows"
// zeroed = true
//
// [[launches]]
// kernel = "rmsnorm"
// grid = ["4", "rows"]
// block = [256]
// arguments = ["x", "weight", "y", "state", "rows", "hidden", "eps"]

#include <cuda_bf16.h>

// Blocks of a row are neighbours, so that all four are resident together.
extern "C" __global__ void rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* weight,
                                   __nv_bfloat16* y, float* state, long long rows,
                                   long long hidden, float eps) {
    __shared__ float warps[8], whole;
    const long long start = static_cast<long long>(blockIdx.y) * hidden;
    volatile float* sum = state + 2 * blockIdx.y;
    int* arrived = reinterpret_cast<int*>(state + 2 * blockIdx.y + 1);
    float part = 0.0f;
    for (long long c = blockIdx.x * 256LL + threadIdx.x; c < hidden; c += 1024) {
        const float value = __bfloat162float(x[start + c]);
        part += value * value;
    }
    for (int offset = 16; offset > 0; offset >>= 1)
        part += __shfl_xor_sync(0xffffffffu, part, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = part;
    __syncthreads();
    if (threadIdx.x == 0) {
        float total = 0.0f;
        for (int warp = 0; warp < 8; ++warp) total += warps[warp];
        atomicAdd(state + 2 * blockIdx.y, total);
        __threadfence();
        atomicAdd(arrived, 1);
        while (atomicAdd(arrived, 0) < 3) {
        }
        __threadfence();
        whole = *sum;
    }
    __syncthreads();
    const float rstd = rsqrtf(whole / static_cast<float>(hidden) + eps);
    for (long long c = blockIdx.x * 256LL + threadIdx.x; c < hidden; c += 1024) {
        const float result = __bfloat162float(x[start + c]) * rstd * __bfloat162float(weight[c]);
        y[start + c] = __float2bfloat16_rn(result);
    }
}
