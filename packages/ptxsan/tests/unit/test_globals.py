"""Variables of a module: initialised once, shared by launches, and adopted from elsewhere."""

from __future__ import annotations

import numpy as np

from ptxsan import globals as variables
from ptxsan.emit.frame import global_address
from ptxsan.parser import parse
from ptxsan.program import build
from ptxsan_support.ptx import HEADER, kernel

_TEXT = kernel("ret;").replace(
    HEADER,
    HEADER
    + ".global .align 4 .b8 table[8] = {1, 2};\n.const .f32 half = 0f3F000000;\n"
    + ".global .u64 places[2] = {table+4, half};\n",
)


def test_variables_hold_what_they_were_given_and_zeros() -> None:
    module = parse(_TEXT)
    program = build(module, "k")
    memory = variables.module_memory(module, program)
    assert memory["table"].tolist() == [1, 2, 0, 0, 0, 0, 0, 0]
    assert memory["half"].view(np.float32).tolist() == [0.5]
    names = [one.name for one in program.globals]
    table, half = (global_address(names.index(name)) for name in ("table", "half"))
    assert memory["places"].view(np.uint64).tolist() == [table + 4, half]


def test_a_later_launch_finds_what_an_earlier_one_left() -> None:
    module = parse(_TEXT)
    variables.module_memory(module, build(module, "k"))["table"][7] = 42
    assert variables.module_memory(module, build(module, "k"))["table"][7] == 42
    fresh = parse(_TEXT)
    assert variables.module_memory(fresh, build(fresh, "k"))["table"][7] == 0


def test_memory_that_somebody_else_keeps_is_used_as_it_is() -> None:
    module = parse(_TEXT)
    own = np.full(8, 7, np.uint8)
    variables.adopt(module, "table", own)
    assert variables.module_memory(module, build(module, "k"))["table"] is own


def test_of_thousands_of_constants_a_launch_has_those_that_somebody_names() -> None:
    constants = "".join(f".global .align 1 .u8 c{number} = 1;\n" for number in range(5000))
    text = _TEXT.replace(HEADER, HEADER + constants).replace(
        "ret;\n}", "mov.u64 %rd1, c4321;\nret;\n}"
    )
    module = parse(text)
    program = build(module, "k")
    names = [one.name for one in program.globals]
    assert names == ["c4321", "table", "half"]
    memory = variables.module_memory(module, program)
    assert memory["c17"].tolist() == [1]  # the host may ask for any
    table = global_address(names.index("table"))
    assert memory["places"].view(np.uint64).tolist()[0] == table + 4
