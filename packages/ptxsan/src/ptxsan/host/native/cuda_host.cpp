// The CUDA runtime on a machine without a GPU: memory is the host's, streams run in order, and
// launches go to whoever connected. Signatures and error codes: CUDA Runtime API 13.0.
// Its symbols carry a version (host/build.py): it may lie beside NVIDIA's runtime in a process.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace {

struct Callbacks {
  int (*launch)(const void* function, const unsigned* extents, std::size_t shared,
                const void* const* arguments);
  void (*allocated)(void* base, std::size_t bytes, int initialised);
  void (*freed)(void* base);
  void (*written)(void* base, std::size_t bytes, const void* from);
  void* (*symbol)(const void* variable, std::size_t* bytes);
  int (*attributes)(const void* function, int* values);
  int (*textured)(const struct Texels* texels);
  void (*untextured)(std::uint64_t handle);
};

// What the handle of a texture or surface means; Python reads it by this layout.
struct Texels {
  std::uint64_t handle;
  const void* data;
  std::uint64_t pitch, slice;
  std::uint32_t width, height, depth;
  std::uint32_t channels, bits, kind;
  std::uint32_t normalized, linear, fractions;
  std::uint32_t modes[3];
  float border[4];
};

Callbacks connected{};
int multiprocessors = 4, major_version = 9, minor_version = 0;
bool knows_every_allocation = false;
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t lost = cudaSuccess;  // after a fault of a kernel the context is gone

struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local Configuration pending;

struct Block {
  std::size_t bytes;
  bool device;
};
std::mutex guard;
std::map<std::uintptr_t, Block> blocks;
std::map<const void*, int> dynamic_shared;

cudaError_t result(cudaError_t error) {
  if (lost != cudaSuccess) error = lost;
  if (error != cudaSuccess) last_error = error;
  return error;
}

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// The allocation that holds an address; the lock is held.
std::map<std::uintptr_t, Block>::iterator holder(const void* pointer) {
  auto next = blocks.upper_bound(number(pointer));
  if (next == blocks.begin()) return blocks.end();
  --next;
  return number(pointer) < next->first + next->second.bytes ? next : blocks.end();
}

bool is_device(const void* pointer) {
  std::lock_guard<std::mutex> lock(guard);
  auto found = holder(pointer);
  return found != blocks.end() && found->second.device;
}

// Whether a range that begins in an allocation ends in it.
bool fits(const void* pointer, std::size_t bytes) {
  std::lock_guard<std::mutex> lock(guard);
  auto found = holder(pointer);
  if (found == blocks.end()) return true;
  return number(pointer) + bytes <= found->first + found->second.bytes;
}

cudaError_t allocate(void** pointer, std::size_t bytes, bool device) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (lost != cudaSuccess) return result(lost);
  if (bytes == 0) return cudaSuccess;
  const std::size_t padded = (bytes + 255) / 256 * 256;
  void* made = padded < bytes ? nullptr : std::aligned_alloc(256, padded + 256);
  if (made == nullptr) return result(cudaErrorMemoryAllocation);
  {
    std::lock_guard<std::mutex> lock(guard);
    blocks[number(made)] = Block{bytes, device};
  }
  if (connected.allocated) connected.allocated(made, bytes, device ? 0 : 1);
  *pointer = made;
  return cudaSuccess;
}

cudaError_t release(void* pointer) {
  if (pointer == nullptr) return result(cudaSuccess);
  {
    std::lock_guard<std::mutex> lock(guard);
    if (blocks.erase(number(pointer)) == 0) return result(cudaErrorInvalidValue);
  }
  if (connected.freed) connected.freed(pointer);
  std::free(pointer);
  return result(cudaSuccess);
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (lost != cudaSuccess) return result(lost);
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return result(cudaErrorInvalidValue);
  if (!fits(to, bytes) || !fits(from, bytes)) return result(cudaErrorInvalidValue);
  if (knows_every_allocation) {
    const bool wants_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool wants_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if ((wants_to && !is_device(to)) || (wants_from && !is_device(from)))
      return result(cudaErrorInvalidValue);
  }
  std::memmove(to, from, bytes);
  if (connected.written) connected.written(to, bytes, from);
  return cudaSuccess;
}

