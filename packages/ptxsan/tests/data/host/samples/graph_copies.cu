// A graph built by hand: two uploads, a kernel that needs both, a memset beside them, a download.
// Faulty: the kernel does not depend on the memset of what it adds to.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void dot(const float* a, const float* b, float* result, int n) {
  float sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += a[i] * b[i];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(0xffffffff, sum, offset);
  if (threadIdx.x % 32 == 0) atomicAdd(result, sum);
}

static void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorName(error));
  throw 1;
}

int main(int argc, char**) {
  const bool faulty = argc > 1;
  int n = 512;
  float *host_a, *host_b, *host_result, *a, *b, *result;
  const std::size_t bytes = n * sizeof(float);
  check(cudaMallocHost(&host_a, bytes), "a");
  check(cudaMallocHost(&host_b, bytes), "b");
  check(cudaMallocHost(&host_result, sizeof(float)), "result");
  check(cudaMalloc(&a, bytes), "a");
  check(cudaMalloc(&b, bytes), "b");
  check(cudaMalloc(&result, sizeof(float)), "result");

  cudaGraph_t graph;
  check(cudaGraphCreate(&graph, 0), "graph");
  cudaGraphNode_t up_a, up_b, clear, kernel, down;
  check(cudaGraphAddMemcpyNode1D(&up_a, graph, nullptr, 0, a, host_a, bytes, cudaMemcpyHostToDevice), "up");
  check(cudaGraphAddMemcpyNode1D(&up_b, graph, nullptr, 0, b, host_b, bytes, cudaMemcpyHostToDevice), "up");
  cudaMemsetParams set = {};
  set.dst = result;
  set.elementSize = 4;
  set.width = 1;
  set.height = 1;
  check(cudaGraphAddMemsetNode(&clear, graph, nullptr, 0, &set), "memset");
  void* arguments[] = {&a, &b, &result, &n};
  cudaKernelNodeParams params = {};
  params.func = reinterpret_cast<void*>(dot);
  params.gridDim = dim3(1);
  params.blockDim = dim3(128);
  params.kernelParams = arguments;
  cudaGraphNode_t before[] = {up_a, up_b, clear};
  check(cudaGraphAddKernelNode(&kernel, graph, before, faulty ? 2 : 3, &params), "kernel");
  check(cudaGraphAddMemcpyNode1D(&down, graph, &kernel, 1, host_result, result, sizeof(float),
                                 cudaMemcpyDeviceToHost), "down");
  cudaGraphExec_t exec;
  check(cudaGraphInstantiate(&exec, graph, 0), "instantiate");
  cudaStream_t stream;
  check(cudaStreamCreate(&stream), "stream");
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < n; ++i) {
      host_a[i] = round;
      host_b[i] = i % 2;
    }
    check(cudaGraphLaunch(exec, stream), "launch");
    check(cudaStreamSynchronize(stream), "synchronize");
    if (!faulty && *host_result != round * n / 2) return 1;
  }
  check(cudaGraphExecDestroy(exec), "exec");
  check(cudaGraphDestroy(graph), "graph");
  check(cudaStreamDestroy(stream), "stream");
  for (float* one : {host_a, host_b, host_result}) check(cudaFreeHost(one), "free");
  for (float* one : {a, b, result}) check(cudaFree(one), "free");
  std::puts("ok");
  return 0;
}
