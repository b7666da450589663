// Entry points of the driver that a program asks the runtime for: the two that encode tensor maps.
// They write the machine's form of a map (runtime/tensor_maps.py, numbers of layout.py).
// Reference: CUDA driver API, cuTensorMapEncodeTiled, cuTensorMapEncodeIm2col.
#include <cuda.h>

#include <cstring>

#include "host_runtime.h"

using namespace host;

namespace {
constexpr int kMostRank = 5;
// Types of a map as `tensormap.replace` numbers them, in the order of CUtensorMapDataType.
constexpr std::uint32_t kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 8, 11, 12, 13, 14, 15};
constexpr int kBits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 8, 8};  // of a tile
constexpr int kKnownTypes = sizeof kTypes / sizeof kTypes[0];
// Chunks of 32 bytes keep together in rows of 128: CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B.
constexpr int kWide = 4;
constexpr std::size_t kSizes = 16, kSwizzle = 37, kFill = 38, kStrides = 40, kBox = 72, kSteps = 82;
constexpr std::size_t kIm2col = 87, kLower = 88, kUpper = 94, kChannels = 100, kPixels = 102;

struct Encoded {
  CUtensorMapDataType type;
  std::uint32_t rank;
  void* address;
  const std::uint64_t *sizes, *strides;
  const std::uint32_t* steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

template <class T>
void put(unsigned char* map, std::size_t at, T value) {
  std::memcpy(map + at, &value, sizeof value);
}

// What both kinds of a map have in common; `row` is the bytes of an innermost line of a tile.
CUresult encode(CUtensorMap* target, const Encoded& one, std::uint64_t row) {
  if (one.type >= kKnownTypes || one.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      one.swizzle > kWide) {
    note(kUncovered, cudaSuccess, "a tensor map that is interleaved, or of a newer swizzle");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const std::uint64_t swizzled =
      one.swizzle == kWide ? 128 : one.swizzle ? 16ull << one.swizzle : 0;
  if (one.rank < 1 || one.rank > kMostRank || reinterpret_cast<std::uintptr_t>(target) % 64 ||
      reinterpret_cast<std::uintptr_t>(one.address) % 16 || row % 16 || (swizzled && row > swizzled))
    return CUDA_ERROR_INVALID_VALUE;
  unsigned char map[sizeof *target] = {};
  put(map, 0, one.rank - 1);
  put(map, 4, kTypes[one.type]);
  put(map, 8, reinterpret_cast<std::uint64_t>(one.address));
  for (std::uint32_t axis = 0; axis < one.rank; ++axis) {
    const std::uint32_t step = one.steps[axis];
    if (!one.sizes[axis] || one.sizes[axis] >= 1ull << 32 || step < 1 || step > 8)
      return CUDA_ERROR_INVALID_VALUE;
    put(map, kSizes + 4 * axis, static_cast<std::uint32_t>(one.sizes[axis]));
    map[kSteps + axis] = static_cast<unsigned char>(step);
    if (!axis) continue;
    if (one.strides[axis - 1] % 16 || one.strides[axis - 1] >= 1ull << 40)
      return CUDA_ERROR_INVALID_VALUE;
    put(map, kStrides + 8 * (axis - 1), one.strides[axis - 1]);
  }
  map[kSwizzle] = static_cast<unsigned char>(one.swizzle);
  map[kFill] = one.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  std::memcpy(target, map, sizeof map);
  return CUDA_SUCCESS;
}

CUresult encode_tiled(CUtensorMap* target, CUtensorMapDataType type, std::uint32_t rank,
                      void* address, const std::uint64_t* sizes, const std::uint64_t* strides,
                      const std::uint32_t* box, const std::uint32_t* steps,
                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  for (std::uint32_t axis = 0; axis < rank && axis < kMostRank; ++axis)
    if (box[axis] < 1 || box[axis] > 256) return CUDA_ERROR_INVALID_VALUE;
  const int bits = type < kKnownTypes ? kBits[type] : 0;
  const Encoded one{type, rank, address, sizes, strides, steps, interleave, swizzle, fill};
  const CUresult status = encode(target, one, static_cast<std::uint64_t>(box[0]) * bits / 8);
  if (status != CUDA_SUCCESS) return status;
  auto* map = reinterpret_cast<unsigned char*>(target);
  for (std::uint32_t axis = 0; axis < rank; ++axis)
    put(map, kBox + 2 * axis, static_cast<std::uint16_t>(box[axis]));
  return CUDA_SUCCESS;
}

CUresult encode_im2col(CUtensorMap* target, CUtensorMapDataType type, std::uint32_t rank,
                       void* address, const std::uint64_t* sizes, const std::uint64_t* strides,
                       const int* lower, const int* upper, std::uint32_t channels,
                       std::uint32_t pixels, const std::uint32_t* steps,
                       CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (rank < 3 || rank > kMostRank || channels < 1 || channels > 256 || pixels < 1 || pixels > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  const int bits = type < kKnownTypes ? kBits[type] : 0;
  const Encoded one{type, rank, address, sizes, strides, steps, interleave, swizzle, fill};
  const CUresult status = encode(target, one, static_cast<std::uint64_t>(channels) * bits / 8);
  if (status != CUDA_SUCCESS) return status;
  auto* map = reinterpret_cast<unsigned char*>(target);
  map[kIm2col] = 1;
  for (std::uint32_t axis = 0; axis < rank - 2; ++axis) {
    put(map, kLower + 2 * axis, static_cast<std::int16_t>(lower[axis]));
    put(map, kUpper + 2 * axis, static_cast<std::int16_t>(upper[axis]));
  }
  put(map, kChannels, static_cast<std::uint16_t>(channels));
  put(map, kPixels, static_cast<std::uint16_t>(pixels));
  return CUDA_SUCCESS;
}
}  // namespace

EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** place, unsigned int,
                                                    unsigned long long,
                                                    cudaDriverEntryPointQueryResult* status) {
  *place = nullptr;
  if (!std::strcmp(name, "cuTensorMapEncodeTiled")) *place = reinterpret_cast<void*>(encode_tiled);
  if (!std::strcmp(name, "cuTensorMapEncodeIm2col")) *place = reinterpret_cast<void*>(encode_im2col);
  if (status)
    *status = *place ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (!*place) note(kUncovered, cudaSuccess, "a function of the driver");
  return result(cudaSuccess);
}
EXPORT cudaError_t cudaGetDriverEntryPoint(const char* name, void** place, unsigned long long flags,
                                           cudaDriverEntryPointQueryResult* status) {
  return cudaGetDriverEntryPointByVersion(name, place, 12000, flags, status);
}