cudaError_t fill(void* to, int value, std::size_t bytes) {
  if (lost != cudaSuccess) return result(lost);
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || !fits(to, bytes) || (knows_every_allocation && !is_device(to)))
    return result(cudaErrorInvalidValue);
  std::memset(to, value, bytes);
  if (connected.written) connected.written(to, bytes, nullptr);
  return cudaSuccess;
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, std::size_t shared,
                   const void* const* arguments, dim3 cluster = dim3(1, 1, 1)) {
  if (lost != cudaSuccess) return result(lost);
  if (!connected.launch) return result(cudaErrorInitializationError);
  const unsigned extents[] = {grid.x,  grid.y,  grid.z,    block.x,   block.y,
                              block.z, cluster.x, cluster.y, cluster.z};
  const cudaError_t error =
      static_cast<cudaError_t>(connected.launch(function, extents, shared, arguments));
  if (error == cudaErrorLaunchFailure || error == cudaErrorAssert ||
      error == cudaErrorIllegalAddress || error == cudaErrorLaunchTimeout)
    lost = error;
  return result(error);
}

struct Event {
  std::chrono::steady_clock::time_point at;
  bool recorded = false;
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void cuda_host_connect(const Callbacks* callbacks, int units, int major, int minor,
                              int strict) {
  connected = *callbacks;
  multiprocessors = units;
  major_version = major;
  minor_version = minor;
  knows_every_allocation = strict != 0;
}

// The caller is the stub of a kernel: the address that this returns to says which.
EXPORT __attribute__((noinline)) void cuda_host_stub(const void* const* arguments) {
  const Configuration one = pending;
  launch(__builtin_return_address(0), one.grid, one.block, one.shared, arguments);
}

EXPORT void cuda_host_set(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  pending = Configuration{grid, block, shared, stream};
}

EXPORT int cuda_host_dynamic_shared(const void* function) {
  auto found = dynamic_shared.find(function);
  return found == dynamic_shared.end() ? 48 * 1024 : found->second;
}

// What was asked of the last error; a caller after the program's own asks this.
EXPORT int cuda_host_take_error() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

EXPORT void cuda_host_forget() {
  last_error = cudaSuccess;
  lost = cudaSuccess;
}

// Errors -----------------------------------------------------------------------------------------

EXPORT cudaError_t cudaGetLastError() {
  const cudaError_t error = lost != cudaSuccess ? lost : last_error;
  last_error = cudaSuccess;
  return error;
}
EXPORT cudaError_t cudaPeekAtLastError() { return lost != cudaSuccess ? lost : last_error; }

#define ERRORS(X)                                                                              \
  X(cudaSuccess, "no error")                                                                   \
  X(cudaErrorInvalidValue, "invalid argument")                                                 \
  X(cudaErrorMemoryAllocation, "out of memory")                                                \
  X(cudaErrorInitializationError, "initialization error")                                      \
  X(cudaErrorInvalidConfiguration, "invalid configuration argument")                           \
  X(cudaErrorInvalidDevice, "invalid device ordinal")                                          \
  X(cudaErrorInvalidDeviceFunction, "invalid device function")                                 \
  X(cudaErrorInvalidSymbol, "invalid device symbol")                                           \
  X(cudaErrorInvalidResourceHandle, "invalid resource handle")                                 \
  X(cudaErrorIllegalAddress, "an illegal memory access was encountered")                       \
  X(cudaErrorLaunchOutOfResources, "too many resources requested for launch")                  \
  X(cudaErrorLaunchTimeout, "the launch timed out and was terminated")                         \
  X(cudaErrorAssert, "device-side assert triggered")                                           \
  X(cudaErrorLaunchFailure, "unspecified launch failure")                                      \
  X(cudaErrorNotSupported, "operation not supported")                                          \
  X(cudaErrorNotReady, "device not ready")                                                     \
  X(cudaErrorCooperativeLaunchTooLarge, "too many blocks in cooperative launch")

EXPORT const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define X(name, text) \
  case name:          \
    return #name;
    ERRORS(X)
#undef X
    default:
      return "cudaErrorUnknown";
  }
}
EXPORT const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
#define X(name, text) \
  case name:          \
    return text;
    ERRORS(X)
#undef X
    default:
      return "unknown error";
  }
}

// Launches ---------------------------------------------------------------------------------------

