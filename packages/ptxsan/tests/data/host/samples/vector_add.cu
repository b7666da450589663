// Two vectors are added. Faulty: the grid is rounded down, and the tail is never written.
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call)                                                          \
  do {                                                                       \
    cudaError_t error_ = (call);                                             \
    if (error_ != cudaSuccess) {                                             \
      std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(error_));   \
      return 2;                                                              \
    }                                                                        \
  } while (0)
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 1000, threads = 256;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; ++i) a[i] = i, b[i] = 2 * i;
  float *da, *db, *dc;
  CHECK(cudaMalloc(&da, n * sizeof(float)));
  CHECK(cudaMalloc(&db, n * sizeof(float)));
  CHECK(cudaMalloc(&dc, n * sizeof(float)));
  CHECK(cudaMemcpy(da, a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  const int blocks = faulty ? n / threads : (n + threads - 1) / threads;
  add<<<blocks, threads>>>(da, db, dc, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < (faulty ? 0 : n); ++i)
    if (c[i] != 3 * i) return 3;
  cudaFree(da);
  cudaFree(db);
  cudaFree(dc);
  std::puts("ok");
}
