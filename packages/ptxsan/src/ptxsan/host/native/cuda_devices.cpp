// Several devices in one process: which one is current, and who reaches whose memory.
#include "host_runtime.h"

namespace host {
int device_count = 1;
thread_local int current_device = 0;

namespace {
bool opened[kMostDevices][kMostDevices];  // [who][whose]
bool is_device_number(int device) { return device >= 0 && device < device_count; }
}  // namespace

cudaError_t settle(std::uint64_t what, Settle how) {
  if (device_count == 1 || !connected.settle) return cudaSuccess;
  return launch_ended(static_cast<cudaError_t>(connected.settle(what, how)));
}
}  // namespace host

using namespace host;

EXPORT void cuda_host_devices(int count) {
  device_count = count;
  for (int device = 1; device < count; ++device)
    order(kCreated, kLegacy + device, static_cast<std::uint64_t>(device) << 1);
}
EXPORT int cuda_host_device() { return current_device; }
EXPORT int cuda_host_reaches(int device, int other) {
  return device == other || opened[device][other];
}

EXPORT cudaError_t cudaSetDevice(int device) {
  // (Extensions take the device of a tensor, and that of one on the CPU is -1.)
  if (device < 0 && device_count == 1) return result(cudaSuccess);
  if (!is_device_number(device)) return result(cudaErrorInvalidDevice);
  current_device = device;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!is_device_number(device) || !is_device_number(peer)) return result(cudaErrorInvalidDevice);
  *can = device != peer;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (!is_device_number(peer) || peer == current_device) return result(cudaErrorInvalidDevice);
  if (flags != 0) return result(cudaErrorInvalidValue);
  if (opened[current_device][peer]) return result(cudaErrorPeerAccessAlreadyEnabled);
  opened[current_device][peer] = true;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (!is_device_number(peer)) return result(cudaErrorInvalidDevice);
  if (!opened[current_device][peer]) return result(cudaErrorPeerAccessNotEnabled);
  opened[current_device][peer] = false;
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int device,
                                             int peer) {
  if (!is_device_number(device) || !is_device_number(peer) || device == peer)
    return result(cudaErrorInvalidDevice);
  *value = attribute == cudaDevP2PAttrAccessSupported ||
           attribute == cudaDevP2PAttrNativeAtomicSupported;
  return result(cudaSuccess);
}
