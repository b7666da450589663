// A sum and a largest value over managed memory, which the host fills and reads in place. Faulty: the
// host reads the results behind an event query that it does not wait for.
#include <cstdio>
#include <cuda_runtime.h>
#include <numeric>

struct Result {
  unsigned long long sum;
  int largest;
};

template <unsigned kThreads> __global__ void reduce(const int* data, std::size_t n, Result* result) {
  __shared__ unsigned long long sums[kThreads];
  __shared__ int tops[kThreads];
  unsigned long long sum = 0;
  int top = -2147483647 - 1;
  for (std::size_t i = blockIdx.x * kThreads + threadIdx.x; i < n; i += kThreads * gridDim.x) {
    sum += data[i];
    top = max(top, data[i]);
  }
  sums[threadIdx.x] = sum;
  tops[threadIdx.x] = top;
  __syncthreads();
  for (unsigned stride = kThreads / 2; stride > 0; stride /= 2) {
    if (threadIdx.x < stride) {
      sums[threadIdx.x] += sums[threadIdx.x + stride];
      tops[threadIdx.x] = max(tops[threadIdx.x], tops[threadIdx.x + stride]);
    }
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    atomicAdd(&result->sum, sums[0]);
    atomicMax(&result->largest, tops[0]);
  }
}

int main(int argc, char**) {
  const bool faulty = argc > 1;
  const std::size_t n = 10007;
  int* data;
  Result* result;
  if (cudaMallocManaged(&data, n * sizeof(int)) != cudaSuccess) return 2;
  if (cudaMallocManaged(&result, sizeof(Result)) != cudaSuccess) return 2;
  for (std::size_t i = 0; i < n; ++i) data[i] = static_cast<int>((i * 7919) % 10007);
  result->sum = 0;
  result->largest = -1;
  cudaEvent_t done;
  if (cudaEventCreate(&done) != cudaSuccess) return 2;
  reduce<128><<<8, 128>>>(data, n, result);
  if (cudaGetLastError() != cudaSuccess) return 2;
  if (cudaEventRecord(done) != cudaSuccess) return 2;
  unsigned long long sum = 0;
  int largest = 0;
  if (faulty) {
    sum = result->sum;
    largest = result->largest;
  }
  if (cudaEventSynchronize(done) != cudaSuccess) return 2;
  if (!faulty) {
    sum = result->sum;
    largest = result->largest;
  }
  const unsigned long long expected = std::accumulate(data, data + n, 0ull);
  if (!faulty && (sum != expected || largest != 10006)) return 1;
  cudaEventDestroy(done);
  cudaFree(data);
  cudaFree(result);
  std::puts("ok");
  return 0;
}
