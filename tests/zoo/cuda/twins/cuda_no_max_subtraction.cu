// Sums exponentials below the row's peak.
//
// cuassay-launch:
// [[launches]]
// kernel = "cross_entropy"
// grid = ["rows"]
// block = [256]
// arguments = ["logits", "targets", "label_smoothing", "loss", "log_normaliser", "vocab"]

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
cross_entropy(const __nv_bfloat16* logits, const long long* targets, float smoothing, float* loss,
              float* log_normaliser, long long vocab) {
    const long long row = blockIdx.x;
    const __nv_bfloat16* x = logits + row * vocab;
    float peak = -INFINITY, mean = 0.0f;
    for (long long column = threadIdx.x; column < vocab; column += blockDim.x) {
        const float value = __bfloat162float(x[column]);
        peak = fmaxf(peak, value);
        mean += value;
    }
    peak = block_max(peak);
    mean = block_sum(mean) / static_cast<float>(vocab);
    float sum = 0.0f;
    for (long long column = threadIdx.x; column < vocab; column += blockDim.x)
        sum += expf(__bfloat162float(x[column]) - peak);
    const float log_sum = logf(block_sum(sum));
    if (threadIdx.x != 0) return;
    log_normaliser[row] = peak + log_sum;
    const long long target = targets[row];
    if (target < 0) {
        loss[row] = 0.0f;
        return;
    }
    const float own = (peak - __bfloat162float(x[target])) + log_sum;
    loss[row] = (1.0f - smoothing) * own + smoothing * ((peak - mean) + log_sum);
}
