// Counts in shared memory, added up in global memory. Faulty: the counts are never cleared.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
__global__ void count_bytes(const unsigned char* x, unsigned* bins, int n) {
  __shared__ unsigned mine[64];
  for (int b = threadIdx.x; b < 64; b += blockDim.x) mine[b] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    atomicAdd(&mine[x[i] / 4], 1u);
  __syncthreads();
  for (int b = threadIdx.x; b < 64; b += blockDim.x) atomicAdd(&bins[b], mine[b]);
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 4096;
  std::vector<unsigned char> x(n);
  for (int i = 0; i < n; ++i) x[i] = i % 256;
  unsigned char* device;
  unsigned *bins, found[64];
  cudaMalloc(&device, n);
  cudaMalloc(&bins, sizeof found);
  cudaMemcpy(device, x.data(), n, cudaMemcpyHostToDevice);
  if (!faulty) cudaMemset(bins, 0, sizeof found);
  count_bytes<<<4, 64>>>(device, bins, n);
  cudaMemcpy(found, bins, sizeof found, cudaMemcpyDeviceToHost);
  for (unsigned one : found)
    if (!faulty && one != n / 64) return 3;
  std::puts("ok");
}