EXPORT cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                    std::size_t shared, cudaStream_t) {
  return launch(function, grid, block, shared, arguments);
}
EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                               void** arguments, std::size_t shared,
                                               cudaStream_t) {
  return launch(function, grid, block, shared, arguments);
}
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                       void** arguments) {
  dim3 cluster(1, 1, 1);
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) {
      const auto& size = config->attrs[i].val.clusterDim;
      cluster = dim3(size.x, size.y, size.z);
    }
  return launch(function, config->gridDim, config->blockDim, config->dynamicSmemBytes, arguments,
                cluster);
}
EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                        int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    int values[5] = {};
    if (connected.attributes && connected.attributes(function, values) != cudaSuccess)
      return result(cudaErrorInvalidDeviceFunction);
    if (value < 0 || value + values[0] > 227 * 1024) return result(cudaErrorInvalidValue);
    dynamic_shared[function] = value;
  }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void* function) {
  int values[5] = {};  // static shared, threads, registers, local, constant
  if (!connected.attributes || connected.attributes(function, values) != cudaSuccess)
    return result(cudaErrorInvalidDeviceFunction);
  std::memset(found, 0, sizeof *found);
  found->sharedSizeBytes = values[0];
  found->maxThreadsPerBlock = values[1];
  found->numRegs = values[2];
  found->localSizeBytes = values[3];
  found->constSizeBytes = values[4];
  found->binaryVersion = found->ptxVersion = major_version * 10 + minor_version;
  found->maxDynamicSharedSizeBytes = cuda_host_dynamic_shared(function);
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* count, const void* function, int block, std::size_t dynamic, unsigned) {
  int values[5] = {};
  if (!connected.attributes || connected.attributes(function, values) != cudaSuccess)
    return result(cudaErrorInvalidDeviceFunction);
  if (block <= 0 || count == nullptr) return result(cudaErrorInvalidValue);
  const int rounded = (block + 31) / 32 * 32;
  int found = block > values[1] ? 0 : 2048 / rounded;
  if (found > 32) found = 32;
  const std::size_t shared = dynamic + values[0] + 1024;
  const int by_shared = static_cast<int>(228 * 1024 / shared);
  const int by_registers = 65536 / (values[2] * rounded);
  if (by_shared < found) found = by_shared;
  if (by_registers < found) found = by_registers;
  *count = found;
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void* function,
                                                                 int block, std::size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, block, dynamic, 0);
}
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
  function(data);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                         void* data, unsigned) {
  function(stream, cudaSuccess, data);
  return result(cudaSuccess);
}

// Memory -----------------------------------------------------------------------------------------

EXPORT cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes, true);
}
EXPORT cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t) {
  return allocate(pointer, bytes, true);
}
EXPORT cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  const cudaError_t error = allocate(pointer, bytes, true);
  // the host writes it unseen
  if (error == cudaSuccess && connected.written) connected.written(*pointer, bytes, nullptr);
  return error;
}
EXPORT cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                   std::size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(pointer, *pitch * height, true);
}
EXPORT cudaError_t cudaFree(void* pointer) { return release(pointer); }
EXPORT cudaError_t cudaFreeAsync(void* pointer, cudaStream_t) { return release(pointer); }
EXPORT cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate(pointer, bytes, false);
}
EXPORT cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  return allocate(pointer, bytes, false);
}
EXPORT cudaError_t cudaFreeHost(void* pointer) { return release(pointer); }
EXPORT cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  {
    std::lock_guard<std::mutex> lock(guard);
    blocks[number(pointer)] = Block{bytes, false};
  }
  if (connected.allocated) connected.allocated(pointer, bytes, 1);
  return cudaSuccess;
}
EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(guard);
    if (blocks.erase(number(pointer)) == 0) return result(cudaErrorInvalidValue);
  }
  if (connected.freed) connected.freed(pointer);
  return cudaSuccess;
}
EXPORT cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy(to, from, bytes, kind);
}
EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t) {
  return copy(to, from, bytes, kind);
}
EXPORT cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                std::size_t from_pitch, std::size_t width, std::size_t height,
                                cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidPitchValue);
  for (std::size_t row = 0; row < height; ++row) {
    const cudaError_t error = copy(static_cast<char*>(to) + row * to_pitch,
                                   static_cast<const char*>(from) + row * from_pitch, width, kind);
    if (error != cudaSuccess) return error;
  }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                     std::size_t from_pitch, std::size_t width, std::size_t height,
                                     cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy2D(to, to_pitch, from, from_pitch, width, height, kind);
}
EXPORT cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill(to, value, bytes);
}
EXPORT cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  return fill(to, value, bytes);
}
EXPORT cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width,
                                std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    const cudaError_t error = fill(static_cast<char*>(to) + row * pitch, value, width);
    if (error != cudaSuccess) return error;
  }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *total = std::size_t{80} << 30;
  *available = std::size_t{79} << 30;
  return cudaSuccess;
}
EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* pointer) {
  std::memset(found, 0, sizeof *found);
  found->type = is_device(pointer) || !knows_every_allocation ? cudaMemoryTypeDevice
                                                              : cudaMemoryTypeUnregistered;
  found->devicePointer = const_cast<void*>(pointer);
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation) {
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned,
                                        cudaStream_t) {
  return cudaSuccess;
}

