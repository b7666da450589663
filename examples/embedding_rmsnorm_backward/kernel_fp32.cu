// Fused embedding gradient + RMSNorm backward. Rows of the embedding gradient are added up
// in float32 and cast once.
//
// cuassay-launch:
// zero_outputs = false
//
// [[scratch]]
// name = "weight_sum"
// dtype = "float32"
// size = "hidden"
// zeroed = true
//
// [[scratch]]
// name = "table"
// dtype = "float32"
// size = "vocab * hidden"
// zeroed = true
//
// [[launches]]
// kernel = "embedding_rmsnorm_backward"
// grid = ["-(-tokens // 16)"]
// block = [256]
// shared_bytes = "hidden * 4"
// arguments = ["grad_output", "input_ids", "hidden_states", "rstd", "norm_weight", "table", "weight_sum", "tokens", "hidden"]
//
// [[launches]]
// kernel = "cast_to_bf16"
// grid = ["-(-(vocab * hidden) // 256)"]
// block = [256]
// arguments = ["table", "grad_embed_weight", "vocab * hidden"]
//
// [[launches]]
// kernel = "cast_to_bf16"
// grid = ["-(-hidden // 256)"]
// block = [256]
// arguments = ["weight_sum", "grad_norm_weight", "hidden"]

#include <cuda_bf16.h>

constexpr int ROWS_PER_BLOCK = 16;

__device__ float block_sum(float value) {
    __shared__ float warps[32];
    __shared__ float total;
    for (int offset = 16; offset > 0; offset >>= 1)
        value += __shfl_xor_sync(0xffffffffu, value, offset);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) sum += warps[warp];
        total = sum;
    }
    __syncthreads();
    return total;
}

extern "C" __global__ void __launch_bounds__(256) embedding_rmsnorm_backward(
    const __nv_bfloat16* grad_output, const long long* input_ids, const float* hidden_states,
    const float* rstd, const __nv_bfloat16* norm_weight, float* grad_embed,
    float* weight_sum, long long tokens, long long hidden) {
    extern __shared__ float own_weight_sum[];  // one per column, touched by one thread only
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x)
        own_weight_sum[column] = 0.0f;

    const long long first = static_cast<long long>(blockIdx.x) * ROWS_PER_BLOCK;
    const long long last = first + ROWS_PER_BLOCK < tokens ? first + ROWS_PER_BLOCK : tokens;
    for (long long row = first; row < last; ++row) {
        const __nv_bfloat16* grad = grad_output + row * hidden;
        const float* x = hidden_states + row * hidden;
        const float scale = rstd[row];
        float dot = 0.0f;
        for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
            const float g = __bfloat162float(grad[column]);
            const float normalised = x[column] * scale;
            dot += g * __bfloat162float(norm_weight[column]) * normalised;
            own_weight_sum[column] += g * normalised;
        }
        const float mean = block_sum(dot) / static_cast<float>(hidden);
        float* target = grad_embed + input_ids[row] * hidden;
        for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
            const float scaled = __bfloat162float(grad[column]) * __bfloat162float(norm_weight[column]);
            atomicAdd(target + column, scale * (scaled - x[column] * scale * mean));
        }
        __syncthreads();  // the next row reuses the shared memory of block_sum
    }
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x)
        atomicAdd(weight_sum + column, own_weight_sum[column]);
}

extern "C" __global__ void cast_to_bf16(const float* source, __nv_bfloat16* target,
                                        long long count) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index < count) target[index] = __float2bfloat16_rn(source[index]);
}
