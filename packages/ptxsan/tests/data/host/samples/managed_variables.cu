// Managed variables are the host's and the device's alike. Faulty: the kernel runs beyond one.
#include <cstdio>
#include <cuda_runtime.h>
__managed__ int total = 3;
namespace {
__device__ __managed__ float ys[4];
}
struct Pair {
  int first, second;
};
static __managed__ Pair pair = {1, 2};
__global__ void add(int n) {
  atomicAdd(&total, pair.second);
  if (threadIdx.x < n) ys[threadIdx.x] = threadIdx.x + 0.5f;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  total += 10;
  pair.second = 5;
  add<<<1, 8>>>(faulty ? 5 : 4);
  cudaDeviceSynchronize();
  if (!faulty && (total != 53 || ys[3] != 3.5f)) return 3;
  int other = 0;
  cudaMemcpyFromSymbol(&other, total, sizeof other);
  if (!faulty && other != 53) return 4;
  std::puts("ok");
}
