// Memory that the host and the device share, while work that touches it may still be under way: the
// host is kept from it by the processor's page protection, and its accesses are told to Python.
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>

#include "host_runtime.h"

namespace host {
namespace {

constexpr std::uintptr_t kPage = 4096;
// Bytes that work under way touches: plain reads, plain writes, and what it updates by atomics or
// strong writes, which the host may read, and update by its own atomics.
enum Kind { kReads = 0, kWrites = 1, kUpdates = 2 };
struct Range {
  std::uint64_t start, end;
  std::uint64_t kind;
};
struct Touch {
  std::uint64_t address, written;
  void* frames[16];
  std::int64_t depth;
};
constexpr int kMost = 64;
std::vector<Range> ranges;  // by their starts
Touch touches[kMost];
std::atomic<int> touched{0};
std::atomic<bool> closed{false};
struct sigaction before;
std::uintptr_t low = 0, high = 0;
std::atomic<pthread_t> issuer;  // nothing is known of what orders another thread's accesses

std::uintptr_t down(std::uintptr_t address) { return address / kPage * kPage; }

void protect(std::uintptr_t first, std::uintptr_t last, int how) {
  mprotect(reinterpret_cast<void*>(first), last - first, how);
}

// Whether an instruction is an atomic of the host's: `lock` stands first, or it is an exchange.
bool is_locked(const void* context) {
#if defined(__x86_64__)
  const auto* code = reinterpret_cast<const unsigned char*>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
  if (*code == 0x66) ++code;  // 16 bits
  if (*code == 0xF0) return true;
  if ((*code & 0xF0) == 0x40) ++code;  // a REX prefix
  return *code == 0x86 || *code == 0x87;
#else
  return false;
#endif
}

void caught(int signal, siginfo_t* info, void* context) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (!closed || address < low || address >= high) {
    sigaction(signal, &before, nullptr);  // the access happens again, and is another's to catch
    return;
  }
#if defined(__x86_64__)
  const bool written = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] & 2;
#else
  const bool written = true;
#endif
  const bool own = pthread_equal(pthread_self(), issuer) != 0;
  for (const Range& one : ranges) {
    if (!own || address < one.start || address >= one.end) continue;
    if (one.kind != kWrites && !written) continue;
    if (one.kind == kUpdates && is_locked(context)) continue;
    const int place = touched.fetch_add(1);
    if (place < kMost) {
      Touch& made = touches[place];
      made.address = address;
      made.written = written;
      made.depth = backtrace(made.frames, 16);
    }
    break;
  }
  protect(down(address), down(address) + kPage, PROT_READ | PROT_WRITE);
}

}  // namespace

void watch_open() {
  if (!closed) return;
  for (const Range& one : ranges)
    protect(down(one.start), down(one.end - 1) + kPage, PROT_READ | PROT_WRITE);
  closed = false;
}

}  // namespace host

using namespace host;

// Keep the host from these bytes from now on; none: from nothing.
EXPORT void cuda_host_watch(const Range* given, std::size_t count) {
  static const bool ready = [] {
    void* frames[1];
    backtrace(frames, 1);  // it loads a library the first time
    struct sigaction action;
    std::memset(&action, 0, sizeof action);
    action.sa_sigaction = caught;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before);
    return true;
  }();
  (void)ready;
  watch_open();
  issuer = pthread_self();
  ranges.assign(given, given + count);
  if (count == 0) return;
  low = ~std::uintptr_t{0};
  high = 0;
  for (const Range& one : ranges) {
    low = std::min(low, down(one.start));
    high = std::max(high, down(one.end - 1) + kPage);
  }
  for (const bool closes : {false, true})  // a page that is written and read: nobody enters
    for (const Range& one : ranges)
      if ((one.kind == kWrites) == closes)
        protect(down(one.start), down(one.end - 1) + kPage, closes ? PROT_NONE : PROT_READ);
  closed = true;
}

// Give the accesses of the host that were seen, and forget them.
EXPORT int cuda_host_touches(Touch* found, int most) {
  const int count = std::min({touched.exchange(0), kMost, most});
  std::copy(touches, touches + count, found);
  return count;
}
