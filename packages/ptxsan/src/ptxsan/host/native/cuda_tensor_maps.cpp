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
constexpr std::size_t kSizes = 8, kStrides = 28, kTops = 44, kBox = 48, kSteps = 54, kRank = 59;
constexpr std::size_t kType = 60, kSwizzle = 62, kFill = 63;
constexpr std::size_t kChannels = 48, kPixels = 49, kLower = 51, kUpper = 53;
constexpr unsigned char kIm2col = 8;  // added to the rank

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
  map[kRank] = static_cast<unsigned char>(one.rank - 1);
  map[kType] = static_cast<unsigned char>(kTypes[one.type]);
  put(map, 0, reinterpret_cast<std::uint64_t>(one.address));
  for (std::uint32_t axis = 0; axis < one.rank; ++axis) {
    const std::uint32_t step = one.steps[axis];
    if (!one.sizes[axis] || one.sizes[axis] >= 1ull << 32 || step < 1 || step > 8)
      return CUDA_ERROR_INVALID_VALUE;
    put(map, kSizes + 4 * axis, static_cast<std::uint32_t>(one.sizes[axis]));
    if (!axis) continue;  // the innermost dimension has neither a step nor a stride
    map[kSteps + axis] = static_cast<unsigned char>(step);
    const std::uint64_t stride = one.strides[axis - 1];
    if (stride % 16 || stride >= 1ull << 40) return CUDA_ERROR_INVALID_VALUE;
    put(map, kStrides + 4 * (axis - 1), static_cast<std::uint32_t>(stride / 16));
    map[kTops + axis - 1] = static_cast<unsigned char>(stride >> 36);
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
    map[kBox + axis] = static_cast<unsigned char>(box[axis] - 1);
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
  map[kRank] |= kIm2col;
  const int width = rank == 3 ? 16 : rank == 4 ? 8 : 5;  // bits of a corner along one dimension
  std::uint32_t first = 0, last = 0;
  for (std::uint32_t axis = 0; axis < rank - 2; ++axis) {
    const int most = 1 << (width - 1);
    if (lower[axis] < -most || lower[axis] >= most || upper[axis] < -most || upper[axis] >= most)
      return CUDA_ERROR_INVALID_VALUE;
    first |= (lower[axis] & (2 * most - 1)) << width * axis;
    last |= (upper[axis] & (2 * most - 1)) << width * axis;
  }
  map[kChannels] = static_cast<unsigned char>(channels - 1);
  put(map, kPixels, static_cast<std::uint16_t>(pixels));
  put(map, kLower, static_cast<std::uint16_t>(first));
  put(map, kUpper, static_cast<std::uint16_t>(last));
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
