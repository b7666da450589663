// y = x W^T + b, tiles of 16 x 16 in shared memory
//
// cuassay-launch:
// [[launches]]
// kernel = "linear_tiled"
// grid = ["-(-n // 16)", "-(-m // 16)"]
// block = [16, 16]
// arguments = ["x", "weight", "bias", "y", "m", "n", "k"]

#include <cuda_fp16.h>
#define TILE 16

extern "C" __global__ void linear_tiled(const float* x, const float* w, const float* bias, float* y,
                                        long long m, long long n, long long k) {
  __shared__ float xs[TILE][TILE + 1];
  __shared__ float ws[TILE][TILE + 1];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const long long row = (long long)blockIdx.y * TILE + ty;
  const long long col = (long long)blockIdx.x * TILE + tx;
  float sum = 0.0f;
  for (long long t = 0; t < k; t += TILE) {
    xs[ty][tx] = (row < m && t + tx < k) ? x[row * k + t + tx] : 0.0f;
    const long long wr = (long long)blockIdx.x * TILE + ty;
    ws[ty][tx] = (wr < n && t + tx < k) ? w[wr * k + t + tx] : 0.0f;
    __syncthreads();
    for (int i = 0; i < TILE; ++i) sum += xs[ty][i] * ws[tx][i];
    __syncthreads();
  }
  if (row < m && col < n) y[row * n + col] = sum + bias[col];
}
