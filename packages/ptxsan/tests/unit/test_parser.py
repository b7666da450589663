"""PTX text becomes the syntax tree that it says, with lines, scopes and sources."""

from __future__ import annotations

import pytest

from ptxsan.errors import MachineError
from ptxsan.parser import parse
from ptxsan.syntax import Address, Immediate, Pair, Register, Symbol, Vector

_TEXT = """\
.version 8.0
.target sm_80
.address_size 64
/* a comment
   over lines */
.global .align 4 .b8 table[8] = {1, 2, 3, 4, 0xff};
.extern .shared .align 16 .b8 dynamic[];
.visible .entry copy(
  .param .u64 copy_0, // the source
  .param .align 8 .b8 copy_1[24]
)
.maxntid 128, 1, 1
{
  .reg .pred %p<2>;
  .reg.f32 %f<5>;
  .reg .b64 %rd<3>;
  .shared .align 4 .f32 tile[32];
  .loc 1 7 3
  ld.param.u64 %rd1, [copy_0+8];
  @!%p1 ld.global.v4.f32 {%f1, %f2, _, %f4}, [%rd1+-16];
  {
    .reg .b32 t;
    mov.b32 t, 0f3F800000;
AGAIN:
    @%p1 bra AGAIN;
  }
  {
    .reg .b32 t;
    AGAIN: mov.b32 t, -1; }
$here:
  .loc 1 8 1
  add.f32 %f1, %f1, %f2;
  .loc 1 9 1, function_name $L__info_string0, inlined_at 1 42 3
  shfl.sync.down.b32 %f1|%p1, %f2, 0x10, 31, -1;
$done: ret;
}
.file 1 "a b.cu"
.section .debug_str { $L__info_string0: .b8 97,0 }
"""


def test_functions_parameters_and_variables() -> None:
    module = parse(_TEXT)
    assert (module.version, module.target, module.entries) == ("8.0", "sm_80", ("copy",))
    assert module.variables["table"].initial == bytes([1, 2, 3, 4, 255])
    assert module.variables["dynamic"].extern
    assert module.variables["dynamic"].space == "shared"
    kernel = module.functions["copy"]
    assert [(one.type, one.count) for one in kernel.params] == [("u64", 1), ("b8", 24)]
    assert kernel.directives["maxntid"] == (128, 1, 1)
    assert (kernel.variables[0].name, kernel.variables[0].count) == ("tile", 32)


def test_operands_lines_and_sources() -> None:
    kernel = parse(_TEXT).functions["copy"]
    first, load, constant, again, inner, add, shuffle, last = kernel.body
    assert first.operands[1] == Address(Symbol("copy_0"), 8)
    assert first.line == 19
    assert first.source is not None
    assert (first.source.file, first.source.line) == ("a b.cu", 7)
    assert load.predicate == Register("%p1", negated=True)
    assert load.parts == ("ld", "global", "v4", "f32")
    assert isinstance(load.operands[0], Vector)
    assert load.operands[0].items[2] == Register("_")
    assert load.operands[1] == Address(Register("%rd1"), -16)
    assert constant.operands[1] == Immediate(0x3F800000, "f32")
    assert shuffle.operands[0] == Pair(Register("%f1"), Register("%p1"))
    assert shuffle.operands[4] == Immediate(2**64 - 1, "int")
    assert shuffle.source is not None
    assert shuffle.source.inlined_at is not None
    assert shuffle.source.inlined_at.line == 42
    assert (kernel.labels["$here"], kernel.labels["$done"]) == (5, 7)
    assert again.opcode == "bra"
    assert last.opcode == "ret"
    assert inner.line == 29
    assert (add.opcode, add.line) == ("add.f32", 32)


def test_callers_that_llvm_names_in_a_comment_are_read() -> None:
    """Triton's PTX says where its library's functions are inlined behind `//` alone."""
    text = _TEXT.replace(
        "  .loc 1 8 1\n",
        "  .loc 2 263 15  // standard.py:263:15 @[ standard.py:293:36 @[ a.py:14:28 ] ]\n",
    ).replace('.file 1 "a b.cu"', '.file 1 "/k/a.py"\n.file 2 "/lib/standard.py"')
    add = parse(text).functions["copy"].body[5]
    assert add.source is not None
    assert (add.source.file, add.source.line) == ("/lib/standard.py", 263)
    middle = add.source.inlined_at
    assert middle is not None
    assert (middle.file, middle.line) == ("/lib/standard.py", 293)
    assert middle.inlined_at is not None
    assert (middle.inlined_at.file, middle.inlined_at.line) == ("/k/a.py", 14)


def test_scopes_have_registers_and_labels_of_their_own() -> None:
    kernel = parse(_TEXT).functions["copy"]
    assert kernel.body[2].operands[0] != kernel.body[4].operands[0]
    target = kernel.body[3].operands[0]
    assert isinstance(target, Symbol)
    assert kernel.labels[target.name] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello world;", "PTX line 1: 'hello' outside of a function"),
        (".entry k() {\n add.s32 %r1 # 2;\n}", "PTX line 2: cannot read operands"),
        (".entry k() {\n ret;\n", "PTX line 1: function 'k' is not closed"),
        (".global .b8;", "PTX line 1: cannot read declaration"),
    ],
)
def test_text_that_is_no_ptx_names_its_line(text: str, message: str) -> None:
    with pytest.raises(MachineError, match=message):
        parse(text)


def test_a_decimal_fraction_is_an_operand() -> None:
    text = ".entry k() {\n createpolicy.fractional.L2::evict_first.b64 %rd3, 1.0;\n ret;\n}"
    policy = parse(text).functions["k"].body[0]
    assert policy.operands[1] == Immediate(0x3FF0000000000000, "f64")
