// Multiplies every row by its own upstream gradient.
//
// cuassay-launch:
// [[launches]]
// kernel = "cross_entropy_backward"
// grid = ["rows"]
// block = [256]
// arguments = ["logits", "targets", "grad_loss", "label_smoothing", "grad_logits", "vocab"]

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

__device__ float block_max(float value) {
    __shared__ float warps[32];
    for (int offset = 16; offset > 0; offset >>= 1)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, offset));
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float peak = warps[0];
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) peak = fmaxf(peak, warps[warp]);
    return peak;
}

extern "C" __global__ void __launch_bounds__(256)
cross_entropy_backward(const __nv_bfloat16* logits, const long long* targets,
                       const float* grad_loss, float smoothing, __nv_bfloat16* grad_logits,
                       long long vocab) {
    const long long row = blockIdx.x;
    const __nv_bfloat16* x = logits + row * vocab;
    float peak = -INFINITY, sum = 0.0f;
    for (long long column = threadIdx.x; column < vocab; column += blockDim.x)
        peak = fmaxf(peak, __bfloat162float(x[column]));
    peak = block_max(peak);
    for (long long column = threadIdx.x; column < vocab; column += blockDim.x)
        sum += expf(__bfloat162float(x[column]) - peak);
    sum = block_sum(sum);
    const long long target = targets[row];
    const float factor = target < 0 ? 0.0f : grad_loss[row];
    for (long long column = threadIdx.x; column < vocab; column += blockDim.x) {
        float share = smoothing / static_cast<float>(vocab);
        if (column == target) share += 1.0f - smoothing;
        const float p = expf(__bfloat162float(x[column]) - peak) / sum;
        grad_logits[row * vocab + column] = __float2bfloat16_rn((p - share) * factor);
    }
}
