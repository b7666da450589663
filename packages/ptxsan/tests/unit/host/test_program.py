"""Whole CUDA programs: compiled, run and sanitised without a GPU."""

from __future__ import annotations

import math
import shutil
import struct
from pathlib import Path

import pytest

from ptxsan import nvrtc
from ptxsan.errors import CompileError
from ptxsan.findings import Kind
from ptxsan.host.program import build_program, run_built, run_program
from ptxsan_support.thorough import one_in

pytestmark = pytest.mark.skipif(
    shutil.which("g++") is None or not nvrtc.available(), reason="needs g++ and NVRTC"
)
PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
#define CHECK(call) do { if ((call) != cudaSuccess) return 2; } while (0)
__constant__ float factor[2];
__device__ int calls;
struct View { float* data; int n; };
template <typename T> __global__ void scale(const T* x, View y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < LIMIT) y.data[i] = x[i] * factor[0];
  if (i == 0) { atomicAdd(&calls, 1); printf("from the device %d\n", n); }
}
int main(int argc, char** argv) {
  const int n = 100;
  float host[n], three = 3;
  for (int i = 0; i < n; ++i) host[i] = i;
  float *x, *y;
  CHECK(cudaMalloc(&x, sizeof host));
  CHECK(cudaMalloc(&y, sizeof host));
  CHECK(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpyToSymbol(factor, &three, sizeof three));
  scale<<<1, 128>>>(x, View{y, n}, n);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost));
  int seen = 0;
  CHECK(cudaMemcpyFromSymbol(&seen, calls, sizeof seen));
  printf("last %g calls %d arguments %d %s\n", host[n - 1], seen, argc, argv[1]);
  scale<float><<<1, 2048>>>(x, View{y, n}, n);
  printf("%s\n", cudaGetErrorString(cudaGetLastError()));
  printf("%s\n", cudaGetErrorString(cudaMemcpy(host, y, 404, cudaMemcpyDeviceToHost)));
  return 7;
}
"""


def test_a_program_runs_and_its_launches_are_sanitised(tmp_path: Path) -> None:
    file = tmp_path / "scale.cu"
    file.write_text(PROGRAM)
    right = run_program([file], ["word"], defines=["LIMIT=n"])
    assert right.status == 7
    assert "from the device 100" in right.output
    assert "last 297 calls 1 arguments 2 word" in right.output
    assert right.output.count("invalid configuration argument") == 1
    assert right.output.count("invalid argument") == 1
    assert len(right.launches) == 1
    assert not right.wrong

    wrong = run_program([file], ["word"], defines=["LIMIT=n+1"])
    assert {one.kind for one in wrong.wrong} == {Kind.OUT_OF_BOUNDS}
    firsts = [one.accesses[0] for one in wrong.wrong]
    assert [(one.source_line, one.thread) for one in firsts] == 2 * [(10, (100, 0, 0))]
    assert {one.source_file for one in firsts} == {str(file)}


NVCC_WORDS = r"""
#include <algorithm>
#include <cstdio>
#include <memory>
namespace ns {
__host__ __device__ __noinline__ int plain(int x) { return x; }
template <typename T> __device__ __forceinline__ T twice(const T& x) { return x + x; }
template <typename T, T (*FUNCTION)(const T&), bool SHIFT>
__global__ void apply(T* y, int n) {
  constexpr int zeros = __builtin_clz(1u);
  int lane;
  __asm__ __volatile__("mov.u32 %0, %%laneid;" : "=r"(lane));
  int i = threadIdx.x;
  if (i < n) y[i] = FUNCTION(std::max(T(i), T(lane))) + (SHIFT ? zeros : 0);
}
}
int main() {
  float host[32], *y;
  cudaMalloc(&y, sizeof host);
  ns::apply<float, ns::twice<float>, true><<<1, 32>>>(y, 32);
  cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
  printf("%g %g\n", host[0], host[ns::plain(31)]);
}
"""


def test_what_nvcc_takes_beside_the_standard_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "apply.cu"
    file.write_text(NVCC_WORDS)
    found = run_program([file], [])
    assert found.output.split() == ["31", "93"]
    assert len(found.launches) == 1
    assert not found.wrong


CUB = r"""
#include <cstdio>
#include <type_traits>
#include <cub/block/block_load.cuh>
template <int N> struct Traits {
  using Load = cub::BlockLoad<float, N, 4, cub::BLOCK_LOAD_WARP_TRANSPOSE>;
  static constexpr int bytes = sizeof(typename Load::TempStorage);
};
template <class T> struct Known { static constexpr bool value = sizeof(T) == 4; };
// The demangled name of its result has comparisons in parentheses.
template <class T, int N>
__global__ std::enable_if_t<(N > 0) && Known<T>::value> total(const T* x, T* y) {
  extern __shared__ char memory[];
  auto& own = reinterpret_cast<typename Traits<N>::Load::TempStorage&>(memory);
  T here[4];
  typename Traits<N>::Load(own).Load(x, here);
  y[threadIdx.x] = here[0] + here[1] + here[2] + here[3];
}
int main(int count, char**) {
  const int short_of = count > 1 ? 16 : 0;
  float host[256], *x, *y;
  for (int i = 0; i < 256; ++i) host[i] = i;
  if (cudaMalloc(&x, 1024) || cudaMalloc(&y, 256)) return 2;
  if (cudaMemcpy(x, host, 1024, cudaMemcpyHostToDevice)) return 2;
  total<float, 64><<<1, 64, Traits<64>::bytes - short_of>>>(x, y);
  if (cudaGetLastError()) return 3;
  if (cudaMemcpy(host, y, 256, cudaMemcpyDeviceToHost)) return 4;
  printf("%d %g\n", Traits<64>::bytes, host[63]);
}
"""


@pytest.mark.parametrize("header", one_in(2, ["cub/block/block_load.cuh", "cub/cub.cuh"]))
def test_host_code_knows_how_many_bytes_cub_wants(tmp_path: Path, header: str) -> None:
    source = tmp_path / "cub.cu"
    source.write_text(CUB.replace("cub/block/block_load.cuh", header))
    linked = build_program([source], tmp_path)
    enough, short = run_built(linked, source), run_built(linked, source, ["short"])
    assert [len(report.launches) for report in (enough, short)] == [1, 1]
    assert not enough.launches[0].findings
    assert enough.output.split()[1] == "1014"
    assert {one.kind for one in short.launches[0].findings} == {Kind.OUT_OF_BOUNDS}


def test_what_does_not_compile_is_told_with_the_compilers_log(tmp_path: Path) -> None:
    file = tmp_path / "broken.cu"
    file.write_text("#include <cstdio>\nint main() { return undefined_name; }\n")
    with pytest.raises(CompileError) as raised:
        run_program([file])
    assert "undefined_name" in raised.value.log


def test_a_main_that_returns_nothing_ends_with_success(tmp_path: Path) -> None:
    file = tmp_path / "silent.cu"
    file.write_text('#include <cstdio>\nint main() { printf("eight c."); }\n')
    ran = run_program([file])
    assert (ran.status, ran.output) == (0, "eight c.")


MIXED = r"""
#include <cmath>
#include <cstdio>
__global__ void power(double* y, float x, double z, int n) {
  y[0] = pow(x, 3.0);
  y[1] = pow(z, x);
  y[2] = pow(n, 2);
  y[3] = fmax(x, 0.1) + fmin(z, x) + fmod(x, 0.3) + atan2(z, x) + hypot(x, z);
}
int main() {
  double host[4], *y;
  cudaMalloc(&y, sizeof host);
  power<<<1, 1>>>(y, 0.7f, 1.5, 3);
  cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
  printf("%.17g %.17g %.17g %.17g\n", host[0], host[1], host[2], host[3]);
}
"""


def test_functions_of_a_float_and_a_double_compute_in_double(tmp_path: Path) -> None:
    """The host's <cmath> has such overloads, of which nvcc knows and NVRTC does not."""
    file = tmp_path / "power.cu"
    file.write_text(MIXED)
    x, z = struct.unpack("f", struct.pack("f", 0.7))[0], 1.5
    last = max(x, 0.1) + min(z, x) + math.fmod(x, 0.3) + math.atan2(z, x) + math.hypot(x, z)
    expected = [x**3.0, z**x, 9.0, last]
    got = [float(text) for text in run_program([file], []).output.split()]
    assert got == pytest.approx(expected, rel=1e-14)


