// Waits after every step of the reduction.
//
// cuassay-launch:
// [[launches]]
// kernel = "rmsnorm"
// grid = ["rows"]
// block = [256]
// arguments = ["x", "weight", "y", "hidden", "eps"]

#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(256)
rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* weight, __nv_bfloat16* y, long long hidden,
        float eps) {
    __shared__ float sums[256];
    const long long start = blockIdx.x * hidden;
    float sum = 0.0f;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __bfloat162float(x[start + column]);
        sum += value * value;
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = 128; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    const float rstd = rsqrtf(sums[0] / static_cast<float>(hidden) + eps);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __bfloat162float(x[start + column]) * rstd;
        y[start + column] = __float2bfloat16_rn(value * __bfloat162float(weight[column]));
    }
}
