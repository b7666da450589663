// What mma.h brings a host beside the matrices of a warp, which are the device's alone: the types,
// and the names of those matrices, as libraries of templates spell them.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace nvcuda { namespace wmma {
struct row_major;
struct col_major;
struct matrix_a;
struct matrix_b;
struct accumulator;
enum layout_t { mem_row_major, mem_col_major };
namespace precision { struct tf32; }
namespace experimental {
namespace precision { struct u4; struct s4; struct b1; }
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
}  // namespace experimental
template <class... Any> void fill_fragment(Any&&...);
template <class... Any> void load_matrix_sync(Any&&...);
template <class... Any> void store_matrix_sync(Any&&...);
template <class... Any> void mma_sync(Any&&...);
template <class... Any> void bmma_sync(Any&&...);
template <class Use, int m, int n, int k, class T, class Layout = void> class fragment;
}}  // namespace nvcuda::wmma
