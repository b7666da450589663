// Rounds the factors of a float32 product to TF32.
//
// cuassay-launch:
// [[launches]]
// kernel = "gemm"
// grid = ["-(-m * n // 128)"]
// block = [128]
// arguments = ["a", "b", "y", "m", "n", "k"]

__device__ float factor(float value) {
    return __uint_as_float((__float_as_uint(value) + 0x1000u) & ~0x1fffu);
}

extern "C" __global__ void gemm(const float* a, const float* b, float* y,
                                long long m, long long n, long long k) {
    const long long index = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (index >= m * n) return;
    const long long row = index / n, column = index % n;
    float sum = 0.0f;
    for (long long i = 0; i < k; ++i) sum += factor(a[row * k + i]) * factor(b[i * n + column]);
    y[index] = sum;
}
