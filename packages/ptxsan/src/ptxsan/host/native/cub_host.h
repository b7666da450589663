// CUB's headers for the host's compiler: types of theirs stand in structures of host code, which
// asks how many bytes they have. What they call in device code is declared here and never defined.
#pragma once
#include <memory>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

extern const uint3 threadIdx, blockIdx;
extern const dim3 blockDim, gridDim;
void __syncthreads();
int __syncthreads_or(int);
int __syncthreads_and(int);
int __syncthreads_count(int);
void __syncwarp(unsigned mask = 0xffffffffu);
void __threadfence();
void __threadfence_block();
template <class T> T __shfl_sync(unsigned, T, int, int = 32);
template <class T> T __shfl_up_sync(unsigned, T, unsigned, int = 32);
template <class T> T __shfl_down_sync(unsigned, T, unsigned, int = 32);
template <class T> T __shfl_xor_sync(unsigned, T, int, int = 32);
template <class T> unsigned __match_any_sync(unsigned, T);
unsigned __ballot_sync(unsigned, int);
int __any_sync(unsigned, int);
int __all_sync(unsigned, int);
unsigned __activemask();
int __clz(int);
int __popc(unsigned);
int __ffs(int);
unsigned __brev(unsigned);
unsigned __vmins2(unsigned, unsigned);
unsigned __vminu2(unsigned, unsigned);
unsigned __vmaxs2(unsigned, unsigned);
unsigned __vmaxu2(unsigned, unsigned);
template <class T> T atomicAdd(T*, T);
template <class T> T atomicAdd_block(T*, T);
namespace cuda {
namespace ptx {
unsigned get_sreg_laneid();
unsigned get_sreg_lanemask_eq();
unsigned get_sreg_lanemask_lt();
unsigned get_sreg_lanemask_le();
unsigned get_sreg_lanemask_gt();
unsigned get_sreg_lanemask_ge();
}  // namespace ptx
}  // namespace cuda
