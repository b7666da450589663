// Several streams at once. The first argument names what happens.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
__global__ void fill(float* y, int n, float v) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = v; }
__global__ void add(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += x[i]; }
__global__ void count(int* c) { atomicAdd(c, 1); }
__global__ void tell(int* c) { atomicAdd_system(c, 1); }
__global__ void count_behind_a_fence(int* c) { __threadfence_system(); atomicAdd(c, 1); }
__device__ float shared_value;
__global__ void put() { shared_value = 1; }
__global__ void take(float* y) { y[0] = shared_value; }
__global__ void publish(int* c) { atomicExch(c, 7); }
__global__ void follow(int* c, float* y) { int i = atomicAdd(c, 0); y[i] = 1; }
__global__ void near_end(int* c, float* y, int n) { int i = atomicAdd(c, 0); if (i < 8) y[n - i] = 1; }
__global__ void await(int* c, float* y) { while (atomicAdd(c, 0) != 7) {} y[0] = 1; }
const int n = 1024;
int main(int argc, char** argv) {
  const char* w = argv[1];
  float *x, *y, *h; int* c;
  cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMalloc(&c, 4); cudaMallocHost(&h, n * 4);
  cudaMemset(x, 0, n * 4); cudaMemset(y, 0, n * 4); cudaMemset(c, 0, 4);
  cudaDeviceSynchronize();
  cudaStream_t a, b, blocking; cudaEvent_t e;
  cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking); cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
  cudaStreamCreate(&blocking); cudaEventCreate(&e);
  auto is = [&](const char* name) { return !strcmp(w, name); };
  if (is("two")) { fill<<<4, 256, 0, a>>>(x, n, 1); add<<<4, 256, 0, b>>>(x, y, n); }
  if (is("event")) { fill<<<4, 256, 0, a>>>(x, n, 1); cudaEventRecord(e, a); cudaStreamWaitEvent(b, e, 0); add<<<4, 256, 0, b>>>(x, y, n); }
  if (is("event_early")) { cudaEventRecord(e, a); fill<<<4, 256, 0, a>>>(x, n, 1); cudaStreamWaitEvent(b, e, 0); add<<<4, 256, 0, b>>>(x, y, n); }
  if (is("default")) { fill<<<4, 256>>>(x, n, 1); add<<<4, 256, 0, a>>>(x, y, n); }
  if (is("default_blocking")) { fill<<<4, 256>>>(x, n, 1); add<<<4, 256, 0, blocking>>>(x, y, n); add<<<4, 256>>>(y, x, n); }
  if (is("atomics")) { count<<<4, 32, 0, a>>>(c); count<<<4, 32, 0, b>>>(c); }
  if (is("atomic_read")) { count<<<4, 32, 0, a>>>(c); cudaMemcpyAsync(h, c, 4, cudaMemcpyDeviceToHost, b); }
  if (is("order_matters")) { publish<<<1, 1, 0, a>>>(c); follow<<<1, 1, 0, b>>>(c, y); }
  if (is("order_matters_ok")) { publish<<<1, 1, 0, a>>>(c); cudaEventRecord(e, a); cudaStreamWaitEvent(b, e, 0); follow<<<1, 1, 0, b>>>(c, y); }
  if (is("order_unwritten") || is("order_unwritten_ok")) {
    int* d; cudaMalloc(&d, 4);
    if (is("order_unwritten_ok")) cudaMemset(d, 0, 4);
    cudaDeviceSynchronize();
    publish<<<1, 1, 0, a>>>(d); follow<<<1, 1, 0, b>>>(d, y);
  }
  if (is("order_beyond")) { publish<<<1, 1, 0, a>>>(c); near_end<<<1, 1, 0, b>>>(c, y, n); }
  if (is("order_awaits")) { publish<<<1, 1, 0, a>>>(c); await<<<1, 1, 0, b>>>(c, y); }
  if (is("order_left")) { for (int i = 0; i < 3; ++i) count<<<4, 32, 0, i ? b : a>>>(c); cudaDeviceSynchronize(); int got; cudaMemcpy(&got, c, 4, cudaMemcpyDeviceToHost); printf("%d\n", got); }
  if (is("halves")) { fill<<<2, 256, 0, a>>>(x, n / 2, 1); fill<<<2, 256, 0, b>>>(x + n / 2, n / 2, 1); }
  if (is("overlap")) { fill<<<2, 256, 0, a>>>(x, n / 2, 1); fill<<<2, 256, 0, b>>>(x + n / 2 - 1, n / 2, 1); }
  if (is("memset")) { cudaMemset(x, 0, n * 4); fill<<<4, 256, 0, a>>>(x, n, 1); }
  if (is("pinned")) { fill<<<4, 256, 0, a>>>(x, n, 1); cudaMemcpyAsync(h, x, n * 4, cudaMemcpyDeviceToHost, a); printf("%g\n", h[5]); }
  if (is("pinned_ok")) { fill<<<4, 256, 0, a>>>(x, n, 1); cudaMemcpyAsync(h, x, n * 4, cudaMemcpyDeviceToHost, a); cudaStreamSynchronize(a); printf("%g\n", h[5]); }
  if (is("pinned_up")) { memset(h, 0, n * 4); cudaMemcpyAsync(x, h, n * 4, cudaMemcpyHostToDevice, a); float s = h[3]; h[7] = s + 1; }
  if (is("query")) { fill<<<4, 256, 0, a>>>(x, n, 1); while (cudaStreamQuery(a) == cudaErrorNotReady) {} add<<<4, 256, 0, b>>>(x, y, n); }
  if (is("host_function")) {
    fill<<<4, 256, 0, a>>>(x, n, 1); cudaMemcpyAsync(h, x, n * 4, cudaMemcpyDeviceToHost, a);
    cudaLaunchHostFunc(a, [](void* p) { printf("%g\n", *static_cast<float*>(p)); }, h);
    cudaStreamSynchronize(a);
  }
  if (is("variable")) { put<<<1, 1, 0, a>>>(); take<<<1, 1, 0, b>>>(y); }
  if (is("alloc_async")) { float* m; cudaMallocAsync(&m, n * 4, a); fill<<<4, 256, 0, b>>>(m, n, 1); }
  if (is("managed_halves")) {
    float* m; cudaMallocManaged(&m, 8192 * 4);
    fill<<<16, 256, 0, a>>>(m, 4096, 3);
    for (int i = 4096; i < 8192; ++i) m[i] = i;
    cudaStreamSynchronize(a); printf("%g\n", m[7]);
  }
  if (is("counted") || is("told") || is("fenced")) {
    int* m; cudaMallocManaged(&m, 4096); *m = 0;
    if (is("counted")) count<<<4, 256, 0, a>>>(m);
    if (is("told")) tell<<<4, 256, 0, a>>>(m);
    if (is("fenced")) count_behind_a_fence<<<4, 256, 0, a>>>(m);
    while (*(volatile int*)m < 1024) {}
    cudaStreamSynchronize(a); printf("%d\n", *m);
  }
  if (is("free_async")) { fill<<<4, 256, 0, a>>>(x, n, 1); cudaFreeAsync(x, b); x = nullptr; }
  if (is("free_ok")) { fill<<<4, 256, 0, a>>>(x, n, 1); cudaFreeAsync(x, a); x = nullptr; }
  if (is("freed")) { cudaFree(x); fill<<<4, 256, 0, a>>>(x, n, 1); x = nullptr; }
  if (is("destroyed")) { cudaStreamDestroy(a); fill<<<4, 256, 0, a>>>(x, n, 1); }
  if (is("managed") || is("managed_ok")) { float* m; cudaMallocManaged(&m, n * 4); for (int i = 0; i < n; ++i) m[i] = i; fill<<<4, 256>>>(m, n, 3); if (is("managed_ok")) cudaDeviceSynchronize(); printf("%g\n", m[9]); }
  cudaDeviceSynchronize();
  return 0;
}
