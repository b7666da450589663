// Functions of the driver that libraries call beside the runtime's: fills by larger words, and what
// an error is called. Codes of both are the same numbers where both have them.
// Reference: CUDA driver API, "Memory Management" and "Error Handling".
#include <cuda.h>

#include "host_runtime.h"

using namespace host;

namespace {
CUresult fill(CUdeviceptr to, unsigned value, std::size_t count, unsigned element, CUstream stream,
              const char* api) {
  void* place = reinterpret_cast<void*>(to);
  const auto work = [=](std::uint64_t id) {
    return run_fill(place, static_cast<int>(value), count * element, 1, 0, element, id, api);
  };
  return static_cast<CUresult>(enqueue(stream, cudaGraphNodeTypeMemset, work));
}
}  // namespace

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count,
                                CUstream stream) {
  return fill(to, value, count, 1, stream, "cuMemsetD8Async");
}
EXPORT CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, std::size_t count,
                                 CUstream stream) {
  return fill(to, value, count, 2, stream, "cuMemsetD16Async");
}
EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, std::size_t count,
                                 CUstream stream) {
  return fill(to, value, count, 4, stream, "cuMemsetD32Async");
}
EXPORT CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}
