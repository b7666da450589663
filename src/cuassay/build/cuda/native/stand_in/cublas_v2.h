// cuBLAS where there is no GPU: products of matrices in host memory, computed by torch. Arguments
// that cuBLAS refuses are refused alike, and nothing is written then.
// https://docs.nvidia.com/cuda/cublas/
#pragma once
#include <ATen/ATen.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <library_types.h>

#include <algorithm>

typedef enum {
  CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3,
  CUBLAS_STATUS_INVALID_VALUE = 7, CUBLAS_STATUS_ARCH_MISMATCH = 8,
  CUBLAS_STATUS_MAPPING_ERROR = 11, CUBLAS_STATUS_EXECUTION_FAILED = 13,
  CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15,
  CUBLAS_STATUS_LICENSE_ERROR = 16
} cublasStatus_t;
typedef enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1, CUBLAS_OP_C = 2 } cublasOperation_t;
typedef enum { CUBLAS_POINTER_MODE_HOST = 0, CUBLAS_POINTER_MODE_DEVICE = 1 } cublasPointerMode_t;
typedef enum {
  CUBLAS_DEFAULT_MATH = 0, CUBLAS_TENSOR_OP_MATH = 1, CUBLAS_PEDANTIC_MATH = 2,
  CUBLAS_TF32_TENSOR_OP_MATH = 3
} cublasMath_t;
typedef enum {
  CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DFALT_TENSOR_OP = 99,
  CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99
} cublasGemmAlgo_t;
typedef enum {
  CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC = 65, CUBLAS_COMPUTE_32F = 68,
  CUBLAS_COMPUTE_32F_PEDANTIC = 69, CUBLAS_COMPUTE_32F_FAST_16F = 74,
  CUBLAS_COMPUTE_32F_FAST_16BF = 75, CUBLAS_COMPUTE_32F_FAST_TF32 = 77, CUBLAS_COMPUTE_64F = 70
} cublasComputeType_t;
struct cublasContext { cudaStream_t stream = nullptr; cublasMath_t math = CUBLAS_DEFAULT_MATH; };
typedef cublasContext* cublasHandle_t;

inline cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  *handle = new cublasContext();
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
inline cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math = math;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* math) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  *math = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t) {
  return handle ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_INITIALIZED;
}
inline const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_SUCCESS ? "CUBLAS_STATUS_SUCCESS"
         : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                                 : "a status of cuBLAS";
}

namespace cuassay_cublas {

// op(X) of `rows` x `columns`, stored by columns that are `lead` elements apart.
inline at::Tensor view(const void* data, long rows, long columns, long lead, bool plain,
                       at::ScalarType type) {
  const auto strides = plain ? std::array<int64_t, 2>{1, lead} : std::array<int64_t, 2>{lead, 1};
  return at::from_blob(const_cast<void*>(data), {rows, columns}, strides,
                       at::TensorOptions().dtype(type));
}

inline cublasStatus_t product(cublasHandle_t handle, cublasOperation_t first,
                              cublasOperation_t second, long m, long n, long k, double alpha,
                              const void* a, long lda, const void* b, long ldb, double beta,
                              void* c, long ldc, at::ScalarType in, at::ScalarType out) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool one = first == CUBLAS_OP_N, two = second == CUBLAS_OP_N;
  if (m < 0 || n < 0 || k < 0 || lda < std::max(1L, one ? m : k) ||
      ldb < std::max(1L, two ? k : n) || ldc < std::max(1L, m))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const auto wide = in == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor sum = beta == 0 ? at::zeros({m, n}, at::TensorOptions().dtype(wide))
                             : view(c, m, n, ldc, true, out).to(wide).mul(beta);
  if (k > 0 && alpha != 0)
    sum.add_(at::mm(view(a, m, k, lda, one, in).to(wide), view(b, k, n, ldb, two, in).to(wide)),
             alpha);
  // Through the runtime, which keeps account of what is written.
  const at::Tensor columns = sum.t().to(out).contiguous();
  const std::size_t size = columns.element_size(), width = m * size;
  cudaMemcpy2D(c, ldc * size, columns.data_ptr(), width, width, n, cudaMemcpyDeviceToDevice);
  return CUBLAS_STATUS_SUCCESS;
}

inline double number(double value) { return value; }
inline double number(__half value) { return __half2float(value); }

inline bool type_of(cudaDataType type, at::ScalarType* found) {
  switch (type) {
    case CUDA_R_64F: *found = at::kDouble; return true;
    case CUDA_R_32F: *found = at::kFloat; return true;
    case CUDA_R_16F: *found = at::kHalf; return true;
    case CUDA_R_16BF: *found = at::kBFloat16; return true;
    default: return false;
  }
}

