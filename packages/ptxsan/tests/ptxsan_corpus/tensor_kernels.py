"""Kernels with tensor memory in PTX, right ones, whose text planted faults change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxsan.findings import Kind, MachineReport
from ptxsan.launch import Argument, Buffer, Launch, Pointer
from ptxsan.options import Options
from ptxsan.parser import parse
from ptxsan.run import run
from ptxsan_support.ptx import buffer_of

ROWS, COLUMNS, DEPTH = 128, 64, 16
# M = 128, N = 64, f16 factors, f32 sums (PTX ISA, instruction descriptor of kind f16).
DESCRIBED = 8 << 24 | 8 << 17 | 1 << 4
_PLAIN = 1 << 46 | 16 << 32 | 8 << 16  # 256 bytes between 8 rows, 128 between halves of K


def module(body: str, *, registers: str = "", shared: int = 8192) -> str:
    """Return a module with an entry `k(a, b, d)`: %rd1 to %rd3, the thread in %r1, warp in %r2."""
    return (
        ".version 8.8\n.target sm_100a\n.address_size 64\n"
        ".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d)\n{\n"
        ".reg .f32 %f<16>; .reg .b32 %r<64>; .reg .b32 %v<256>; .reg .b64 %rd<32>;\n"
        f".reg .pred %p<8>; {registers}\n"
        f".shared .align 1024 .b8 tile[{shared}];\n"
        ".shared .align 16 .b8 bar[16];\n.shared .align 16 .b8 where[16];\n"
        "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b]; ld.param.u64 %rd3, [d];\n"
        "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5;\n"
        "setp.eq.u32 %p1, %r2, 0; setp.eq.u32 %p2, %r1, 0;\n"
        f"{body}\nret;\n}}\n"
    )


def names(count: int, first: int = 0) -> str:
    """Return `{%v0, %v1...}`."""
    return "{" + ", ".join(f"%v{first + index}" for index in range(count)) + "}"


def waits(parity: str, label: str) -> str:
    """Return a loop that waits for a phase of `bar`."""
    return f"{label}: mbarrier.try_wait.parity.shared.b64 %p3, [bar], {parity};\n@!%p3 bra {label};"


_BEGIN = f"""@%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [where], {COLUMNS};
@%p1 tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
@%p2 mbarrier.init.shared::cta.b64 [bar], 1;"""
_FILL = """mul.lo.u32 %r3, %r1, {pitch}; cvt.u64.u32 %rd4, %r3; add.u64 %rd5, %rd1, %rd4;
add.u64 %rd6, %rd2, %rd4;
shr.u32 %r4, %r1, 3; and.b32 %r5, %r1, 7; shl.b32 %r4, %r4, 8; shl.b32 %r5, %r5, 4;
mov.u32 %r6, tile; add.u32 %r6, %r6, %r4; add.u32 %r6, %r6, %r5;
ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%rd5+{offset}];
ld.global.v4.b32 {{%v4, %v5, %v6, %v7}}, [%rd5+{offset}+16];
st.shared.v4.b32 [%r6], {{%v0, %v1, %v2, %v3}}; st.shared.v4.b32 [%r6+128], {{%v4, %v5, %v6, %v7}};
setp.ge.u32 %p4, %r1, 64; @%p4 bra filled{offset};
ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%rd6+{offset}];
ld.global.v4.b32 {{%v4, %v5, %v6, %v7}}, [%rd6+{offset}+16];
st.shared.v4.b32 [%r6+4096], {{%v0, %v1, %v2, %v3}};
st.shared.v4.b32 [%r6+4224], {{%v4, %v5, %v6, %v7}};
filled{offset}:
fence.proxy.async;"""
_DESCRIPTORS = f"""ld.shared.b32 %r7, [where];
mov.u32 %r8, tile; shr.u32 %r8, %r8, 4; cvt.u64.u32 %rd7, %r8; or.b64 %rd7, %rd7, {_PLAIN};
add.u64 %rd8, %rd7, 256; mov.b32 %r9, {DESCRIBED};
and.b32 %r10, %r2, 3; shl.b32 %r10, %r10, 21; add.u32 %r11, %r7, %r10;"""
_PRODUCT = """@%p2 tcgen05.mma.cta_group::1.kind::f16 [%r7], %rd7, %rd8, %r9, {enable};
@%p2 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];"""
_AFTER = "tcgen05.fence::after_thread_sync;"
_BEFORE = "tcgen05.fence::before_thread_sync;"
_LOAD = f"""tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 {names(COLUMNS)}, [%r11];
tcgen05.wait::ld.sync.aligned;"""
_WRITE = (
    f"mul.lo.u32 %r12, %r1, {4 * COLUMNS}; cvt.u64.u32 %rd9, %r12; add.u64 %rd9, %rd3, %rd9;\n"
    + "\n".join(f"st.global.b32 [%rd9+{4 * at}], %v{at};" for at in range(COLUMNS))
)
_END = f"""{_BEFORE}
bar.sync 0;
@%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r7, {COLUMNS};"""
_NEVER, _ALWAYS = "setp.ne.u32 %p5, %r2, %r2;", "setp.eq.u32 %p5, %r2, %r2;"

PRODUCT = module(
    "\n".join(
        (
            _BEGIN, _FILL.format(pitch=32, offset=0), "bar.sync 0;", _AFTER, _DESCRIPTORS, _NEVER,
            _PRODUCT.format(enable="%p5"), waits("0", "first"), _AFTER, _LOAD, _WRITE, _END,
        )
    )
)  # fmt: skip
# Two steps along K through one tile.
STEPS = module(
    "\n".join(
        (
            _BEGIN, _FILL.format(pitch=64, offset=0), "bar.sync 0;", _AFTER, _DESCRIPTORS, _NEVER,
            _PRODUCT.format(enable="%p5"), waits("0", "first"),
            _FILL.format(pitch=64, offset=32), "bar.sync 0;", _AFTER, _ALWAYS,
            _PRODUCT.format(enable="%p5"), waits("1", "second"), _AFTER, _LOAD, _WRITE, _END,
        )
    )
)  # fmt: skip
# An accumulator that threads have stored.
STORED = module(
    "\n".join(
        (
            _BEGIN, _FILL.format(pitch=32, offset=0), "bar.sync 0;", _AFTER, _DESCRIPTORS,
            "\n".join(f"mov.b32 %v{at}, 0x40000000;" for at in range(COLUMNS)),
            f"tcgen05.st.sync.aligned.32x32b.x{COLUMNS}.b32 [%r11], {names(COLUMNS)};",
            "tcgen05.wait::st.sync.aligned;", _BEFORE, "bar.sync 0;", _AFTER, _ALWAYS,
            _PRODUCT.format(enable="%p5"), waits("0", "first"), _AFTER, _LOAD, _WRITE, _END,
        )
    )
)  # fmt: skip
# One accumulator for two products: the second must not come before the first was read.
REUSED = module(
    "\n".join(
        (
            _BEGIN, _FILL.format(pitch=32, offset=0), "bar.sync 0;", _AFTER, _DESCRIPTORS, _NEVER,
            _PRODUCT.format(enable="%p5"), waits("0", "first"), _AFTER, _LOAD, _BEFORE,
            "bar.sync 0; // read", _AFTER, _PRODUCT.format(enable="%p5"), waits("1", "second"),
            _AFTER,
            f"tcgen05.ld.sync.aligned.32x32b.x{COLUMNS}.b32 {names(COLUMNS, COLUMNS)}, [%r11];",
            "tcgen05.wait::ld.sync.aligned; // again",
            "\n".join(
                f"mov.b32 %f1, %v{at}; mov.b32 %f2, %v{at + COLUMNS}; add.f32 %f1, %f1, %f2; "
                f"mov.b32 %v{at}, %f1;"
                for at in range(COLUMNS)
            ),
            _WRITE, _END,
        )
    )
)  # fmt: skip
# Rows of 8 numbers that threads have stored, shifted in the lanes of each warp.
SHIFTED = module(
    "\n".join(
        (
            _BEGIN, "bar.sync 0;", _AFTER, "ld.shared.b32 %r7, [where];",
            "and.b32 %r10, %r2, 3; shl.b32 %r10, %r10, 21; add.u32 %r11, %r7, %r10;",
            "shl.b32 %r13, %r1, 3;",
            "\n".join(
                f"add.u32 %r14, %r13, {at}; cvt.rn.f32.u32 %f1, %r14; mov.b32 %v{at}, %f1;"
                for at in range(8)
            ),
            f"tcgen05.st.sync.aligned.32x32b.x8.b32 [%r11], {names(8)};",
            "tcgen05.wait::st.sync.aligned;", _BEFORE, "bar.sync 0;", _AFTER,
            "\n".join(
                f"add.u32 %r15, %r7, {quarter << 21};\n"
                "@%p2 tcgen05.shift.cta_group::1.down [%r15];"
                for quarter in range(4)
            ),
            _PRODUCT.splitlines()[1], waits("0", "first"), _AFTER,
            f"tcgen05.ld.sync.aligned.32x32b.x8.b32 {names(8)}, [%r11];",
            "tcgen05.wait::ld.sync.aligned;",
            *_WRITE.splitlines()[:9], _END,
        )
    )
)  # fmt: skip
TWINS = {
    "product": PRODUCT, "steps": STEPS, "stored": STORED, "reused": REUSED, "shifted": SHIFTED
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """A fault: a text of a twin that is replaced (its occurrence `nth`), and what it is."""

    name: str
    twin: str
    old: str
    new: str = ""
    nth: int = 0
    kinds: tuple[Kind, ...]
    severity: str = "wrong"

    @property
    def text(self) -> str:
        """The PTX of the fault."""
        parts = TWINS[self.twin].split(self.old)
        assert len(parts) > self.nth + 1, (self.name, self.old)
        where = self.nth + 1
        return self.old.join(parts[:where]) + self.new + self.old.join(parts[where:])


_RACE, _MISUSE, _DEAD = (Kind.RACE,), (Kind.TENSOR_MEMORY,), (Kind.DEADLOCK,)
_WAIT, _DEALLOC = waits("0", "first"), _END.splitlines()[-1]
_COMMIT = _PRODUCT.splitlines()[1]
_MULTIPLY = _PRODUCT.format(enable="%p5").splitlines()[0]
_ALLOC = _BEGIN.splitlines()[0]
_RELINQUISH = _BEGIN.splitlines()[1]
PLANTED = (
    # what loads and stores are waited for
    Planted(name="load_not_waited_for", twin="product", old="tcgen05.wait::ld.sync.aligned;", kinds=(Kind.TENSOR_WAIT,), severity="note"),
    Planted(name="load_used_before_its_wait", twin="product", old=_LOAD, new=_LOAD.splitlines()[0] + "\nxor.b32 %r12, %v0, %v1;\n" + _LOAD.splitlines()[1], kinds=(Kind.TENSOR_WAIT,), severity="note"),
    Planted(name="store_not_waited_for", twin="stored", old="tcgen05.wait::st.sync.aligned;", kinds=_RACE),
    Planted(name="store_and_product_without_barrier", twin="stored", old=f"{_BEFORE}\nbar.sync 0;", kinds=_RACE),
    Planted(name="load_before_reuse_not_waited_for", twin="reused", old="tcgen05.wait::ld.sync.aligned;", kinds=(Kind.RACE, Kind.UNINITIALISED)),
    Planted(name="reuse_without_barrier", twin="reused", old="bar.sync 0; // read", kinds=(Kind.RACE, Kind.DEADLOCK)),
    # what operations of the tensor core are waited for
    Planted(name="product_not_waited_for", twin="product", old=_WAIT, kinds=_RACE),
    Planted(name="product_waited_for_at_the_wrong_parity", twin="product", old="[bar], 0;", new="[bar], 1;", kinds=_RACE),
    Planted(name="second_product_waited_for_at_the_first_parity", twin="steps", old=waits("1", "second"), new=waits("0", "second"), kinds=_RACE),
    Planted(name="commit_missing", twin="product", old=_COMMIT, kinds=_DEAD),
    Planted(name="commit_before_its_product", twin="product", old=f"{_MULTIPLY}\n{_COMMIT}", new=f"{_COMMIT}\n{_MULTIPLY}", kinds=_RACE),
    Planted(name="commit_by_another_thread", twin="product", old=_COMMIT, new="setp.eq.u32 %p6, %r1, 32;\n" + _COMMIT.replace("%p2", "%p6"), kinds=_RACE),
    Planted(name="tile_refilled_before_its_product_ended", twin="steps", old=_WAIT, kinds=_RACE),
    Planted(name="barrier_expects_two_commits", twin="product", old="[bar], 1;", new="[bar], 2;", kinds=_DEAD),
    Planted(name="barrier_used_before_its_init_is_known", twin="product", old="bar.sync 0;", kinds=(Kind.RACE, Kind.MBARRIER)),
    Planted(name="accumulates_what_nobody_wrote", twin="product", old=_NEVER, new=_ALWAYS, kinds=(Kind.UNINITIALISED,)),
    Planted(name="overwrites_instead_of_accumulating", twin="stored", old="tcgen05.wait::st.sync.aligned;\n" + _BEFORE + "\nbar.sync 0;", new="", kinds=_RACE),
    # the asynchronous proxy, and fences
    Planted(name="tile_not_fenced", twin="product", old="fence.proxy.async;", kinds=(Kind.PROXY_FENCE,)),
    Planted(name="second_tile_not_fenced", twin="steps", old="fence.proxy.async;", nth=1, kinds=(Kind.PROXY_FENCE,)),
    Planted(name="no_fence_behind_the_wait", twin="product", old=f"{_AFTER}\n{_LOAD}", new=_LOAD, kinds=(Kind.TENSOR_FENCE,), severity="note"),
    # allocation
    Planted(name="never_released", twin="product", old=_DEALLOC, kinds=_MISUSE),
    Planted(name="released_in_part", twin="product", old=_DEALLOC, new=_DEALLOC.replace("64;", "32;"), kinds=_MISUSE),
    Planted(name="released_before_others_have_read", twin="product", old="bar.sync 0;", nth=1, kinds=(Kind.RACE, Kind.TENSOR_MEMORY)),
    Planted(name="released_under_a_load_in_flight", twin="product", old=_LOAD.splitlines()[1], new=f"{_BEFORE} bar.sync 0;\n{_DEALLOC}\ntcgen05.wait::ld.sync.aligned;", kinds=_RACE),
    Planted(name="released_under_a_product_in_flight", twin="product", old=_WAIT, new=_DEALLOC + "\n" + _WAIT, kinds=_RACE),
    Planted(name="read_after_release", twin="product", old=_LOAD, new=f"bar.sync 0;\n{_DEALLOC}\nbar.sync 0;\n{_LOAD}", kinds=_MISUSE),
    Planted(name="columns_of_no_power_of_two", twin="product", old=_ALLOC, new=_ALLOC.replace("64;", "48;"), kinds=_MISUSE),
    Planted(name="allocated_after_giving_up_the_permit", twin="product", old=f"{_ALLOC}\n{_RELINQUISH}", new=f"{_RELINQUISH}\n{_ALLOC}", kinds=_MISUSE),
    Planted(name="allocates_more_than_there_is", twin="product", old=_ALLOC, new=_ALLOC.replace("64;", "512;") + "\n" + _ALLOC, kinds=_MISUSE),
    Planted(name="allocated_by_one_thread", twin="product", old=_ALLOC, new=_ALLOC.replace("%p1", "%p2"), kinds=(Kind.DIVERGENT_COLLECTIVE, Kind.DEADLOCK)),
    Planted(name="too_few_columns", twin="product", old=_ALLOC, new=_ALLOC.replace("64;", "32;"), kinds=_MISUSE),
    Planted(name="lanes_of_another_warp", twin="product", old="add.u32 %r11, %r7, %r10;", new="xor.b32 %r10, %r10, 2097152; add.u32 %r11, %r7, %r10;", kinds=_MISUSE),
    Planted(name="lanes_of_the_first_warp", twin="product", old="add.u32 %r11, %r7, %r10;", new="mov.b32 %r11, %r7;", kinds=_MISUSE, severity="note"),
    Planted(name="descriptor_with_odd_rows", twin="product", old=f"mov.b32 %r9, {DESCRIBED};", new=f"mov.b32 %r9, {DESCRIBED ^ 14 << 24};", kinds=_MISUSE),
    # rows that move
    Planted(name="shift_not_waited_for", twin="shifted", old=_WAIT, kinds=_RACE),
    Planted(name="shift_before_its_stores_are_known", twin="shifted", old=f"{_BEFORE}\nbar.sync 0;", kinds=_RACE),
    Planted(name="shift_from_the_middle_of_a_warp", twin="shifted", old=f"%r7, {1 << 21};", new=f"%r7, {1 << 20};", kinds=_MISUSE),
    Planted(name="shift_of_columns_that_nobody_allocated", twin="shifted", old=f"%r7, {3 << 21};", new=f"%r7, {3 << 21 | 60};", kinds=_MISUSE),
    Planted(name="tile_beyond_shared_memory", twin="product", old="add.u64 %rd8, %rd7, 256;", new="add.u64 %rd8, %rd7, 448;", kinds=(Kind.OUT_OF_BOUNDS,)),
)  # fmt: skip


def inputs(seed: int, depth: int = DEPTH) -> tuple[NDArray[np.float16], NDArray[np.float16]]:
    """Return A [128, depth] and B [64, depth] of small integers, whose sums are exact."""
    random = np.random.default_rng(seed)
    a, b = (random.integers(-8, 9, (rows, depth)).astype(np.float16) for rows in (ROWS, COLUMNS))
    return a, b


def execute(
    text: str, arrays: Sequence[NDArray[np.generic]], *, threads: int = 128, schedule: str = "forward",
    cluster: int = 1, blocks: int = 1, races: bool = True, arch: int = 100,
) -> tuple[MachineReport, list[Buffer]]:  # fmt: skip
    """Run entry `k`, on sm_100 unless `arch` says another; return the report and the buffers."""
    buffers = [buffer_of(one, name) for one, name in zip(arrays, "abdefg", strict=False)]
    given: list[Argument] = [Pointer(buffer=one) for one in buffers]
    launch = Launch(
        kernel="k", grid=(blocks, 1, 1), block=(threads, 1, 1), cluster=(cluster, 1, 1),
        arguments=tuple(given),
    )  # fmt: skip
    options = Options(arch=arch, schedule=schedule, shadow=False, races=races)
    return run(parse(text), launch, options=options), buffers


def moved(
    *, kind: str, described: int, a: int, b: int, columns: int, image: int, lane: int = 0,
    inside: int = 0, scales: int = 0, rest: str = "", repeats: str = "",
) -> str:  # fmt: skip
    """Return a kernel of one product from images of shared memory, its sums from and to `d`.

    `a`, `b`: what descriptors hold beside the start; `image`: bytes of each operand's image;
    `inside`: columns of A in tensor memory, as `a` gives them; `scales`: columns of scales, behind
    the image in `a`, those of A in the first four; `rest`: operands behind the instruction
    descriptor; `repeats`: what follows the last operand.
    """
    more = inside or scales
    width = max(32, 1 << (columns + more - 1).bit_length())
    copies = "\n".join(
        f"add.u32 %r20, %r3, {2048 * turn}; setp.lt.u32 %p4, %r20, {image}; cvt.u64.u32 %rd20, %r20;"
        f"add.u64 %rd21, %{source}, %rd20; mov.u32 %r21, tile; add.u32 %r21, %r21, %r20;"
        f"@%p4 ld.global.v4.b32 {{%v0, %v1, %v2, %v3}}, [%rd21];"
        f"@%p4 st.shared.v4.b32 [%r21+{offset}], {{%v0, %v1, %v2, %v3}};"
        for source, offset in (("rd1", 0), ("rd2", image))
        for turn in range(-(-image // 2048))
    )
    load = "\n".join(f"ld.global.b32 %v{at}, [%rd9+{4 * at}];" for at in range(columns))
    fill = (
        "\n".join(f"ld.global.b32 %v{at}, [%rd22+{4 * at}];" for at in range(more))
        + f"\nadd.u32 %r24, %r11, {columns};\n"
        + f"tcgen05.st.sync.aligned.32x32b.x{more}.b32 [%r24], {names(more)};\n"
        + "tcgen05.wait::st.sync.aligned;\n"
        if more
        else ""
    )
    first = "[%r25]" if inside else "%rd7"
    count = columns
    body = f"""{_ALLOC.replace("64;", f"{width};")}