// Arrays, textures and surfaces ------------------------------------------------------------------

namespace {
// What a cudaArray_t points to.
struct Array {
  void* data;
  cudaChannelFormatDesc format;
  cudaExtent extent;  // as given: 0 where a dimension is missing
  unsigned flags;
  std::size_t texel() const { return (format.x + format.y + format.z + format.w) / 8; }
  std::size_t pitch() const { return extent.width * texel(); }
  std::size_t height() const { return extent.height ? extent.height : 1; }
  std::size_t depth() const { return extent.depth ? extent.depth : 1; }
  char* at(std::size_t x_bytes, std::size_t y, std::size_t z) const {
    return static_cast<char*>(data) + (z * height() + y) * pitch() + x_bytes;
  }
};

std::uint64_t handles = 0;

Texels texels_of(const Array& array) {
  Texels found{};
  found.data = array.data;
  found.pitch = array.pitch();
  found.slice = array.pitch() * array.height();
  found.width = array.extent.width;
  found.height = array.height();
  found.depth = array.depth();
  return found;
}

void describe_format(Texels& texels, const cudaChannelFormatDesc& format) {
  texels.bits = format.x;
  texels.channels = (format.x > 0) + (format.y > 0) + (format.z > 0) + (format.w > 0);
  texels.kind = format.f;
}

cudaError_t announce(Texels& texels, unsigned long long* handle) {
  texels.handle = *handle = (std::uint64_t{0x7E} << 48) + ++handles;
  if (!connected.textured) return result(cudaErrorNotSupported);
  return result(static_cast<cudaError_t>(connected.textured(&texels)));
}

cudaError_t copy_rows(const Array* array, std::size_t x, std::size_t y, char* memory,
                      std::size_t pitch, std::size_t width, std::size_t height, bool to_array,
                      cudaMemcpyKind kind) {
  if (x + width > array->pitch() || y + height > array->height())
    return result(cudaErrorInvalidValue);
  for (std::size_t row = 0; row < height; ++row) {
    char *inside = array->at(x, y + row, 0), *outside = memory + row * pitch;
    const cudaError_t error =
        to_array ? copy(inside, outside, width, kind) : copy(outside, inside, width, kind);
    if (error != cudaSuccess) return error;
  }
  return result(cudaSuccess);
}
const Array* array_of(cudaArray_const_t array) { return reinterpret_cast<const Array*>(array); }
}  // namespace

