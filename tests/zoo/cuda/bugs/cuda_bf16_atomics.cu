// Adds rows of one id with bfloat16 atomics.
//
// cuassay-launch:
// zero_outputs = true
//
// [[launches]]
// kernel = "add_rows"
// grid = ["tokens"]
// block = [256]
// arguments = ["grad_output", "input_ids", "scale", "grad_weight", "hidden"]

#include <cuda_bf16.h>

extern "C" __global__ void add_rows(const __nv_bfloat16* grad_output, const long long* input_ids,
                                    float scale, __nv_bfloat16* total, long long hidden) {
    const long long token = blockIdx.x;
    __nv_bfloat16* target = total + input_ids[token] * hidden;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __bfloat162float(grad_output[token * hidden + column]) * scale;
        atomicAdd(target + column, __float2bfloat16_rn(value));
    }
}
