// What the parts of the CUDA runtime for a machine without a GPU share.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace host {

struct Place {
  const char* file = nullptr;
  int line = 0;
};

// Python reads these by their layout (host/runtime.py).
struct LaunchCall {
  const void* function;
  unsigned extents[9];  // grid, block, cluster
  unsigned flags;       // kCooperative, kProgrammatic
  std::size_t shared;
  const void* const* arguments;
  std::uint64_t stream;
  const char* file;
  std::int64_t line;
  std::uint64_t may_wait;  // 1: the caller goes on where the launch waits for others
};
// What comes back of a launch that waits: whether it got on, and at first a token from here on.
constexpr int kStill = 10000, kMoved = 10001, kFirstToken = 10002;
constexpr unsigned kCooperative = 1, kProgrammatic = 2;

// Bytes moved, or set where nothing is given to copy from: `rows` of `width`.
struct Transfer {
  void* to;
  const void* from;
  std::size_t width, rows, to_pitch, from_pitch;
  std::uint64_t stream;
  const char* api;
  const char* file;
  std::int64_t line;
  std::uint32_t to_host, host_waits;
};

struct Texels;  // textures.h

enum Memory { kDevice = 0, kPinned = 1, kManaged = 2, kRegistered = 3 };
enum Order {
  kCreated = 0,       // a: stream, b: 1 where it is non-blocking, plus twice its device
  kDestroyed,         // a: stream
  kRecorded,          // a: event, b: stream
  kWaitsEvent,        // a: stream, b: event
  kHostWaitsStream,   // a: stream
  kHostWaitsEvent,    // a: event
  kHostWaitsAll,
  kWaitsStream,       // a: stream, b: the other stream, up to now
  kStepped,           // a: stream, which does something without memory
  kHostFunction,      // a: stream, whose function begins (b: 1) or has ended (b: 0) on the host
};
enum Note { kUnseen = 0, kAsked, kUncovered, kEnded };

struct Limits {
  int threads, block[3], grid[3];
  int shared, shared_optin, shared_multiprocessor, shared_reserved;
  int registers, threads_multiprocessor, blocks_multiprocessor, multiprocessors;
  int major, minor;
};

struct Callbacks {
  int (*launch)(const LaunchCall* call);
  void (*allocated)(void* base, std::size_t bytes, int memory, std::uint64_t stream);
  void (*freed)(void* base, std::uint64_t stream, const char* api, const char* file, int line);
  void (*transferred)(const Transfer* transfer);
  void (*ordered)(int what, std::uint64_t a, std::uint64_t b);
  void (*noted)(int what, int error, const char* text, const char* file, int line);
  int (*parameters)(const void* function, int* sizes, int most);
  void* (*symbol)(const void* variable, std::size_t* bytes);
  int (*attributes)(const void* function, int* values);
  int (*resident)(const void* function, int threads, std::size_t dynamic);
  int (*textured)(const Texels* texels);
  void (*untextured)(std::uint64_t handle);
  int (*resume)(std::uint64_t token, int last);
  int (*settle)(std::uint64_t what, int how);
};

extern Callbacks connected;
extern thread_local Place here;  // the call of the program that is under way

cudaError_t result(cudaError_t error);
bool is_lost();
void note(Note what, cudaError_t error, const char* text);
void order(Order what, std::uint64_t a = 0, std::uint64_t b = 0);

// Streams ----------------------------------------------------------------------------------------

struct Node;
struct Graph;

struct Capture {
  Graph* graph = nullptr;
  struct Stream* origin = nullptr;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool broken = false, active = true;
};

struct Stream {
  unsigned flags = 0;
  int priority = 0;
  int device = 0;
  bool alive = true;
  Capture* capture = nullptr;
  std::vector<Node*> tail;  // what a capture's next node on it comes after
};

constexpr std::uint64_t kLegacy = 1;

// Devices (cuda_devices.cpp) ----------------------------------------------------------------------

constexpr int kMostDevices = 16;
extern int device_count;
extern thread_local int current_device;
// Of several devices, launches are executed together, once somebody needs what they leave: the next
// work of a stream, or the host, which waits for a stream (kEverything: for the current device) or
// for an event, or asks whether one has happened.
enum Settle { kForWork = 0, kForHost, kForEvent, kForQuery };
cudaError_t settle(std::uint64_t what, Settle how);

// The number by which a stream is known: that of a device's legacy default stream is kLegacy plus
// the device's number.
std::uint64_t stream_id(cudaStream_t stream);
// The object behind a handle; null for default streams and for what is none.
Stream* stream_of(cudaStream_t stream);
bool is_stream(cudaStream_t stream);
// Whether a capture forbids an operation that waits for the device, or uses the legacy stream.
cudaError_t forbidden(bool legacy);

using Work = std::function<cudaError_t(std::uint64_t stream)>;
// Runs `work` on a stream, or makes it a node of the graph that the stream is captured into.
cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Work work);

// Launches that wait for the host or for other streams, and the work behind them: it is held back
// until they have ended (cuda_streams.cpp). `kEverything` stands for all streams.
constexpr std::uint64_t kEverything = 0;
// Whether the next work of a stream is held back.
bool is_held(std::uint64_t stream);
// Puts work behind all that a stream's next work comes after.
void hold(std::uint64_t stream, Work work);
// Lets what waits go on as far as it gets.
void go_on();
// Waits until nothing of a stream is held back. What nobody can help then is a deadlock.
void wait_for(std::uint64_t stream);
// A launch waits; its stream's later work comes behind it.
void launch_waits(int token);
// What the end of a launch means for the context.
cudaError_t launch_ended(cudaError_t error);

// Operations -------------------------------------------------------------------------------------

struct Copy {
  void* to;
  const void* from;
  std::size_t width, rows = 1, to_pitch = 0, from_pitch = 0;
  cudaMemcpyKind kind;
};

// The slices of a copy in three dimensions.
std::vector<Copy> slices_of(const cudaMemcpy3DParms& parameters);
cudaError_t check_copy(const Copy& one);
cudaError_t run_copy(const Copy& one, std::uint64_t stream, bool host_waits, const char* api);
cudaError_t run_fill(void* to, int value, std::size_t width, std::size_t rows, std::size_t pitch,
                     std::size_t element, std::uint64_t stream, const char* api);
// Arguments of a launch with their own storage, for work that runs later.
struct Arguments {
  std::vector<std::vector<char>> bytes;
  std::vector<const void*> places;
  static std::shared_ptr<Arguments> kept(const void* function, const void* const* given);
};
cudaError_t run_launch(LaunchCall call);

// Memory that the host shares with the device (host_watch.cpp) ------------------------------------

void watch_open();  // the runtime itself is about to touch such memory

}  // namespace host
