// torch for the host code of a CUDA extension on a machine without a GPU: tensors lie on the CPU,
// there is one stream, and what torch's CUDA headers declare is here in the CUDA runtime's terms.
#pragma once
#ifdef CUASSAY_ALL_OF_TORCH
#include <torch/extension.h>
#else
#include <torch/types.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
namespace py = pybind11;
#endif
#include <ATen/AccumulateType.h>
#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "cuda_host.h"

#define C10_CUDA_CHECK(EXPR)                                                              \
  do {                                                                                    \
    const cudaError_t cuassay_error = (EXPR);                                             \
    TORCH_CHECK(cuassay_error == cudaSuccess, "CUDA error: ", cudaGetErrorString(cuassay_error)); \
  } while (0)
#define AT_CUDA_CHECK(EXPR) C10_CUDA_CHECK(EXPR)
#define C10_CUDA_CHECK_WARN(EXPR) C10_CUDA_CHECK(EXPR)
#define C10_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_CHECK(cudaGetLastError())
#define C10_CUDA_ERROR_HANDLED(EXPR) (EXPR)
#define C10_CUDA_IGNORE_ERROR(EXPR) (void)(EXPR)
#define AT_CUDA_KERNEL_LAUNCH_CHECK() C10_CUDA_KERNEL_LAUNCH_CHECK()

namespace c10::cuda {

class CUDAStream {
 public:
  CUDAStream() = default;
  explicit CUDAStream(cudaStream_t stream) : stream_(stream) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  DeviceIndex device_index() const { return 0; }
  Device device() const { return Device(DeviceType::CPU); }
  bool query() const { return true; }
  void synchronize() const {}
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
template <class Priority>
inline CUDAStream getStreamFromPool(Priority, DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromPool() { return CUDAStream(); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
  return CUDAStream(stream);
}
inline void setCurrentCUDAStream(CUDAStream) {}

inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }

// Guards of a device or a stream: there is one of each.
struct CUDAGuard {
  explicit CUDAGuard(DeviceIndex) {}
  explicit CUDAGuard(Device) {}
  void set_device(Device) {}
  void reset_device(Device) {}
  void set_index(DeviceIndex) {}
};
struct OptionalCUDAGuard {
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device>) {}
  explicit OptionalCUDAGuard(std::optional<DeviceIndex>) {}
  explicit OptionalCUDAGuard(Device) {}
  void set_device(Device) {}
  void set_index(DeviceIndex) {}
  void reset() {}
};
struct CUDAStreamGuard {
  explicit CUDAStreamGuard(CUDAStream) {}
  void reset_stream(CUDAStream) {}
};
struct OptionalCUDAStreamGuard {
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(CUDAStream) {}
};

namespace CUDACachingAllocator {
inline void* raw_alloc(std::size_t bytes) {
  void* made = nullptr;
  C10_CUDA_CHECK(cudaMalloc(&made, bytes));
  return made;
}
inline void* raw_alloc_with_stream(std::size_t bytes, cudaStream_t) { return raw_alloc(bytes); }
inline void raw_delete(void* pointer) { (void)cudaFree(pointer); }
inline void emptyCache() {}
}  // namespace CUDACachingAllocator
}  // namespace c10::cuda

namespace at::cuda {
using c10::cuda::CUDAGuard;
using c10::cuda::CUDAStream;
using c10::cuda::CUDAStreamGuard;
using c10::cuda::current_device;
using c10::cuda::device_count;
using c10::cuda::getCurrentCUDAStream;
using c10::cuda::getDefaultCUDAStream;
using c10::cuda::getStreamFromPool;
using c10::cuda::OptionalCUDAGuard;
using c10::cuda::set_device;
using c10::cuda::setCurrentCUDAStream;
inline bool is_available() { return true; }
inline int warp_size() { return 32; }
inline cudaDeviceProp* getDeviceProperties(c10::DeviceIndex) {
  static cudaDeviceProp found = [] {
    cudaDeviceProp made;
    (void)cudaGetDeviceProperties(&made, 0);
    return made;
  }();
  return &found;
}
inline cudaDeviceProp* getCurrentDeviceProperties() { return getDeviceProperties(0); }
}  // namespace at::cuda
namespace torch::cuda {
inline bool is_available() { return true; }
inline int device_count() { return 1; }
inline void synchronize(int64_t = -1) { C10_CUDA_CHECK(cudaDeviceSynchronize()); }
}  // namespace torch::cuda
