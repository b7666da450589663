// A graph is captured with a fork and a join, and launched many times. Faulty: the fork begins at an
// event that was recorded before the buffer is cleared.
#include <cstdio>
#include <cuda_runtime.h>
__global__ void accumulate(const int* x, int* sum, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(sum, x[i]);
}
__global__ void combine(const int* left, const int* right, int* out) { *out = *left + *right; }
int main(int count, char**) {
  const bool faulty = count > 1;
  const int n = 256;
  int *x, *sums, *out, host[2 * n], found = 0;
  for (int i = 0; i < 2 * n; ++i) host[i] = i < n ? 1 : 2;
  cudaMalloc(&x, sizeof host);
  cudaMalloc(&sums, 2 * sizeof(int));
  cudaMalloc(&out, sizeof(int));
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  cudaStream_t main_stream, side;
  cudaEvent_t forked, joined;
  cudaStreamCreate(&main_stream);
  cudaStreamCreate(&side);
  cudaEventCreateWithFlags(&forked, cudaEventDisableTiming);
  cudaEventCreateWithFlags(&joined, cudaEventDisableTiming);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamBeginCapture(main_stream, cudaStreamCaptureModeGlobal);
  if (faulty) cudaEventRecord(forked, main_stream);
  cudaMemsetAsync(sums, 0, 2 * sizeof(int), main_stream);
  if (!faulty) cudaEventRecord(forked, main_stream);
  cudaStreamWaitEvent(side, forked, 0);
  accumulate<<<1, n, 0, main_stream>>>(x, sums, n);
  accumulate<<<1, n, 0, side>>>(x + n, sums + 1, n);
  cudaEventRecord(joined, side);
  cudaStreamWaitEvent(main_stream, joined, 0);
  combine<<<1, 1, 0, main_stream>>>(sums, sums + 1, out);
  cudaMemcpyAsync(&found, out, sizeof found, cudaMemcpyDeviceToHost, main_stream);
  if (cudaStreamEndCapture(main_stream, &graph) != cudaSuccess) return 4;
  size_t nodes = 0;
  cudaGraphGetNodes(graph, nullptr, &nodes);
  if (nodes != 5) return 5;
  if (cudaGraphInstantiate(&exec, graph, 0) != cudaSuccess) return 6;
  for (int launch = 0; launch < 3; ++launch) cudaGraphLaunch(exec, main_stream);
  cudaStreamSynchronize(main_stream);
  if (!faulty && found != 3 * n) return 3;
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  std::puts("ok");
}
