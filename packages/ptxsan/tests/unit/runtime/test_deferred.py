"""Updates of global memory that nobody reads: carried out in the blocks' order by any workers."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.findings import Kind, MachineReport
from ptxsan.interplay import Interplay, interplay
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan.run import run

_BLOCK, _GRID = 64, 24
_KERNEL = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_0, .param .u64 k_1, .param .u64 k_2)
{
.reg .b32 %r<20>; .reg .f32 %f<8>; .reg .b64 %rd<12>; .reg .pred %p<4>; .reg .b16 %h<4>;
ld.param.u64 %rd1, [k_0]; ld.param.u64 %rd2, [k_1]; ld.param.u64 %rd9, [k_2];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
mad.lo.s32 %r5, %r2, %r3, %r4; mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3;
add.s64 %rd6, %rd9, %rd3; mul.wide.u32 %rd7, %r4, 4; add.s64 %rd5, %rd2, %rd7;
ld.global.f32 %f1, [%rd4];
BODY
ret;
}
"""
_SUM = "red.global.add.f32 [%rd5], %f1;"


def _run(
    body: str, *, workers: int, schedule: str = "forward", fresh: bool = False, shadow: bool = True
) -> tuple[MachineReport, NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """Run `k(x, y, z)`, x and z with an element a thread, y with one a thread of a block."""
    x = np.random.default_rng(0).standard_normal(_BLOCK * _GRID).astype(np.float32) * 1e3
    y, z = np.zeros(_BLOCK, np.float32), np.zeros(_BLOCK * _GRID, np.float32)
    flags = np.zeros(y.nbytes, np.bool_) if fresh else None
    launch = Launch(
        kernel="k", grid=(_GRID, 1, 1), block=(_BLOCK, 1, 1),
        arguments=(
            Pointer(buffer=Buffer(name="x", data=x.view(np.uint8))),
            Pointer(buffer=Buffer(name="y", data=y.view(np.uint8), initialised=flags)),
            Pointer(buffer=Buffer(name="z", data=z.view(np.uint8))),
        ),
    )  # fmt: skip
    chosen = Options(workers=workers, schedule=schedule, shadow=shadow)
    return run(parse(_KERNEL.replace("BODY", body)), launch, options=chosen), x, y, z


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("schedule", ["forward", "reverse"])
@pytest.mark.parametrize("body", [_SUM, "atom.global.add.f32 %f2, [%rd5], %f1;"])
def test_sums_have_the_order_of_the_blocks(workers: int, schedule: str, body: str) -> None:
    report, x, y, _ = _run(body, workers=workers, schedule=schedule)
    wanted = np.zeros(_BLOCK, np.float32)
    for row in x.reshape(_GRID, _BLOCK)[:: 1 if schedule == "forward" else -1]:
        wanted += row
    assert report.findings == ()
    assert y.tobytes() == wanted.tobytes()
    assert report.statistics.lane_instructions > _GRID * _BLOCK


@pytest.mark.parametrize("workers", [1, 2])
def test_more_updates_than_a_table_holds(workers: int) -> None:
    body = """
    mov.u32 %r6, 0;
    again: red.global.add.f32 [%rd2], %f1;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 160; @%p1 bra again;
    """
    report, x, y, _ = _run(body, workers=workers, shadow=False)
    total = np.float32(0)
    for one in np.repeat(x, 160):
        total += one
    assert report.findings == ()
    assert y[0] == total


@pytest.mark.parametrize("workers", [1, 2])
def test_who_looks_at_an_update_of_its_own_sees_it(workers: int) -> None:
    body = (
        "red.global.add.f32 [%rd6], %f1; red.global.add.f32 [%rd6], %f1; bar.sync 0;"
        "ld.global.f32 %f2, [%rd6]; st.global.f32 [%rd4], %f2;"
    )
    report, x, _, z = _run(body, workers=workers)
    assert [one for one in report.findings if one.severity == "wrong"] == []
    assert z.any()
    assert x.tobytes() == z.tobytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_who_looks_at_updates_of_other_blocks_races(workers: int) -> None:
    body = _SUM + "ld.global.f32 %f2, [%rd5]; st.global.f32 [%rd6], %f2;"
    report, x, _, z = _run(body, workers=workers)
    assert [one.kind for one in report.wrong] == [Kind.RACE]
    sums = np.cumsum(x.reshape(_GRID, _BLOCK), axis=0, dtype=np.float32)
    assert z.tobytes() == sums.tobytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_update_of_what_nobody_wrote_is_found(workers: int) -> None:
    report, *_ = _run(_SUM, workers=workers, fresh=True)
    assert [one.kind for one in report.wrong] == [Kind.UNINITIALISED]
    assert report.wrong[0].accesses[0].thread[0] < _BLOCK


def test_shadows_of_updates_do_not_depend_on_the_workers() -> None:
    body = "cvt.rn.bf16.f32 %h1, %f1; red.global.add.noftz.bf16 [%rd2], %h1;"
    one, two = (_run(body, workers=workers)[0] for workers in (1, 2))
    assert one.sites
    for first, second in zip(one.sites, two.sites, strict=True):
        assert (first.count, first.largest) == (second.count, second.largest)
        assert first.error == pytest.approx(second.error, rel=1e-12)
    assert [x.kind for x in one.findings] == [x.kind for x in two.findings]


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("st.global.f32 [%rd6], %f1;", Interplay.APART),
        ("atom.shared.add.u32 %r6, [64], 1; st.global.u32 [%rd6], %r6;", Interplay.APART),
        (_SUM, Interplay.UPDATES),
        ("atom.add.f32 %f2, [%rd5], %f1;", Interplay.UPDATES),
        ("red.global.add.v4.f32 [%rd5], {%f1, %f1, %f1, %f1};", Interplay.UPDATES),
        ("atom.global.add.f32 %f2, [%rd5], %f1; st.global.f32 [%rd6], %f2;", Interplay.ANY),
        ("atom.global.cas.b32 %r6, [%rd5], 0, 1;", Interplay.ANY),
        (_SUM + "ld.volatile.global.f32 %f2, [%rd5];", Interplay.ANY),
        (_SUM + "st.release.gpu.global.f32 [%rd6], %f1;", Interplay.ANY),
        (
            "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [64], 16;",
            Interplay.ANY,
        ),
    ],
)
def test_what_blocks_see_of_each_other(body: str, found: Interplay) -> None:
    program = build(parse(_KERNEL.replace("BODY", body)), "k")
    assert interplay(program) is found


def test_releases_that_say_the_same_are_kept_once() -> None:
    """More releases than the log has room for, of which each block adds one thing."""
    body = """
    bar.sync 0;
    mov.u32 %r6, 0;
    again: red.global.add.f32 [%rd5], %f1;
    add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 1600; @%p1 bra again;
    bar.sync 0;
    setp.ne.u32 %p2, %r4, 0;
    @%p2 exit;
    atom.global.add.u32 %r7, [%rd9], 1;
    setp.gt.u32 %p1, %r7, 1000; @%p1 trap;
    """
    report, *_ = _run(body, workers=2, shadow=False)
    assert report.inconclusive is None
    assert report.findings == ()
