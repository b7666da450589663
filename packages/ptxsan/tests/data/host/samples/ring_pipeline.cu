// Chunks go through a ring of two device buffers: one stream uploads, another computes and brings
// results back. Faulty: an upload does not wait until the buffer's last chunk was consumed.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                             \
  do {                                                                          \
    cudaError_t status_ = (call);                                               \
    if (status_ != cudaSuccess) {                                               \
      std::fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(status_)); \
      std::exit(2);                                                             \
    }                                                                           \
  } while (0)

namespace {
constexpr int kDepth = 2, kChunks = 6, kSize = 1000;

__global__ void polynomial(const float* __restrict__ x, float* __restrict__ y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    y[i] = (2.0f * x[i] + 1.0f) * x[i];
}

struct Stage {
  float *device_in = nullptr, *device_out = nullptr;
  cudaEvent_t uploaded, consumed;
  Stage() {
    CHECK(cudaMalloc(&device_in, kSize * sizeof(float)));
    CHECK(cudaMalloc(&device_out, kSize * sizeof(float)));
    CHECK(cudaEventCreateWithFlags(&uploaded, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&consumed, cudaEventDisableTiming));
  }
  ~Stage() {
    cudaFree(device_in);
    cudaFree(device_out);
    cudaEventDestroy(uploaded);
    cudaEventDestroy(consumed);
  }
};
}  // namespace

int main(int argc, char**) {
  const bool faulty = argc > 1;
  float *in, *out;
  CHECK(cudaMallocHost(&in, kChunks * kSize * sizeof(float)));
  CHECK(cudaMallocHost(&out, kChunks * kSize * sizeof(float)));
  for (int i = 0; i < kChunks * kSize; ++i) in[i] = static_cast<float>(i % 97);
  cudaStream_t upload, compute;
  CHECK(cudaStreamCreateWithFlags(&upload, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
  {
    std::vector<Stage> ring(kDepth);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      Stage& stage = ring[chunk % kDepth];
      if (chunk >= kDepth && !faulty) CHECK(cudaStreamWaitEvent(upload, stage.consumed, 0));
      CHECK(cudaMemcpyAsync(stage.device_in, in + chunk * kSize, kSize * sizeof(float),
                            cudaMemcpyHostToDevice, upload));
      CHECK(cudaEventRecord(stage.uploaded, upload));
      CHECK(cudaStreamWaitEvent(compute, stage.uploaded, 0));
      polynomial<<<4, 128, 0, compute>>>(stage.device_in, stage.device_out, kSize);
      CHECK(cudaGetLastError());
      CHECK(cudaEventRecord(stage.consumed, compute));
      CHECK(cudaMemcpyAsync(out + chunk * kSize, stage.device_out, kSize * sizeof(float),
                            cudaMemcpyDeviceToHost, compute));
    }
    CHECK(cudaStreamSynchronize(compute));
    CHECK(cudaStreamSynchronize(upload));
  }
  for (int i = 0; i < kChunks * kSize; ++i)
    if (!faulty && out[i] != (2.0f * in[i] + 1.0f) * in[i]) return 1;
  CHECK(cudaStreamDestroy(upload));
  CHECK(cudaStreamDestroy(compute));
  CHECK(cudaFreeHost(in));
  CHECK(cudaFreeHost(out));
  std::puts("ok");
  return 0;
}
