"""The same kernels as another launch sees them: not cooperative, or ended where they would wait."""

from __future__ import annotations

from ptxsan.host.variants import Variants
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan_support.ptx import HEADER, kernel

_WAITS = kernel("griddepcontrol.wait; st.global.u32 [%rd1], 1;")
_ASKS = kernel("mov.u32 %r2, %envreg1; mov.u32 %r3, %envreg2; st.global.u32 [%rd1], %r2;")


def _opcodes(text: str) -> list[str]:
    return [one.opcode for one in parse(text).functions["k"].body]


def test_a_launch_that_is_not_cooperative_has_no_workspace() -> None:
    variants, module = Variants(), parse(_ASKS)
    assert variants.alone(module, cooperative=True) is module
    other = variants.alone(module, cooperative=False)
    assert "%envreg" not in other.text
    assert variants.alone(module, cooperative=False) is other  # made once
    plain = parse(kernel("ret;"))
    assert variants.alone(plain, cooperative=False) is plain


def test_a_kernel_ends_where_it_would_wait_for_the_launch_before() -> None:
    variants, module = Variants(), parse(_WAITS)
    other = variants.until_it_waits(module, "k")
    assert other is not None
    assert "exit" in _opcodes(other.text)
    assert "griddepcontrol.wait" not in _opcodes(other.text)
    assert variants.until_it_waits(parse(kernel("ret;")), "k") is None


def test_a_variant_has_the_variables_of_the_module_itself() -> None:
    from ptxsan import globals as variables

    text = _ASKS.replace(HEADER, HEADER + ".global .u32 counter = 5;\n")
    module = parse(text)
    other = Variants().alone(module, cooperative=False)
    memory = variables.module_memory(module, build(module, "k"))
    memory["counter"][0] = 9
    assert variables.module_memory(other, build(other, "k"))["counter"][0] == 9
