// What torch's header declares is in torch_host.h, but for the handle of cuBLAS. As torch's header
// does, this one brings cuBLAS along.
#pragma once
#include <cublas_v2.h>

namespace at::cuda {
inline cublasHandle_t getCurrentCUDABlasHandle() {
  static cublasContext handle;
  return &handle;
}
}  // namespace at::cuda
