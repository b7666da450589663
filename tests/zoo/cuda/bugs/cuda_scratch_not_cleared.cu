// Adds row sums up in scratch memory that nobody cleared.
//
// cuassay-launch:
// [[scratch]]
// name = "squares"
// dtype = "float32"
// size = "rows"
// zeroed = false
//
// [[launches]]
// kernel = "add_squares"
// grid = ["rows", "-(-hidden // 256)"]
// block = [256]
// arguments = ["x", "squares", "hidden"]
//
// [[launches]]
// kernel = "scale"
// grid = ["rows"]
// block = [256]
// arguments = ["x", "weight", "squares", "y", "hidden", "eps"]

#include <cuda_bf16.h>

extern "C" __global__ void add_squares(const __nv_bfloat16* x, float* squares, long long hidden) {
    const long long column = static_cast<long long>(blockIdx.y) * blockDim.x + threadIdx.x;
    float square = 0.0f;
    if (column < hidden) {
        const float value = __bfloat162float(x[blockIdx.x * hidden + column]);
        square = value * value;
    }
    for (int offset = 16; offset > 0; offset >>= 1)
        square += __shfl_xor_sync(0xffffffffu, square, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(squares + blockIdx.x, square);
}

extern "C" __global__ void scale(const __nv_bfloat16* x, const __nv_bfloat16* weight,
                                 const float* squares, __nv_bfloat16* y, long long hidden,
                                 float eps) {
    const long long row = blockIdx.x;
    const float rstd = rsqrtf(squares[row] / static_cast<float>(hidden) + eps);
    for (long long column = threadIdx.x; column < hidden; column += blockDim.x) {
        const float value = __bfloat162float(x[row * hidden + column]) * rstd;
        y[row * hidden + column] = __float2bfloat16_rn(value * __bfloat162float(weight[column]));
    }
}
