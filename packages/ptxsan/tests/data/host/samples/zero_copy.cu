// The device works on the host's own memory. Faulty: the host reads it while the kernel may run.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void scale(float* x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 1024;
  float *host, *device;
  cudaSetDeviceFlags(cudaDeviceMapHost);
  cudaHostAlloc(&host, n * sizeof(float), cudaHostAllocMapped);
  for (int i = 0; i < n; ++i) host[i] = i;
  cudaHostGetDevicePointer(&device, host, 0);
  scale<<<n / 256, 256>>>(device, 2, n);
  if (!faulty) cudaDeviceSynchronize();
  for (int i = 0; i < n; ++i)
    if (host[i] != 2 * i) return 3;
  cudaFreeHost(host);
  std::puts("ok");
}
