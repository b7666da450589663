// Kernels side by side, and one that adds their results up. Faulty: it waits for all but the last.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
__global__ void work(int* out, int value) {
  int sum = 0;
  for (int i = 0; i < 100; ++i) sum += value;
  *out = sum;
}
__global__ void add_up(int* values, int n) {
  int sum = 0;
  for (int i = 0; i < n; ++i) sum += values[i];
  values[0] = sum;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int kernels = 6;
  int *values, found;
  cudaMalloc(&values, kernels * sizeof(int));
  std::vector<cudaStream_t> streams(kernels + 1);
  std::vector<cudaEvent_t> done(kernels);
  for (auto& one : streams) cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
  for (auto& one : done) cudaEventCreateWithFlags(&one, cudaEventDisableTiming);
  for (int k = 0; k < kernels; ++k) {
    work<<<1, 1, 0, streams[k]>>>(values + k, k);
    cudaEventRecord(done[k], streams[k]);
    if (!(faulty && k == kernels - 1)) cudaStreamWaitEvent(streams[kernels], done[k], 0);
  }
  add_up<<<1, 1, 0, streams[kernels]>>>(values, kernels);
  cudaMemcpyAsync(&found, values, sizeof found, cudaMemcpyDeviceToHost, streams[kernels]);
  cudaStreamSynchronize(streams[kernels]);
  if (found != 100 * 15) return 3;
  for (auto& one : streams) cudaStreamDestroy(one);
  for (auto& one : done) cudaEventDestroy(one);
  std::puts("ok");
}
