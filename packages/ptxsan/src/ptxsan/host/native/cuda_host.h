// What host code of a CUDA program sees beside the toolkit's own headers, compiled by a plain C++
// compiler: the two calls that a launch becomes, and what the headers declare for nvcc alone.
#pragma once
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM  // the runtime here is told, and has no other functions
#undef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define CUDA_HOST_PER_THREAD
#endif
#include <cuda_runtime.h>

#include <assert.h>
#include <math.h>
#include <time.h>

#include <climits>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// A namespace that headers for the device define is empty for the host.
namespace cooperative_groups {}
namespace nvcuda { namespace wmma {} }
namespace cub {}

#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __block_size__(...)
#undef __cluster_dims__
#define __cluster_dims__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __noinline__  // libstdc++ writes it as an attribute's name; host/split.py words the program's

extern "C" void cuda_host_stub(const void* const* arguments);
extern "C" void cuda_host_set(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream);

extern "C" void cuda_host_at(int line, const char* file);
extern "C" void cuda_host_unseen(cudaError_t error, int line, const char* file);
extern "C" void cuda_host_per_thread();

// Where the program is: before a launch, and before each call of the runtime.
inline void cuda_host_configure(dim3 grid, dim3 block, std::size_t shared = 0,
                                cudaStream_t stream = nullptr, int line = __builtin_LINE(),
                                const char* file = __builtin_FILE()) {
  cuda_host_at(line, file);
  cuda_host_set(grid, block, shared, stream);
}
inline void cuda_host_here(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  cuda_host_at(line, file);
}
// Behind a call whose result a statement throws away, unless it has none.
struct cuda_host_discard {
  int line;
  const char* file;
  cuda_host_discard(int line = __builtin_LINE(), const char* file = __builtin_FILE())
      : line(line), file(file) {}
};
inline void operator,(cudaError_t error, cuda_host_discard discard) {
  cuda_host_unseen(error, discard.line, discard.file);
}
#ifdef CUDA_HOST_PER_THREAD
namespace {
const bool cuda_host_is_per_thread = (cuda_host_per_thread(), true);
}
#endif

// cuda_runtime.h, the part that it guards with __CUDACC__.
template <class T>
cudaError_t cudaMemcpyToSymbol(const T& symbol, const void* from, std::size_t count,
                               std::size_t offset = 0,
                               cudaMemcpyKind kind = cudaMemcpyHostToDevice) {
  return ::cudaMemcpyToSymbol((const void*)&symbol, from, count, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyToSymbolAsync(const T& symbol, const void* from, std::size_t count,
                                    std::size_t offset = 0,
                                    cudaMemcpyKind kind = cudaMemcpyHostToDevice,
                                    cudaStream_t stream = nullptr) {
  return ::cudaMemcpyToSymbolAsync((const void*)&symbol, from, count, offset, kind, stream);
}
template <class T>
cudaError_t cudaMemcpyFromSymbol(void* to, const T& symbol, std::size_t count,
                                 std::size_t offset = 0,
                                 cudaMemcpyKind kind = cudaMemcpyDeviceToHost) {
  return ::cudaMemcpyFromSymbol(to, (const void*)&symbol, count, offset, kind);
}
template <class T>
cudaError_t cudaMemcpyFromSymbolAsync(void* to, const T& symbol, std::size_t count,
                                      std::size_t offset = 0,
                                      cudaMemcpyKind kind = cudaMemcpyDeviceToHost,
                                      cudaStream_t stream = nullptr) {
  return ::cudaMemcpyFromSymbolAsync(to, (const void*)&symbol, count, offset, kind, stream);
}
template <class T>
cudaError_t cudaGetSymbolAddress(void** address, const T& symbol) {
  return ::cudaGetSymbolAddress(address, (const void*)&symbol);
}
template <class T>
cudaError_t cudaGetSymbolSize(std::size_t* size, const T& symbol) {
  return ::cudaGetSymbolSize(size, (const void*)&symbol);
}
// The form that CUDA 11 had.
inline cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                       cudaGraphNode_t* node, cudaGraphExecUpdateResult* updated) {
  cudaGraphExecUpdateResultInfo info;
  const cudaError_t error = ::cudaGraphExecUpdate(exec, graph, &info);
  if (node) *node = info.errorNode;
  if (updated) *updated = info.result;
  return error;
}
template <class T>
cudaError_t cudaFuncSetAttribute(T* kernel, cudaFuncAttribute attribute, int value) {
  return ::cudaFuncSetAttribute((const void*)kernel, attribute, value);
}
template <class T>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, T* kernel) {
  return ::cudaFuncGetAttributes(attributes, (const void*)kernel);
}
template <class T>
cudaError_t cudaFuncSetCacheConfig(T* kernel, cudaFuncCache) {
  return kernel ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

// crt/math_functions.hpp: min and max for the host, with the very overloads that nvcc's has.
#define CUDA_HOST_LEAST_AND_MOST(A, B, R)                                                \
  inline R min(const A a, const B b) {                                                   \
    const R c = a, d = b;                                                                \
    return c < d ? c : d;                                                                \
  }                                                                                      \
  inline R max(const A a, const B b) {                                                   \
    const R c = a, d = b;                                                                \
    return c > d ? c : d;                                                                \
  }
#define CUDA_HOST_LEAST_AND_MOST_WHOLE(S, U)                                             \
  CUDA_HOST_LEAST_AND_MOST(S, S, S) CUDA_HOST_LEAST_AND_MOST(U, U, U)                    \
  CUDA_HOST_LEAST_AND_MOST(S, U, U) CUDA_HOST_LEAST_AND_MOST(U, S, U)
CUDA_HOST_LEAST_AND_MOST_WHOLE(int, unsigned int)
CUDA_HOST_LEAST_AND_MOST_WHOLE(long, unsigned long)
CUDA_HOST_LEAST_AND_MOST_WHOLE(long long, unsigned long long)
CUDA_HOST_LEAST_AND_MOST(float, float, float)
CUDA_HOST_LEAST_AND_MOST(double, double, double)
CUDA_HOST_LEAST_AND_MOST(float, double, double)
CUDA_HOST_LEAST_AND_MOST(double, float, double)
#undef CUDA_HOST_LEAST_AND_MOST_WHOLE
#undef CUDA_HOST_LEAST_AND_MOST

#ifdef CUDA_HOST_DECLARED  // the host knows the device's functions: bodies name what those do
inline const uint3 threadIdx{}, blockIdx{};
inline const dim3 blockDim, gridDim;
inline void __syncthreads() {}
#endif

// Atomics and intrinsics in functions for both sides are declared for nvcc's host pass as well.
template <class T> inline T __ldg(const T* place) { return *place; }
