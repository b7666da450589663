from torch.utils.cpp_extension import load_inline

_SRC = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

constexpr int kGroup = 32;
constexpr int kThreads = 256;

__global__ void dequant(const int8_t* q, const float* s, float* out, int64_t total, int width, int groups) {
  int64_t i = (int64_t)blockIdx.x * kThreads + threadIdx.x;
  if (i >= total) return;
  int64_t row = i / width;
  int col = i % width;
  float scale = s[row * groups + col / kGroup];
  out[i] = scale * (float)q[i];
}

at::Tensor dequant_host(at::Tensor q, at::Tensor s) {
  q = q.contiguous(); s = s.contiguous();
  auto out = at::empty(q.sizes(), s.options());
  int64_t total = q.numel();
  int blocks = (total + kThreads - 1) / kThreads;
  dequant<<<blocks, kThreads, 0, at::cuda::getCurrentCUDAStream()>>>(
      q.data_ptr<int8_t>(), s.data_ptr<float>(), out.data_ptr<float>(), total, q.size(1), s.size(1));
  return out;
}
"""
_ext = load_inline(
    name="dequant_ext",
    cpp_sources="at::Tensor dequant_host(at::Tensor q, at::Tensor s);",
    cuda_sources=_SRC,
    functions=["dequant_host"],
)


def dequantize(codes, scales):
    return _ext.dequant_host(codes, scales)
