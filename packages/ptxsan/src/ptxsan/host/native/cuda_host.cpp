// The CUDA runtime on a machine without a GPU: memory is the host's, streams run in order, and
// launches go to whoever connected. Signatures and error codes: CUDA Runtime API 13.0.
// Its symbols carry a version (host/build.py): it may lie beside NVIDIA's runtime in a process.
#include "host_runtime.h"

#include <sys/mman.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

namespace host {

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
thread_local Place here;

namespace {
Limits device{};
bool knows_every_allocation = false;
thread_local cudaError_t last_error = cudaSuccess;
cudaError_t lost = cudaSuccess;  // after a fault of a kernel the context is gone
}  // namespace

bool is_lost() { return lost != cudaSuccess; }

cudaError_t result(cudaError_t error) {
  if (lost != cudaSuccess) error = lost;
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

void note(Note what, cudaError_t error, const char* text) {
  if (connected.noted) connected.noted(what, error, text, here.file, here.line);
}

void order(Order what, std::uint64_t a, std::uint64_t b) {
  if (connected.ordered) connected.ordered(what, a, b);
}

// Memory -----------------------------------------------------------------------------------------

namespace {
struct Block {
  std::size_t bytes;
  Memory memory;
};
std::mutex guard;
std::map<std::uintptr_t, Block> blocks;
std::map<std::uintptr_t, std::size_t> dead;  // freed: their addresses are given to nobody else
std::map<const void*, int> dynamic_shared;
std::size_t in_use = 0;
constexpr std::size_t kDeviceBytes = std::size_t{80} << 30, kChunk = std::size_t{64} << 20;
constexpr std::size_t kPage = 4096;

std::uintptr_t number(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

// Addresses that were given to nobody before; null where the system has none.
void* fresh(std::size_t bytes, std::size_t alignment) {
  static std::uintptr_t next = 0, end = 0;
  std::uintptr_t start = (next + alignment - 1) / alignment * alignment;
  if (start + bytes + 256 > end) {
    const std::size_t size = bytes + 256 > kChunk ? bytes + kPage : kChunk;
    void* made = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return nullptr;
    start = number(made);
    if (size != kChunk) return made;  // a large block has a chunk of its own
    end = start + size;
  }
  next = start + bytes + 256;
  return reinterpret_cast<void*>(start);
}

void give_back(std::uintptr_t start, std::size_t bytes) {
  const std::uintptr_t first = (start + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (start + bytes) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

// The allocation that holds an address; the lock is held.
std::map<std::uintptr_t, Block>::iterator holder(const void* pointer) {
  auto next = blocks.upper_bound(number(pointer));
  if (next == blocks.begin()) return blocks.end();
  --next;
  return number(pointer) < next->first + next->second.bytes ? next : blocks.end();
}

bool is_in(const void* pointer, std::initializer_list<Memory> kinds) {
  std::lock_guard<std::mutex> lock(guard);
  auto found = holder(pointer);
  if (found == blocks.end()) return false;
  for (Memory one : kinds)
    if (found->second.memory == one) return true;
  return false;
}

bool is_device(const void* pointer) { return is_in(pointer, {kDevice, kManaged}); }
bool is_pinned(const void* pointer) { return is_in(pointer, {kPinned, kManaged, kRegistered}); }

bool is_dead(const void* pointer) {
  std::lock_guard<std::mutex> lock(guard);
  auto next = dead.upper_bound(number(pointer));
  if (next == dead.begin() || holder(pointer) != blocks.end()) return false;
  --next;
  return number(pointer) < next->first + next->second;
}

// Whether a range that begins in an allocation ends in it.
bool fits(const void* pointer, std::size_t bytes) {
  if (is_dead(pointer)) return false;
  std::lock_guard<std::mutex> lock(guard);
  auto found = holder(pointer);
  if (found == blocks.end()) return true;
  return number(pointer) + bytes <= found->first + found->second.bytes;
}

cudaError_t allocate(void** pointer, std::size_t bytes, Memory memory, std::uint64_t stream = 0) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (lost != cudaSuccess) return result(lost);
  if (bytes == 0) return cudaSuccess;
  void* made = nullptr;
  {
    std::lock_guard<std::mutex> lock(guard);
    const bool pages = memory == kPinned || memory == kManaged;
    const std::size_t rounded = pages ? (bytes + kPage - 1) / kPage * kPage : bytes;
    if (rounded >= bytes && in_use + bytes <= kDeviceBytes)
      made = fresh(rounded, pages ? kPage : 256);
    if (made != nullptr) {
      blocks[number(made)] = Block{bytes, memory};
      in_use += bytes;
    }
  }
  if (made == nullptr) return result(cudaErrorMemoryAllocation);
  if (connected.allocated) connected.allocated(made, bytes, memory, stream);
  *pointer = made;
  return cudaSuccess;
}

cudaError_t release(void* pointer, std::initializer_list<Memory> kinds, std::uint64_t stream,
                    const char* api) {
  if (pointer == nullptr) return result(cudaSuccess);
  watch_open();
  std::size_t bytes = 0;
  {
    std::lock_guard<std::mutex> lock(guard);
    auto found = blocks.find(number(pointer));
    bool known = false;
    if (found != blocks.end())
      for (Memory one : kinds) known |= found->second.memory == one;
    if (!known) return result(cudaErrorInvalidValue);
    bytes = found->second.bytes;
    dead[found->first] = bytes;
    in_use -= bytes;
    blocks.erase(found);
  }
  if (connected.freed) connected.freed(pointer, stream, api, here.file, here.line);
  give_back(number(pointer), bytes);
  return result(cudaSuccess);
}
}  // namespace

cudaError_t check_copy(const Copy& one) {
  if (lost != cudaSuccess) return result(lost);
  if (one.width == 0 || one.rows == 0) return cudaSuccess;
  if (one.to == nullptr || one.from == nullptr) return result(cudaErrorInvalidValue);
  const std::size_t to = (one.rows - 1) * one.to_pitch + one.width;
  const std::size_t from = (one.rows - 1) * one.from_pitch + one.width;
  if (!fits(one.to, to) || !fits(one.from, from)) return result(cudaErrorInvalidValue);
  if (knows_every_allocation) {
    const bool wants_to = one.kind == cudaMemcpyHostToDevice || one.kind == cudaMemcpyDeviceToDevice;
    const bool wants_from =
        one.kind == cudaMemcpyDeviceToHost || one.kind == cudaMemcpyDeviceToDevice;
    if ((wants_to && !is_device(one.to)) || (wants_from && !is_device(one.from)))
      return result(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t run_copy(const Copy& one, std::uint64_t stream, bool host_waits, const char* api) {
  const cudaError_t error = check_copy(one);
  if (error != cudaSuccess || one.width == 0 || one.rows == 0) return error;
  if (const cudaError_t failed = settle(stream, kForWork)) return failed;
  watch_open();
  const bool to_host = knows_every_allocation ? !is_device(one.to)
                                              : one.kind == cudaMemcpyDeviceToHost;
  const bool from_host = knows_every_allocation ? !is_device(one.from)
                                                : one.kind == cudaMemcpyHostToDevice;
  for (std::size_t row = 0; row < one.rows; ++row)
    std::memmove(static_cast<char*>(one.to) + row * one.to_pitch,
                 static_cast<const char*>(one.from) + row * one.from_pitch, one.width);
  // Within the device a copy does not keep the host, and to pageable memory it always does.
  bool waits = host_waits && (to_host || from_host);
  waits |= to_host && !is_pinned(one.to);
  const Transfer made{one.to, one.from, one.width, one.rows, one.to_pitch, one.from_pitch, stream,
                      api, here.file, here.line, to_host, waits};
  if (connected.transferred) connected.transferred(&made);
  return cudaSuccess;
}

cudaError_t run_fill(void* to, int value, std::size_t width, std::size_t rows, std::size_t pitch,
                     std::size_t element, std::uint64_t stream, const char* api) {
  if (lost != cudaSuccess) return result(lost);
  if (width == 0 || rows == 0) return cudaSuccess;
  if (to == nullptr || !fits(to, (rows - 1) * pitch + width) ||
      (knows_every_allocation && !is_device(to)))
    return result(cudaErrorInvalidValue);
  if (const cudaError_t failed = settle(stream, kForWork)) return failed;
  watch_open();
  for (std::size_t row = 0; row < rows; ++row) {
    char* line = static_cast<char*>(to) + row * pitch;
    if (element == 1) {
      std::memset(line, value, width);
      continue;
    }
    for (std::size_t at = 0; at + element <= width; at += element)
      std::memcpy(line + at, &value, element);
  }
  const Transfer made{to, nullptr, width, rows, pitch, 0, stream, api, here.file, here.line, 0, 0};
  if (connected.transferred) connected.transferred(&made);
  return cudaSuccess;
}

// Launches ---------------------------------------------------------------------------------------

cudaError_t run_launch(LaunchCall call) {
  if (lost != cudaSuccess) return result(lost);
  if (!connected.launch) return result(cudaErrorInitializationError);
  watch_open();
  call.file = here.file;
  call.line = here.line;
  const int code = connected.launch(&call);
  if (code < kFirstToken) return launch_ended(static_cast<cudaError_t>(code));
  launch_waits(code);
  return result(cudaSuccess);
}

cudaError_t launch_ended(cudaError_t error) {
  if (error == cudaErrorLaunchFailure || error == cudaErrorAssert ||
      error == cudaErrorIllegalAddress || error == cudaErrorLaunchTimeout)
    lost = error;
  return result(error);
}

std::shared_ptr<Arguments> Arguments::kept(const void* function, const void* const* given) {
  int sizes[4096];
  const int count = connected.parameters ? connected.parameters(function, sizes, 4096) : -1;
  if (count < 0) return nullptr;
  auto made = std::make_shared<Arguments>();
  for (int index = 0; index < count; ++index) {
    const char* from = static_cast<const char*>(given[index]);
    made->bytes.emplace_back(from, from + sizes[index]);
  }
  for (auto& one : made->bytes) made->places.push_back(one.data());
  return made;
}

namespace {
struct Configuration {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};
thread_local Configuration pending;

cudaError_t launch(const void* function, dim3 grid, dim3 block, std::size_t shared,
                   cudaStream_t stream, const void* const* arguments, unsigned flags = 0,
                   dim3 cluster = dim3(1, 1, 1)) {
  if (lost != cudaSuccess) return result(lost);
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  if (object != nullptr && object->device != current_device)
    return result(cudaErrorInvalidResourceHandle);
  LaunchCall call{function,
                  {grid.x, grid.y, grid.z, block.x, block.y, block.z, cluster.x, cluster.y,
                   cluster.z},
                  flags, shared, arguments, 0, nullptr, 0, 0};
  const bool captured = object != nullptr && object->capture != nullptr;
  call.may_wait = !captured;
  if (!captured && !is_held(stream_id(stream)))
    return enqueue(stream, cudaGraphNodeTypeKernel, [call](std::uint64_t id) mutable {
      call.stream = id;
      return run_launch(call);
    });
  auto kept = Arguments::kept(function, arguments);
  if (kept == nullptr) return result(cudaErrorInvalidDeviceFunction);
  return enqueue(stream, cudaGraphNodeTypeKernel, [call, kept](std::uint64_t id) mutable {
    call.stream = id;
    call.arguments = kept->places.data();
    return run_launch(call);
  });
}
}  // namespace

}  // namespace host

using namespace host;

EXPORT void cuda_host_connect(const Callbacks* callbacks, const Limits* limits, int strict) {
  connected = *callbacks;
  device = *limits;
  knows_every_allocation = strict != 0;
  if (strict) std::atexit([] { note(kEnded, cudaSuccess, "exit"); });
}

EXPORT void cuda_host_at(int line, const char* file) { here = Place{file, line}; }

// A statement of the program that is a call threw its result away.
EXPORT void cuda_host_unseen(cudaError_t error, int line, const char* file) {
  if (error == cudaSuccess || error == cudaErrorNotReady || is_lost()) return;
  here = Place{file, line};
  note(kUnseen, error, "");
}

// The caller is the stub of a kernel: the address that this returns to says which.
EXPORT __attribute__((noinline)) void cuda_host_stub(const void* const* arguments) {
  const void* function = __builtin_return_address(0);
  const Configuration one = pending;
  const cudaError_t error =
      launch(function, one.grid, one.block, one.shared, one.stream, arguments);
  if (error != cudaSuccess && !is_lost()) note(kUnseen, error, "");
}

EXPORT void cuda_host_set(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  pending = Configuration{grid, block, shared, stream};
}

// The dynamic shared memory that the program has asked for; -1 where it never has.
EXPORT int cuda_host_dynamic_shared(const void* function) {
  auto found = dynamic_shared.find(function);
  return found == dynamic_shared.end() ? -1 : found->second;
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
  if (error != cudaSuccess) note(kAsked, error, "cudaGetLastError");
  last_error = cudaSuccess;
  return error;
}
EXPORT cudaError_t cudaPeekAtLastError() {
  const cudaError_t error = lost != cudaSuccess ? lost : last_error;
  if (error != cudaSuccess) note(kAsked, error, "cudaPeekAtLastError");
  return error;
}

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
  X(cudaErrorInvalidPitchValue, "invalid pitch argument")                                      \
  X(cudaErrorContextIsDestroyed, "context is destroyed")                                       \
  X(cudaErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing")     \
  X(cudaErrorStreamCaptureInvalidated,                                                         \
    "operation failed due to a previous error during capture")                                 \
  X(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream")               \
  X(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work")                      \
  X(cudaErrorStreamCaptureIsolation,                                                           \
    "dependency created on uncaptured work in another stream")                                 \
  X(cudaErrorStreamCaptureImplicit,                                                            \
    "operation would make the legacy stream depend on a capturing blocking stream")            \
  X(cudaErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing "\
                            "stream")                                                          \
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
                                    std::size_t shared, cudaStream_t stream) {
  return launch(function, grid, block, shared, stream, arguments);
}
EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                               void** arguments, std::size_t shared,
                                               cudaStream_t stream) {
  return launch(function, grid, block, shared, stream, arguments, kCooperative);
}
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                       void** arguments) {
  if (config == nullptr) return result(cudaErrorInvalidValue);
  dim3 cluster(1, 1, 1);
  unsigned flags = 0;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const auto& value = config->attrs[i].val;
    switch (config->attrs[i].id) {
      case cudaLaunchAttributeClusterDimension:
        cluster = dim3(value.clusterDim.x, value.clusterDim.y, value.clusterDim.z);
        break;
      case cudaLaunchAttributeCooperative:
        if (value.cooperative) flags |= kCooperative;
        break;
      case cudaLaunchAttributeProgrammaticStreamSerialization:
        if (value.programmaticStreamSerializationAllowed) flags |= kProgrammatic;
        break;
      case cudaLaunchAttributeProgrammaticEvent:
        note(kUncovered, cudaSuccess, "an event of a programmatic launch");
        break;
      case cudaLaunchAttributeLaunchCompletionEvent:
        note(kUncovered, cudaSuccess, "a launch completion event");
        break;
      default:
        break;
    }
  }
  return launch(function, config->gridDim, config->blockDim, config->dynamicSmemBytes,
                config->stream, arguments, flags, cluster);
}
// Static shared bytes, threads a block, registers, local bytes, constant bytes, the most bytes of
// shared memory of a block, the dynamic ones that a launch may have now.
constexpr int kValues = 7;

EXPORT cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                        int value) {
  if (attribute == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    int values[kValues] = {};
    if (connected.attributes && connected.attributes(function, values) != cudaSuccess)
      return result(cudaErrorInvalidDeviceFunction);
    if (value < 0 || value + values[0] > values[5]) return result(cudaErrorInvalidValue);
    dynamic_shared[function] = value;
  }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }
EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, const void* function) {
  int values[kValues] = {};
  if (!connected.attributes || connected.attributes(function, values) != cudaSuccess)
    return result(cudaErrorInvalidDeviceFunction);
  std::memset(found, 0, sizeof *found);
  found->sharedSizeBytes = values[0];
  found->maxThreadsPerBlock = values[1];
  found->numRegs = values[2];
  found->localSizeBytes = values[3];
  found->constSizeBytes = values[4];
  found->binaryVersion = found->ptxVersion = device.major * 10 + device.minor;
  found->maxDynamicSharedSizeBytes = values[6];
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* count, const void* function, int block, std::size_t dynamic, unsigned) {
  int values[kValues] = {};
  if (!connected.attributes || connected.attributes(function, values) != cudaSuccess)
    return result(cudaErrorInvalidDeviceFunction);
  if (block <= 0 || count == nullptr) return result(cudaErrorInvalidValue);
  *count = connected.resident(function, block, dynamic);
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void* function,
                                                                 int block, std::size_t dynamic) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(count, function, block, dynamic, 0);
}
EXPORT cudaError_t cudaOccupancyMaxActiveClusters(int* count, const void* function,
                                                  const cudaLaunchConfig_t* config) {
  const dim3 block = config->blockDim;
  int size = 1, resident = 0;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const auto& value = config->attrs[i].val.clusterDim;
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension)
      size = static_cast<int>(value.x * value.y * value.z);
  }
  const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      &resident, function, static_cast<int>(block.x * block.y * block.z), config->dynamicSmemBytes);
  if (error != cudaSuccess) return error;
  *count = resident * device.multiprocessors / (size < 1 ? 1 : size);
  return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return enqueue(stream, cudaGraphNodeTypeHost, [function, data](std::uint64_t id) {
    if (const cudaError_t failed = settle(id, kForWork)) return failed;
    order(kHostFunction, id, 1);
    function(data);
    order(kHostFunction, id, 0);
    return cudaSuccess;
  });
}
EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                         void* data, unsigned) {
  return enqueue(stream, cudaGraphNodeTypeHost, [stream, function, data](std::uint64_t id) {
    if (const cudaError_t failed = settle(id, kForWork)) return failed;
    order(kHostFunction, id, 1);
    function(stream, cudaSuccess, data);
    order(kHostFunction, id, 0);
    return cudaSuccess;
  });
}