@%p2 mbarrier.init.shared::cta.b64 [bar], 1;
shl.b32 %r3, %r1, 4;
{copies}
fence.proxy.async;
bar.sync 0;
{_AFTER}
ld.shared.b32 %r7, [where];
mov.u32 %r8, tile; shr.u32 %r22, %r8, 4; cvt.u64.u32 %rd7, %r22; or.b64 %rd7, %rd7, {a};
add.u32 %r8, %r8, {image}; shr.u32 %r22, %r8, 4; cvt.u64.u32 %rd8, %r22; or.b64 %rd8, %rd8, {b};
mov.b32 %r9, {described};
and.b32 %r10, %r2, 3; shl.b32 %r10, %r10, 21; add.u32 %r11, %r7, %r10;
mul.lo.u32 %r12, %r1, {4 * columns}; cvt.u64.u32 %rd9, %r12; add.u64 %rd9, %rd3, %rd9;
mul.lo.u32 %r23, %r1, {4 * max(more, 1)}; cvt.u64.u32 %rd22, %r23; add.u64 %rd22, %rd1, %rd22;
add.u64 %rd22, %rd22, {image if scales else 0};
{fill}{load}
tcgen05.st.sync.aligned.32x32b.x{count}.b32 [%r11], {names(count)};
tcgen05.wait::st.sync.aligned;
{_BEFORE}
bar.sync 0;
{_AFTER}
{_ALWAYS}
add.u32 %r25, %r7, {columns}; add.u32 %r26, %r7, {lane << 16};
add.u32 %r27, %r25, 4;
@%p2 tcgen05.mma.cta_group::1.kind::{kind} [%r26], {first}, %rd8, %r9, {rest}%p5{repeats};
{_COMMIT}
{waits("0", "first")}
{_AFTER}
tcgen05.ld.sync.aligned.32x32b.x{count}.b32 {names(count)}, [%r11];
tcgen05.wait::ld.sync.aligned;
{chr(10).join(f"st.global.b32 [%rd9+{4 * at}], %v{at};" for at in range(columns))}
{_BEFORE}
bar.sync 0;
{_DEALLOC.replace("64;", f"{width};")}"""
    return module(body, shared=2 * image)


def paired(text: str, *, images: int, cells: int) -> str:
    """Return a kernel of `moved` for a pair of blocks: the first one starts the product for both.

    `images`: bytes between the images of the blocks in `a` and `b`; `cells`: bytes between theirs
    in `d`.
    """
    both = "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;"
    places = (
        "mov.u32 %r40, %ctaid.x;\n"
        + "".join(
            f"mul.wide.u32 %rd30, %r40, {step}; add.u64 %{name}, %{name}, %rd30;\n"
            for name, step in (("rd1", images), ("rd2", images), ("rd3", cells))
        )
        + "setp.eq.u32 %p7, %r40, 0;\nand.pred %p7, %p7, %p2;\n"
    )
    text = text.replace("bar.sync 0;", both).replace("cta_group::1", "cta_group::2")
    text = text.replace("@%p2 tcgen05.mma", "@%p7 tcgen05.mma")
    text = text.replace(
        "@%p2 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [bar];",
        "mov.b16 %h1, 3;\n@%p7 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [bar], %h1;",
    )
    text = text.replace(".reg .pred %p<8>;", ".reg .pred %p<8>; .reg .b16 %h<4>;")
    return text.replace("mov.u32 %r1, %tid.x;", places + "mov.u32 %r1, %tid.x;", 1).replace(
        "setp.eq.u32 %p7, %r40, 0;\nand.pred %p7, %p7, %p2;\n", "", 1
    ).replace(
        "setp.eq.u32 %p2, %r1, 0;",
        "setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p7, %r40, 0; and.pred %p7, %p7, %p2;", 1,
    )  # fmt: skip


def copied(*, shape: str, descriptor: int, image: int, columns: int) -> str:
    """Return a kernel that copies an image of shared memory to tensor memory, and that to `d`.

    Cells that no copy reaches keep 7.
    """
    body = f"""{_ALLOC.replace("64;", "32;")}
