// cuassay-launch:
// zero_outputs = true
// [[launches]]
// kernel = "affine"
// grid = ["rows"]
// block = ["width", 2]
// shared_bytes = "4 * width"
// arguments = ["x", "shift", "bias", "gain", "y", "sums", "rows:int32", "width"]
// [[launches]]
// kernel = "fold"
// grid = "-(-rows // 64)"
// block = 64
// arguments = ["sums", "z", "rows"]
// [[scratch]]
// name = "sums"
// dtype = "float32"
// size = "rows * width"

#include <cuda_bf16.h>

extern "C" __global__ void __launch_bounds__(256)
affine(const __nv_bfloat16* x, const float* shift, const float* bias, float gain,
       __nv_bfloat16* y, float* sums, int rows, long long width) {}

extern "C" __global__ void fold(const float* sums, float* z, long long rows) {}
