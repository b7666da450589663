// What CUDA refuses, and whether the program looks. The first argument names what happens.
#include <cassert>
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__global__ void fill(int* y) { y[threadIdx.x] = 1; }
__global__ void __launch_bounds__(128) bounded(int* y) { y[threadIdx.x] = 1; }
extern __shared__ char dynamic[];
__global__ void beside(int* y) {
  __shared__ char own[64];
  own[threadIdx.x] = 1;
  dynamic[threadIdx.x] = 2;
  y[threadIdx.x] = own[threadIdx.x] + dynamic[threadIdx.x];
}
__global__ void together(int* y) {
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) y[blockIdx.x % 1024] = 1;
}
__global__ void fails(int* y) { assert(y == nullptr); }

int main(int, char** argv) {
  auto is = [&](const char* name) { return std::strcmp(argv[1], name) == 0; };
  int *y, host[2048];
  cudaMalloc(&y, sizeof host);
  cudaMemset(y, 0, sizeof host);
  void* arguments[] = {&y};
  if (is("threads")) fill<<<1, 2048>>>(y);
  if (is("threads, looked at")) {
    fill<<<1, 2048>>>(y);
    if (cudaGetLastError() != cudaSuccess) fill<<<1, 256>>>(y);
  }
  if (is("grid along y")) fill<<<dim3(1, 70000), 32>>>(y);
  if (is("empty grid")) fill<<<0, 32>>>(y);
  if (is("block along z")) fill<<<1, dim3(1, 1, 128)>>>(y);
  if (is("launch bounds")) bounded<<<1, 256>>>(y);
  if (is("launch bounds kept")) bounded<<<1, 128>>>(y);
  if (is("dynamic")) beside<<<1, 64, 100000>>>(y);
  if (is("dynamic beside static")) beside<<<1, 64, 48 * 1024>>>(y);
  if (is("dynamic to the limit")) beside<<<1, 64, 48 * 1024 - 64>>>(y);
  if (is("dynamic, asked for")) {
    cudaFuncSetAttribute(beside, cudaFuncAttributeMaxDynamicSharedMemorySize, 100000);
    beside<<<1, 64, 100000>>>(y);
  }
  if (is("dynamic, too much asked for"))
    cudaFuncSetAttribute(beside, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024);
  if (is("dynamic, lowered")) {
    cudaFuncSetAttribute(beside, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000);
    cudaFuncSetAttribute(beside, cudaFuncAttributeMaxDynamicSharedMemorySize, 1024);
    beside<<<1, 64, 60000>>>(y);
  }
  if (is("limits told")) {
    cudaFuncAttributes found;
    cudaFuncGetAttributes(&found, beside);
    std::printf("%d %d\n", static_cast<int>(found.sharedSizeBytes),
                found.maxDynamicSharedSizeBytes);
  }
  if (is("results used first")) {
    fill<<<1, 2048>>>(y);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  }
  if (is("looked at late")) {
    fill<<<1, 2048>>>(y);
    cudaDeviceSynchronize();
    std::printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  }
  if (is("copy ignored")) cudaMemcpy(host, y, sizeof host + 4, cudaMemcpyDeviceToHost);
  if (is("copy checked") && cudaMemcpy(host, y, sizeof host + 4, cudaMemcpyDeviceToHost))
    std::printf("no\n");
  if (is("copy assigned")) {
    cudaError_t error = cudaMemcpy(host, y, sizeof host + 4, cudaMemcpyDeviceToHost);
    std::printf("%s\n", cudaGetErrorString(error));
  }
  if (is("copy cast away")) (void)cudaMemcpy(host, y, sizeof host + 4, cudaMemcpyDeviceToHost);
  if (is("copy the wrong way")) cudaMemcpy(y, host, sizeof host, cudaMemcpyDeviceToHost);
  if (is("call ignored")) cudaLaunchKernel((void*)fill, dim3(1), dim3(2048), arguments, 0, nullptr);
  if (is("call checked"))
    if (cudaLaunchKernel((void*)fill, dim3(1), dim3(2048), arguments, 0, nullptr))
      std::printf("no\n");
  if (is("reset")) {
    fill<<<1, 2048>>>(y);
    cudaGetLastError();
  }
  if (is("freed twice")) {
    cudaFree(y);
    cudaFree(y);
    return 0;
  }
  if (is("cooperative, too many"))
    cudaLaunchCooperativeKernel((void*)together, dim3(6000), dim3(32), arguments, 0, nullptr);
  if (is("cooperative, as many as fit")) {
    int each;
    cudaDeviceProp device;
    cudaGetDeviceProperties(&device, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, together, 1024, 0);
    cudaLaunchCooperativeKernel((void*)together, dim3(each * device.multiProcessorCount),
                                dim3(1024), arguments, 0, nullptr);
    std::printf("%d\n", each);
  }
  if (is("assert")) {
    fails<<<1, 1>>>(y);
    cudaDeviceSynchronize();
  }
  if (is("nothing")) fill<<<1, 1024>>>(y);
  cudaFree(y);
  return 0;
}
