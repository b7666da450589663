from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

#define THREADS 128

__inline__ __device__ float warp_max(float v) {
  for (int o = 16; o > 0; o >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, o));
  return v;
}

__inline__ __device__ float warp_sum(float v) {
  for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
  return v;
}

__global__ void softmax_kernel(const float* __restrict__ in, float* __restrict__ out, int cols) {
  __shared__ float parts[THREADS / 32];
  const float* x = in + (size_t)blockIdx.x * cols;
  float* y = out + (size_t)blockIdx.x * cols;
  int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;

  float top = -INFINITY;
  for (int i = threadIdx.x; i < cols; i += THREADS) top = fmaxf(top, x[i]);
  top = warp_max(top);
  if (lane == 0) parts[warp] = top;
  __syncthreads();
  top = parts[0];
  for (int w = 1; w < THREADS / 32; ++w) top = fmaxf(top, parts[w]);
  __syncthreads();

  float sum = 0.f;
  for (int i = threadIdx.x; i < cols; i += THREADS) sum += expf(x[i] - top);
  sum = warp_sum(sum);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  sum = 0.f;
  for (int w = 0; w < THREADS / 32; ++w) sum += parts[w];

  for (int i = threadIdx.x; i < cols; i += THREADS) y[i] = expf(x[i] - top) / sum;
}

torch::Tensor softmax_forward(torch::Tensor x) {
  x = x.contiguous();
  auto y = torch::empty_like(x);
  int rows = x.size(0), cols = x.size(1);
  softmax_kernel<<<rows, THREADS, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), cols);
  return y;
}
"""

ops = load_inline(
    name="softmax_cuda",
    cpp_sources="torch::Tensor softmax_forward(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["softmax_forward"],
)


def softmax(x):
    return ops.softmax_forward(x)
