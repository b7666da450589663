// Rows of an image with padding are blurred with weights in constant memory. Faulty: the upload leaves
// the padding out on the device, too.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vector>
#define CUDA(x) if (cudaError_t e = (x); e != cudaSuccess) { std::fprintf(stderr, "%s failed: %s\n", #x, cudaGetErrorString(e)); std::exit(1); }
constexpr int W = 100, H = 37, R = 2;
__constant__ float weights[2 * R + 1];
__global__ void blur_rows(const char* in, char* out, size_t pitch) {
  extern __shared__ float tile[];
  const int y = blockIdx.y, x = blockIdx.x * blockDim.x + threadIdx.x;
  const float* row = reinterpret_cast<const float*>(in + y * pitch);
  for (int t = threadIdx.x; t < blockDim.x + 2 * R; t += blockDim.x) {
    int g = min(max(static_cast<int>(blockIdx.x * blockDim.x) + t - R, 0), W - 1);
    tile[t] = row[g];
  }
  __syncthreads();
  if (x >= W) return;
  float s = 0;
  for (int k = 0; k <= 2 * R; ++k) s += weights[k] * tile[threadIdx.x + k];
  reinterpret_cast<float*>(out + y * pitch)[x] = s;
}
int main(int argc, char**) {
  const bool faulty = argc > 1;
  std::vector<float> image(W * H, 2.0f), result(W * H);
  const float w[] = {0.1f, 0.2f, 0.4f, 0.2f, 0.1f};
  CUDA(cudaMemcpyToSymbol(weights, w, sizeof w));
  char *in, *out;
  size_t pitch, other;
  CUDA(cudaMallocPitch(reinterpret_cast<void**>(&in), &pitch, W * sizeof(float), H));
  CUDA(cudaMallocPitch(reinterpret_cast<void**>(&out), &other, W * sizeof(float), H));
  // Faulty: rows go to where an image without padding has them.
  CUDA(cudaMemcpy2D(in, faulty ? W * sizeof(float) : pitch, image.data(), W * sizeof(float), W * sizeof(float), H, cudaMemcpyHostToDevice));
  const int threads = 64;
  blur_rows<<<dim3((W + threads - 1) / threads, H), threads, (threads + 2 * R) * sizeof(float)>>>(in, out, pitch);
  CUDA(cudaGetLastError());
  CUDA(cudaMemcpy2D(result.data(), W * sizeof(float), out, other, W * sizeof(float), H, cudaMemcpyDeviceToHost));
  for (float v : result) if (!faulty && (v < 1.999f || v > 2.001f)) return 2;
  CUDA(cudaFree(in));
  CUDA(cudaFree(out));
  std::puts("ok");
}