EXPORT cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   cudaChannelFormatKind kind) {
  return cudaChannelFormatDesc{x, y, z, w, kind};
}
EXPORT cudaError_t cudaGetChannelDesc(cudaChannelFormatDesc* format, cudaArray_const_t array) {
  *format = array_of(array)->format;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaArrayGetInfo(cudaChannelFormatDesc* format, cudaExtent* extent,
                                    unsigned* flags, cudaArray_t array) {
  if (format) *format = array_of(array)->format;
  if (extent) *extent = array_of(array)->extent;
  if (flags) *flags = array_of(array)->flags;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMalloc3DArray(cudaArray_t* made, const cudaChannelFormatDesc* format,
                                     cudaExtent extent, unsigned flags) {
  if (flags & cudaArrayCubemap) return result(cudaErrorNotSupported);
  auto* array = new Array{nullptr, *format, extent, flags};
  const cudaError_t error =
      allocate(&array->data, array->pitch() * array->height() * array->depth(), true);
  *made = reinterpret_cast<cudaArray_t>(array);
  return result(error);
}
EXPORT cudaError_t cudaMallocArray(cudaArray_t* made, const cudaChannelFormatDesc* format,
                                   std::size_t width, std::size_t height, unsigned flags) {
  return cudaMalloc3DArray(made, format, cudaExtent{width, height, 0}, flags);
}
EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
  if (array == nullptr) return result(cudaSuccess);
  const cudaError_t error = release(array_of(array)->data);
  delete array_of(array);
  return error;
}
EXPORT cudaError_t cudaMemcpy2DToArray(cudaArray_t to, std::size_t x, std::size_t y,
                                       const void* from, std::size_t pitch, std::size_t width,
                                       std::size_t height, cudaMemcpyKind kind) {
  return copy_rows(array_of(to), x, y, static_cast<char*>(const_cast<void*>(from)), pitch, width,
                   height, true, kind);
}
EXPORT cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y,
                                            const void* from, std::size_t pitch, std::size_t width,
                                            std::size_t height, cudaMemcpyKind kind,
                                            cudaStream_t) {
  return cudaMemcpy2DToArray(to, x, y, from, pitch, width, height, kind);
}
EXPORT cudaError_t cudaMemcpy2DFromArray(void* to, std::size_t pitch, cudaArray_const_t from,
                                         std::size_t x, std::size_t y, std::size_t width,
                                         std::size_t height, cudaMemcpyKind kind) {
  return copy_rows(array_of(from), x, y, static_cast<char*>(to), pitch, width, height, false,
                   kind);
}
EXPORT cudaError_t cudaMemcpyToArray(cudaArray_t to, std::size_t x, std::size_t y,
                                     const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Array* array = array_of(to);
  const std::size_t start = y * array->pitch() + x;
  if (start + bytes > array->pitch() * array->height()) return result(cudaErrorInvalidValue);
  return result(copy(array->at(start, 0, 0), from, bytes, kind));
}
EXPORT cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, std::size_t x,
                                       std::size_t y, std::size_t bytes, cudaMemcpyKind kind) {
  const Array* array = array_of(from);
  const std::size_t start = y * array->pitch() + x;
  if (start + bytes > array->pitch() * array->height()) return result(cudaErrorInvalidValue);
  return result(copy(to, array->at(start, 0, 0), bytes, kind));
}
EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
  made->pitch = (extent.width + 511) / 512 * 512;
  made->xsize = extent.width;
  made->ysize = extent.height;
  return allocate(&made->ptr, made->pitch * extent.height * extent.depth, true);
}
EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  for (std::size_t row = 0; row < extent.height * extent.depth; ++row) {
    const std::size_t line = row / extent.height * to.ysize + row % extent.height;
    const cudaError_t error = fill(static_cast<char*>(to.ptr) + line * to.pitch, value,
                                   extent.width);
    if (error != cudaSuccess) return error;
  }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  const Array *from = array_of(p->srcArray), *to = array_of(p->dstArray);
  const std::size_t texel = from ? from->texel() : to ? to->texel() : 1;
  const std::size_t width = p->extent.width * texel;
  for (std::size_t z = 0; z < p->extent.depth; ++z)
    for (std::size_t y = 0; y < p->extent.height; ++y) {
      auto place = [&](const Array* array, const cudaPitchedPtr& pointer, const cudaPos& at) {
        if (array) return array->at(at.x * texel, at.y + y, at.z + z);
        return static_cast<char*>(pointer.ptr) +
               ((at.z + z) * pointer.ysize + at.y + y) * pointer.pitch + at.x;
      };
      const cudaError_t error = copy(place(to, p->dstPtr, p->dstPos),
                                     place(from, p->srcPtr, p->srcPos), width, p->kind);
      if (error != cudaSuccess) return error;
    }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t) {
  return cudaMemcpy3D(p);
}
EXPORT cudaError_t cudaCreateTextureObject(cudaTextureObject_t* handle,
                                           const cudaResourceDesc* resource,
                                           const cudaTextureDesc* texture,
                                           const cudaResourceViewDesc* view) {
  if (view != nullptr) return result(cudaErrorNotSupported);
  Texels texels{};
  cudaChannelFormatDesc format;
  switch (resource->resType) {
    case cudaResourceTypeArray: {
      const Array& array = *array_of(resource->res.array.array);
      texels = texels_of(array);
      format = array.format;
      break;
    }
    case cudaResourceTypeLinear:
      format = resource->res.linear.desc;
      texels.data = resource->res.linear.devPtr;
      texels.pitch = texels.slice = resource->res.linear.sizeInBytes;
      texels.height = texels.depth = 1;
      texels.width = texels.pitch * 8 / (format.x + format.y + format.z + format.w);
      break;
    case cudaResourceTypePitch2D:
      format = resource->res.pitch2D.desc;
      texels.data = resource->res.pitch2D.devPtr;
      texels.pitch = resource->res.pitch2D.pitchInBytes;
      texels.width = resource->res.pitch2D.width;
      texels.height = resource->res.pitch2D.height;
      texels.slice = texels.pitch * texels.height;
      texels.depth = 1;
      break;
    default:
      return result(cudaErrorNotSupported);
  }
  describe_format(texels, format);
  texels.normalized = texture->normalizedCoords != 0;
  texels.linear = texture->filterMode == cudaFilterModeLinear;
  texels.fractions = texture->readMode == cudaReadModeNormalizedFloat;
  for (int axis = 0; axis < 3; ++axis) {
    const cudaTextureAddressMode mode = texture->addressMode[axis];
    const bool repeats = mode == cudaAddressModeWrap || mode == cudaAddressModeMirror;
    texels.modes[axis] = repeats && !texels.normalized ? cudaAddressModeClamp : mode;
  }
  if (resource->resType == cudaResourceTypeLinear)  // whatever it says: zeros outside
    texels.modes[0] = cudaAddressModeBorder;
  else
    std::memcpy(texels.border, texture->borderColor, sizeof texels.border);
  return announce(texels, handle);
}
EXPORT cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t* handle,
                                           const cudaResourceDesc* resource) {
  if (resource->resType != cudaResourceTypeArray) return result(cudaErrorInvalidValue);
  const Array& array = *array_of(resource->res.array.array);
  Texels texels = texels_of(array);
  describe_format(texels, array.format);
  return announce(texels, handle);
}
EXPORT cudaError_t cudaDestroyTextureObject(cudaTextureObject_t handle) {
  if (connected.untextured) connected.untextured(handle);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t handle) {
  return cudaDestroyTextureObject(handle);
}

