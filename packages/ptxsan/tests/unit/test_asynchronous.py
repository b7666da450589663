"""mbarriers, bulk copies and clusters: what they compute, and what is found in faulty kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ptxsan.errors import MachineError
from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.records import prepare
from ptxsan.run import load, run

_HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"
_DECLARED = """
.shared .align 8 .b64 bar; .shared .align 8 .b64 other; .shared .align 128 .b8 buf[1024];
.reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<40>;
ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
setp.ne.u32 %p1, %r1, 0;
"""
_MADE = "@!%p1 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0;\n"
_COPY = (
    _MADE
    + """
@%p1 bra W;
mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 256;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd1], 256, [bar];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra W;
shl.b32 %r10, %r1, 2; mov.u32 %r9, buf; add.u32 %r9, %r9, %r10;
ld.shared.u32 %r3, [%r9]; add.u32 %r3, %r3, 1; st.shared.u32 [%r9], %r3;
fence.proxy.async.shared::cta;
bar.sync 0;
@%p1 bra E;
cp.async.bulk.global.shared::cta.bulk_group [%rd2], [buf], 256;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
E:
"""
)
_ONE = "ld.global.u32 %r9, [%rd1]; @%p1 exit;\n"


def execute(
    body: str, *, grid: int = 1, cluster: int = 1, schedule: str = "forward"
) -> tuple[MachineReport, NDArray[np.uint32]]:
    """Run a kernel `k(u32* a, u32* b)` of 64 threads; return the report and what b holds."""
    text = f"{_HEAD}.visible .entry k(.param .u64 a, .param .u64 b)\n{{{_DECLARED}{body}\nret;\n}}"
    a, b = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    buffers = [Buffer(name=name, data=one.view(np.uint8)) for name, one in (("a", a), ("b", b))]
    launch = Launch(
        kernel="k", grid=(grid, 1, 1), block=(64, 1, 1), cluster=(cluster, 1, 1),
        arguments=tuple(Pointer(buffer=one) for one in buffers),
    )  # fmt: skip
    return run(parse(text), launch, options=Options(schedule=schedule)), b


def found(body: str, **options: int) -> dict[Kind, str]:
    """Return the kinds found, each with its first text."""
    report, _ = execute(body, **options)  # type: ignore[arg-type]
    assert report.inconclusive is None, report.inconclusive
    kinds: dict[Kind, str] = {}
    for one in report.findings:
        kinds.setdefault(one.kind, one.text)
    return kinds


@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_bulk_copies_in_and_out_are_right_and_clean(schedule: str) -> None:
    report, b = execute(_COPY, schedule=schedule)
    assert report.findings == ()
    assert b[:64].tolist() == list(range(1, 65))


def test_copies_have_shadows_to_move_where_none_were_asked_for() -> None:
    """They move them anyway: a buffer without room for them would be overrun."""
    text = f"{_HEAD}.visible .entry k(.param .u64 a, .param .u64 b)\n{{{_DECLARED}{_COPY}\nret;\n}}"
    module, options = parse(text), Options(shadow=False, races=False)
    buffers = [Buffer(name=name, data=np.zeros(1 << 16, np.uint8)) for name in "ab"]
    launch = Launch(
        kernel="k", grid=(1, 1, 1), block=(64, 1, 1),
        arguments=tuple(Pointer(buffer=one) for one in buffers),
    )  # fmt: skip
    loaded = load(module, "k", options)
    state = prepare(loaded.program, loaded.code, launch, options, {})
    assert all(2 * one.shadow.size >= one.data.size for one in state.allocations)
    assert run(module, launch, options=options).findings == ()


def test_a_pipeline_of_many_stages_has_all_its_arrivals_under_way() -> None:
    """CUTLASS's low-latency GEMM has 12 stages of 128 threads; here they are 20 of 64."""
    arrive = "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];\n"
    report, b = execute(f"""@!%p1 mbarrier.init.shared::cta.b64 [bar], {20 * 64}; bar.sync 0;
shl.b32 %r10, %r1, 2; mov.u32 %r9, buf; add.u32 %r9, %r9, %r10;
cp.async.ca.shared.global [%r9], [%rd4], 4;
{20 * arrive}
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra W;
xor.b32 %r10, %r10, 252; mov.u32 %r9, buf; add.u32 %r9, %r9, %r10;
ld.shared.u32 %r3, [%r9]; st.global.u32 [%rd5], %r3;""")
    assert (report.inconclusive, report.findings) == (None, ())
    assert b[:64].tolist() == list(range(63, -1, -1))


