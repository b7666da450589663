// Computes exp with the library's function.
//
// cuassay-launch:
// [[launches]]
// kernel = "softmax"
// grid = ["rows"]
// block = [256]
// arguments = ["logits", "cap", "probabilities", "columns"]

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

__device__ float raised(float value) {
    return expf(value);
}

extern "C" __global__ void __launch_bounds__(256)
softmax(const __nv_bfloat16* logits, float cap, __nv_bfloat16* probabilities, long long columns) {
    const long long start = static_cast<long long>(blockIdx.x) * columns;
    float peak = -INFINITY, sum = 0.0f;
    for (long long column = threadIdx.x; column < columns; column += blockDim.x)
        peak = fmaxf(peak, cap * tanhf(__bfloat162float(logits[start + column]) / cap));
    peak = block_max(peak);
    for (long long column = threadIdx.x; column < columns; column += blockDim.x)
        sum += raised(cap * tanhf(__bfloat162float(logits[start + column]) / cap) - peak);
    sum = block_sum(sum);
    for (long long column = threadIdx.x; column < columns; column += blockDim.x) {
        const float capped = cap * tanhf(__bfloat162float(logits[start + column]) / cap);
        probabilities[start + column] = __float2bfloat16_rn(raised(capped - peak) / sum);
    }
}
