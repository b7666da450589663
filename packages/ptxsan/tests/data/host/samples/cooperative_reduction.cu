// A sum in one cooperative launch. Faulty: the kernel is launched like any other.
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_runtime.h>
namespace cg = cooperative_groups;
__global__ void reduce(const float* x, float* parts, float* out, int n) {
  __shared__ float mine[128];
  cg::grid_group grid = cg::this_grid();
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += x[i];
  mine[threadIdx.x] = sum;
  __syncthreads();
  for (int half = 64; half > 0; half /= 2) {
    if (threadIdx.x < half) mine[threadIdx.x] += mine[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = mine[0];
  grid.sync();
  if (grid.thread_rank() == 0) {
    float all = 0;
    for (int b = 0; b < gridDim.x; ++b) all += parts[b];
    *out = all;
  }
}
int main(int count, char**) {
  const bool faulty = count > 1;
  int n = 4096, each = 0;
  float *x, *parts, *out, found;
  cudaMallocManaged(&x, n * sizeof(float));
  for (int i = 0; i < n; ++i) x[i] = 1;
  cudaDeviceProp device;
  cudaGetDeviceProperties(&device, 0);
  if (!device.cooperativeLaunch) return 4;
  cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, reduce, 128, 0);
  int blocks = each * device.multiProcessorCount;
  if (blocks > 8) blocks = 8;
  cudaMalloc(&parts, blocks * sizeof(float));
  cudaMalloc(&out, sizeof(float));
  cudaMemset(out, 0, sizeof(float));
  void* arguments[] = {&x, &parts, &out, &n};
  if (faulty)
    reduce<<<blocks, 128>>>(x, parts, out, n);
  else if (cudaLaunchCooperativeKernel((void*)reduce, dim3(blocks), dim3(128), arguments, 0, 0))
    return 5;
  if (cudaMemcpy(&found, out, sizeof found, cudaMemcpyDeviceToHost)) return 6;
  if (found != n) return 3;
  std::puts("ok");
}
