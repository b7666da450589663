"""What two blocks do as a pair (cta_group::2): tiles, allocations and addresses."""

from __future__ import annotations

import numpy as np
import pytest

from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Launch, Pointer, TensorMap
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_support.ptx import buffer_of

pytest.importorskip("numba")
# Each block brings a tile of its own; the first block waits for the bytes of both.
_TILES = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 y)
{
.reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<8>;
.shared .align 128 .b8 tile[1024]; .shared .align 8 .b8 bar[8];
ld.param.u64 %rd1, [y]; mov.b64 %rd2, map; cvta.param.u64 %rd2, %rd2;
mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r2, %cluster_ctarank;
setp.eq.u32 %p2, %r2, 0; and.pred %p3, %p1, %p2;
@%p1 mbarrier.init.shared::cta.b64 [bar], 1;
fence.mbarrier_init.release.cluster;
barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;
mov.u32 %r3, bar; mapa.shared::cluster.u32 %r4, %r3, 0; shl.b32 %r5, %r2, 3;
@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;
@%p1 cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.tile.mbarrier::complete_tx::bytes [tile], [%rd2, {0, %r5}], [%r4];
@!%p2 bra both;
wait: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0;
@!%p4 bra wait;
both:
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
shl.b32 %r6, %r1, 2; mov.u32 %r7, tile; add.u32 %r7, %r7, %r6;
shl.b32 %r8, %r2, 8; add.u32 %r8, %r8, %r1; mul.wide.u32 %rd3, %r8, 4; add.u64 %rd3, %rd1, %rd3;
ld.shared.b32 %r9, [%r7]; st.global.b32 [%rd3], %r9;
ret;
}
"""  # noqa: E501


# A warp of each block allocates columns and releases them again.
_COLUMNS = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 y)
{
.reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<8>;
.shared .align 4 .b8 at[4];
ld.param.u64 %rd1, [y]; mov.u32 %r2, %cluster_ctarank; setp.eq.u32 %p1, %r2, 0;
mov.u32 %r3, 64;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [at], %r3;
bar.sync 0; ld.shared.b32 %r4, [at];
mul.wide.u32 %rd3, %r2, 4; add.u64 %rd3, %rd1, %rd3; st.global.b32 [%rd3], %r4;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r4, %r3;
ret;
}
"""


def _run(text: str, schedule: str = "forward") -> tuple[MachineReport, np.ndarray]:
    x = np.arange(512, dtype=np.uint32).reshape(16, 32)
    y = buffer_of(np.zeros(512, np.uint32))
    tensor = TensorMap(
        pointer=Pointer(buffer=buffer_of(x)), element="u32", sizes=(32, 16), strides=(128,),
        box=(32, 8), swizzle=0,
    )  # fmt: skip
    launch = Launch(
        kernel="k", grid=(2, 1, 1), block=(256, 1, 1), cluster=(2, 1, 1),
        arguments=(tensor, Pointer(buffer=y)),
    )  # fmt: skip
    report = run(parse(text), launch, options=Options(arch=100, schedule=schedule))
    return report, y.data.view(np.uint32)


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_one_barrier_counts_the_bytes_of_both_blocks(schedule: str) -> None:
    report, found = _run(_TILES, schedule)
    assert (report.inconclusive, report.wrong) == (None, ())
    np.testing.assert_array_equal(found, np.arange(512))


@pytest.mark.parametrize("spelt", ["cta_group::1.shared::cluster", "shared::cluster"])
def test_without_the_pair_the_barrier_is_in_the_wrong_block(spelt: str) -> None:
    report, _ = _run(_TILES.replace("cta_group::2.shared::cluster", spelt))
    assert Kind.BAD_COPY in {one.kind for one in report.wrong}


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        # tilelang#2644: bytes of every block of the cluster, where a pair's arrive
        ("[bar], 2048;", "[bar], 4096;", Kind.DEADLOCK),
        ("[bar], 2048;", "[bar], 1024;", Kind.RACE),
        # each block expects the bytes of both, at the barrier of the first
        (
            "@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 2048;",
            "@%p1 mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4], 2048;",
            Kind.MBARRIER,
        ),
        # cutlass#3643: nobody keeps the waiting block's phase apart from the next one's
        ("[bar], 0;", "[bar], 1;", Kind.RACE),
    ],
)
def test_what_two_blocks_expect_of_a_barrier_is_what_comes(old: str, new: str, kind: Kind) -> None:
    assert _TILES.count(old) == 1
    report, _ = _run(_TILES.replace(old, new))
    found = {one.kind for one in report.wrong}
    assert kind in found


def test_a_tile_that_nobody_waits_for_is_found() -> None:
    report, _ = _run(_TILES.replace("@!%p2 bra both;", "bra both;"))
    assert Kind.RACE in {one.kind for one in report.wrong}


def test_an_init_that_no_fence_publishes_is_found() -> None:
    report, _ = _run(_TILES.replace("fence.mbarrier_init.release.cluster;", ""))
    assert Kind.RACE in {one.kind for one in report.wrong}
    ordered = _TILES.replace("fence.mbarrier_init.release.cluster;", "").replace(".relaxed", "")
    assert _run(ordered)[0].wrong == ()


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_a_mask_names_the_first_block_of_a_pair(schedule: str) -> None:
    text = _TILES.replace("mapa.shared::cluster.u32 %r4, %r3, 0;", "and.b32 %r4, %r3, -16777217;")
    report, found = _run(text, schedule)
    assert (report.inconclusive, report.wrong) == (None, ())
    np.testing.assert_array_equal(found, np.arange(512))


def _columns(text: str) -> tuple[MachineReport, np.ndarray]:
    y = buffer_of(np.zeros(2, np.uint32))
    launch = Launch(
        kernel="k", grid=(2, 1, 1), block=(32, 1, 1), cluster=(2, 1, 1),
        arguments=(Pointer(buffer=y),),
    )  # fmt: skip
    report = run(parse(text), launch, options=Options(arch=100))
    return report, y.data.view(np.uint32)


def test_a_pair_gets_the_same_columns_in_both_blocks() -> None:
    report, found = _columns(_COLUMNS)
    assert (report.inconclusive, report.wrong) == (None, ())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("put", "said"),
    [
        ("selp.b32 %r3, 64, 128, %p1;\ntcgen05.alloc", "for another number"),
        ("@%p1 tcgen05.alloc", "never allocates"),
    ],
)
def test_an_allocation_of_one_block_of_a_pair_is_found(put: str, said: str) -> None:
    text = _COLUMNS.replace("tcgen05.alloc", put, 1)
    found = [one.text for one in _columns(text)[0].wrong]
    assert any(said in one for one in found), found
