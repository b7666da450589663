"""Declared tensor maps: one declaration for the driver and for the PTX machine."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from cuassay.build.cuda.nvrtc import find_nvrtc
from cuassay.build.cuda.tile_maps import encoded, hardware_map, machine_bytes
from cuassay.build.machine import candidates as machine
from cuassay.errors import BuildError
from cuassay.model.candidate import Candidate, Language, Launch, PixelColumns, TileMap
from ptxsan.launch import Columns
from ptxsan_corpus.hardware_maps import ADDRESS, WRITTEN, hardware_bytes
from ptxsan_corpus.hopper_words import WORDS
from tests.support.builds import candidate, problem

SOURCE = (
    WORDS
    + """
extern "C" __global__ void scale(
    const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap y, float factor) {
    __shared__ alignas(128) float s[32];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) { bar_init(&bar, 1); init_fence(); }
    __syncthreads();
    if (t == 0) { bar_expect(&bar, sizeof(s)); tile_load(s, &x, 0, 4 * blockIdx.x, &bar); }
    bar_wait(&bar, 0);
    s[t] *= factor;
    proxy_fence();
    __syncthreads();
    if (t == 0) { tile_store(&y, 0, 4 * blockIdx.x, s); bulk_commit(); bulk_wait_read<0>(); }
}
"""
)
MAPS = tuple(TileMap(name=f"{name}_tiles", tensor=name, box=("4", "hidden")) for name in "xy")
LAUNCH = Launch(
    kernel="scale", grid=("-(-rows // 4)", "1", "1"), block=("32", "1", "1"),
    arguments=("x_tiles", "y_tiles", "factor"),
)  # fmt: skip


def declared(**changes: object) -> Candidate:
    """Return the candidate with its launch."""
    base = candidate(SOURCE, paths=("k.cu",), language=Language.CUDA_KERNEL)
    fields: dict[str, object] = {"launches": (LAUNCH,), "tile_maps": MAPS, **changes}
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


@pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
def test_a_declared_tensor_map_runs_in_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    call = machine.load_kernels(declared(), problem(), folder=tmp_path)
    x = torch.arange(56.0).reshape(7, 8)
    y = call(x, 3.0)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y, 3 * x)


COLUMNS = PixelColumns(lower=("-1",), upper=("0",), channels="hidden", pixels="4", strides=("2",))


@pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
def test_declared_columns_run_in_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("numba")
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))
    copy = (
        'asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col'
        '.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5], {%6};"'
        ' :: "r"(at(s)), "l"(&x), "r"(0), "r"(-1), "r"(0), "r"(at(&bar)), "h"((unsigned short)1)'
        ' : "memory");'
    )
    source = SOURCE.replace("tile_load(s, &x, 0, 4 * blockIdx.x, &bar);", copy)
    maps = (TileMap(name="x_tiles", tensor="x", columns=COLUMNS, shape=("1", "rows", "hidden")),)
    base = declared(
        tile_maps=(*maps, MAPS[1]), launches=(dataclasses.replace(LAUNCH, grid=("1",) * 3),)
    )
    sources = tuple(dataclasses.replace(one, text=source) for one in base.sources)
    call = machine.load_kernels(
        dataclasses.replace(base, sources=sources), problem(), folder=tmp_path
    )
    x = torch.arange(56.0).reshape(7, 8)
    y = call(x, 3.0)
    assert isinstance(y, torch.Tensor)
    assert torch.equal(y[:4], 3 * x[[0, 2, 4, 6]])  # from -1 by steps of 2, one further on


def test_columns_are_turned_for_the_driver() -> None:
    spec = TileMap(name="t", tensor="x", columns=dataclasses.replace(
        COLUMNS, lower=("-1", "-rows"), upper=("0", "2 - rows"), strides=("1", "2")))  # fmt: skip
    one = encoded(spec, torch.zeros(2, 5, 6, 8), {"rows": 4, "hidden": 8})
    assert (one.sizes, one.box, one.steps) == ((8, 6, 5, 2), (), (1, 2, 1, 1))
    assert one.columns == Columns(lower=(-4, -1), upper=(-2, 0), channels=8, pixels=4)
    with pytest.raises(BuildError, match="columns of 4 dimensions over a tensor of 2"):
        encoded(spec, torch.zeros(5, 8), {"rows": 4, "hidden": 8})
    with pytest.raises(BuildError, match=r"1 to 1024 pixels, as cuTensorMapEncodeIm2col demands"):
        machine_bytes(dataclasses.replace(one, columns=dataclasses.replace(one.columns, pixels=0)))


def test_shapes_and_dtypes_follow_the_tensor() -> None:
    spec = TileMap(name="t", tensor="x", box=("2", "rows"), shape=("rows", "4", "16"))
    with pytest.raises(BuildError, match="box of 2 dimensions over a tensor of 3"):
        encoded(spec, torch.zeros(8, 8), {"rows": 4})
    whole = dataclasses.replace(spec, box=("1", "2", "rows"))
    one = encoded(whole, torch.zeros(256, dtype=torch.bfloat16), {"rows": 4})
    assert (one.element, one.sizes, one.strides) == ("bf16", (16, 4, 4), (32, 128))
    assert one.box == (4, 2, 1)
    with pytest.raises(BuildError, match="complex64, which TMA does not know"):
        encoded(whole, torch.zeros(8, dtype=torch.complex64), {"rows": 4})


def test_what_hardware_refuses_is_said_before_the_launch() -> None:
    one = encoded(MAPS[0], torch.zeros(4, 7), {"hidden": 7})
    with pytest.raises(BuildError, match=r"multiples of 16 bytes.*as cuTensorMapEncodeTiled"):
        machine_bytes(one)


@pytest.mark.parametrize(("flags", "strides", "sizes", "box", "element", "swizzle"), WRITTEN)
def test_a_tensor_map_of_hardware_is_read(
    flags: int, strides: tuple[int, ...], sizes: tuple[int, ...], box: tuple[int, ...],
    element: str, swizzle: int,
) -> None:  # fmt: skip
    found = hardware_map(hardware_bytes(flags, strides, sizes, box))
    assert found is not None
    rank = len(box)
    assert (found.address, found.element, found.swizzle) == (ADDRESS, element, swizzle)
    assert found.sizes == tuple(one + 1 for one in sizes[:rank])
    assert found.box == tuple(one + 1 for one in box)
    assert found.strides == tuple(16 * one for one in strides[: rank - 1])
    assert len(machine_bytes(found)) == 128


@pytest.mark.parametrize(
    "raw",
    [
        bytes(128),
        bytes(64),
        hardware_bytes(0x46612, (32, 0), (255, 39, 0), (127, 7)),  # a number that nothing wrote
        hardware_bytes(0x46312 | 1 << 11, (32, 0), (255, 39, 0), (63, 7)),  # interleaved
        hardware_bytes(0x46312 | 1 << 16, (32, 0), (255, 39, 0), (63, 7)),  # f16 that becomes tf32
    ],
)
def test_what_is_no_tensor_map_or_another_one_is_not_read(raw: bytes) -> None:
    assert hardware_map(raw) is None
