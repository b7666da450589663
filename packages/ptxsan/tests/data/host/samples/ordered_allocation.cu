// Memory that belongs to a stream's order. Faulty: another stream frees it.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fill(int* x, int value) { x[threadIdx.x] = value; }
__global__ void copy(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x]; }
int main(int count, char**) {
  const bool faulty = count > 1;
  cudaStream_t stream, other;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  int *out, host[128];
  cudaMalloc(&out, sizeof host);
  for (int round = 0; round < 3; ++round) {
    int* scratch;
    cudaMallocAsync(&scratch, sizeof host, stream);
    fill<<<1, 128, 0, stream>>>(scratch, round);
    copy<<<1, 128, 0, stream>>>(scratch, out);
    cudaFreeAsync(scratch, faulty ? other : stream);
  }
  cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  if (host[127] != 2) return 3;
  std::puts("ok");
}
