// Adds rows of one id with half atomics.
//
// cuassay-launch:
// zero_outputs = true
//
// [[launches]]
// kernel = "add_rows"
// grid = ["tokens"]
// block = [256]
// arguments = ["grad_output", "input_ids", "scale", "grad_weight", "hidden"]

#include <cuda_fp16.h>

extern "C" __global__ void add_rows(const __half* grad_output, const long long* input_ids,
                                    float scale, __half* total, long long hidden) {
    const long long token = blockIdx.x;
    __half* target = total + input_ids[token] * hidden;
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __half2float(grad_output[token * hidden + column]) * scale;
        atomicAdd(target + column, __float2half_rn(value));
    }
}
