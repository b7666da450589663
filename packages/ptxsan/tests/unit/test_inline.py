"""Device functions expanded at their calls: parameters, recursion, and calls through pointers."""

from __future__ import annotations

import pytest

from ptxsan.inline import TOO_DEEP, Flat, flatten
from ptxsan.parser import parse

_HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def _flat(functions: str, body: str) -> Flat:
    text = (
        f"{_HEAD}{functions}\n.visible .entry k(.param .u64 a)\n{{\n.reg .b32 %r<9>; "
        f".reg .b64 %rd<9>; .reg .pred %p<3>;\n{body}\nret;\n}}\n"
    )
    module = parse(text)
    return flatten(module, module.functions["k"])


_DOUBLE = (
    ".func (.param .b32 out) double(.param .b32 in)\n{\n.reg .b32 %r<3>;\nld.param.u32 %r1, [in];\n"
    "add.u32 %r2, %r1, %r1;\nst.param.b32 [out], %r2;\nret;\n}"
)
_CALL = (
    "{ .param .b32 p0; .param .b32 r0;\nst.param.b32 [p0], %r1;\n"
    "call.uni (r0), double, (p0);\nld.param.b32 %r2, [r0]; }"
)


def _codes(flat: Flat) -> list[str]:
    return [one.opcode for one in flat.body]


def test_a_call_becomes_the_body_with_registers_of_its_own() -> None:
    flat = _flat(_DOUBLE, f"{_CALL}\n{_CALL}")
    assert _codes(flat).count("add.u32") == 2
    assert flat.calls == 2
    assert "call.uni" not in " ".join(_codes(flat))
    adds = [one for one in flat.body if one.opcode == "add.u32"]
    assert adds[0].operands != adds[1].operands  # each copy has its own registers
    assert {"%r1", "%r2"} <= set(flat.registers)


def test_a_predicate_on_a_call_jumps_over_its_body() -> None:
    flat = _flat(_DOUBLE, "setp.eq.u32 %p1, %r1, 0;\n" + _CALL.replace("call.uni", "@%p1 call.uni"))
    jump = next(one for one in flat.body if one.base == "bra")
    assert jump.predicate is not None
    assert jump.predicate.negated
    assert any(name.startswith("called@") for name in flat.labels)


def test_a_function_that_calls_itself_is_expanded_so_often_and_then_stops() -> None:
    again = ".func loop()\n{\ncall.uni loop;\nret;\n}"
    flat = _flat(again, "call.uni loop;")
    deep = [one for one in flat.body if TOO_DEEP in one.opcode]
    assert len(deep) == 1
    assert flat.copies == 1 + flat.turns


def test_a_call_through_a_pointer_is_a_choice_among_those_whose_address_is_taken() -> None:
    two = ".func one() { bar.sync 0; ret; }\n.func two() { bar.sync 1; ret; }\n"
    body = "mov.u64 %rd1, one;\ncall %rd1, (), proto;\nproto: .callprototype _ ();"
    flat = _flat(two, body)
    assert flat.pointed == {"one"}
    assert _codes(flat).count("bar.sync") == 1
    assert any(one.opcode.startswith("setp.eq") for one in flat.body)


@pytest.mark.parametrize("index", [0, 1])
def test_of_several_kernels_a_thread_goes_to_its_own(index: int) -> None:
    entries = (f".visible .entry {name}() {{ bar.sync 0; ret; }}\n" for name in "ab")
    text = _HEAD + "".join(entries)
    module = parse(text)
    flat = flatten(module, module.functions["a"], module.functions["b"])
    place = flat.labels[f"kernel@{index}"]
    assert flat.body[place].opcode == "bar.sync"
    assert _codes(flat)[0].startswith("setp.eq")