// Variables of the device ------------------------------------------------------------------------

namespace {
char* place_of(const void* symbol, std::size_t count, std::size_t offset) {
  std::size_t bytes = 0;
  void* found = connected.symbol ? connected.symbol(symbol, &bytes) : nullptr;
  return found && offset + count <= bytes ? static_cast<char*>(found) + offset : nullptr;
}
}  // namespace

EXPORT cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t count,
                                      std::size_t offset, cudaMemcpyKind) {
  char* place = place_of(symbol, count, offset);
  if (place == nullptr) return result(cudaErrorInvalidSymbol);
  std::memcpy(place, from, count);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t count,
                                           std::size_t offset, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpyToSymbol(symbol, from, count, offset, kind);
}
EXPORT cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t count,
                                        std::size_t offset, cudaMemcpyKind) {
  const char* place = place_of(symbol, count, offset);
  if (place == nullptr) return result(cudaErrorInvalidSymbol);
  std::memcpy(to, place, count);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t count,
                                             std::size_t offset, cudaMemcpyKind kind,
                                             cudaStream_t) {
  return cudaMemcpyFromSymbol(to, symbol, count, offset, kind);
}
EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = place_of(symbol, 0, 0);
  return result(*address ? cudaSuccess : cudaErrorInvalidSymbol);
}
EXPORT cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const bool known = connected.symbol && connected.symbol(symbol, bytes);
  return result(known ? cudaSuccess : cudaErrorInvalidSymbol);
}

// Streams and events -----------------------------------------------------------------------------

EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = reinterpret_cast<cudaStream_t>(new int(0));
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return cudaStreamCreate(stream);
}
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<int*>(stream);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t) { return result(cudaSuccess); }
EXPORT cudaError_t cudaStreamQuery(cudaStream_t) { return result(cudaSuccess); }
EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) {
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = cudaStreamCaptureStatusNone;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  return cudaEventCreate(event);
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  auto* one = reinterpret_cast<Event*>(event);
  one->at = std::chrono::steady_clock::now();
  one->recorded = true;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t) { return result(cudaSuccess); }
