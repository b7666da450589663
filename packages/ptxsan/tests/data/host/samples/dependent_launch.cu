// The second kernel prepares itself while the first still runs. Faulty: it reads before it waits.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void produce(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = i;
  cudaTriggerProgrammaticLaunchCompletion();
}
template <bool EARLY> __global__ void consume(const float* x, const float* w, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float weight = i < n ? w[i] : 0, early = 0;
  if (EARLY && i < n) early = x[i];
  cudaGridDependencySynchronize();
  if (i < n) y[i] = weight * (EARLY ? early : x[i]);
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 512;
  float *x, *w, *y, host[n];
  cudaMalloc(&x, sizeof host);
  cudaMalloc(&w, sizeof host);
  cudaMalloc(&y, sizeof host);
  for (float& one : host) one = 2;
  cudaMemcpy(w, host, sizeof host, cudaMemcpyHostToDevice);
  cudaStream_t stream;
  cudaStreamCreate(&stream);
  cudaLaunchConfig_t how = {};
  how.gridDim = 2;
  how.blockDim = 256;
  how.stream = stream;
  cudaLaunchAttribute attribute[1];
  attribute[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute[0].val.programmaticStreamSerializationAllowed = 1;
  how.attrs = attribute;
  how.numAttrs = 1;
  for (int round = 0; round < 2; ++round) {
    produce<<<2, 256, 0, stream>>>(x, n);
    const float *cx = x, *cw = w;
    cudaError_t error = faulty ? cudaLaunchKernelEx(&how, consume<true>, cx, cw, y, n)
                               : cudaLaunchKernelEx(&how, consume<false>, cx, cw, y, n);
    if (error != cudaSuccess) return 4;
  }
  cudaMemcpyAsync(host, y, sizeof host, cudaMemcpyDeviceToHost, stream);
  cudaStreamSynchronize(stream);
  if (host[n - 1] != 2 * (n - 1)) return 3;
  std::puts("ok");
}
