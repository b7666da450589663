// Who wrote memory, and whether it lives. The first argument names what happens.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

struct Padded {
  double a;
  float b;
};
struct Holder {
  float* data;
  int n;
};
__constant__ float factors[4];
__device__ float sums[4];
__global__ void fill(float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = i;
}
__global__ void pad(Padded* y) {
  y[threadIdx.x].a = 1;
  y[threadIdx.x].b = 2;
}
__global__ void held(Holder h) { h.data[threadIdx.x % h.n] = threadIdx.x % h.n; }
__global__ void listed(float** rows) { rows[blockIdx.x][threadIdx.x] = 1; }
__global__ void unused(float* gone, float* y) {
  if (gone == nullptr) *gone = 1;
  y[threadIdx.x] = 1;
}
__global__ void total() { sums[threadIdx.x] = factors[threadIdx.x] * 2; }

int main(int, char** argv) {
  auto is = [&](const char* name) { return std::strcmp(argv[1], name) == 0; };
  const int n = 64, bytes = 4 * n;
  float *x, *y, host[n];
  cudaMalloc(&x, bytes);
  cudaMalloc(&y, bytes);
  if (is("half")) {
    fill<<<1, 64>>>(y, n / 2);
    cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
  }
  if (is("whole")) {
    fill<<<1, 64>>>(y, n);
    cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
  }
  if (is("half of it copied")) {
    fill<<<1, 64>>>(y, n / 2);
    cudaMemcpy(host, y, bytes / 2, cudaMemcpyDeviceToHost);
  }
  if (is("all but the last")) {
    fill<<<1, 64>>>(y, n - 1);
    cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
  }
  if (is("set")) {
    cudaMemset(y, 0, bytes);
    cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
  }
  if (is("never")) cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
  if (is("handed on")) {
    fill<<<1, 64>>>(x, n / 2);
    cudaMemcpy(y, x, bytes, cudaMemcpyDeviceToDevice);
    cudaMemcpy(host, y, bytes, cudaMemcpyDeviceToHost);
  }
  if (is("later")) {
    fill<<<1, 64>>>(y, n / 2);
    cudaMemcpyAsync(host, y, bytes, cudaMemcpyDeviceToHost, 0);
    cudaDeviceSynchronize();
  }
  if (is("padding")) {
    Padded *p, back[8];
    cudaMalloc(&p, sizeof back);
    pad<<<1, 8>>>(p);
    cudaMemcpy(back, p, sizeof back, cudaMemcpyDeviceToHost);
  }
  if (is("rows") || is("rows with what is between")) {
    std::size_t pitch;
    float* p;
    static char back[4 * 512];
    cudaMallocPitch(&p, &pitch, 100, 4);
    cudaMemset2D(p, pitch, 0, 100, 4);
    if (is("rows"))
      cudaMemcpy2D(back, 100, p, pitch, 100, 4, cudaMemcpyDeviceToHost);
    else
      cudaMemcpy(back, p, 4 * pitch, cudaMemcpyDeviceToHost);
  }
  if (is("symbols")) {
    float four[4] = {1, 2, 3, 4};
    cudaMemcpyToSymbol(factors, four, sizeof four);
    total<<<1, 4>>>();
    cudaMemcpyFromSymbol(four, sums, sizeof four);
    std::printf("%g\n", four[3]);
  }
  if (is("managed")) {
    float* m;
    cudaMallocManaged(&m, bytes);
    for (int i = 0; i < n; ++i) m[i] = 1;
    cudaMemcpy(host, m, bytes, cudaMemcpyDeviceToHost);
  }
  if (is("freed")) {
    cudaFree(y);
    fill<<<1, 64>>>(y, n);
    y = nullptr;
  }
  if (is("freed, and another in its place")) {
    float* other;
    cudaFree(y);
    cudaMalloc(&other, bytes);
    cudaMemset(other, 0, bytes);
    fill<<<1, 64>>>(y, n);
    y = nullptr;
  }
  if (is("freed behind it")) {
    fill<<<1, 64>>>(y, n);
    cudaFree(y);
    y = nullptr;
  }
  if (is("freed in a structure")) {
    cudaFree(y);
    held<<<1, 32>>>(Holder{y, n});
    y = nullptr;
  }
  if (is("in a structure")) held<<<1, 32>>>(Holder{y, n});
  if (is("freed in a table") || is("in a table")) {
    float *rows[2] = {x, y}, **table;
    cudaMalloc(&table, sizeof rows);
    cudaMemcpy(table, rows, sizeof rows, cudaMemcpyHostToDevice);
    if (is("freed in a table")) cudaFree(x), x = nullptr;
    listed<<<2, 32>>>(table);
  }
  if (is("freed and not used")) {
    float* gone = x;
    cudaFree(x);
    x = nullptr;
    unused<<<1, 32>>>(gone, y);
  }
  if (is("freed and copied")) {
    float* gone = x;
    cudaFree(x);
    x = nullptr;
    cudaMemcpy(host, gone, bytes, cudaMemcpyDeviceToHost);
  }
  if (is("a part of it freed")) cudaFree(y + 4);
  cudaFree(x);
  cudaFree(y);
  return 0;
}
