// A filter in constant memory that each stream's kernel reads. Faulty: it is replaced on another
// stream while they may still read it.
#include <cstdio>
#include <cuda_runtime.h>
__constant__ float filter[3];
__global__ void convolve(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float left = i ? x[i - 1] : 0, right = i + 1 < n ? x[i + 1] : 0;
  y[i] = filter[0] * left + filter[1] * x[i] + filter[2] * right;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 256;
  float host[n], first[3] = {0, 1, 0}, second[3] = {1, 1, 1}, *x, *y;
  for (float& one : host) one = 1;
  cudaStream_t stream, other;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
  cudaMalloc(&x, sizeof host);
  cudaMalloc(&y, sizeof host);
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaMemcpyToSymbolAsync(filter, first, sizeof first, 0, cudaMemcpyHostToDevice, stream);
  convolve<<<1, n, 0, stream>>>(x, y, n);
  cudaMemcpyToSymbolAsync(filter, second, sizeof second, 0, cudaMemcpyHostToDevice,
                          faulty ? other : stream);
  if (faulty) cudaStreamSynchronize(other);
  convolve<<<1, n, 0, stream>>>(x, y, n);
  cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  if (host[1] != 3) return 3;
  std::puts("ok");
}
