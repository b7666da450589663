// torch's 16-bit types and packed accessors in device code. Layouts: c10/util/Half.h, BFloat16.h,
// ATen/core/TensorAccessor.h of torch 2.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

namespace c10 {
#define CUASSAY_SIXTEEN_BITS(Name, Native, to_float, from_float)                               \
  struct alignas(2) Name {                                                                     \
    unsigned short x;                                                                          \
    struct from_bits_t {};                                                                     \
    Name() = default;                                                                          \
    __device__ constexpr Name(unsigned short bits, from_bits_t) : x(bits) {}                   \
    __device__ Name(float value) { *reinterpret_cast<Native*>(&x) = from_float(value); }       \
    __device__ Name(const Native& value) { *reinterpret_cast<Native*>(&x) = value; }           \
    __device__ operator float() const {                                                        \
      return to_float(*reinterpret_cast<const Native*>(&x));                                   \
    }                                                                                          \
    __device__ operator Native() const { return *reinterpret_cast<const Native*>(&x); }        \
  };                                                                                           \
  __device__ inline Name operator-(const Name& a) { return Name(-float(a)); }                  \
  CUASSAY_OPERATOR(Name, +) CUASSAY_OPERATOR(Name, -)                                          \
  CUASSAY_OPERATOR(Name, *) CUASSAY_OPERATOR(Name, /)                                          \
  CUASSAY_COMPARED(Name, <) CUASSAY_COMPARED(Name, >) CUASSAY_COMPARED(Name, <=)               \
  CUASSAY_COMPARED(Name, >=) CUASSAY_COMPARED(Name, ==) CUASSAY_COMPARED(Name, !=)
#define CUASSAY_OPERATOR(Name, op)                                                             \
  __device__ inline Name operator op(const Name& a, const Name& b) {                           \
    return Name(float(a) op float(b));                                                         \
  }                                                                                            \
  __device__ inline float operator op(const Name& a, float b) { return float(a) op b; }        \
  __device__ inline float operator op(float a, const Name& b) { return a op float(b); }        \
  __device__ inline double operator op(const Name& a, double b) { return double(float(a)) op b; } \
  __device__ inline double operator op(double a, const Name& b) { return a op double(float(b)); } \
  __device__ inline Name operator op(const Name& a, int b) { return Name(float(a) op float(b)); } \
  __device__ inline Name operator op(int a, const Name& b) { return Name(float(a) op float(b)); } \
  __device__ inline Name& operator op##=(Name& a, const Name& b) { return a = a op b; }        \
  __device__ inline float& operator op##=(float& a, const Name& b) { return a = a op float(b); }
#define CUASSAY_COMPARED(Name, op)                                                             \
  __device__ inline bool operator op(const Name& a, const Name& b) {                           \
    return float(a) op float(b);                                                               \
  }                                                                                            \
  __device__ inline bool operator op(const Name& a, float b) { return float(a) op b; }         \
  __device__ inline bool operator op(float a, const Name& b) { return a op float(b); }         \
  __device__ inline bool operator op(const Name& a, int b) { return float(a) op float(b); }
CUASSAY_SIXTEEN_BITS(Half, __half, __half2float, __float2half)
CUASSAY_SIXTEEN_BITS(BFloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16)
__device__ inline Half __ldg(const Half* place) {
  return Half(::__ldg(reinterpret_cast<const __half*>(place)));
}
__device__ inline BFloat16 __ldg(const BFloat16* place) {
  return BFloat16(::__ldg(reinterpret_cast<const __nv_bfloat16*>(place)));
}
// c10/util/Float8_e4m3fn.h: to the nearest, ties to even; beyond 448 and a half it is no number.
struct alignas(1) Float8_e4m3fn {
  unsigned char x;
  struct from_bits_t {};
  __host__ __device__ static constexpr from_bits_t from_bits() { return from_bits_t(); }
  Float8_e4m3fn() = default;
  __host__ __device__ constexpr Float8_e4m3fn(unsigned char bits, from_bits_t) : x(bits) {}
  __device__ Float8_e4m3fn(float value)
      : x(__nv_cvt_float_to_fp8(value, __NV_NOSAT, __NV_E4M3)) {}
  __device__ operator float() const {
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(x, __NV_E4M3)));
  }
};
}  // namespace c10

