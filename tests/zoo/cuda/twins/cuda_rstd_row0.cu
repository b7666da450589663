// Uses every row's own rstd.
//
// cuassay-launch:
// [[scratch]]
// name = "total"
// dtype = "float32"
// size = "hidden"
// zeroed = true
//
// [[launches]]
// kernel = "rmsnorm_backward"
// grid = ["rows"]
// block = [256]
// arguments = ["grad_output", "x", "weight", "rstd", "grad_x", "total", "hidden"]
//
// [[launches]]
// kernel = "cast"
// grid = ["-(-hidden // 256)"]
// block = [256]
// arguments = ["total", "grad_weight", "hidden"]

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
rmsnorm_backward(const __nv_bfloat16* grad_output, const __nv_bfloat16* x,
                 const __nv_bfloat16* weight, const float* rstd, __nv_bfloat16* grad_x,
                 float* total, long long hidden) {
    const long long row = blockIdx.x, start = row * hidden;
    const float scale = rstd[row];
    float dot = 0.0f;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float grad = __bfloat162float(grad_output[start + column]);
        const float value = __bfloat162float(x[start + column]);
        dot += grad * __bfloat162float(weight[column]) * (value * scale);
        atomicAdd(total + column, grad * (value * scale));
    }
    const float along = block_sum(dot) / static_cast<float>(hidden);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float grad = __bfloat162float(grad_output[start + column]);
        const float normed = __bfloat162float(x[start + column]) * scale;
        const float weighted = grad * __bfloat162float(weight[column]);
        grad_x[start + column] = __float2bfloat16_rn((weighted - normed * along) * scale);
    }
}

extern "C" __global__ void cast(const float* total, __nv_bfloat16* grad_weight, long long count) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index < count) grad_weight[index] = __float2bfloat16_rn(total[index]);
}