// Memory -----------------------------------------------------------------------------------------

namespace {
void host_waits_all() {
  wait_for(kEverything);
  order(kHostWaitsAll);
}
}  // namespace

EXPORT cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (const cudaError_t error = forbidden(false)) return result(error);
  return allocate(pointer, bytes, kDevice);
}
EXPORT cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  if (object == nullptr || object->capture == nullptr)
    return allocate(pointer, bytes, kDevice, stream_id(stream));
  // The address is known from now on, and the same in each launch of the graph.
  note(kUncovered, cudaSuccess, "memory that a graph allocates: its contents between launches");
  if (const cudaError_t error = allocate(pointer, bytes, kDevice)) return error;
  return enqueue(stream, cudaGraphNodeTypeMemAlloc, [](std::uint64_t) { return cudaSuccess; });
}
EXPORT cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool,
                                           cudaStream_t stream) {
  return pool == nullptr ? result(cudaErrorInvalidValue) : cudaMallocAsync(pointer, bytes, stream);
}
EXPORT cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned) {
  return allocate(pointer, bytes, kManaged);
}
EXPORT cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                   std::size_t height) {
  *pitch = (width + 511) / 512 * 512;
  return allocate(pointer, *pitch * height, kDevice);
}
EXPORT cudaError_t cudaFree(void* pointer) {
  if (const cudaError_t error = forbidden(false)) return result(error);
  if (pointer != nullptr) host_waits_all();
  return release(pointer, {kDevice, kManaged}, 0, "cudaFree");
}
EXPORT cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  if (object != nullptr && object->capture != nullptr)
    return enqueue(stream, cudaGraphNodeTypeMemFree, [](std::uint64_t) { return cudaSuccess; });
  return enqueue(stream, cudaGraphNodeTypeMemFree, [pointer](std::uint64_t id) {
    return release(pointer, {kDevice, kManaged}, id, "cudaFreeAsync");
  });
}
EXPORT cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  if (const cudaError_t error = forbidden(false)) return result(error);
  return allocate(pointer, bytes, kPinned);
}
EXPORT cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  if (const cudaError_t error = forbidden(false)) return result(error);
  return allocate(pointer, bytes, kPinned);
}
EXPORT cudaError_t cudaFreeHost(void* pointer) {
  if (const cudaError_t error = forbidden(false)) return result(error);
  if (pointer != nullptr) host_waits_all();
  return release(pointer, {kPinned}, 0, "cudaFreeHost");
}
EXPORT cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  if (pointer == nullptr || bytes == 0) return result(cudaErrorInvalidValue);
  {
    std::lock_guard<std::mutex> lock(guard);
    if (holder(pointer) != blocks.end()) return result(cudaErrorHostMemoryAlreadyRegistered);
    blocks[number(pointer)] = Block{bytes, kRegistered};
  }
  if (connected.allocated) connected.allocated(pointer, bytes, kRegistered, 0);
  return cudaSuccess;
}
EXPORT cudaError_t cudaHostUnregister(void* pointer) {
  {
    std::lock_guard<std::mutex> lock(guard);
    auto found = blocks.find(number(pointer));
    if (found == blocks.end() || found->second.memory != kRegistered)
      return result(cudaErrorHostMemoryNotRegistered);
    blocks.erase(found);
  }
  if (connected.freed) connected.freed(pointer, 0, "cudaHostUnregister", here.file, here.line);
  return cudaSuccess;
}
EXPORT cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return cudaSuccess;
}
EXPORT cudaError_t cudaHostGetFlags(unsigned* flags, void*) {
  *flags = cudaHostAllocMapped;
  return cudaSuccess;
}

