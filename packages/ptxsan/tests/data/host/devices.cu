// One all-reduce a device, all of them launched before the host waits for any.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#ifdef THREADS
#include <thread>
#include <vector>
#endif

constexpr int kMost = 8, kCount = 100, kCalls = 3;
struct Peers {
  float *data[kMost];
  unsigned *flags[kMost];
};

__device__ void meet(const Peers &peers, int rank, int ranks, unsigned epoch) {
  __syncthreads();
  if (threadIdx.x < ranks) {
    __threadfence_system();
    *(volatile unsigned *)&peers.flags[threadIdx.x][rank] = epoch;
    while ((int)(*(volatile unsigned *)&peers.flags[rank][threadIdx.x] - epoch) < 0) {}
    __threadfence_system();
  }
  __syncthreads();
}

__global__ void fill(float *data, float value) { data[threadIdx.x] = value; }

__global__ void all_reduce(Peers peers, float *out, int rank, int ranks, unsigned call) {
  meet(peers, rank, ranks, 2 * call + 1);
  float sum = 0.f;
  for (int r = 0; r < ranks; ++r) sum += peers.data[r][threadIdx.x];
  out[threadIdx.x] = sum;
  meet(peers, rank, ranks, 2 * call + 2);
}

#define CHECK(call)                                                          \
  do {                                                                       \
    const cudaError_t error = call;                                          \
    if (error != cudaSuccess) {                                              \
      std::printf("%s: %s\n", #call, cudaGetErrorString(error));             \
      std::exit(3);                                                          \
    }                                                                        \
  } while (0)

Peers peers;
float *out[kMost];
int devices;

void begin(int device) {
  CHECK(cudaSetDevice(device));
  for (int other = 0; other < devices; ++other)
    if (other != device && PEERS) CHECK(cudaDeviceEnablePeerAccess(other, 0));
  CHECK(cudaMalloc(&peers.data[device], kCount * sizeof(float)));
  CHECK(cudaMalloc(&peers.flags[device], kMost * sizeof(unsigned)));
  CHECK(cudaMemset(peers.flags[device], 0, kMost * sizeof(unsigned)));
  CHECK(cudaMalloc(&out[device], kCount * sizeof(float)));
}

void work(int device) {
  CHECK(cudaSetDevice(device));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int call = 0; call < kCalls; ++call) {
    fill<<<1, kCount, 0, stream>>>(peers.data[device], device + 1 + 10 * call);
    all_reduce<<<1, kCount, 0, stream>>>(peers, out[device], device, devices, call);
  }
#ifdef THREADS
  CHECK(cudaStreamSynchronize(stream));
#endif
}

int main() {
  CHECK(cudaGetDeviceCount(&devices));
  for (int device = 0; device < devices; ++device) begin(device);
#ifdef THREADS
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; ++device) threads.emplace_back(work, device);
  for (auto &one : threads) one.join();
#else
  for (int device = 0; device < devices; ++device) work(device);
#endif
  int wrong = 0;
  for (int device = 0; device < devices; ++device) {
    float host[kCount];
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(host, out[device], sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < kCount; ++i)
      wrong += host[i] != devices * (devices + 1) / 2 + 10 * (kCalls - 1) * devices;
  }
  for (int device = 0; device < devices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaFree(peers.data[device]));
  }
  std::printf("%d devices, %d wrong\n", devices, wrong);
  return wrong != 0;
}
