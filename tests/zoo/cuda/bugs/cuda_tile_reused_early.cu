// Loads the next tile while other warps still multiply the last one.
//
// cuassay-launch:
// [[launches]]
// kernel = "gemm"
// grid = ["-(-n // 16)", "-(-m // 16)"]
// block = [16, 16]
// arguments = ["a", "b", "y", "m", "n", "k"]

#include <cuda_bf16.h>

extern "C" __global__ void gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* y,
                                long long m, long long n, long long k) {
    __shared__ float left[16][17], right[16][17];
    const int x = threadIdx.x, z = threadIdx.y;
    const long long row = blockIdx.y * 16LL + z, column = blockIdx.x * 16LL + x;
    float sum = 0.0f;
    for (long long start = 0; start < k; start += 16) {
        left[z][x] = row < m && start + x < k ? __bfloat162float(a[row * k + start + x]) : 0.0f;
        right[z][x] =
            start + z < k && column < n ? __bfloat162float(b[(start + z) * n + column]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[z][i] * right[i][x];
    }
    if (row < m && column < n) y[row * n + column] = __float2bfloat16_rn(sum);
}
