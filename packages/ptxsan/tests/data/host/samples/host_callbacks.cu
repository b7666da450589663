// A function of the host follows the copies of each stream. Faulty: the results are put together
// before the streams have come so far.
#include <cstdio>
#include <cuda_runtime.h>
struct Work {
  float* results;
  float sum;
};
__global__ void halve(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] /= 2;
}
void CUDART_CB add_up(void* data) {
  Work* work = static_cast<Work*>(data);
  for (int i = 0; i < 256; ++i) work->sum += work->results[i];
}
int main(int count, char**) {
  const bool faulty = count > 1;
  Work work[3] = {};
  cudaStream_t streams[3];
  float* device[3];
  for (int s = 0; s < 3; ++s) {
    cudaStreamCreate(&streams[s]);
    cudaMalloc(&device[s], 256 * sizeof(float));
    cudaMallocHost(&work[s].results, 256 * sizeof(float));
    for (int i = 0; i < 256; ++i) work[s].results[i] = 2;
  }
  for (int s = 0; s < 3; ++s) {
    cudaMemcpyAsync(device[s], work[s].results, 256 * sizeof(float), cudaMemcpyHostToDevice,
                    streams[s]);
    halve<<<1, 256, 0, streams[s]>>>(device[s], 256);
    cudaMemcpyAsync(work[s].results, device[s], 256 * sizeof(float), cudaMemcpyDeviceToHost,
                    streams[s]);
    cudaLaunchHostFunc(streams[s], add_up, &work[s]);
  }
  float first = faulty ? work[1].results[3] : 0;
  cudaDeviceSynchronize();
  for (auto& one : work)
    if (one.sum != 256) return 3;
  std::puts(first < 9 ? "ok" : "no");
}
