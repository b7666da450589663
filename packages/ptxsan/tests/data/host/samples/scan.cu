// A prefix sum over several blocks. Faulty: the sums of the blocks are freed before they are added.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
__global__ void scan_blocks(int* x, int* sums) {
  __shared__ int tile[256];
  int i = blockIdx.x * 256 + threadIdx.x;
  tile[threadIdx.x] = x[i];
  __syncthreads();
  for (int step = 1; step < 256; step *= 2) {
    int left = threadIdx.x >= step ? tile[threadIdx.x - step] : 0;
    __syncthreads();
    tile[threadIdx.x] += left;
    __syncthreads();
  }
  x[i] = tile[threadIdx.x];
  if (threadIdx.x == 255) sums[blockIdx.x] = tile[255];
}
__global__ void add_sums(int* x, const int* sums) {
  int before = 0;
  for (int b = 0; b < blockIdx.x; ++b) before += sums[b];
  x[blockIdx.x * 256 + threadIdx.x] += before;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int blocks = 8, n = 256 * blocks;
  std::vector<int> x(n, 1);
  int *device, *sums;
  cudaMalloc(&device, n * sizeof(int));
  cudaMalloc(&sums, blocks * sizeof(int));
  cudaMemcpy(device, x.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  scan_blocks<<<blocks, 256>>>(device, sums);
  if (faulty) cudaFree(sums);
  add_sums<<<blocks, 256>>>(device, sums);
  cudaMemcpy(x.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < n; ++i)
    if (!faulty && x[i] != i + 1) return 3;
  if (!faulty) cudaFree(sums);
  cudaFree(device);
  std::puts("ok");
}
