// Graphs, programmatic launches and barriers of the grid. The first argument names what happens.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
namespace cg = cooperative_groups;
__global__ void fill(float* y, int n, float v) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = v; }
__global__ void add(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] += x[i]; }
__global__ void grid_sum(const float* x, float* part, float* out) {
  cg::grid_group g = cg::this_grid();
  if (threadIdx.x == 0) part[blockIdx.x] = x[blockIdx.x];
  g.sync();
  if (g.thread_rank() == 0) { float s = 0; for (int i = 0; i < gridDim.x; ++i) s += part[i]; *out = s; }
}
__global__ void maybe(float* out) { cg::grid_group g = cg::this_grid(); if (g.is_valid()) g.sync(); if (g.thread_rank() == 0) *out = 1; }
__global__ void first(float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; 
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
  if (i < n) y[i] = i; }
__global__ void second_waits(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; 
  float scale = 2;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (i < n) y[i] = x[i] * scale; }
__global__ void second(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
__global__ void second_early(const float* x, float* y, int n) { int i = blockIdx.x * blockDim.x + threadIdx.x; 
  float v = i < n ? x[i] : 0;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (i < n) y[i] = v; }
__device__ int rounds;
__global__ void second_counts(const float*, float* y, int) {
  if (threadIdx.x == 0 && blockIdx.x == 0) { atomicAdd(&rounds, 1); printf("second\n"); }
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  if (threadIdx.x == 0 && blockIdx.x == 0) y[0] = atomicAdd(&rounds, 0);
}
const int n = 1024;
template <class K> void dependent(K k, const float* x, float* y, cudaStream_t s) {
  cudaLaunchConfig_t c = {}; c.gridDim = 4; c.blockDim = 256; c.stream = s;
  cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeProgrammaticStreamSerialization; a[0].val.programmaticStreamSerializationAllowed = 1;
  c.attrs = a; c.numAttrs = 1;
  cudaError_t e = cudaLaunchKernelEx(&c, k, x, y, n);
  if (e) printf("%s\n", cudaGetErrorString(e));
}
int main(int argc, char** argv) {
  const char* w = argv[1];
  auto is = [&](const char* name) { return !strcmp(w, name); };
  float *x, *y, *z; cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4); cudaMalloc(&z, n * 4);
  cudaMemset(x, 0, n * 4); cudaMemset(y, 0, n * 4); cudaMemset(z, 0, n * 4);
  cudaDeviceSynchronize();
  cudaStream_t a, b; cudaStreamCreate(&a); cudaStreamCreate(&b); cudaEvent_t e, f; cudaEventCreate(&e); cudaEventCreate(&f);
  if (is("grid")) { grid_sum<<<4, 32>>>(x, y, z); cudaDeviceSynchronize(); }
  if (is("grid_ok")) { void* p[] = {&x, &y, &z}; cudaLaunchCooperativeKernel((void*)grid_sum, dim3(4), dim3(32), p, 0, 0); cudaDeviceSynchronize(); }
  if (is("maybe")) { maybe<<<4, 32>>>(z); cudaDeviceSynchronize(); }
  if (is("pdl") || is("pdl_ok") || is("pdl_early")) {
    first<<<4, 256, 0, a>>>(x, n);
    if (is("pdl")) dependent(second, x, y, a); else if (is("pdl_ok")) dependent(second_waits, x, y, a); else dependent(second_early, x, y, a);
    cudaStreamSynchronize(a);
  }
  if (is("pdl_apart")) { first<<<4, 256, 0, a>>>(x, n); dependent(second, z, y, a); cudaStreamSynchronize(a); }
  if (is("pdl_counts")) {
    first<<<4, 256, 0, a>>>(x, n); dependent(second_counts, x, y, a);
    float h; cudaMemcpy(&h, y, 4, cudaMemcpyDeviceToHost); printf("%g\n", h);
  }
  if (is("pdl_first")) { dependent(second, z, y, a); cudaStreamSynchronize(a); }
  if (is("capture") || is("capture_race") || is("unjoined")) {
    cudaGraph_t g; cudaGraphExec_t x1;
    cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal);
    fill<<<4, 256, 0, a>>>(x, n, 1);
    if (!is("capture_race")) cudaEventRecord(e, a);
    else { cudaEventRecord(e, a); }
    cudaStreamWaitEvent(b, e, 0);
    fill<<<4, 256, 0, b>>>(z, n, 2);
    cudaEventRecord(f, b);
    if (is("capture_race")) { add<<<4, 256, 0, a>>>(z, x, n); cudaStreamWaitEvent(a, f, 0); }
    else if (!is("unjoined")) { cudaStreamWaitEvent(a, f, 0); add<<<4, 256, 0, a>>>(z, x, n); }
    cudaError_t r = cudaStreamEndCapture(a, &g);
    printf("%s\n", cudaGetErrorString(r));
    if (!r) {
      cudaGraphInstantiate(&x1, g, 0);
      for (int i = 0; i < 3; ++i) cudaGraphLaunch(x1, a);
      cudaStreamSynchronize(a);
      float h[n]; cudaMemcpy(h, x, n * 4, cudaMemcpyDeviceToHost); printf("%g\n", h[n - 1]);
    } else cudaGetLastError();
  }
  if (is("nodes") || is("nodes_race")) {
    cudaGraph_t g; cudaGraphExec_t ex; cudaGraphCreate(&g, 0);
    cudaGraphNode_t k1, k2, s1; int m = n; float v = 5;
    void* p1[] = {&x, &m, &v}; cudaKernelNodeParams kp = {}; kp.func = (void*)fill; kp.gridDim = 4; kp.blockDim = 256; kp.kernelParams = p1;
    cudaGraphAddKernelNode(&k1, g, nullptr, 0, &kp);
    cudaMemsetParams ms = {}; ms.dst = y; ms.elementSize = 4; ms.width = n; ms.height = 1; ms.value = 0;
    cudaGraphAddMemsetNode(&s1, g, nullptr, 0, &ms);
    void* p2[] = {&x, &y, &m}; kp.func = (void*)add; kp.kernelParams = p2; cudaGraphNode_t deps[] = {k1, s1};
    cudaGraphAddKernelNode(&k2, g, deps, is("nodes") ? 2 : 1, &kp);
    cudaGraphInstantiate(&ex, g, 0); cudaGraphLaunch(ex, a); cudaStreamSynchronize(a);
    float h[n]; cudaMemcpy(h, y, n * 4, cudaMemcpyDeviceToHost); printf("%g\n", h[n - 1]);
  }
  if (is("in_capture")) { cudaStreamBeginCapture(a, cudaStreamCaptureModeGlobal); cudaMemset(x, 0, 4); cudaGraph_t g; cudaStreamEndCapture(a, &g); }
  return 0;
}
