"""Where the instructions of a PTX text stand, and which of them other threads may see."""

from __future__ import annotations

import pytest

from cuassay.build.cuda.ptx_text import Instruction, instructions

_TEXT = """\
.version 8.0
.global .align 4 .b8 table[2] = {1, 2};
.visible .entry first(.param .u64 a) // { not a body
{
  .reg .b32 %r<4>;
  .loc 1 7 3
  ld.global.v2.u32 {%r1, %r2}, [%rd1]; /* ; */
AGAIN:
  @!%p1 bra AGAIN;
  {
    st.shared.u32 [%r1], %r2;
  }
  ret;
}
.func helper()
{
  bar.sync 0;
}
"""


def test_each_instruction_has_its_place_and_its_kernel() -> None:
    found = [one for one in instructions(_TEXT) if not one.text.startswith(".")]
    assert [(one.opcode, one.kernel) for one in found] == [
        ("ld.global.v2.u32", "first"),
        ("bra", "first"),
        ("st.shared.u32", "first"),
        ("ret", "first"),
        ("bar.sync", ""),
    ]
    for one in found:
        assert _TEXT[one.start :].startswith(one.text)


@pytest.mark.parametrize(
    ("opcode", "shared"),
    [
        ("ld.global.u32", True), ("st.shared.u32", True), ("atom.global.add.u32", True),
        ("red.global.add.u32", True), ("cp.async.ca.shared.global", True), ("bar.sync", True),
        ("barrier.cluster.arrive", True), ("mbarrier.init.shared.b64", True), ("fence.sc", True),
        ("ldmatrix.sync.aligned.m8n8.x4", True), ("membar.gl", True), ("ldu.global.u32", True),
        ("ld.param.u64", False), ("ld.const.u32", False), ("st.local.u32", False),
        ("redux.sync.add.s32", False), ("add.u32", False), ("bra", False), ("ret", False),
    ],
)  # fmt: skip
def test_what_other_threads_may_see(opcode: str, shared: bool) -> None:
    one = Instruction(start=0, opcode=opcode, text=opcode, kernel="k")
    assert one.touches_shared_state is shared
