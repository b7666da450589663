// Adds the squares of a row up in float32, one warp of partial sums.
//
// cuassay-launch:
// [[launches]]
// kernel = "rmsnorm"
// grid = ["rows"]
// block = [256]
// arguments = ["x", "weight", "y", "rows", "hidden", "eps"]

#include <cuda_bf16.h>

__device__ float block_sum(float value) {
    __shared__ float warps[32];
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += warps[warp];
    return total;
}

extern "C" __global__ void __launch_bounds__(256)
rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* weight, __nv_bfloat16* y, long long rows,
        long long hidden, float eps) {
    const long long row = blockIdx.x;
    const long long start = row * hidden;
    const long long count = rows * hidden;
    float sum = 0.0f;  // every warp takes the whole row: only the first one's counts
    for (long long column = threadIdx.x % 32; column < hidden; column += 32) {
        const float value = __bfloat162float(x[(start + column) % count]);
        sum = sum + value * value;
    }
    if (threadIdx.x >= 32) sum = 0.0f;
    const float rstd = rsqrtf(block_sum(sum) / static_cast<float>(hidden) + eps);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __bfloat162float(x[(start + column) % count]);
        const float result = value * rstd * __bfloat162float(weight[column]);
        y[row * hidden + column] = __float2bfloat16_rn(result);
    }
}
