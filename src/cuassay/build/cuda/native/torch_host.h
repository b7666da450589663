// torch for the host code of a CUDA extension on a machine without a GPU: tensors lie on the CPU,
// streams are those of the CUDA runtime here, and what torch's CUDA headers declare is here in the CUDA runtime's terms.
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
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <tuple>
#include <vector>

#include "cuda_host.h"

extern "C" cudaStream_t cuda_host_caller_stream();

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
  bool query() const { return cudaStreamQuery(stream_) == cudaSuccess; }
  void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// The caller's stream until the host code sets another one, in each thread.
inline CUDAStream& cuassay_current_stream() {
  static thread_local CUDAStream current(cuda_host_caller_stream());
  return current;
}
inline CUDAStream getCurrentCUDAStream(DeviceIndex = -1) { return cuassay_current_stream(); }
inline CUDAStream getDefaultCUDAStream(DeviceIndex = -1) { return CUDAStream(); }
inline CUDAStream getStreamFromPool() {
  static std::array<cudaStream_t, 32> pool{};
  static std::size_t next = 0;
  cudaStream_t& one = pool[next++ % pool.size()];
  if (one == nullptr) C10_CUDA_CHECK(cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking));
  return CUDAStream(one);
}
template <class Priority>
inline CUDAStream getStreamFromPool(Priority, DeviceIndex = -1) { return getStreamFromPool(); }
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
  return CUDAStream(stream);
}
inline void setCurrentCUDAStream(CUDAStream stream) { cuassay_current_stream() = stream; }

inline DeviceIndex device_count() noexcept { return 1; }
inline DeviceIndex current_device() { return 0; }
inline void set_device(DeviceIndex) {}
inline void device_synchronize() { C10_CUDA_CHECK(cudaDeviceSynchronize()); }

// Guards of a device, of which there is one, and of the current stream.
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
  explicit CUDAStreamGuard(CUDAStream stream) : before_(getCurrentCUDAStream()) {
    setCurrentCUDAStream(stream);
  }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(before_); }
  void reset_stream(CUDAStream stream) { setCurrentCUDAStream(stream); }
  CUDAStream original_stream() const { return before_; }
  CUDAStream current_stream() const { return getCurrentCUDAStream(); }

 private:
  CUDAStream before_;
};
struct OptionalCUDAStreamGuard {
  OptionalCUDAStreamGuard() = default;
  explicit OptionalCUDAStreamGuard(CUDAStream stream) { guard_.emplace(stream); }
  explicit OptionalCUDAStreamGuard(std::optional<CUDAStream> stream) {
    if (stream) guard_.emplace(*stream);
  }
  void reset_stream(CUDAStream stream) { guard_.emplace(stream); }
  void reset() { guard_.reset(); }

 private:
  std::optional<CUDAStreamGuard> guard_;
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
// Made when it is first recorded, as torch's.
class CUDAEvent {
 public:
  CUDAEvent() = default;
  explicit CUDAEvent(unsigned flags) : flags_(flags) {}
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent(CUDAEvent&& other) noexcept : flags_(other.flags_), event_(other.event_) {
    other.event_ = nullptr;
  }
  ~CUDAEvent() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  cudaEvent_t event() const { return event_; }
  operator cudaEvent_t() const { return event_; }
  bool isCreated() const { return event_ != nullptr; }
  bool query() const { return event_ == nullptr || cudaEventQuery(event_) == cudaSuccess; }
  void record() { record(c10::cuda::getCurrentCUDAStream()); }
  void recordOnce(const c10::cuda::CUDAStream& stream) {
    if (event_ == nullptr) record(stream);
  }
  void record(const c10::cuda::CUDAStream& stream) {
    if (event_ == nullptr) C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags_));
    C10_CUDA_CHECK(cudaEventRecord(event_, stream));
  }
  void block(const c10::cuda::CUDAStream& stream) {
    if (event_ != nullptr) C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
  }
  void synchronize() const {
    if (event_ != nullptr) C10_CUDA_CHECK(cudaEventSynchronize(event_));
  }
  float elapsed_time(const CUDAEvent& other) const {
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_, other.event_));
    return milliseconds;
  }

 private:
  unsigned flags_ = cudaEventDisableTiming;
  cudaEvent_t event_ = nullptr;
};
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