# Two warps copy to the same 128 bytes, by one instruction.
_TWICE = """
and.b32 %r9, %r1, 31; shl.b32 %r9, %r9, 2; mov.u32 %r10, buf; add.u32 %r10, %r10, %r9;
SOURCE
cp.async.ca.shared.global [%r10], [%rd6], 4, %r11;
BETWEEN
cp.async.wait_all; bar.sync 0;
ld.shared.u32 %r3, [%r10]; st.global.u32 [%rd5], %r3;
"""
_THE_SAME = "cvt.u64.u32 %rd6, %r9; add.s64 %rd6, %rd1, %rd6; mov.u32 %r11, 4;"
_OTHERS = "mov.u64 %rd6, %rd4; mov.u32 %r11, 4;"  # each thread's own word
_ZEROS = "mov.u64 %rd6, %rd4; mov.u32 %r11, 0;"


@pytest.mark.parametrize("between", ["", "bar.sync 0;"])
@pytest.mark.parametrize("schedule", ["forward", "reverse"])
def test_copies_of_the_same_bytes_to_one_place_are_a_note(between: str, schedule: str) -> None:
    for source in (_THE_SAME, _ZEROS):
        body = _TWICE.replace("SOURCE", source).replace("BETWEEN", between)
        report, b = execute(body, schedule=schedule)
        assert report.wrong == ()
        assert {one.kind for one in report.findings} == {Kind.SAME_VALUE_RACE}
        expected = [0] * 64 if source == _ZEROS else [*range(32), *range(32)]
        assert b[:64].tolist() == expected


@pytest.mark.parametrize("between", ["", "bar.sync 0;"])
@pytest.mark.parametrize("schedule", ["forward", "reverse"])
def test_copies_of_other_bytes_to_one_place_race(between: str, schedule: str) -> None:
    body = _TWICE.replace("SOURCE", _OTHERS).replace("BETWEEN", between)
    report, _ = execute(body, schedule=schedule)
    assert {one.kind for one in report.wrong} == {Kind.RACE}


@pytest.mark.parametrize(("given", "wrong"), [(3, set()), (0, {Kind.RACE})])
def test_zeros_that_fill_a_copy_count_as_its_bytes(given: int, wrong: set[Kind]) -> None:
    """Three threads copy fewer bytes of a small number, whose last byte is zero anyway."""
    short = f"setp.gt.u32 %p2, %r1, 60; selp.u32 %r11, {given}, 4, %p2;"
    body = _TWICE.replace("SOURCE", _THE_SAME + short).replace("BETWEEN", "")
    report, _ = execute(body.replace("[%rd6]", "[%rd6+256]"))
    assert {one.kind for one in report.wrong} == wrong


def test_a_store_where_a_copy_is_under_way_is_an_error_whatever_its_value() -> None:
    store = "bar.sync 0; ld.global.u32 %r12, [%rd6]; st.shared.u32 [%r10], %r12; bar.sync 0;"
    body = _TWICE.replace("SOURCE", _THE_SAME).replace("BETWEEN", store)
    report, _ = execute("setp.gt.u32 %p3, %r1, 31; @%p3 exit;" + body)
    assert {one.kind for one in report.wrong} == {Kind.RACE}


