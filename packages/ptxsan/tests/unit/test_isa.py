"""The table of instructions: whole, obeyed by every analysis, and the only place of opcodes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import ptxsan
from ptxsan import isa
from ptxsan.dataflow import definitions, uses
from ptxsan.emit import registry
from ptxsan.errors import MachineError
from ptxsan.isa import Memory, Result
from ptxsan.parser import parse
from ptxsan.program import Program, build
from ptxsan.prove import transfer
from ptxsan.syntax import Instruction
from ptxsan.taint import data_dependent, decided_by_data

_ROOT = Path(ptxsan.__file__).parent
# What tests the machine spells PTX itself; the runtime names its handlers after instructions;
# the host's part reads C++, where `min` is a function.
_ELSEWHERE = ("fuzz", "runtime", "numerics", "host")
# Emits the same instructions over a finite field; writes instructions in the places of multimem;
# lists the modules of emitters.
_MEANING = ("algebra.py", "multicast.py", "registry.py")
_HEADER = ".version 8.4\n.target sm_90a\n.address_size 64\n"
_WGMMA = """.visible .entry k(.param .u64 a)
{
.reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b32 %r<4>;
.shared .align 128 .b8 tile[8192];
ld.param.u64 %rd1, [a];
ld.global.u64 %rd2, [%rd1];
st.shared.u64 [tile], %rd2;
setp.ne.b32 %p1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd3, %rd4, %p1, 1, 1, 0, 0;
setp.gt.f32 %p2, %f0, 0f00000000;
@%p2 bra end;
st.global.f32 [%rd1], %f1;
end:
ret;
}
"""


def _program(body: str) -> Program:
    return build(parse(_HEADER + body), "k")


def _named(tree: ast.AST) -> set[str]:
    """Return the opcodes among a file's string constants, less docstrings and enumerations."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr):
                skipped.add(id(first.value))
        if isinstance(node, ast.ClassDef) and any("Enum" in ast.unparse(b) for b in node.bases):
            skipped.update(id(one) for one in ast.walk(node))
        if isinstance(node, ast.JoinedStr):
            skipped.update(id(one) for one in node.values)
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value in isa.BASES
        and id(node) not in skipped
    }


def test_every_row_has_an_emitter_and_every_emitter_a_row() -> None:
    for base in isa.BASES:
        assert registry.modules(base), base
    spelt = [(row.base, row.form) for row in isa.TABLE]
    assert len(set(spelt)) == len(spelt)


def test_no_opcode_is_named_outside_of_the_table() -> None:
    attached = {module for base in isa.BASES for module in registry.modules(base)}
    attached.add(transfer.__name__)  # says what an instruction does to symbols, row by row
    for file in sorted(_ROOT.rglob("*.py")):
        place = file.relative_to(_ROOT)
        if place.parts[0] in _ELSEWHERE or place.name in ("isa.py", *_MEANING):
            continue
        if ".".join(("ptxsan", *place.with_suffix("").parts)) in attached:
            continue  # an emitter tells the instructions apart that it emits
        found = _named(ast.parse(file.read_text(encoding="utf-8")))
        assert not found, f"{place} names {sorted(found)}"


def test_what_proofs_know_of_an_instruction_is_attached_to_its_row() -> None:
    """A row without a function leaves anything in its result, so a new row cannot prove wrongly."""
    named = _named(ast.parse(Path(transfer.__file__).read_text(encoding="utf-8")))
    assert named <= transfer.bases() <= isa.BASES
    one = Instruction(opcode="brev.b32", parts=("brev", "b32"), operands=(), line=1)
    assert isa.row(one)
    assert transfer.transfer_of(one) is None


def test_a_branch_on_a_product_of_matrices_depends_on_data() -> None:
    program = _program(_WGMMA)
    text = (_HEADER + _WGMMA).split("\n")
    assert [text[line - 1] for line in data_dependent(program)] == ["@%p2 bra end;"]


def test_accumulators_are_read_and_written() -> None:
    one = next(one for one in _program(_WGMMA).body if isa.row(one).result is Result.BOTH)
    assert set(definitions(one)) == {"%f0", "%f1", "%f2", "%f3"}
    assert set(uses(one)) == {"%f0", "%f1", "%f2", "%f3", "%rd3", "%rd4", "%p1"}


@pytest.mark.parametrize(
    ("opcode", "memory", "space"),
    [
        ("ld.global.f32", Memory.READ, "global"),
        ("cp.async.ca.shared.global", Memory.COPY, "shared"),
        ("cp.async.bulk.prefetch.L2.global", Memory.HINT, "global"),
        ("cp.async.bulk.commit_group", Memory.NONE, "generic"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", Memory.READ, "shared"),
        ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32", Memory.WRITE, "shared"),
        ("red.global.add.f32", Memory.UPDATE, "global"),
    ],
)
def test_forms_are_told_apart(opcode: str, memory: Memory, space: str) -> None:
    one = Instruction(opcode=opcode, parts=tuple(opcode.split(".")), operands=(), line=1)
    assert (isa.row(one).memory, isa.space_of(one)) == (memory, space)


def test_an_unknown_instruction_is_named_with_its_line() -> None:
    one = Instruction(opcode="tcgen06.mma", parts=("tcgen06", "mma"), operands=(), line=7)
    with pytest.raises(MachineError, match=re.escape("PTX line 7: 'tcgen06.mma' is an instr")):
        isa.row(one)


_DECIDED = """.visible .entry k(.param .u64 a)
{
.reg .b64 %rd<8>; .reg .pred %p<4>; .reg .b32 %r<4>;
ld.param.u64 %rd1, [a];
mov.u32 %r1, %tid.x;
mul.wide.s32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r2, [%rd3];
setp.eq.s32 %p1, %r2, 0;
@%p1 bra other;
st.global.u32 [%rd3], %r1;
add.s64 %rd4, %rd3, 8;
bra joined;
other:
add.s64 %rd4, %rd3, 16;
joined:
st.global.u32 [%rd3+4], %r2;
st.global.u32 [%rd4], %r2;
setp.gt.s32 %p2, %r1, 7;
@%p2 bra done;
st.global.u32 [%rd3+12], %r2;
done:
ret;
}
"""


def test_an_access_beside_a_branch_on_data_is_not_decided_by_it() -> None:
    program = _program(_DECIDED)
    text = (_HEADER + _DECIDED).split("\n")
    decided = {text[line - 1] for line in decided_by_data(program)}
    assert "st.global.u32 [%rd3], %r1;" in decided  # it runs for some data only
    assert "st.global.u32 [%rd4], %r2;" in decided  # its address is chosen by data
    for free in ("st.global.u32 [%rd3+4], %r2;", "st.global.u32 [%rd3+12], %r2;", "@%p2 bra done;"):
        assert free not in decided
