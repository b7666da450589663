// Takes the variance as E[x^2] - E[x]^2.
//
// cuassay-launch:
// [[launches]]
// kernel = "layernorm"
// grid = ["rows"]
// block = [256]
// arguments = ["x", "weight", "bias", "y", "hidden", "eps"]

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
layernorm(const float* x, const float* weight, const float* bias, float* y, long long hidden,
          float eps) {
    const long long start = static_cast<long long>(blockIdx.x) * hidden;
    float sum = 0.0f, squares = 0.0f;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x)
        sum += x[start + column];
    const float mean = block_sum(sum) / static_cast<float>(hidden);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = x[start + column];
        squares += value * value;
    }
    const float variance = block_sum(squares) / static_cast<float>(hidden) - mean * mean;
    const float rstd = rsqrtf(fmaxf(variance, 0.0f) + eps);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x)
        y[start + column] = (x[start + column] - mean) * rstd * weight[column] + bias[column];
}
