// A product of matrices whose rows are padded. Faulty: the padding is copied to the host as well.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
__global__ void multiply(const float* a, const float* b, float* c, size_t pitch, int n) {
  __shared__ float ta[8][8], tb[8][8];
  int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
  float sum = 0;
  for (int t = 0; t < n; t += 8) {
    ta[threadIdx.y][threadIdx.x] = a[row * pitch + t + threadIdx.x];
    tb[threadIdx.y][threadIdx.x] = b[(t + threadIdx.y) * pitch + col];
    __syncthreads();
    for (int k = 0; k < 8; ++k) sum += ta[threadIdx.y][k] * tb[k][threadIdx.x];
    __syncthreads();
  }
  c[row * pitch + col] = sum;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 16, width = n * sizeof(float);
  std::vector<float> host(n * n, 1), whole(n * 512);
  float *a, *b, *c;
  size_t pitch;
  cudaMallocPitch(&a, &pitch, width, n);
  cudaMallocPitch(&b, &pitch, width, n);
  cudaMallocPitch(&c, &pitch, width, n);
  cudaMemcpy2D(a, pitch, host.data(), width, width, n, cudaMemcpyHostToDevice);
  cudaMemcpy2D(b, pitch, host.data(), width, width, n, cudaMemcpyHostToDevice);
  multiply<<<dim3(n / 8, n / 8), dim3(8, 8)>>>(a, b, c, pitch / sizeof(float), n);
  if (faulty)
    cudaMemcpy(whole.data(), c, pitch * n, cudaMemcpyDeviceToHost);
  else
    cudaMemcpy2D(host.data(), width, c, pitch, width, n, cudaMemcpyDeviceToHost);
  if (!faulty && host[n * n - 1] != n) return 3;
  std::puts("ok");
}
