// Adds rows of one id by reading and writing the sum, without atomics.
//
// cuassay-launch:
// [[scratch]]
// name = "total"
// dtype = "float32"
// size = "vocab * hidden"
// zeroed = true
//
// [[launches]]
// kernel = "add_rows"
// grid = ["tokens"]
// block = [256]
// arguments = ["grad_output", "input_ids", "scale", "total", "hidden"]
//
// [[launches]]
// kernel = "cast"
// grid = ["-(-vocab * hidden // 256)"]
// block = [256]
// arguments = ["total", "grad_weight", "vocab*hidden"]

#include <cuda_bf16.h>

extern "C" __global__ void add_rows(const __nv_bfloat16* grad_output, const long long* input_ids,
                                    float scale, float* total, long long hidden) {
    const long long token = blockIdx.x;
    float* target = total + input_ids[token] * hidden;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __bfloat162float(grad_output[token * hidden + column]) * scale;
        target[column] = target[column] + value;
    }
}

extern "C" __global__ void cast(const float* total, __nv_bfloat16* grad_weight, long long count) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index < count) grad_weight[index] = __float2bfloat16_rn(total[index]);
}
