// Chunks are copied, computed and copied back on streams of their own. Faulty: nobody waits.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void square(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * x[i];
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int streams = 4, chunk = 2048, n = streams * chunk;
  float *host, *device;
  cudaMallocHost(&host, n * sizeof(float));
  cudaMalloc(&device, n * sizeof(float));
  for (int i = 0; i < n; ++i) host[i] = i % 100;
  cudaStream_t stream[streams];
  for (auto& one : stream) cudaStreamCreate(&one);
  for (int s = 0; s < streams; ++s) {
    float* mine = device + s * chunk;
    cudaMemcpyAsync(mine, host + s * chunk, chunk * sizeof(float), cudaMemcpyHostToDevice,
                    stream[s]);
    square<<<(chunk + 255) / 256, 256, 0, stream[s]>>>(mine, chunk);
    cudaMemcpyAsync(host + s * chunk, mine, chunk * sizeof(float), cudaMemcpyDeviceToHost,
                    stream[s]);
  }
  if (!faulty)
    for (auto& one : stream) cudaStreamSynchronize(one);
  for (int i = 0; i < n; ++i)
    if (host[i] != float(i % 100) * (i % 100)) return 3;
  for (auto& one : stream) cudaStreamDestroy(one);
  cudaFree(device);
  cudaFreeHost(host);
  std::puts("ok");
}
