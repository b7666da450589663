// Managed memory: the host prepares the next half while the device is at the first. Faulty: it
// writes the half that the kernel reads.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void mean(const float* x, float* out, int n) {
  float sum = 0;
  for (int i = 0; i < n; ++i) sum += x[i];
  *out = sum / n;
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int half = 2048;
  float *x, *out;
  cudaMallocManaged(&x, 2 * half * sizeof(float));
  cudaMallocManaged(&out, 4096);
  for (int i = 0; i < half; ++i) x[i] = 3;
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  mean<<<1, 1, 0, stream>>>(x, out, half);
  for (int i = 0; i < half; ++i) (faulty ? x : x + half)[i] = 5;
  cudaStreamSynchronize(stream);
  if (out[0] != 3) return 3;
  mean<<<1, 1, 0, stream>>>(x + half, out, faulty ? 1 : half);
  cudaStreamSynchronize(stream);
  if (!faulty && out[0] != 5) return 4;
  cudaFree(x);
  cudaFree(out);
  std::puts("ok");
}