def test_bytes_that_never_come_are_named() -> None:
    text = found(_COPY.replace("_, [bar], 256", "_, [bar], 272"))[Kind.DEADLOCK]
    assert (
        "waits for phase 0 of the mbarrier at shared variable 'bar'+0: 16 bytes are missing" in text
    )


def test_bytes_that_were_not_expected_are_named() -> None:
    text = found(_COPY.replace("_, [bar], 256", "_, [bar], 240"))[Kind.DEADLOCK]
    assert "16 bytes came that were not expected" in text


def test_missing_arrivals_are_named() -> None:
    text = found(_COPY.replace("[bar], 1;", "[bar], 3;"))[Kind.DEADLOCK]
    assert "2 arrivals are missing" in text


def test_reading_before_the_wait_is_a_race_with_the_copy() -> None:
    early = _COPY.replace("W: mb", "ld.shared.u32 %r3, [buf];\nW: mb")
    text = found(early)[Kind.RACE]
    assert "asynchronous copy" in text
    assert "still writes" in text


def test_one_thread_that_does_not_wait_races() -> None:
    skips = _COPY.replace("W: mb", "W: setp.eq.u32 %p3, %r1, 5; @%p3 bra X;\nV: mb")
    skips = skips.replace("@!%p2 bra W;", "@!%p2 bra V;\nX:")
    assert "thread (5, 0, 0)" in found(skips)[Kind.RACE]


def test_overwriting_the_source_of_a_store_is_found() -> None:
    late = "cp.async.bulk.wait_group.read 0;"
    text = found(_COPY.replace(late, f"st.shared.u32 [buf], 0; {late}"))[Kind.RACE]
    assert "still reads" in text


def test_a_missing_proxy_fence_is_a_finding_of_its_own() -> None:
    fence = "fence.proxy.async.shared::cta;\n"
    assert Kind.PROXY_FENCE in found(_COPY.replace(fence, ""))
    before = _COPY.replace(fence, "").replace("W: mb", f"{fence}W: mb")
    assert Kind.PROXY_FENCE in found(before)


_HANDED_OVER = """
@!%p1 mbarrier.init.shared::cta.b64 [bar], 63; bar.sync 0;
@!%p1 bra I;
BEFORE
mov.u32 %r9, buf; shl.b32 %r10, %r1, 2; add.u32 %r9, %r9, %r10; st.shared.u32 [%r9], %r1;
fence.proxy.async.shared::cta;
mbarrier.arrive.shared::cta.b64 _, [bar];
BEHIND
bra E;
I: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra I;
cp.async.bulk.global.shared::cta.bulk_group [%rd2+16], [buf+16], 240;
cp.async.bulk.commit_group;
cp.async.bulk.wait_group.read 0;
E:
"""


@pytest.mark.parametrize("fences", [0, 1, 8])
@pytest.mark.parametrize("schedule", ["forward", "reverse", "random"])
def test_a_proxy_fence_behind_the_arrival_is_none(schedule: str, fences: int) -> None:
    """The copy may begin between the two; fences of the writer before and behind change nothing."""
    fence = "fence.proxy.async.shared::cta;\n"
    around = _HANDED_OVER.replace("BEFORE", fence * fences).replace("BEHIND", fence * fences)
    report, b = execute(around, schedule=schedule)
    assert report.findings == ()
    assert b[4:64].tolist() == list(range(4, 64))
    arrive = "mbarrier.arrive.shared::cta.b64 _, [bar];\n"
    late = _HANDED_OVER.replace(fence + arrive, arrive + fence)
    late = late.replace("BEFORE", fence * fences).replace("BEHIND", "")
    report, _ = execute(late, schedule=schedule)
    assert [one.kind for one in report.findings] == [Kind.PROXY_FENCE]


def test_a_proxy_fence_of_the_issuing_thread_is_enough() -> None:
    fence = "fence.proxy.async.shared::cta;\n"
    assert found(_COPY.replace(fence, "").replace("@%p1 bra E;", f"@%p1 bra E; {fence}")) == {}


