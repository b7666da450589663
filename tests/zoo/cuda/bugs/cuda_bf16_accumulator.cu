// Rounds the running sum to bfloat16 after every 32 terms.
//
// cuassay-launch:
// [[launches]]
// kernel = "gemm"
// grid = ["-(-m * n // 128)"]
// block = [128]
// arguments = ["a", "b", "y", "m", "n", "k"]

#include <cuda_bf16.h>

extern "C" __global__ void gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* y,
                                long long m, long long n, long long k) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= m * n) return;
    const long long row = index / n, column = index % n;
    float sum = 0.0f;
    for (long long start = 0; start < k; start += 32) {
        for (long long i = start; i < start + 32 && i < k; ++i)
            sum += __bfloat162float(a[row * k + i]) * __bfloat162float(b[i * n + column]);
        sum = __bfloat162float(__float2bfloat16_rn(sum));
    }
    y[index] = __float2bfloat16_rn(sum);
}
