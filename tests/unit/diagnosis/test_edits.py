"""Edits of a source change one place, keep its lines, and fit the cause that they are tried for."""

from __future__ import annotations

import ast

import pytest

from cuassay.diagnosis.edits import EditKind, edits
from cuassay.model.diagnosis import Cause

_SOURCE = """\
import torch

torch.set_num_threads(3)
_kept = {}


def run(x, weight, eps):
    rows, hidden = x.shape
    stride = 256
    if hidden > 64:
        x = x.bfloat16()
    total = torch.zeros(rows, dtype=torch.bfloat16)
    whole = hidden // 64 * 64
    y = torch.empty_like(x)
    total += x[:, :whole].sum(-1) * weight[0]
    return total, y
"""


def _of(cause: Cause, source: str = _SOURCE) -> dict[str, EditKind]:
    return {f"{edit.line}: {edit.words}": edit.kind for edit in edits(source, cause=cause)}


@pytest.mark.parametrize("cause", list(Cause))
def test_every_edit_parses_and_changes_its_line_first(cause: Cause) -> None:
    before = _SOURCE.splitlines()
    for edit in edits(_SOURCE, cause=cause):
        after = edit.text.splitlines()
        ast.parse(edit.text)
        changed = [
            n for n, rows in enumerate(zip(before, after, strict=False)) if rows[0] != rows[1]
        ]
        assert changed[0] + 1 == edit.line, edit.words


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (Cause.WRONG_VALUES, "9: `hidden` for `256`"),
        (Cause.WRONG_VALUES, "10: `hidden > 64` never true"),
        (Cause.WRONG_VALUES, "15: `/` in `x[:, :whole].sum(-1) * weight[0]`"),
        (Cause.WRONG_VALUES, "15: `eps` for `weight`"),
        (Cause.LOW_PRECISION, "11: `x` for `x.bfloat16()`"),
        (Cause.LOW_ACCUMULATION, "12: `float32` for `bfloat16`"),
        (Cause.TAIL, "13: `hidden // 64` rounded up"),
        (Cause.UNWRITTEN, "14: `zeros_like` for `empty_like`"),
        (Cause.INPUT_MISREAD, "15: `weight` for `weight[0]`"),
        (Cause.PROCESS_STATE, "3: `torch.set_num_threads(3)` left out"),
        (Cause.LAYOUT, "15: `x.contiguous()`"),
        (Cause.GRADIENT, "16: the two results exchanged"),
    ],
)
def test_the_usual_repair_of_a_cause_is_among_its_edits(cause: Cause, words: str) -> None:
    assert words in _of(cause)


def test_a_cause_gets_its_own_kinds_alone() -> None:
    assert set(_of(Cause.PROCESS_STATE).values()) <= {
        EditKind.STATEMENT,
        EditKind.COPY,
        EditKind.PART,
        EditKind.BRANCH,
    }


def test_lines_that_did_not_run_are_left_alone() -> None:
    source = "def run(x):\n    if x:\n        return x // 2\n    return x // 3\n"
    found = edits(source, cause=Cause.TAIL, ran=frozenset({2, 4}))
    assert {edit.line for edit in found} == {2, 4}


def test_sizes_are_told_from_values() -> None:
    by_words = {edit.words: edit for edit in edits(_SOURCE, cause=Cause.WRONG_VALUES)}
    assert by_words["`weight` for `weight[0]`"].indexed
    assert by_words["`float32` for `bfloat16`"].filled
    assert not by_words["`weight` for `weight[0]`"].sizes


def test_what_is_no_python_has_no_edits() -> None:
    assert edits("def run(:", cause=Cause.TAIL) == ()


def test_a_term_that_is_rounded_is_no_total() -> None:
    text = (
        "def run(x):\n"
        "    total = 0\n"
        "    for c in range(4):\n"
        "        total += x[c].bfloat16().float()\n"
        "    return total\n"
    )
    found = [e for e in edits(text, cause=Cause.LOW_PRECISION) if e.kind is EditKind.PRECISION]
    assert not any(edit.carried for edit in found)


def test_an_update_in_a_loop_is_told_from_a_rounding() -> None:
    text = (
        "def run(x):\n"
        "    x = x.half().float()\n"
        "    total = 0\n"
        "    for c in range(4):\n"
        "        total = (total + x[c]).bfloat16()\n"
        "    return total\n"
    )
    found = [e for e in edits(text, cause=Cause.LOW_PRECISION) if e.kind is EditKind.PRECISION]
    assert {edit.line for edit in found if edit.carried} == {5}
    assert {edit.line for edit in found} == {2, 5, 6}


def test_a_value_of_a_kernel_gets_no_method_of_tensors() -> None:
    text = (
        "@triton.jit\n"
        "def kernel(x, y):\n"
        "    tl.store(y, tl.load(x).to(tl.bfloat16))\n"
        "def run(x, y):\n"
        "    y.copy_(x.to(torch.bfloat16))\n"
    )
    found = [e for e in edits(text, cause=Cause.LOW_PRECISION) if e.kind is EditKind.PRECISION]
    assert {edit.line for edit in found if ".float()" in edit.words} == {5}
    assert 3 in {edit.line for edit in found}


@pytest.mark.parametrize(
    ("listed", "cut"),
    [("[A, B]", "configs=[A],"), ("configurations()", "configs=list(configurations())[:1],")],
)
def test_an_autotuner_keeps_its_first_configuration(listed: str, cut: str) -> None:
    text = f"@triton.autotune(configs={listed}, key=['n'])\n@triton.jit\ndef k(x, n): pass\n"
    found = edits(text, cause=Cause.FIRST_CALL)
    (edit,) = [one for one in found if one.kind is EditKind.CONFIGURATIONS]
    assert cut in edit.text
    assert edit.line == 1


def test_an_axis_that_a_keyword_names_becomes_another() -> None:
    source = "def run(x):\n    return x - x.amax(dim=0) + x.sum(dim=-2, keepdim=True)\n"
    found = _of(Cause.WRONG_VALUES, source)
    axes = {words for words, kind in found.items() if kind is EditKind.AXIS}
    assert axes == {
        "2: axis 1 for 0",
        "2: axis -1 for 0",
        "2: axis -3 for -2",
        "2: axis -1 for -2",
    }
    every = [edit.text for edit in edits(source, cause=Cause.WRONG_VALUES)]
    assert "def run(x):\n    return x - x.amax(dim=(-1)) + x.sum(dim=-2, keepdim=True)\n" in every
    assert "def run(x):\n    return x - x.amax(dim=0) + x.sum(dim=-(1), keepdim=True)\n" in every