def test_a_copy_that_nobody_waits_for_outlives_its_block() -> None:
    left = _MADE + "@%p1 exit;\n" + _COPY.split("@%p1 bra W;")[1].split("W: mb")[0]
    assert "the block ends while" in found(left)[Kind.EXITED_SHARED]


def test_shapes_of_bulk_copies_are_checked() -> None:
    assert Kind.BAD_COPY in found(_COPY.replace("256, [bar]", "24, [bar]"))
    assert Kind.OUT_OF_BOUNDS in found(_COPY.replace("256, [bar]", "2048, [bar]"))


def test_reductions_add_to_what_is_there() -> None:
    reduce = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"
    body = _COPY.replace("cp.async.bulk.global.shared::cta.bulk_group", reduce)
    body = body.replace(".read 0", " 0")
    report, b = execute(body, grid=3)
    assert report.findings == ()
    assert b[:64].tolist() == [3 * one for one in range(1, 65)]


# ---- the object


def test_state_counts_and_drops() -> None:
    body = (
        _ONE
        + """
    mbarrier.init.shared::cta.b64 [bar], 5;
    mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd9, [bar], 2;
    mbarrier.arrive_drop.shared::cta.b64 %rd10, [bar];
    mbarrier.pending_count.b64 %r3, %rd9;
    mbarrier.pending_count.b64 %r4, %rd10;
    mbarrier.arrive.shared::cta.b64 %rd11, [bar], 2;
    mbarrier.test_wait.shared::cta.b64 %p2, [bar], %rd11;
    selp.u32 %r5, 1, 0, %p2;
    mbarrier.arrive.shared::cta.b64 %rd12, [bar];
    mbarrier.pending_count.b64 %r6, %rd12;
    mbarrier.test_wait.shared::cta.b64 %p3, [bar], %rd12;
    selp.u32 %r7, 1, 0, %p3;
    st.global.v4.u32 [%rd2], {%r3, %r4, %r5, %r6};
    st.global.u32 [%rd2+16], %r7;
    """
    )
    report, b = execute(body)
    assert report.findings == ()
    assert b[:5].tolist() == [5, 3, 1, 4, 0]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [bar];", "no mbarrier is initialised"),
        ("mbarrier.init.shared::cta.b64 [bar], 1;"
         "mbarrier.init.shared::cta.b64 [bar], 1;", "again"),
        ("mbarrier.init.shared::cta.b64 [bar], 1; st.shared.u32 [bar], 0;", "like ordinary memory"),
        ("mbarrier.init.shared::cta.b64 [bar], 1;"
         "mbarrier.arrive.shared::cta.b64 _, [bar], 2;", "2 arrivals"),
        ("mbarrier.init.shared::cta.b64 [bar], 0;", "0 arrivals"),
        ("mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.inval.shared::cta.b64 [bar];"
         "mbarrier.arrive.shared::cta.b64 _, [bar];", "no mbarrier"),
        ("mbarrier.init.shared::cta.b64 [bar], 1;"
         "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1048575;"
         "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 1;", "expects 1048576 bytes"),
        ("mbarrier.init.shared::cta.b64 [bar], 1;"
         "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd9, [bar], 1;", ".noComplete"),
    ],
)  # fmt: skip
def test_misuse_of_an_mbarrier_is_found(body: str, words: str) -> None:
    kinds = found(_ONE + body)
    assert set(kinds) == {Kind.MBARRIER}
    assert words in kinds[Kind.MBARRIER]


def test_memory_of_an_invalidated_mbarrier_may_be_used() -> None:
    body = "mbarrier.init.shared::cta.b64 [bar], 1; mbarrier.inval.shared::cta.b64 [bar];"
    assert found(f"{_ONE}{body} st.shared.u64 [bar], 0;") == {}