@%p2 mbarrier.init.shared::cta.b64 [bar], 1;
shl.b32 %r3, %r1, 4;
{
        chr(10).join(
            f"add.u32 %r20, %r3, {2048 * turn}; setp.lt.u32 %p4, %r20, {image}; cvt.u64.u32 %rd20, %r20; "
            "add.u64 %rd21, %rd1, %rd20; mov.u32 %r21, tile; add.u32 %r21, %r21, %r20; "
            "@%p4 ld.global.v4.b32 {%v0, %v1, %v2, %v3}, [%rd21]; "
            "@%p4 st.shared.v4.b32 [%r21], {%v0, %v1, %v2, %v3};"
            for turn in range(-(-image // 2048))
        )
    }
fence.proxy.async;
bar.sync 0;
ld.shared.b32 %r7, [where];
mov.u32 %r8, tile; shr.u32 %r22, %r8, 4; cvt.u64.u32 %rd7, %r22; or.b64 %rd7, %rd7, {descriptor};
and.b32 %r10, %r2, 3; shl.b32 %r10, %r10, 21; add.u32 %r11, %r7, %r10;
mul.lo.u32 %r12, %r1, {4 * columns}; cvt.u64.u32 %rd9, %r12; add.u64 %rd9, %rd3, %rd9;
{chr(10).join(f"mov.b32 %v{at}, 7;" for at in range(columns))}
tcgen05.st.sync.aligned.32x32b.x{columns}.b32 [%r11], {names(columns)};
tcgen05.wait::st.sync.aligned;
{_BEFORE}
bar.sync 0;
{_AFTER}
@%p2 tcgen05.cp.cta_group::1.{shape} [%r7], %rd7;
{_COMMIT}
{waits("0", "first")}
{_AFTER}
tcgen05.ld.sync.aligned.32x32b.x{columns}.b32 {names(columns)}, [%r11];
tcgen05.wait::ld.sync.aligned;
{chr(10).join(f"st.global.b32 [%rd9+{4 * at}], %v{at};" for at in range(columns))}
{_BEFORE}
bar.sync 0;
{_DEALLOC.replace("64;", "32;")}"""
    return module(body, shared=image)
