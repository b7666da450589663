// Two buffers in turn: one is filled while the other is computed. Faulty: a buffer is filled again
// without waiting for the kernel that still reads it.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
__global__ void sum_up(const int* x, int* total, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(total, x[i]);
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 512, rounds = 4;
  int *host[rounds], *device[2], *total, found;
  cudaStream_t copying, computing;
  cudaEvent_t filled[2], used[2];
  cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&computing, cudaStreamNonBlocking);
  for (int b = 0; b < 2; ++b) {
    cudaMalloc(&device[b], n * sizeof(int));
    cudaEventCreateWithFlags(&filled[b], cudaEventDisableTiming);
    cudaEventCreateWithFlags(&used[b], cudaEventDisableTiming);
  }
  for (auto& one : host) {
    cudaMallocHost(&one, n * sizeof(int));
    for (int i = 0; i < n; ++i) one[i] = 1;
  }
  cudaMalloc(&total, sizeof(int));
  cudaMemset(total, 0, sizeof(int));
  cudaDeviceSynchronize();
  for (int r = 0; r < rounds; ++r) {
    const int b = r % 2;
    if (!faulty) cudaStreamWaitEvent(copying, used[b], 0);
    cudaMemcpyAsync(device[b], host[r], n * sizeof(int), cudaMemcpyHostToDevice, copying);
    cudaEventRecord(filled[b], copying);
    cudaStreamWaitEvent(computing, filled[b], 0);
    sum_up<<<4, 128, 0, computing>>>(device[b], total, n);
    cudaEventRecord(used[b], computing);
  }
  cudaMemcpyAsync(&found, total, sizeof(int), cudaMemcpyDeviceToHost, computing);
  cudaStreamSynchronize(computing);
  cudaStreamSynchronize(copying);
  if (found != n * rounds) return 3;
  std::puts("ok");
}
