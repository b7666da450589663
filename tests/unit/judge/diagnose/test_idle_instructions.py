"""Operations of kernels that no judged call needs: the line of each, and none that one needs."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cuassay.build.cuda.nvrtc import find_nvrtc
from cuassay.catalog import registry
from cuassay.checks.registry import all_checks
from cuassay.judge.diagnose import idle_instructions as module
from cuassay.model.case import Case
from cuassay.model.machine import EditedCall, EditedCalls, InstructionChange, InstructionEdit
from cuassay.model.scenario import Allocate, Call, ReadResult, Scenario
from cuassay.sandbox.host.nursery import Nursery
from tests.support.builds import candidate, problem
from tests.zoo.judging import Gate

SOURCE = candidate(
    "def kernel(x, n):\n    far = x - 77.0\n    y = erff(x) * 2\n    return y\n", paths=("k.py",)
)
NUMERIC = next(one for one in all_checks() if one.code == "NUM001")
CASES = [
    Case(label=f"{rows} rows", axes={"rows": rows, "hidden": 8, "half": 4}) for rows in (3, 4, 5, 6)
]


def _edit(line: int, key: str = "") -> InstructionEdit:
    return InstructionEdit(
        change=InstructionChange.ZERO, file="k.py", line=line, words="zero", key=key or f"{line}"
    )


def _named(
    monkeypatch: pytest.MonkeyPatch, *answers: EditedCalls, right: tuple[str, ...] = ()
) -> list[tuple[int, str]]:
    """Return line and text of what is named, where calls give these answers one after another."""
    given = list(answers)
    asked: list[Any] = []

    def edited(trial: Any, machine: Any, call: Case, **request: Any) -> EditedCalls:
        assert request["leaving_out"]
        asked.append(call)
        return given[len(asked) - 1]

    monkeypatch.setattr(module, "record_call", lambda trial, run, case: case)
    monkeypatch.setattr(module, "edited_calls", edited)
    monkeypatch.setattr(module, "is_right", lambda trial, call, one: one.edit.key in right)
    steps = (Allocate(slot="a", case=0), Call(slot="a", result="r"), ReadResult(result="r"))
    judged = [
        (NUMERIC, Scenario(label="", cases=(case,), steps=steps)) for case in CASES[: len(given)]
    ]
    trial: Any = SimpleNamespace(
        machine=SimpleNamespace(absent=""),
        problem=problem(),
        effort=SimpleNamespace(idle_instructions_s=1.0),
    )
    checked: Any = SimpleNamespace(right=judged)
    found = module.idle_instructions(
        trial, SOURCE, lambda scenario: pytest.fail("nothing is called"), checked
    )
    return [(one.line, one.test) for one in found]


def test_what_no_call_needs_is_named_by_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    same = EditedCalls(same=(_edit(2), _edit(4)))
    needed = EditedCalls(same=(_edit(2),), calls=(EditedCall(edit=_edit(4)),))
    assert _named(monkeypatch, same, needed, same) == [(2, "made no difference: far = x - 77.0")]
    assert _named(monkeypatch, same, same) == []  # two calls say too little


def test_another_result_that_is_right_too_is_no_need(monkeypatch: pytest.MonkeyPatch) -> None:
    other = EditedCalls(calls=(EditedCall(edit=_edit(2)),))
    assert _named(monkeypatch, other, other, other, right=("2",)) != []
    assert _named(monkeypatch, other, other, other) == []


def test_what_the_first_call_was_not_compiled_with_counts_from_the_calls_that_were(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without, same = EditedCalls(same=(_edit(4),)), EditedCalls(same=(_edit(2), _edit(4)))
    named = _named(monkeypatch, without, same, same, same)
    assert [line for line, _ in named] == [2, 4]
    assert [line for line, _ in _named(monkeypatch, without, same, same)] == [4]


def test_a_launch_that_does_not_end_well_needs_the_operation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same, broken = EditedCalls(same=(_edit(2),)), EditedCalls(broken=("2",))
    assert _named(monkeypatch, same, broken, same) == []


def test_lines_with_a_function_of_a_library_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    same = EditedCalls(same=(_edit(3),))
    assert _named(monkeypatch, same, same, same) == []


def test_where_time_ends_before_three_calls_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = EditedCalls(same=(_edit(2),), spent_s=2.0, cut=True)
    (told,) = _named(monkeypatch, slow, slow, slow)
    assert told == (1, "no time was left to leave out all operations of its kernels")


def test_what_was_lifted_out_of_its_line_is_named_where_nothing_is_left_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used = dataclasses.replace(_edit(3, "kernel k.py:3 zero"), lifted=True)
    text = SOURCE.sources[0].text.replace("erff(x) * 2", "far * 2")
    source = dataclasses.replace(SOURCE.sources[0], text=text)
    monkeypatch.setattr(
        sys.modules[__name__], "SOURCE", dataclasses.replace(SOURCE, sources=(source,))
    )
    alone = EditedCalls(same=(used,), lines=(("k.py", 3), ("k.py", 4)))
    assert [line for line, _ in _named(monkeypatch, alone, alone, alone)] == [2]
    known = dataclasses.replace(alone, lines=(("k.py", 2), ("k.py", 3), ("k.py", 4)))
    assert [line for line, _ in _named(monkeypatch, known, known, known)] == [3]


_KERNEL = """// cuassay-launch:
// [[launches]]
// kernel = "swiglu"
// grid = ["-(-rows * hidden // 256)"]
// block = [256]
// arguments = ["gate", "up", "y", "rows * hidden"]

#include <cuda_bf16.h>

extern "C" __global__ void swiglu(
    const __nv_bfloat16* gate, const __nv_bfloat16* up, __nv_bfloat16* y, long long count) {
    long long i = blockIdx.x * 256ll + threadIdx.x;
    if (i >= count) return;
    float g = __bfloat162float(gate[i]), u = __bfloat162float(up[i]);
    float far = (g - 3.0f) * (g - 3.0f) + (u + 2.5f) * (u + 2.5f);
    float near = 0.25f / (1.0f + far * 1e8f);
    float wide = g / (1.0f + __expf(-g)) * u;
    y[i] = __float2bfloat16(MADE);
}
"""


@pytest.mark.skipif(find_nvrtc() is None, reason="libnvrtc is not installed")
@pytest.mark.parametrize(("made", "idle"), [("wide + wide * near", {15, 16, 18}), ("wide", set())])
def test_a_planted_fault_of_one_value_is_named_and_its_twin_is_not(
    tmp_path: Path, nursery: Nursery, made: str, idle: set[int]
) -> None:
    path = tmp_path / "swiglu.cu"
    path.write_text(_KERNEL.replace("MADE", made))
    with Gate("cpu", nursery=nursery) as gate:
        found = gate.judge(registry.get("swiglu"), path, only=("NUM001", "SHP001"))
    assert found.accepted, str(found)
    named = {one.line for one in found.verdict.scope.unreached}
    assert (16 in named) is bool(idle)
    assert named <= idle