namespace {
cudaError_t copy_now(const Copy& one, const char* api) {
  if (const cudaError_t error = forbidden(true)) return result(error);
  wait_for(stream_id(nullptr));
  return result(run_copy(one, stream_id(nullptr), true, api));
}
cudaError_t copy_later(const Copy& one, cudaStream_t stream, const char* api) {
  if (const cudaError_t error = check_copy(one)) return error;
  const Stream* object = stream_of(stream);
  std::shared_ptr<std::vector<char>> staged;
  if ((object == nullptr || object->capture == nullptr) && is_held(stream_id(stream))) {
    // Pageable memory is read before the call returns, and written before it does.
    if (!is_device(one.to) && !is_pinned(one.to)) wait_for(stream_id(stream));
    if (!is_device(one.from) && !is_pinned(one.from)) {
      const char* first = static_cast<const char*>(one.from);
      staged = std::make_shared<std::vector<char>>(
          first, first + (one.rows - 1) * one.from_pitch + one.width);
    }
  }
  return enqueue(stream, cudaGraphNodeTypeMemcpy, [one, api, staged](std::uint64_t id) {
    Copy made = one;
    if (staged) made.from = staged->data();
    return run_copy(made, id, false, api);
  });
}
cudaError_t fill_now(void* to, int value, std::size_t width, std::size_t rows, std::size_t pitch,
                     const char* api) {
  if (const cudaError_t error = forbidden(true)) return result(error);
  return enqueue(nullptr, cudaGraphNodeTypeMemset, [=](std::uint64_t id) {
    return run_fill(to, value, width, rows, pitch, 1, id, api);
  });
}
cudaError_t fill_later(void* to, int value, std::size_t width, std::size_t rows, std::size_t pitch,
                       cudaStream_t stream, const char* api) {
  return enqueue(stream, cudaGraphNodeTypeMemset, [=](std::uint64_t id) {
    return run_fill(to, value, width, rows, pitch, 1, id, api);
  });
}
}  // namespace