# A tile of packed 4-bit elements comes by a tensor map that the host asks the driver to encode.
TILES = r"""
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#ifndef BYTES
#define BYTES 256
#endif
__global__ void tile(const __grid_constant__ CUtensorMap map, unsigned char* y, int* arch) {
  __shared__ alignas(128) unsigned char held[256];
  __shared__ alignas(8) unsigned long long bar;
  unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(&bar));
  unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(held));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at));
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "n"(BYTES));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(&map), "r"(64), "r"(1), "r"(at) : "memory");
  }
  unsigned done = 0;
  while (!done)
    asm volatile(
        "{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p;}"
        : "=r"(done) : "r"(at) : "memory");
  y[threadIdx.x] = held[threadIdx.x];
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
  if (threadIdx.x == 0) *arch = __CUDA_ARCH__;
#endif
}
typedef CUresult (*Encode)(CUtensorMap*, CUtensorMapDataType, unsigned, void*, const cuuint64_t*,
                           const cuuint64_t*, const cuuint32_t*, const cuuint32_t*,
                           CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                           CUtensorMapFloatOOBfill);
int main() {
  unsigned char host[16 * 64], got[256], *x, *y;
  for (int i = 0; i < 16 * 64; ++i) host[i] = static_cast<unsigned char>(7 * i);
  int *arch, built = 0;
  cudaMalloc(&x, sizeof host); cudaMalloc(&y, sizeof got); cudaMalloc(&arch, 4);
  cudaMemset(arch, 0, 4);
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  void* entry = nullptr;
  cudaDriverEntryPointQueryResult status;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &status);
  if (status != cudaDriverEntryPointSuccess) return 2;
  CUtensorMap map;
  cuuint64_t sizes[2] = {128, 16}, strides[1] = {64};
  cuuint32_t box[2] = {64, 8}, steps[2] = {1, 1}, wide[2] = {512, 8};
  auto encode = [&](cuuint32_t* one) {
    return reinterpret_cast<Encode>(entry)(
        &map, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B, 2, x, sizes, strides, one, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  };
  if (encode(wide) != CUDA_ERROR_INVALID_VALUE || encode(box) != CUDA_SUCCESS) return 3;
  int driver;  // CUTLASS changes the maps that older drivers make
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver <= 13010) return 5;
  const char* text;
  if (cuMemsetD32Async((CUdeviceptr)arch, 0x01020304, 1, nullptr) != CUDA_SUCCESS) return 6;
  cudaMemcpy(&built, arch, 4, cudaMemcpyDeviceToHost);
  if (built != 0x01020304) return 7;
  if (cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text) != CUDA_SUCCESS) return 8;
  if (strcmp(text, "invalid argument")) return 9;
  tile<<<1, 256>>>(map, y, arch);
  if (cudaMemcpy(got, y, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess) return 4;
  cudaMemcpy(&built, arch, 4, cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < 256; ++i) wrong += got[i] != host[64 * (i / 32 + 1) + 32 + i % 32];
  cudaDeviceProp props;
  cudaGetDeviceProperties(&props, 0);
  if (props.multiProcessorCount < 8) return 10;  // room for a cluster
  printf("%d wrong, compiled for %d, runs on %d.%d\n", wrong, built, props.major, props.minor);
  return wrong ? 1 : 0;
}
"""  # noqa: E501


def test_a_program_runs_as_on_another_architecture(tmp_path: Path) -> None:
    file = tmp_path / "tiles.cu"
    file.write_text(TILES)
    right = run_program([file], standard="c++17", arch="sm_100a")
    assert right.output == "0 wrong, compiled for 1000, runs on 10.0\n"
    assert (right.status, right.wrong, right.not_covered) == (0, (), ())
    late = run_program([file], standard="c++17", arch="sm_100a", defines=["BYTES=512"])
    assert [one.kind for one in late.wrong] == [Kind.DEADLOCK]