namespace c10 {
// Of AMD's GPUs: sources that serve both are compiled with it, and never run it here.
struct alignas(1) Float8_e4m3fnuz {
  unsigned char x;
  struct from_bits_t {};
  __host__ __device__ static constexpr from_bits_t from_bits() { return from_bits_t(); }
  Float8_e4m3fnuz() = default;
  __host__ __device__ constexpr Float8_e4m3fnuz(unsigned char bits, from_bits_t) : x(bits) {}
  __device__ Float8_e4m3fnuz(float) { __trap(); }
  __device__ operator float() const { __trap(); return 0.f; }
};
}  // namespace c10
#define C10_HOST_DEVICE __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#ifdef _CUDA_STD_LIMITS
namespace cuda { namespace std {
template <> class numeric_limits<c10::Float8_e4m3fn> {
 public:
  static constexpr bool is_specialized = true;
  __host__ __device__ static constexpr c10::Float8_e4m3fn max() {
    return c10::Float8_e4m3fn(0x7E, c10::Float8_e4m3fn::from_bits_t());
  }
  __host__ __device__ static constexpr c10::Float8_e4m3fn lowest() {
    return c10::Float8_e4m3fn(0xFE, c10::Float8_e4m3fn::from_bits_t());
  }
};
template <> class numeric_limits<c10::Float8_e4m3fnuz> {
 public:
  static constexpr bool is_specialized = true;
  __host__ __device__ static constexpr c10::Float8_e4m3fnuz max() {
    return c10::Float8_e4m3fnuz(0x7F, c10::Float8_e4m3fnuz::from_bits_t());
  }
  __host__ __device__ static constexpr c10::Float8_e4m3fnuz lowest() {
    return c10::Float8_e4m3fnuz(0xFF, c10::Float8_e4m3fnuz::from_bits_t());
  }
};
}}  // namespace cuda::std
#endif

namespace at {
using c10::BFloat16;
using c10::Half;
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool> struct AccumulateType { using type = T; };
template <bool G> struct AccumulateType<Half, G> { using type = float; };
template <bool G> struct AccumulateType<BFloat16, G> { using type = float; };
template <bool G> struct AccumulateType<float, G> { using type = float; };
template <class T, bool G> using acc_type = typename AccumulateType<T, G>::type;

template <class T> struct DefaultPtrTraits { typedef T* PtrType; };
template <class T> struct RestrictPtrTraits { typedef T* __restrict__ PtrType; };
template <class T, unsigned long N, template <class U> class Traits = DefaultPtrTraits,
          class Index = long>
class TensorAccessor {
 public:
  typedef typename Traits<T>::PtrType Ptr;
  __device__ TensorAccessor(Ptr data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __device__ Index size(Index i) const { return sizes_[i]; }
  __device__ Index stride(Index i) const { return strides_[i]; }
  __device__ Ptr data() const { return data_; }
  __device__ TensorAccessor<T, N - 1, Traits, Index> operator[](Index i) const {
    return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1,
                                                   strides_ + 1);
  }

 private:
  Ptr data_;
  const Index *sizes_, *strides_;
};
template <class T, template <class U> class Traits, class Index>
class TensorAccessor<T, 1, Traits, Index> {
 public:
  typedef typename Traits<T>::PtrType Ptr;
  __device__ TensorAccessor(Ptr data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  __device__ Index size(Index i) const { return sizes_[i]; }
  __device__ Index stride(Index i) const { return strides_[i]; }
  __device__ Ptr data() const { return data_; }
  __device__ T& operator[](Index i) const { return data_[strides_[0] * i]; }

 private:
  Ptr data_;
  const Index *sizes_, *strides_;
};
template <class T, unsigned long N, template <class U> class Traits = DefaultPtrTraits,
          class Index = long>
class GenericPackedTensorAccessor {
 public:
  typedef typename Traits<T>::PtrType Ptr;
  __device__ Index size(Index i) const { return sizes_[i]; }
  __device__ Index stride(Index i) const { return strides_[i]; }
  __device__ Ptr data() const { return data_; }
  __device__ decltype(auto) operator[](Index i) const {
    return TensorAccessor<T, N, Traits, Index>(data_, sizes_, strides_)[i];
  }

 private:
  Ptr data_;
  Index sizes_[N], strides_[N];
};
template <class T, unsigned long N, template <class U> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int>;
template <class T, unsigned long N, template <class U> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, long>;
}  // namespace at
namespace torch {
using namespace at;
}

template <class T> __device__ inline void gpuAtomicAdd(T* place, T value) {
  atomicAdd(place, value);
}
template <class T> __device__ inline void gpuAtomicAddNoReturn(T* place, T value) {
  atomicAdd(place, value);
}