def test_a_wait_that_times_out_lets_a_polling_thread_go_on() -> None:
    """One thread asks two barriers in turn; only the second one ever completes before the first."""
    body = (
        "@!%p1 mbarrier.init.shared::cta.b64 [bar], 1;"
        + """
    @!%p1 mbarrier.init.shared::cta.b64 [other], 1; bar.sync 0;
    setp.gt.u32 %p4, %r1, 1; @%p4 exit;
    @%p1 bra SECOND;
    FIRST: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [other], 0;
    @!%p3 bra FIRST;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    exit;
    SECOND: mbarrier.arrive.shared::cta.b64 _, [other];
    S: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra S;
    """
    )
    assert found(body) == {}


# ---- clusters

_REMOTE = """
.shared .align 4 .b32 cell;
mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1;
mov.u32 %r4, cell; mapa.shared::cluster.u32 %r5, %r4, %r3;
@!%p1 st.shared.u32 [cell], %r2;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
@!%p1 ld.shared::cluster.u32 %r6, [%r5];
mov.u32 %r7, %ctaid.x; mul.wide.u32 %rd6, %r7, 4; add.s64 %rd7, %rd2, %rd6;
@!%p1 st.global.u32 [%rd7], %r6;
barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
"""


def test_blocks_of_a_cluster_read_each_others_memory() -> None:
    report, b = execute(_REMOTE, grid=4, cluster=2)
    assert report.findings == ()
    assert b[:4].tolist() == [1, 0, 1, 0]


def test_a_cluster_may_have_16_blocks() -> None:
    """The window of the last one's shared memory begins at 2^31: no negative address."""
    report, b = execute(_REMOTE.replace("%r2, 1;", "%r2, 15;"), grid=16, cluster=16)
    assert report.findings == ()
    assert b[:16].tolist() == list(range(15, -1, -1))


def test_a_launch_without_clusters_has_clusters_of_one_block() -> None:
    own = _REMOTE.replace("xor.b32 %r3, %r2, 1;", "mov.u32 %r3, %r2;")
    report, b = execute(own, grid=2)
    assert report.findings == ()
    assert b[:2].tolist() == [0, 0]
    assert Kind.OUT_OF_BOUNDS in found(_REMOTE, grid=2)  # of a block that the cluster has not


def test_a_missing_cluster_barrier_races() -> None:
    barrier = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    assert Kind.RACE in found(_REMOTE.replace(barrier, "bar.sync 0;", 1), grid=2, cluster=2)


@pytest.mark.parametrize("schedule", ["forward", "reverse"])
def test_a_block_that_may_end_before_it_is_read_is_found(schedule: str) -> None:
    barrier = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n"
    head, _, tail = _REMOTE.rpartition(barrier)
    report, _ = execute(head + tail, grid=2, cluster=2, schedule=schedule)
    assert Kind.EXITED_SHARED in {one.kind for one in report.findings}


# Thread 32 waits for an mbarrier, the cluster meets without a release, thread 0 ends the object.
_ENDED = """
@!%p1 mbarrier.init.shared::cta.b64 [bar], 1; bar.sync 0;
@!%p1 mbarrier.arrive.shared::cta.b64 _, [bar];
setp.ne.u32 %p4, %r1, 32;
{before}
@%p4 bra MET;
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
@!%p2 bra W;
MET:
{behind}
@!%p1 mbarrier.inval.shared::cta.b64 [bar];
"""
_ARRIVE = "barrier.cluster.arrive.relaxed.aligned;"
_WAIT = "barrier.cluster.wait.aligned;"


def test_a_wait_before_a_relaxed_barrier_of_the_cluster_has_ended() -> None:
    body = _ENDED.format(before="", behind=f"bar.warp.sync -1; {_ARRIVE} {_WAIT}")
    assert found(body, grid=2, cluster=2) == {}


@pytest.mark.parametrize("before", ["", _ARRIVE])
def test_a_wait_that_no_arrival_stands_behind_races_with_the_end(before: str) -> None:
    behind = f"bar.warp.sync -1; {_WAIT}" if before else ""
    body = _ENDED.format(before=before, behind=behind)
    assert Kind.RACE in found(body, grid=2, cluster=2)


