// Two launches reduce a vector. Faulty: with more threads a block than there are, unlooked at.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
template <class T> __global__ void reduce(const T* x, T* out, int n) {
  extern __shared__ unsigned char memory[];
  T* mine = reinterpret_cast<T*>(memory);
  int i = blockIdx.x * blockDim.x * 2 + threadIdx.x;
  T sum = i < n ? x[i] : T(0);
  if (i + blockDim.x < n) sum += x[i + blockDim.x];
  mine[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half >>= 1) {
    if (threadIdx.x < half) mine[threadIdx.x] += mine[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = mine[0];
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 4000, threads = faulty ? 2048 : 256, blocks = (n + 2 * threads - 1) / (2 * threads);
  std::vector<int> x(n, 1);
  int *device, *parts, *out, found = 0;
  cudaMalloc(&device, n * sizeof(int));
  cudaMalloc(&parts, blocks * sizeof(int));
  cudaMalloc(&out, sizeof(int));
  cudaMemcpy(device, x.data(), n * sizeof(int), cudaMemcpyHostToDevice);
  cudaMemset(parts, 0, blocks * sizeof(int));
  reduce<int><<<blocks, threads, threads * sizeof(int)>>>(device, parts, n);
  reduce<int><<<1, 32, 32 * sizeof(int)>>>(parts, out, blocks);
  cudaMemcpy(&found, out, sizeof found, cudaMemcpyDeviceToHost);
  if (!faulty && found != n) return 3;
  cudaFree(device);
  cudaFree(parts);
  cudaFree(out);
  std::puts("ok");
}