EXPORT cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy_now(Copy{to, from, bytes, 1, 0, 0, kind}, "cudaMemcpy");
}
EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes,
                                   cudaMemcpyKind kind, cudaStream_t stream) {
  return copy_later(Copy{to, from, bytes, 1, 0, 0, kind}, stream, "cudaMemcpyAsync");
}
EXPORT cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from,
                                std::size_t from_pitch, std::size_t width, std::size_t height,
                                cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidPitchValue);
  return copy_now(Copy{to, from, width, height, to_pitch, from_pitch, kind}, "cudaMemcpy2D");
}
EXPORT cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                                     std::size_t from_pitch, std::size_t width, std::size_t height,
                                     cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidPitchValue);
  return copy_later(Copy{to, from, width, height, to_pitch, from_pitch, kind}, stream,
                    "cudaMemcpy2DAsync");
}
EXPORT cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill_now(to, value, bytes, 1, 0, "cudaMemset");
}
EXPORT cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill_later(to, value, bytes, 1, 0, stream, "cudaMemsetAsync");
}
EXPORT cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width,
                                std::size_t height) {
  return fill_now(to, value, width, height, pitch, "cudaMemset2D");
}
EXPORT cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                                     std::size_t height, cudaStream_t stream) {
  return fill_later(to, value, width, height, pitch, stream, "cudaMemset2DAsync");
}
EXPORT cudaError_t cudaMemGetInfo(std::size_t* available, std::size_t* total) {
  *total = std::size_t{80} << 30;
  *available = kDeviceBytes - in_use;
  return cudaSuccess;
}
EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void* pointer) {
  std::memset(found, 0, sizeof *found);
  found->type = !knows_every_allocation            ? cudaMemoryTypeDevice
                : is_in(pointer, {kManaged})       ? cudaMemoryTypeManaged
                : is_in(pointer, {kDevice})        ? cudaMemoryTypeDevice
                : is_pinned(pointer)               ? cudaMemoryTypeHost
                                                   : cudaMemoryTypeUnregistered;
  found->devicePointer = const_cast<void*>(pointer);
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemAdvise(const void*, std::size_t, cudaMemoryAdvise, cudaMemLocation) {
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemPrefetchAsync(const void*, std::size_t, cudaMemLocation, unsigned,
                                        cudaStream_t stream) {
  return enqueue(stream, cudaGraphNodeTypeEmpty, [](std::uint64_t) { return cudaSuccess; });
}

namespace {
// What a cudaMemPool_t points to: memory comes from the device alike, whatever pool is named.
struct Pool {
  std::map<int, std::uint64_t> values;
};
std::mutex pool_guard;
std::set<const void*> pools;

cudaMemPool_t made_pool() {
  auto* made = new Pool;
  std::lock_guard<std::mutex> lock(pool_guard);
  pools.insert(made);
  return reinterpret_cast<cudaMemPool_t>(made);
}
Pool* pool_of(cudaMemPool_t pool) {
  std::lock_guard<std::mutex> lock(pool_guard);
  return pools.count(pool) ? reinterpret_cast<Pool*>(pool) : nullptr;
}
cudaMemPool_t default_pool() {
  static const cudaMemPool_t made = made_pool();
  return made;
}
cudaMemPool_t current_pool = nullptr;
// Flags are integers, amounts of bytes 64 bits wide.
bool is_flag(cudaMemPoolAttr attribute) {
  return attribute <= cudaMemPoolReuseAllowInternalDependencies;
}
}  // namespace

EXPORT cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr || device != 0) return result(cudaErrorInvalidValue);
  *pool = default_pool();
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr || device != 0) return result(cudaErrorInvalidValue);
  *pool = current_pool ? current_pool : default_pool();
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  if (pool_of(pool) == nullptr || device != 0) return result(cudaErrorInvalidValue);
  current_pool = pool;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* wanted) {
  if (pool == nullptr || wanted == nullptr) return result(cudaErrorInvalidValue);
  *pool = made_pool();
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  if (pool_of(pool) == nullptr || pool == default_pool()) return result(cudaErrorInvalidValue);
  std::lock_guard<std::mutex> lock(pool_guard);
  pools.erase(pool);  // the object stays: its address names no other pool
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                           void* value) {
  Pool* one = pool_of(pool);
  if (one == nullptr || value == nullptr) return result(cudaErrorInvalidValue);
  one->values[attribute] =
      is_flag(attribute) ? *static_cast<int*>(value) : *static_cast<std::uint64_t*>(value);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                           void* value) {
  Pool* one = pool_of(pool);
  if (one == nullptr || value == nullptr) return result(cudaErrorInvalidValue);
  if (is_flag(attribute)) {
    const auto found = one->values.find(attribute);
    *static_cast<int*>(value) = found == one->values.end() ? 1 : static_cast<int>(found->second);
  } else {
    const bool threshold = attribute == cudaMemPoolAttrReleaseThreshold;
    *static_cast<std::uint64_t*>(value) = threshold ? one->values[attribute] : in_use;
  }
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t) {
  return result(pool_of(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc*,
                                        std::size_t) {
  return result(pool_of(pool) ? cudaSuccess : cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaDeviceGraphMemTrim(int device) {
  return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType,
                                                  void* value) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  note(kUncovered, cudaSuccess, "how much memory graphs hold");
  *static_cast<std::uint64_t*>(value) = 0;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType, void*) {
  return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
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

// Rows of an array and of memory, one after the other.
Copy rows_of(const Array* array, std::size_t x, std::size_t y, char* memory, std::size_t pitch,
             std::size_t width, std::size_t height, bool to_array, cudaMemcpyKind kind) {
  char* inside = array->at(x, y, 0);
  return to_array ? Copy{inside, memory, width, height, array->pitch(), pitch, kind}
                  : Copy{memory, inside, width, height, pitch, array->pitch(), kind};
}
bool has_rows(const Array* array, std::size_t x, std::size_t y, std::size_t width,
              std::size_t height) {
  return x + width <= array->pitch() && y + height <= array->height();
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
      allocate(&array->data, array->pitch() * array->height() * array->depth(), kDevice);
  *made = reinterpret_cast<cudaArray_t>(array);
  return result(error);
}
EXPORT cudaError_t cudaMallocArray(cudaArray_t* made, const cudaChannelFormatDesc* format,
                                   std::size_t width, std::size_t height, unsigned flags) {
  return cudaMalloc3DArray(made, format, cudaExtent{width, height, 0}, flags);
}
EXPORT cudaError_t cudaFreeArray(cudaArray_t array) {
  if (array == nullptr) return result(cudaSuccess);
  host_waits_all();
  const cudaError_t error = release(array_of(array)->data, {kDevice}, 0, "cudaFreeArray");
  delete array_of(array);
  return error;
}
EXPORT cudaError_t cudaMemcpy2DToArray(cudaArray_t to, std::size_t x, std::size_t y,
                                       const void* from, std::size_t pitch, std::size_t width,
                                       std::size_t height, cudaMemcpyKind kind) {
  if (!has_rows(array_of(to), x, y, width, height)) return result(cudaErrorInvalidValue);
  return copy_now(rows_of(array_of(to), x, y, static_cast<char*>(const_cast<void*>(from)), pitch,
                          width, height, true, kind), "cudaMemcpy2DToArray");
}
EXPORT cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t to, std::size_t x, std::size_t y,
                                            const void* from, std::size_t pitch, std::size_t width,
                                            std::size_t height, cudaMemcpyKind kind,
                                            cudaStream_t stream) {
  if (!has_rows(array_of(to), x, y, width, height)) return result(cudaErrorInvalidValue);
  return copy_later(rows_of(array_of(to), x, y, static_cast<char*>(const_cast<void*>(from)), pitch,
                            width, height, true, kind), stream, "cudaMemcpy2DToArrayAsync");
}
EXPORT cudaError_t cudaMemcpy2DFromArray(void* to, std::size_t pitch, cudaArray_const_t from,
                                         std::size_t x, std::size_t y, std::size_t width,
                                         std::size_t height, cudaMemcpyKind kind) {
  if (!has_rows(array_of(from), x, y, width, height)) return result(cudaErrorInvalidValue);
  return copy_now(rows_of(array_of(from), x, y, static_cast<char*>(to), pitch, width, height,
                          false, kind), "cudaMemcpy2DFromArray");
}
EXPORT cudaError_t cudaMemcpyToArray(cudaArray_t to, std::size_t x, std::size_t y,
                                     const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Array* array = array_of(to);
  const std::size_t start = y * array->pitch() + x;
  if (start + bytes > array->pitch() * array->height()) return result(cudaErrorInvalidValue);
  return copy_now(Copy{array->at(start, 0, 0), from, bytes, 1, 0, 0, kind}, "cudaMemcpyToArray");
}
EXPORT cudaError_t cudaMemcpyFromArray(void* to, cudaArray_const_t from, std::size_t x,
                                       std::size_t y, std::size_t bytes, cudaMemcpyKind kind) {
  const Array* array = array_of(from);
  const std::size_t start = y * array->pitch() + x;
  if (start + bytes > array->pitch() * array->height()) return result(cudaErrorInvalidValue);
  return copy_now(Copy{to, array->at(start, 0, 0), bytes, 1, 0, 0, kind}, "cudaMemcpyFromArray");
}
EXPORT cudaError_t cudaMalloc3D(cudaPitchedPtr* made, cudaExtent extent) {
  made->pitch = (extent.width + 511) / 512 * 512;
  made->xsize = extent.width;
  made->ysize = extent.height;
  return allocate(&made->ptr, made->pitch * extent.height * extent.depth, kDevice);
}
EXPORT cudaError_t cudaMemset3D(cudaPitchedPtr to, int value, cudaExtent extent) {
  for (std::size_t row = 0; row < extent.height * extent.depth; ++row) {
    const std::size_t line = row / extent.height * to.ysize + row % extent.height;
    const cudaError_t error = fill_now(static_cast<char*>(to.ptr) + line * to.pitch, value,
                                       extent.width, 1, 0, "cudaMemset3D");
    if (error != cudaSuccess) return error;
  }
  return result(cudaSuccess);
}
namespace host {
// The slices of a copy in three dimensions.
std::vector<Copy> slices_of(const cudaMemcpy3DParms& p) {
  const Array *from = array_of(p.srcArray), *to = array_of(p.dstArray);
  const std::size_t texel = from ? from->texel() : to ? to->texel() : 1;
  std::vector<Copy> slices;
  for (std::size_t z = 0; z < p.extent.depth; ++z) {
    auto place = [&](const Array* array, const cudaPitchedPtr& pointer, const cudaPos& at) {
      if (array) return array->at(at.x * texel, at.y, at.z + z);
      return static_cast<char*>(pointer.ptr) +
             ((at.z + z) * pointer.ysize + at.y) * pointer.pitch + at.x;
    };
    slices.push_back(Copy{place(to, p.dstPtr, p.dstPos), place(from, p.srcPtr, p.srcPos),
                          p.extent.width * texel, p.extent.height,
                          to ? to->pitch() : p.dstPtr.pitch, from ? from->pitch() : p.srcPtr.pitch,
                          p.kind});
  }
  return slices;
}
}  // namespace host

EXPORT cudaError_t cudaMemcpy3D(const cudaMemcpy3DParms* p) {
  for (const Copy& one : slices_of(*p))
    if (const cudaError_t error = copy_now(one, "cudaMemcpy3D")) return error;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  for (const Copy& one : slices_of(*p))
    if (const cudaError_t error = copy_later(one, stream, "cudaMemcpy3DAsync")) return error;
  return result(cudaSuccess);
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
  return copy_now(Copy{place, from, count, 1, 0, 0, cudaMemcpyDefault}, "cudaMemcpyToSymbol");
}
EXPORT cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t count,
                                           std::size_t offset, cudaMemcpyKind,
                                           cudaStream_t stream) {
  char* place = place_of(symbol, count, offset);
  if (place == nullptr) return result(cudaErrorInvalidSymbol);
  return copy_later(Copy{place, from, count, 1, 0, 0, cudaMemcpyDefault}, stream,
                    "cudaMemcpyToSymbolAsync");
}
EXPORT cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t count,
                                        std::size_t offset, cudaMemcpyKind) {
  const char* place = place_of(symbol, count, offset);
  if (place == nullptr) return result(cudaErrorInvalidSymbol);
  return copy_now(Copy{to, place, count, 1, 0, 0, cudaMemcpyDefault}, "cudaMemcpyFromSymbol");
}
EXPORT cudaError_t cudaMemcpyFromSymbolAsync(void* to, const void* symbol, std::size_t count,
                                             std::size_t offset, cudaMemcpyKind,
                                             cudaStream_t stream) {
  const char* place = place_of(symbol, count, offset);
  if (place == nullptr) return result(cudaErrorInvalidSymbol);
  return copy_later(Copy{to, place, count, 1, 0, 0, cudaMemcpyDefault}, stream,
                    "cudaMemcpyFromSymbolAsync");
}
EXPORT cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = place_of(symbol, 0, 0);
  return result(*address ? cudaSuccess : cudaErrorInvalidSymbol);
}
EXPORT cudaError_t cudaGetSymbolSize(std::size_t* bytes, const void* symbol) {
  const bool known = connected.symbol && connected.symbol(symbol, bytes);
  return result(known ? cudaSuccess : cudaErrorInvalidSymbol);
}