def test_ranks_beyond_the_cluster_are_out_of_bounds() -> None:
    far = _REMOTE.replace("xor.b32 %r3, %r2, 1", "add.u32 %r3, %r2, 5")
    assert Kind.OUT_OF_BOUNDS in found(far, grid=2, cluster=2)


def test_a_wait_without_an_arrival_is_found() -> None:
    body = "barrier.cluster.wait.aligned;"
    assert "without having arrived" in found(body, grid=2, cluster=2)[Kind.DIVERGENT_BARRIER]


def test_a_grid_that_no_cluster_divides_is_refused() -> None:
    with pytest.raises(MachineError, match="no multiple of the cluster"):
        execute(_REMOTE, grid=3, cluster=2)


@pytest.mark.parametrize(
    "instruction",
    [
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [buf], %r1, [bar];",
        "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32"
        " [buf], %r1, [bar];",
    ],
)
def test_an_asynchronous_store_needs_its_mbarrier(instruction: str) -> None:
    assert Kind.MBARRIER in found(instruction)


@pytest.mark.parametrize(
    ("instruction", "words"),
    [
        ("st.async.mmio.release.sys.global.u32 [%rd1], %r1;", "completes on no mbarrier"),
        (
            "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.min.u64"
            " [buf], %rd1, [bar];",
            "no architecture has",
        ),
    ],
)
def test_what_is_not_modelled_is_inconclusive_with_its_line(instruction: str, words: str) -> None:
    report, _ = execute(instruction)
    assert report.inconclusive is not None
    assert words in report.inconclusive


# One thread copies 16 bytes; the first threads of both warps look at them, or write them.
_PENDING = """
.reg .pred %q<2>; and.b32 %r20, %r1, 31; setp.ne.u32 %q0, %r20, 0; setp.ne.u32 %q1, %r1, 32;
@!%p1 cp.async.ca.shared.global [buf], [%rd1], 16;
"""
_ARRIVED = "cp.async.wait_all;"
_TOUCHED = {
    "another copy": "@!%p1 cp.async.ca.shared.global [buf], [%rd2], 16;",
    "a store of its own": "@!%p1 st.shared.u32 [buf+4], 7;",
    "a load of its own": "@!%p1 ld.shared.u32 %r21, [buf+4];",
    "a load of another warp": "bar.sync 0; @!%q1 ld.shared.u32 %r21, [buf+4]; bar.sync 0;",
    "loads of two warps": "bar.sync 0; @!%q0 ld.shared.u32 %r21, [buf+4]; bar.sync 0;",
    "a store of another warp": "bar.sync 0; @!%q1 st.shared.u32 [buf+4], 7; bar.sync 0;",
}


@pytest.mark.parametrize("wait", ["", _ARRIVED], ids=["no wait", "late wait"])
@pytest.mark.parametrize("touched", _TOUCHED)
def test_bytes_of_a_copy_that_nobody_waited_for_are_touched(touched: str, wait: str) -> None:
    assert "that an asynchronous copy" in found(_PENDING + _TOUCHED[touched] + wait)[Kind.RACE]
    assert not found(_PENDING + _ARRIVED + _TOUCHED[touched] + wait)


def test_a_copy_that_nobody_reads_may_still_be_under_way_at_the_end() -> None:
    assert not found(_PENDING)


def test_one_thread_has_hundreds_of_copies_under_way() -> None:
    lines = [
        f"@!%p1 cp.async.ca.shared.global [buf+{4 * one}], [%rd1+{4 * one}], 4;"
        for one in range(256)
    ]
    read = "bar.sync 0; ld.shared.u32 %r3, [buf+1020]; @!%p1 st.global.u32 [%rd2], %r3;"
    report, b = execute("\n".join((*lines, _ARRIVED, read)))
    assert report.inconclusive is None
    assert not report.findings
    assert b[0] == 255
