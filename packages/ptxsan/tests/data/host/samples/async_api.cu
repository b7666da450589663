// The host counts while the device works. Faulty: it looks at the result before the event.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void increment(int* data, int by) {
  data[blockIdx.x * blockDim.x + threadIdx.x] += by;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 1024, value = 26;
  int *host, *device;
  cudaMallocHost(&host, n * sizeof(int));
  for (int i = 0; i < n; ++i) host[i] = 0;
  cudaMalloc(&device, n * sizeof(int));
  cudaMemset(device, 255, n * sizeof(int));
  cudaEvent_t start, stop;
  cudaEventCreate(&start);
  cudaEventCreate(&stop);
  cudaDeviceSynchronize();
  cudaEventRecord(start, 0);
  cudaMemcpyAsync(device, host, n * sizeof(int), cudaMemcpyHostToDevice, 0);
  increment<<<n / 256, 256, 0, 0>>>(device, value);
  cudaMemcpyAsync(host, device, n * sizeof(int), cudaMemcpyDeviceToHost, 0);
  cudaEventRecord(stop, 0);
  unsigned long counted = 0;
  if (!faulty)
    while (cudaEventQuery(stop) == cudaErrorNotReady) ++counted;
  for (int i = 0; i < n; ++i)
    if (host[i] != value) return 3;
  cudaDeviceSynchronize();
  float ms = -1;
  cudaEventElapsedTime(&ms, start, stop);
  if (ms < 0) return 4;
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  cudaFreeHost(host);
  cudaFree(device);
  std::puts("ok");
}
