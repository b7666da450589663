"""Launches of compiled extensions on a GPU: each form of launch reaches the PTX machine's checks.

Structures by value, templates with 100 KiB of shared memory, clusters by configuration, and tensor
maps that the library has the driver encode; flags that ask for machine code alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils import cpp_extension

from cuassay.build.cuda import inline_extension
from cuassay.build.machine.replay import execute
from cuassay.build.recording import gpu_memory, now, unwritten
from cuassay.build.recording import ledger as launch_ledger
from cuassay.build.recording.ledger import Ledger
from cuassay.build.recording.recorder import LaunchRecorder, Wish
from cuassay.model.device import CUDA, Device

pytest.importorskip("numba")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]
_FORMS = ("structure", "structure_beyond", "cluster", "tiles", "constant")
_SOURCE = r"""
#include <cuda.h>
#include <cuda_runtime.h>
#include <torch/types.h>
struct P { const float* x; float* y; int n; float a; };
template <int EXTRA> __global__ void by_structure(P p) {
  extern __shared__ float big[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  big[threadIdx.x] = p.a; __syncthreads();
  if (i < p.n + EXTRA) p.y[i] = big[threadIdx.x] * p.x[i];
}
template <int EXTRA> void go_structure(torch::Tensor x, torch::Tensor y) {
  cudaFuncSetAttribute(by_structure<EXTRA>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                       100 << 10);
  P p{x.data_ptr<float>(), y.data_ptr<float>(), (int)x.numel(), 2.f};
  by_structure<EXTRA><<<(x.numel() + 127) / 128, 128, 100 << 10>>>(p);
}
void structure(torch::Tensor x, torch::Tensor y) { go_structure<0>(x, y); }
void structure_beyond(torch::Tensor x, torch::Tensor y) { go_structure<1>(x, y); }
__global__ void in_cluster(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + 1;
}
void cluster(torch::Tensor x, torch::Tensor y) {
  cudaLaunchConfig_t c = {}; c.gridDim = dim3(4); c.blockDim = dim3(64);
  cudaLaunchAttribute a[1]; a[0].id = cudaLaunchAttributeClusterDimension;
  a[0].val.clusterDim.x = 2; a[0].val.clusterDim.y = 1; a[0].val.clusterDim.z = 1;
  c.attrs = a; c.numAttrs = 1;
  const float* px = x.data_ptr<float>(); float* py = y.data_ptr<float>(); int n = x.numel();
  cudaLaunchKernelEx(&c, in_cluster, px, py, n);
}
__constant__ int limit[1];
__global__ void up_to(const float* x, float* y) {
  for (int i = threadIdx.x; i < limit[0]; i += blockDim.x) y[i] = x[i];
}
void constant(torch::Tensor x, torch::Tensor y) {
  const int n = x.numel();
  cudaMemcpyToSymbol(limit, &n, sizeof n);
  up_to<<<1, 64>>>(x.data_ptr<float>(), y.data_ptr<float>());
}
__global__ void tile(const __grid_constant__ CUtensorMap map, float* y) {
  __shared__ alignas(128) float held[8 * 16];
  __shared__ alignas(8) unsigned long long barrier;
  unsigned b = __cvta_generic_to_shared(&barrier), h = __cvta_generic_to_shared(held);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(b));
    asm volatile("fence.proxy.async;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 512;" :: "r"(b));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%0], [%1, {%2, %3}], [%4];"
        :: "r"(h), "l"(&map), "r"((int)blockIdx.x * 16), "r"((int)blockIdx.y * 8), "r"(b)
        : "memory");
  }
  unsigned done = 0;
  while (!done)
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0;"
        " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(b) : "memory");
  for (int i = threadIdx.x; i < 128; i += blockDim.x)
    y[(blockIdx.y * 8 + i / 16) * (gridDim.x * 16) + blockIdx.x * 16 + i % 16] = held[i];
}
void tiles(torch::Tensor x, torch::Tensor y) {
  void* found = nullptr; cudaDriverEntryPointQueryResult how;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault,
                                   &how);
  auto encode = (decltype(&cuTensorMapEncodeTiled))found;
  CUtensorMap map;
  cuuint64_t sizes[] = {(cuuint64_t)x.size(1), (cuuint64_t)x.size(0)};
  cuuint64_t strides[] = {(cuuint64_t)x.size(1) * 4};
  cuuint32_t box[] = {16, 8}, steps[] = {1, 1};
  const CUresult made = encode(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, x.data_ptr(), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  TORCH_CHECK(made == CUDA_SUCCESS);
  tile<<<dim3(x.size(1) / 16, x.size(0) / 8), 32>>>(map, y.data_ptr<float>());
}
"""


@pytest.fixture(scope="module")
def extension(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Ledger]]:
    """Return the extension, and the ledger that knows its library."""
    patch, ledger, folder = pytest.MonkeyPatch(), Ledger(), tmp_path_factory.mktemp("extension")
    patch.setattr(launch_ledger, "LEDGER", ledger)
    patch.setattr(cpp_extension, "load_inline", cpp_extension.load_inline)
    patch.setattr(cpp_extension, "load", cpp_extension.load)
    inline_extension.install(folder, device=Device("cuda:0"))
    made = cpp_extension.load_inline(  # type: ignore[no-untyped-call]
        "forms",
        "".join(f"void {name}(torch::Tensor x, torch::Tensor y);" for name in _FORMS),
        cuda_sources=_SOURCE,
        functions=list(_FORMS),
        extra_cuda_cflags=["-gencode=arch=compute_90a,code=sm_90a"],
    )
    yield made, ledger
    patch.undo()


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability()[0] != 9, reason="needs sm_90"
)
@pytest.mark.parametrize("form", _FORMS)
def test_a_launch_is_recorded_whole_and_executed_bit_by_bit(
    extension: tuple[Any, Ledger], form: str
) -> None:
    functions, ledger = extension
    x = torch.randn(16, 16, device="cuda") if form == "tiles" else torch.randn(250, device="cuda")
    y = torch.zeros(260, device="cuda")[: x.numel()].view_as(x)
    recorder = LaunchRecorder(Wish(pattern=unwritten.new_pattern()), gpu_memory.gpu_memory())
    led = ledger.lead_libraries()
    try:
        with now.recording(recorder, triton=False, device=CUDA):
            getattr(functions, form)(x, y)
    finally:
        ledger.release_libraries(led)
    right = {"cluster": x + 1, "tiles": x, "constant": x}.get(form, 2 * x)
    assert torch.equal(y, right)
    recording = recorder.recording()
    assert not recording.notes
    (launch,) = recording.launches
    assert launch.cluster == ((2, 1, 1) if form == "cluster" else (1, 1, 1))
    (seen,) = execute(recording, {}).launches
    assert not seen.inconclusive
    # One element beyond x: y has room for it, and what it holds is whatever lay there.
    beyond = form == "structure_beyond"
    assert [one.kind for one in seen.faults] == ["out-of-bounds"] * beyond
    assert sum(one.nbytes - one.equal for one in seen.agreement or ()) <= 4 * beyond
    assert seen.agreement or beyond