inline double scalar(const void* value, cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_64F: return *static_cast<const double*>(value);
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC: return *static_cast<const at::Half*>(value);
    default: return *static_cast<const float*>(value);
  }
}

}  // namespace cuassay_cublas

#define CUASSAY_GEMM(name, T, type)                                                              \
  inline cublasStatus_t name(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, \
                             int n, int k, const T* alpha, const T* a, int lda, const T* b,       \
                             int ldb, const T* beta, T* c, int ldc) {                             \
    return cuassay_cublas::product(h, ta, tb, m, n, k, cuassay_cublas::number(*alpha), a, lda, b, \
                                   ldb, cuassay_cublas::number(*beta), c, ldc, type, type);     \
  }
#define CUASSAY_GEMM_BATCH(name, T, type)                                                         \
  inline cublasStatus_t name(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, \
                             int n, int k, const T* alpha, const T* a, int lda, long long sa,     \
                             const T* b, int ldb, long long sb, const T* beta, T* c, int ldc,     \
                             long long sc, int count) {                                           \
    if (count < 0) return CUBLAS_STATUS_INVALID_VALUE;                                            \
    for (int i = 0; i < count; ++i) {                                                             \
      auto status = cuassay_cublas::product(h, ta, tb, m, n, k, *alpha, a + i * sa, lda,          \
                                            b + i * sb, ldb, *beta, c + i * sc, ldc, type, type); \
      if (status != CUBLAS_STATUS_SUCCESS) return status;                                         \
    }                                                                                             \
    return CUBLAS_STATUS_SUCCESS;                                                                 \
  }
CUASSAY_GEMM(cublasSgemm_v2, float, at::kFloat)
CUASSAY_GEMM(cublasDgemm_v2, double, at::kDouble)
CUASSAY_GEMM_BATCH(cublasSgemmStridedBatched, float, at::kFloat)
CUASSAY_GEMM_BATCH(cublasDgemmStridedBatched, double, at::kDouble)
CUASSAY_GEMM(cublasHgemm, __half, at::kHalf)
#undef CUASSAY_GEMM
#undef CUASSAY_GEMM_BATCH

inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType at_, int lda, long long sa, const void* b,
    cudaDataType bt, int ldb, long long sb, const void* beta, void* c, cudaDataType ct, int ldc,
    long long sc, int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
  at::ScalarType in, other, out;
  if (!cuassay_cublas::type_of(at_, &in) || !cuassay_cublas::type_of(bt, &other) ||
      !cuassay_cublas::type_of(ct, &out) || in != other)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const long one = c10::elementSize(in), two = c10::elementSize(out);
  for (int i = 0; i < count; ++i) {
    auto status = cuassay_cublas::product(
        h, ta, tb, m, n, k, cuassay_cublas::scalar(alpha, compute),
        static_cast<const char*>(a) + i * sa * one, lda,
        static_cast<const char*>(b) + i * sb * one, ldb, cuassay_cublas::scalar(beta, compute),
        static_cast<char*>(c) + i * sc * two, ldc, in, out);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGemmEx(
    cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType at_, int lda, const void* b, cudaDataType bt,
    int ldb, const void* beta, void* c, cudaDataType ct, int ldc, cublasComputeType_t compute,
    cublasGemmAlgo_t algorithm) {
  return cublasGemmStridedBatchedEx(h, ta, tb, m, n, k, alpha, a, at_, lda, 0, b, bt, ldb, 0, beta,
                                    c, ct, ldc, 0, 1, compute, algorithm);
}

// Older callers name the type that sums have.
inline cublasStatus_t cublasGemmEx(
    cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void* alpha, const void* a, cudaDataType at_, int lda, const void* b, cudaDataType bt,
    int ldb, const void* beta, void* c, cudaDataType ct, int ldc, cudaDataType compute,
    cublasGemmAlgo_t algorithm) {
  const auto sums = compute == CUDA_R_16F   ? CUBLAS_COMPUTE_16F
                    : compute == CUDA_R_64F ? CUBLAS_COMPUTE_64F
                                            : CUBLAS_COMPUTE_32F;
  if (compute != CUDA_R_16F && compute != CUDA_R_32F && compute != CUDA_R_64F)
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return cublasGemmEx(h, ta, tb, m, n, k, alpha, a, at_, lda, b, bt, ldb, beta, c, ct, ldc, sums,
                      algorithm);
}

#define cublasCreate cublasCreate_v2
#define cublasDestroy cublasDestroy_v2
#define cublasSetStream cublasSetStream_v2
#define cublasGetStream cublasGetStream_v2
#define cublasSetPointerMode cublasSetPointerMode_v2
#define cublasSgemm cublasSgemm_v2
#define cublasDgemm cublasDgemm_v2
