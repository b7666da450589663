// Keeps the sum in the input x.
//
// cuassay-launch:
// [[launches]]
// kernel = "fused_add_rmsnorm"
// grid = ["rows"]
// block = [256]
// arguments = ["x", "residual", "weight", "y", "new_residual", "hidden", "eps"]

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
fused_add_rmsnorm(__nv_bfloat16* x, const __nv_bfloat16* residual, const __nv_bfloat16* weight,
                  __nv_bfloat16* y, __nv_bfloat16* new_residual, long long hidden, float eps) {
    const long long start = static_cast<long long>(blockIdx.x) * hidden;
    float sum = 0.0f;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float total =
            __bfloat162float(x[start + column]) + __bfloat162float(residual[start + column]);
        sum += total * total;
    }
    const float rstd = rsqrtf(block_sum(sum) / static_cast<float>(hidden) + eps);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float total =
            __bfloat162float(x[start + column]) + __bfloat162float(residual[start + column]);
        const float result = total * rstd * __bfloat162float(weight[column]);
        y[start + column] = __float2bfloat16_rn(result);
        new_residual[start + column] = __float2bfloat16_rn(total);
        x[start + column] = __float2bfloat16_rn(total);
    }
}
