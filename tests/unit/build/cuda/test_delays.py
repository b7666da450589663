"""Pauses in PTX: put between instructions, before what other threads see, and nowhere else."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cuassay.build.cuda import nvrtc
from cuassay.build.cuda.delays import delayed
from cuassay.build.cuda.ptx_text import instructions
from tests.support.compiler_apart import compiler_apart
from tests.support.ptx_kernels import ptxas, triton_ptx
from tests.zoo import planted

PAUSE = re.compile(r"\{\n\.reg \.pred %cuassay_p;.*?nanosleep\.u32 %cuassay_w;\n\}\n", re.DOTALL)
HEADER = ".version 8.0\n.target sm_90\n.address_size 64\n"
AWKWARD = (
    HEADER
    + """
.file 1 "a; b { c.cu"
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 8};
.extern .shared .align 16 .b8 room[];
.visible .entry shift(
    .param .u64 shift_param_0 /* ld.global; */
)
.maxntid 128, 1, 1
{
    .reg .pred %p<3>;
    .reg .b32 %r<9>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [shift_param_0];
    .loc 1 12 3
    cvta.to.global.u64 %rd2, %rd1;
    // begin inline asm; ld.global.u32 %r1, [%rd2];
    @%p1 ld.global.v4.b32 { %r1, %r2,
        %r3, %r4 }, [ %rd2 + 0 ];
    // end inline asm
$L__BB0_1: @!%p2 st.shared.b32 [room], %r1;
    {
        .reg .b32 %t;
        atom.global.add.u32 %t, [%rd2], %r1; bar.sync 0;
    }
    cp.async.cg.shared.global [ room ], [ %rd2 ], 0x10;
    redux.sync.add.s32 %r5, %r1, 0xffffffff;
    shfl.sync.bfly.b32 %r6|%p1, %r1, 1, 31, -1;
    { call.uni helper, (); }
    bra.uni $L__BB0_1;
}
.section .debug_str
{
.b8 108,100 // ld.global.u32
}
"""
)

REVERSED = (
    HEADER
    + """
.visible .entry reversed(.param .u64 reversed_0)
{
    .reg .b32 %r<8>; .reg .b64 %rd<6>;
    .shared .align 4 .b8 room[256];
    ld.param.u64 %rd1, [reversed_0];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.u32 %r2, [%rd3];
    mov.u32 %r3, room;
    shl.b32 %r4, %r1, 2;
    add.u32 %r5, %r3, %r4;
    st.shared.u32 [%r5], %r2;
    bar.sync 0;
    sub.u32 %r6, 252, %r4;
    add.u32 %r6, %r3, %r6;
    ld.shared.u32 %r7, [%r6];
    st.global.u32 [%rd3], %r7;
    ret;
}
"""
)


def test_instructions_are_told_from_what_looks_like_one() -> None:
    found = list(instructions(AWKWARD))
    assert [i.opcode for i in found if i.touches_shared_state] == [
        "ld.global.v4.b32",
        "st.shared.b32",
        "atom.global.add.u32",
        "bar.sync",
        "cp.async.cg.shared.global",
    ]
    assert {i.kernel for i in found} == {"shift"}
    assert [AWKWARD[i.start :].startswith(i.text.split()[0]) for i in found] == [True] * len(found)


def test_pauses_come_before_shared_state_and_change_nothing_else() -> None:
    seen: Counter[str] = Counter()
    for seed in range(40):
        made = delayed(AWKWARD, seed)
        assert PAUSE.sub("", made.ptx) == AWKWARD
        assert len(PAUSE.findall(made.ptx)) == made.places > 0
        assert made.kernels == ("shift",)
        seen.update(re.findall(r"%cuassay_w;\n\}\n(?:@!?%p\d )?(\S+)", made.ptx))
    assert set(seen) == {
        "ld.global.v4.b32",
        "st.shared.b32",
        "atom.global.add.u32",
        "bar.sync",
        "cp.async.cg.shared.global",
    }


def test_a_seed_draws_the_same_pauses_again_and_another_seed_others() -> None:
    assert delayed(AWKWARD, 3) == delayed(AWKWARD, 3)
    assert len({delayed(AWKWARD, seed).ptx for seed in range(20)}) == 20


def test_nothing_is_done_to_old_targets_and_to_kernels_without_shared_state() -> None:
    old = AWKWARD.replace("sm_90", "sm_60")
    alone = HEADER + ".visible .entry idle()\n{\n    ld.param.u32 %r1, [x];\n    ret;\n}\n"
    for text in (old, alone, "no ptx at all; {{{"):
        assert delayed(text, 1).ptx == text
        assert delayed(text, 1).places == 0


@pytest.mark.skipif(
    nvrtc.find_nvrtc() is None and shutil.which("nvcc") is None, reason="needs NVRTC or nvcc"
)
@pytest.mark.parametrize(
    "name",
    [
        "cuda_missing_barrier",
        "cuda_tile_reused_early",
        "cuda_barrier_one_short",
        "cuda_plain_add",
        "cuda_grid_barrier",
        "cuda_vector_store_tail",
    ],
)
def test_zoo_kernels_with_pauses_are_assembled(name: str, tmp_path: Path) -> None:
    for kind in ("bugs", "twins"):
        text = nvrtc.compile_ptx(planted.candidate(kind, name).read_text(), arch="sm_90")
        made = delayed(text, seed=5)
        assert made.places > 1
        assert made.kernels
        _assemble(made.ptx, tmp_path)


@compiler_apart
def test_triton_kernels_with_pauses_are_assembled(tmp_path: Path) -> None:
    for text in triton_ptx().values():
        for seed in range(3):
            made = delayed(text, seed)
            assert made.places > 0
            _assemble(made.ptx, tmp_path)


def _assemble(text: str, folder: Path) -> None:
    tool = ptxas()
    if not tool:
        pytest.skip("needs ptxas")
    (folder / "k.ptx").write_text(text)
    command = [tool, "-arch=sm_90a", "-o", str(folder / "k.cubin"), str(folder / "k.ptx")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Unsupported .version" in done.stderr:
        pytest.skip("ptxas is older than the compiler")
    assert done.returncode == 0, done.stderr


def test_a_correct_kernel_computes_the_same_bits_with_pauses() -> None:
    """Executed by the PTX machine, which runs the pauses' arithmetic like any other."""
    assert _run(REVERSED).tolist() == list(range(63, -1, -1))
    for seed in range(10):
        made = delayed(REVERSED, seed)
        assert made.places > 0
        assert _run(made.ptx).tolist() == list(range(63, -1, -1))


def _run(text: str) -> NDArray[np.uint32]:
    """Return what one block of 64 threads makes of 0 to 63."""
    pytest.importorskip("llvmlite")
    from ptxsan.launch import Buffer, Launch, Pointer
    from ptxsan.parser import parse
    from ptxsan.run import run

    x = np.arange(64, dtype=np.uint32)
    pointer = Pointer(buffer=Buffer(name="x", data=x.view(np.uint8)))
    launch = Launch(kernel="reversed", grid=(1, 1, 1), block=(64, 1, 1), arguments=(pointer,))
    report = run(parse(text), launch)
    assert not report.findings, report.findings
    return x
