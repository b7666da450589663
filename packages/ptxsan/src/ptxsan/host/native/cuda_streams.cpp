// Streams and events: work runs where the program issues it, and what orders it is told to Python.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "host_runtime.h"

namespace host {

namespace {
std::mutex guard;
std::set<const Stream*> streams;  // of all that were ever made: handles are given out once
std::set<const void*> events;
std::atomic<bool> by_thread{false};  // whether stream 0 is each thread's own
std::atomic<int> capturing{0};

Stream* plain(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }

std::uint64_t thread_stream() {
  static std::atomic<std::uint64_t> threads{0};
  thread_local std::uint64_t own[kMostDevices] = {};
  std::uint64_t& made = own[current_device];
  if (made == 0) {
    made = 0x100 + ++threads;
    order(kCreated, made, static_cast<std::uint64_t>(current_device) << 1);
  }
  return made;
}

bool is_legacy(cudaStream_t stream) {
  return stream == cudaStreamLegacy || (stream == nullptr && !by_thread);
}

struct Event {
  std::chrono::steady_clock::time_point at;
  bool recorded = false, timed = true;
  Capture* capture = nullptr;  // of the stream that it was recorded on last
  std::vector<Node*> after;
  std::uint64_t held = 0;  // its last record, where that is held back
};
Event* event_of(cudaEvent_t event) {
  std::lock_guard<std::mutex> lock(guard);
  return events.count(event) ? reinterpret_cast<Event*>(event) : nullptr;
}
std::uint64_t event_id(cudaEvent_t event) { return reinterpret_cast<std::uint64_t>(event); }

cudaError_t create(cudaStream_t* stream, unsigned flags, int priority) {
  if (stream == nullptr) return result(cudaErrorInvalidValue);
  auto* made = new Stream{flags, priority, current_device};
  {
    std::lock_guard<std::mutex> lock(guard);
    streams.insert(made);
  }
  *stream = reinterpret_cast<cudaStream_t>(made);
  order(kCreated, stream_id(*stream),
        (flags & cudaStreamNonBlocking ? 1 : 0) | static_cast<std::uint64_t>(current_device) << 1);
  return result(cudaSuccess);
}
}  // namespace

std::uint64_t stream_id(cudaStream_t stream) {
  if (is_legacy(stream)) return kLegacy + current_device;
  if (stream == nullptr || stream == cudaStreamPerThread) return thread_stream();
  return reinterpret_cast<std::uint64_t>(stream);
}

Stream* stream_of(cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(guard);
  return streams.count(plain(stream)) && plain(stream)->alive ? plain(stream) : nullptr;
}

bool is_stream(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread ||
         stream_of(stream) != nullptr;
}

cudaError_t forbidden(bool legacy) {
  if (capturing == 0) return cudaSuccess;
  std::lock_guard<std::mutex> lock(guard);
  for (const Stream* one : streams) {
    if (one->capture == nullptr || one->capture->mode == cudaStreamCaptureModeRelaxed) continue;
    if (legacy && one->flags & cudaStreamNonBlocking) continue;
    one->capture->broken = true;
    return legacy ? cudaErrorStreamCaptureImplicit : cudaErrorStreamCaptureUnsupported;
  }
  return cudaSuccess;
}

// Work that is held back, by a number in the order of its issue; the first of a row is a launch that
// waits for others, with a token.
namespace {
struct Held {
  std::uint64_t stream;
  Work work;
  std::vector<std::uint64_t> after;
  Place place;
  int token = 0;
};
std::recursive_mutex line;
std::map<std::uint64_t, Held> held;
std::uint64_t numbered = 0;
thread_local int waits = 0;  // the token of the launch that has just begun to wait
constexpr std::uint64_t kThreadStreams = 1 << 16;  // below it no stream is an object

bool is_blocking(std::uint64_t stream) {
  if (stream < kThreadStreams) return true;
  return (reinterpret_cast<const Stream*>(stream)->flags & cudaStreamNonBlocking) == 0;
}

// What is held back that a stream's next work comes after.
std::vector<std::uint64_t> before(std::uint64_t stream) {
  std::vector<std::uint64_t> found;
  for (const auto& [number, one] : held)
    if (stream == kEverything || one.stream == stream ||
        ((one.stream == kLegacy || stream == kLegacy) && is_blocking(one.stream) &&
         is_blocking(stream)))
      found.push_back(number);
  return found;
}

std::uint64_t put(std::uint64_t stream, Work work, std::vector<std::uint64_t> after) {
  held[++numbered] = Held{stream, std::move(work), std::move(after), here};
  return numbered;
}

bool is_first(const Held& one) {
  for (std::uint64_t number : one.after)
    if (held.count(number)) return false;
  return true;
}

// Runs or resumes what nothing else holds back; returns whether anything got on.
bool advance() {
  bool moved = false;
  for (auto next = held.begin(); next != held.end();) {
    const auto at = next++;
    Held& one = at->second;
    if (!is_first(one)) continue;
    if (one.token) {
      const int code = connected.resume(one.token, 0);
      moved |= code != kStill;
      if (code == kStill || code == kMoved) continue;
      launch_ended(static_cast<cudaError_t>(code));
    } else {
      const Place place = here;
      here = one.place;
      waits = 0;
      one.work(one.stream);
      here = place;
      moved = true;
      one.token = std::exchange(waits, 0);
      if (one.token) continue;
    }
    held.erase(at);
  }
  return moved;
}

// The launch that waits and that one of these comes after, or is.
std::uint64_t waiting(const std::vector<std::uint64_t>& numbers) {
  for (std::uint64_t number : numbers) {
    const auto found = held.find(number);
    if (found == held.end()) continue;
    if (found->second.token) return number;
    if (const std::uint64_t other = waiting(found->second.after)) return other;
  }
  return 0;
}

void wait_until_gone(std::vector<std::uint64_t> numbers) {
  const auto is_there = [](std::uint64_t number) { return held.count(number) != 0; };
  while (std::any_of(numbers.begin(), numbers.end(), is_there)) {
    if (advance()) continue;
    const std::uint64_t stuck = waiting(numbers);
    if (stuck == 0) return;
    launch_ended(static_cast<cudaError_t>(connected.resume(held[stuck].token, 1)));
    held.erase(stuck);
  }
}
}  // namespace

bool is_held(std::uint64_t stream) {
  std::lock_guard<std::recursive_mutex> lock(line);
  return !before(stream).empty();
}
void hold(std::uint64_t stream, Work work) {
  std::lock_guard<std::recursive_mutex> lock(line);
  put(stream, std::move(work), before(stream));
}
void go_on() {
  std::lock_guard<std::recursive_mutex> lock(line);
  while (!held.empty() && advance()) {}
}
void wait_for(std::uint64_t stream) {
  settle(stream, kForHost);
  std::lock_guard<std::recursive_mutex> lock(line);
  wait_until_gone(before(stream));
}
void launch_waits(int token) { waits = token; }

Node* add_node(Capture* capture, cudaGraphNodeType type, Work work, const std::vector<Node*>& after);

cudaError_t enqueue(cudaStream_t stream, cudaGraphNodeType type, Work work) {
  if (is_lost()) return result(cudaSuccess);
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  Stream* object = stream_of(stream);
  if (object == nullptr || object->capture == nullptr) {
    if (is_legacy(stream))
      if (const cudaError_t error = forbidden(true)) return result(error);
    const std::uint64_t id = stream_id(stream);
    go_on();
    {
      std::lock_guard<std::recursive_mutex> lock(line);
      if (is_held(id)) {
        hold(id, std::move(work));
        return result(cudaSuccess);
      }
    }
    waits = 0;
    const cudaError_t error = work(id);  // a function of the host's may wait for another thread
    if (const int token = std::exchange(waits, 0)) {
      std::lock_guard<std::recursive_mutex> lock(line);
      put(id, {}, {});
      held[numbered].token = token;
    }
    return result(error);
  }
  if (object->capture->broken) return result(cudaErrorStreamCaptureInvalidated);
  object->tail = {add_node(object->capture, type, std::move(work), object->tail)};
  return result(cudaSuccess);
}

// Captures, for cuda_graphs.cpp.
void capture_begins(Stream* stream, Capture* capture) {
  stream->capture = capture;
  ++capturing;
}
// Takes all streams of a capture out of it; returns the ends of those that are not its origin.
std::vector<Node*> capture_ends(Capture* capture) {
  std::vector<Node*> tails;
  std::lock_guard<std::mutex> lock(guard);
  for (const Stream* each : streams) {
    auto* one = const_cast<Stream*>(each);
    if (one->capture != capture) continue;
    if (one != capture->origin) tails.insert(tails.end(), one->tail.begin(), one->tail.end());
    one->capture = nullptr;
    one->tail.clear();
  }
  capture->active = false;
  --capturing;
  return tails;
}

}  // namespace host