EXPORT cudaError_t cudaEventQuery(cudaEvent_t) { return result(cudaSuccess); }
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<Event*>(event);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const auto *first = reinterpret_cast<Event*>(start), *last = reinterpret_cast<Event*>(end);
  if (!first->recorded || !last->recorded) return result(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(last->at - first->at).count();
  return result(cudaSuccess);
}

// The device -------------------------------------------------------------------------------------

EXPORT cudaError_t cudaDeviceSynchronize() { return result(cudaSuccess); }
EXPORT cudaError_t cudaDeviceReset() {
  lost = cudaSuccess;
  return cudaSuccess;
}
EXPORT cudaError_t cudaSetDevice(int device) {
  return result(device <= 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp*) {
  *device = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
EXPORT cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) { return cudaSuccess; }
EXPORT cudaError_t cudaDeviceSetLimit(cudaLimit, std::size_t) { return cudaSuccess; }
EXPORT cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit) {
  *value = 8 << 20;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
EXPORT cudaError_t cudaProfilerStart() { return cudaSuccess; }
EXPORT cudaError_t cudaProfilerStop() { return cudaSuccess; }
EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) {
  std::memset(found, 0, sizeof *found);
  std::strncpy(found->name, "PTX machine (no GPU)", sizeof found->name - 1);
  found->totalGlobalMem = std::size_t{80} << 30;
  found->sharedMemPerBlock = 48 * 1024;
  found->sharedMemPerBlockOptin = 227 * 1024;
  found->sharedMemPerMultiprocessor = 228 * 1024;
  found->reservedSharedMemPerBlock = 1024;
  found->regsPerBlock = found->regsPerMultiprocessor = 65536;
  found->warpSize = 32;
  found->maxThreadsPerBlock = 1024;
  found->maxThreadsPerMultiProcessor = 2048;
  found->maxBlocksPerMultiProcessor = 32;
  found->maxThreadsDim[0] = found->maxThreadsDim[1] = 1024;
  found->maxThreadsDim[2] = 64;
  found->maxGridSize[0] = 0x7fffffff;
  found->maxGridSize[1] = found->maxGridSize[2] = 65535;
  found->totalConstMem = 65536;
  found->major = major_version;
  found->minor = minor_version;
  found->multiProcessorCount = multiprocessors;
  found->l2CacheSize = 50 << 20;
  found->memoryBusWidth = 5120;
  found->textureAlignment = 512;
  found->concurrentKernels = found->unifiedAddressing = found->managedMemory = 1;
  found->cooperativeLaunch = found->canMapHostMemory = 1;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  cudaDeviceProp all;
  cudaGetDeviceProperties(&all, 0);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = all.maxThreadsPerBlock; break;
    case cudaDevAttrMaxBlockDimX: *value = all.maxThreadsDim[0]; break;
    case cudaDevAttrMaxBlockDimY: *value = all.maxThreadsDim[1]; break;
    case cudaDevAttrMaxBlockDimZ: *value = all.maxThreadsDim[2]; break;
    case cudaDevAttrMaxGridDimX: *value = all.maxGridSize[0]; break;
    case cudaDevAttrMaxGridDimY: *value = all.maxGridSize[1]; break;
    case cudaDevAttrMaxGridDimZ: *value = all.maxGridSize[2]; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = 48 * 1024; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = 227 * 1024; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = 228 * 1024; break;
    case cudaDevAttrTotalConstantMemory: *value = 65536; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = 65536; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = 65536; break;
    case cudaDevAttrMultiProcessorCount: *value = multiprocessors; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = 2048; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = 32; break;
    case cudaDevAttrComputeCapabilityMajor: *value = major_version; break;
    case cudaDevAttrComputeCapabilityMinor: *value = minor_version; break;
    case cudaDevAttrL2CacheSize: *value = all.l2CacheSize; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrManagedMemory: *value = 1; break;
    case cudaDevAttrConcurrentKernels: *value = 1; break;
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    case cudaDevAttrMemoryClockRate: *value = 2619000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 5120; break;
    default: *value = 0;
  }
  return result(cudaSuccess);
}