// The device -------------------------------------------------------------------------------------

EXPORT cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = forbidden(false)) return result(error);
  host_waits_all();
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceReset() {
  host_waits_all();
  lost = cudaSuccess;
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
namespace {
bool are_devices(int one, int other) {
  return one >= 0 && one < device_count && other >= 0 && other < device_count;
}
}  // namespace
EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                       std::size_t bytes, cudaStream_t stream) {
  if (!are_devices(to_device, from_device)) return result(cudaErrorInvalidDevice);
  return copy_later(Copy{to, from, bytes, 1, 0, 0, cudaMemcpyDeviceToDevice}, stream,
                    "cudaMemcpyPeerAsync");
}
EXPORT cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                                  std::size_t bytes) {
  if (!are_devices(to_device, from_device)) return result(cudaErrorInvalidDevice);
  return copy_now(Copy{to, from, bytes, 1, 0, 0, cudaMemcpyDeviceToDevice}, "cudaMemcpyPeer");
}
EXPORT cudaError_t cudaCtxResetPersistingL2Cache() { return result(cudaSuccess); }
EXPORT cudaError_t cudaDriverGetVersion(int* version) {
  // CUTLASS clears a bit of the tensor maps that drivers up to 13.1 make. Maps have another form
  // here, in which that bit is one of the address.
  *version = 13020;
  return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
EXPORT cudaError_t cudaProfilerStart() { return cudaSuccess; }
EXPORT cudaError_t cudaProfilerStop() { return cudaSuccess; }
EXPORT cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) {
  std::memset(found, 0, sizeof *found);
  std::strncpy(found->name, "PTX machine (no GPU)", sizeof found->name - 1);
  found->totalGlobalMem = std::size_t{80} << 30;
  found->sharedMemPerBlock = device.shared;
  found->sharedMemPerBlockOptin = device.shared_optin;
  found->sharedMemPerMultiprocessor = device.shared_multiprocessor;
  found->reservedSharedMemPerBlock = device.shared_reserved;
  found->regsPerBlock = found->regsPerMultiprocessor = device.registers;
  found->warpSize = 32;
  found->maxThreadsPerBlock = device.threads;
  found->maxThreadsPerMultiProcessor = device.threads_multiprocessor;
  found->maxBlocksPerMultiProcessor = device.blocks_multiprocessor;
  for (int axis = 0; axis < 3; ++axis) {
    found->maxThreadsDim[axis] = device.block[axis];
    found->maxGridSize[axis] = device.grid[axis];
  }
  found->totalConstMem = 65536;
  found->major = device.major;
  found->minor = device.minor;
  found->multiProcessorCount = device.multiprocessors;
  found->asyncEngineCount = 3;
  found->streamPrioritiesSupported = 1;
  found->concurrentManagedAccess = 1;
  found->l2CacheSize = 50 << 20;
  found->persistingL2CacheMaxSize = found->l2CacheSize / 4 * 3;
  found->accessPolicyMaxWindowSize = 128 << 20;
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
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = device.shared; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = device.shared_optin; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = device.shared_multiprocessor; break;
    case cudaDevAttrTotalConstantMemory: *value = 65536; break;
    case cudaDevAttrWarpSize: *value = 32; break;
    case cudaDevAttrMaxRegistersPerBlock: *value = device.registers; break;
    case cudaDevAttrMaxRegistersPerMultiprocessor: *value = device.registers; break;
    case cudaDevAttrMultiProcessorCount: *value = device.multiprocessors; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = device.threads_multiprocessor; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *value = device.blocks_multiprocessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = device.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = device.minor; break;
    case cudaDevAttrL2CacheSize: *value = all.l2CacheSize; break;
    case cudaDevAttrMaxPersistingL2CacheSize: *value = all.persistingL2CacheMaxSize; break;
    case cudaDevAttrMaxAccessPolicyWindowSize: *value = all.accessPolicyMaxWindowSize; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *value = device.shared_reserved; break;
    case cudaDevAttrTextureAlignment: *value = all.textureAlignment; break;
    case cudaDevAttrCanMapHostMemory: *value = 1; break;
    case cudaDevAttrCooperativeLaunch: *value = 1; break;
    case cudaDevAttrManagedMemory: *value = 1; break;
    case cudaDevAttrConcurrentManagedAccess: *value = 1; break;
    case cudaDevAttrStreamPrioritiesSupported: *value = 1; break;
    case cudaDevAttrAsyncEngineCount: *value = 3; break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    case cudaDevAttrClusterLaunch: *value = device.major >= 9; break;
    case cudaDevAttrConcurrentKernels: *value = 1; break;
    case cudaDevAttrUnifiedAddressing: *value = 1; break;
    case cudaDevAttrClockRate: *value = 1980000; break;
    case cudaDevAttrMemoryClockRate: *value = 2619000; break;
    case cudaDevAttrGlobalMemoryBusWidth: *value = 5120; break;
    default: *value = 0;
  }
  return result(cudaSuccess);
}
