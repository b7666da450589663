// A tile larger than the default of shared memory. Faulty: nobody asks for that much.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
__global__ void reverse(const int* x, int* y, int n) {
  extern __shared__ int tile[];
  for (int i = threadIdx.x; i < n; i += blockDim.x) tile[i] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = tile[n - 1 - i];
}
int main(int count, char**) {
  const bool faulty = count > 1;
  int most = 0;
  cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, 0);
  const int n = 16 * 1024, bytes = n * sizeof(int);
  if (bytes > most) return 4;
  std::vector<int> x(n), y(n);
  for (int i = 0; i < n; ++i) x[i] = i;
  int *dx, *dy;
  cudaMalloc(&dx, bytes);
  cudaMalloc(&dy, bytes);
  cudaMemset(dy, 0, bytes);
  cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice);
  if (!faulty && cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes))
    return 5;
  reverse<<<1, 256, bytes>>>(dx, dy, n);
  cudaMemcpy(y.data(), dy, bytes, cudaMemcpyDeviceToHost);
  if (!faulty && y[0] != n - 1) return 3;
  std::puts("ok");
}
