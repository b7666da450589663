// Reads the warps' partial sums without waiting for the warps that write them.
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
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncwarp();
    float total = 0.0f;
    for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) total += warps[warp];
    return total;
}

extern "C" __global__ void __launch_bounds__(256)
rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* weight, __nv_bfloat16* y, long long rows,
        long long hidden, float eps) {
    const long long start = static_cast<long long>(blockIdx.x) * hidden;
    float sum = 0.0f;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __bfloat162float(x[start + column]);
        sum += value * value;
    }
    const float rstd = rsqrtf(block_sum(sum) / static_cast<float>(hidden) + eps);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float result =
            __bfloat162float(x[start + column]) * rstd * __bfloat162float(weight[column]);
        y[start + column] = __float2bfloat16_rn(result);
    }
}