using namespace host;

// The program ends: nobody is left who could help what waits.
EXPORT void cuda_host_drain() { wait_for(kEverything); }

EXPORT void cuda_host_per_thread() { by_thread = true; }

// The stream of whoever calls an extension: one that nothing orders with the default stream.
EXPORT cudaStream_t cuda_host_caller_stream() {
  static const cudaStream_t stream = [] {
    cudaStream_t made = nullptr;
    create(&made, cudaStreamNonBlocking, 0);
    return made;
  }();
  return stream;
}

EXPORT cudaError_t cudaStreamCreate(cudaStream_t* stream) { return create(stream, 0, 0); }
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags > cudaStreamNonBlocking) return result(cudaErrorInvalidValue);
  return create(stream, flags, 0);
}
EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                int priority) {
  if (flags > cudaStreamNonBlocking) return result(cudaErrorInvalidValue);
  return create(stream, flags, priority < -5 ? -5 : priority > 0 ? 0 : priority);
}
EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Stream* object = stream_of(stream);
  if (object == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (object->capture != nullptr) object->capture->broken = true;
  object->alive = false;  // the work that is on it still comes to its end
  order(kDestroyed, stream_id(stream));
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  *flags = object ? object->flags : 0;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  *priority = object ? object->priority : 0;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  *id = stream_id(stream);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  *device = object != nullptr ? object->device : current_device;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  Stream* object = stream_of(stream);
  if (object != nullptr && object->capture != nullptr) {
    object->capture->broken = true;
    return result(cudaErrorStreamCaptureUnsupported);
  }
  if (is_legacy(stream))
    if (const cudaError_t error = forbidden(true)) return result(error);
  wait_for(stream_id(stream));
  order(kHostWaitsStream, stream_id(stream));
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  go_on();
  if (is_stream(stream) && is_held(stream_id(stream))) return result(cudaErrorNotReady);
  if (is_stream(stream)) settle(stream_id(stream), kForWork);  // (nobody waits: no deadlock)
  return cudaStreamSynchronize(stream);
}
EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Event* one = event_of(event);
  if (!is_stream(stream) || one == nullptr) return result(cudaErrorInvalidResourceHandle);
  Stream* object = stream_of(stream);
  Capture* own = object != nullptr ? object->capture : nullptr;
  if (one->capture != nullptr) {
    if (!one->capture->active) return result(cudaErrorCapturedEvent);
    if (object == nullptr) return result(cudaErrorStreamCaptureImplicit);
    if (own != nullptr && own != one->capture) return result(cudaErrorStreamCaptureIsolation);
    if (own == nullptr) object->capture = one->capture;
    object->tail.insert(object->tail.end(), one->after.begin(), one->after.end());
    return result(cudaSuccess);
  }
  if (own != nullptr) {
    own->broken = true;
    return result(cudaErrorStreamCaptureIsolation);
  }
  if (!one->recorded) return result(cudaSuccess);
  const std::uint64_t id = stream_id(stream), known = event_id(event);
  std::lock_guard<std::recursive_mutex> lock(line);
  go_on();
  std::vector<std::uint64_t> after = before(id);
  if (held.count(one->held)) after.push_back(one->held);
  if (after.empty()) {
    order(kWaitsEvent, id, known);
    return result(cudaSuccess);
  }
  put(id, [known](std::uint64_t stream) {
    order(kWaitsEvent, stream, known);
    return cudaSuccess;
  }, after);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaStreamAttachMemAsync(cudaStream_t, void*, std::size_t, unsigned) {
  note(kUncovered, cudaSuccess, "cudaStreamAttachMemAsync");
  return result(cudaSuccess);
}
// Attributes say where caches keep data and whether the host spins, nothing of what is computed.
EXPORT cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID,
                                          const cudaStreamAttrValue* value) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  return result(value ? cudaSuccess : cudaErrorInvalidValue);
}
EXPORT cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaStreamAttrID,
                                          cudaStreamAttrValue* value) {
  if (!is_stream(stream)) return result(cudaErrorInvalidResourceHandle);
  if (value == nullptr) return result(cudaErrorInvalidValue);
  *value = {};
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (event == nullptr) return result(cudaErrorInvalidValue);
  auto* made = new Event;
  made->timed = (flags & cudaEventDisableTiming) == 0;
  std::lock_guard<std::mutex> lock(guard);
  events.insert(made);
  *event = reinterpret_cast<cudaEvent_t>(made);
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Event* one = event_of(event);
  if (!is_stream(stream) || one == nullptr) return result(cudaErrorInvalidResourceHandle);
  const Stream* object = stream_of(stream);
  if (object != nullptr && object->capture != nullptr) {
    one->capture = object->capture;
    one->after = object->tail;
    return result(cudaSuccess);
  }
  if (is_legacy(stream))
    if (const cudaError_t error = forbidden(true)) return result(error);
  one->capture = nullptr;
  one->after.clear();
  one->recorded = true;
  const auto happens = [one](std::uint64_t id) {
    one->at = std::chrono::steady_clock::now();
    order(kRecorded, event_id(reinterpret_cast<cudaEvent_t>(one)), id);
    return cudaSuccess;
  };
  const std::uint64_t id = stream_id(stream);
  std::lock_guard<std::recursive_mutex> lock(line);
  go_on();
  std::vector<std::uint64_t> after = before(id);
  one->held = 0;
  if (after.empty()) happens(id);
  else one->held = put(id, happens, std::move(after));
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return cudaEventRecord(event, stream);
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Event* one = event_of(event);
  if (one == nullptr) return result(cudaErrorInvalidResourceHandle);
  if (one->capture != nullptr) return result(cudaErrorCapturedEvent);
  settle(event_id(event), kForEvent);
  {
    std::lock_guard<std::recursive_mutex> lock(line);
    wait_until_gone({one->held});
  }
  if (one->recorded) order(kHostWaitsEvent, event_id(event));
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  Event* one = event_of(event);
  if (one == nullptr) return result(cudaErrorInvalidResourceHandle);
  {
    std::lock_guard<std::recursive_mutex> lock(line);
    go_on();
    if (held.count(one->held)) return result(cudaErrorNotReady);
  }
  settle(event_id(event), kForQuery);
  return cudaEventSynchronize(event);
}
EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Event* one = event_of(event);
  if (one == nullptr) return result(cudaErrorInvalidResourceHandle);
  std::lock_guard<std::mutex> lock(guard);
  events.erase(one);  // the object stays: its address names no other event
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const Event *first = event_of(start), *last = event_of(end);
  if (first == nullptr || last == nullptr || !first->recorded || !last->recorded ||
      !first->timed || !last->timed)
    return result(cudaErrorInvalidResourceHandle);
  *milliseconds = std::chrono::duration<float, std::milli>(last->at - first->at).count();
  return result(cudaSuccess);
}
