"""Operations of a kernel that decide nothing: without them every judged call is right.

Launches of judged calls are recorded and executed on the PTX machine with one operation of one
source line left out at a time: zero or an operand takes its place, or of a selection one side
(`build.machine.edited`). What is right all the same in every call is code whose purpose no judged
call has seen: a wrong branch as arithmetic, in whatever language the kernel is written. It is to
kernels what `judge.decide.exchanges` is to Python.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING

from cuassay.checks.kernels.facts import cleaned_text
from cuassay.errors import CuassayError
from cuassay.inputs.geometry import elements
from cuassay.judge.decide.exchanges import judged_cases
from cuassay.judge.diagnose.blamed_lines import source_line
from cuassay.judge.diagnose.instructions import edited_calls, is_right, record_call
from cuassay.model.candidate import Candidate
from cuassay.model.machine import InstructionEdit
from cuassay.model.python_text import parse_python
from cuassay.model.scenario import Scenario
from cuassay.model.scope import Unreached

if TYPE_CHECKING:
    from cuassay.checks.base import Run
    from cuassay.judge.checking import Checked
    from cuassay.judge.trial import JudgeTrial

_ELEMENTS = 1 << 15  # of inputs and outputs: a call takes some hundredths of a second
_LEAST_CALLS = 3  # with which an operation is called idle
_TEXT = 70
# A function of a library becomes many instructions of which the last change the last bits alone.
_FUNCTION = re.compile(
    r"(?<!__)\b(?:\w+\.)?(?:erfc?|tanh|log1p|expm1|exp|log2?|pow|sin|cos|cbrt|lgamma|fmod)f?\s*\("
)
_LESS = re.compile(r"\b(?:tl|tl\.math)\.(?:exp2?|log2?|sin|cos)\s*\(")  # one instruction or two


def idle_instructions(
    trial: JudgeTrial, candidate: Candidate, run: Callable[[Scenario], Run], checked: Checked
) -> tuple[Unreached, ...]:
    """Return lines of a candidate's kernels with an operation that no judged call needs."""
    machine = trial.machine
    if machine is None or machine.absent:
        return ()
    limit_s, spent_s, cut = trial.effort.idle_instructions_s, 0.0, False
    met: dict[str, InstructionEdit] = {}
    calls, needed = Counter[str](), set[str]()
    lines: set[tuple[str, int]] = set()
    for case in judged_cases(trial, checked)[0]:
        if spent_s >= limit_s:
            break
        if elements(trial.problem, case.axes) > _ELEMENTS:
            continue
        try:
            call = record_call(trial, run, case)
            if call is None:
                continue
            found = edited_calls(
                trial, machine, call, near=None, limit_s=limit_s - spent_s, leaving_out=True
            )
        except (CuassayError, RuntimeError, ValueError):
            continue
        spent_s, cut = spent_s + found.spent_s, cut or found.cut
        lines.update((file, line) for file, line in found.lines)
        # A compiler makes other instructions for other sizes: each has calls of its own.
        tried = {edit.key: edit for edit in (*found.same, *(one.edit for one in found.calls))}
        met |= tried
        calls.update(tried.keys())
        needed.update(found.broken)
        needed.update(one.edit.key for one in found.calls if not is_right(trial, call, one))
    idle = [edit for key, edit in met.items() if key not in needed and calls[key] >= _LEAST_CALLS]
    named = tuple(_named(candidate, idle, lines))
    if cut and (not calls or max(calls.values()) < _LEAST_CALLS):
        test = "no time was left to leave out all operations of its kernels"
        named += (Unreached(file=candidate.entry_file, line=1, last=1, test=test),)
    return named


def _named(
    candidate: Candidate, idle: list[InstructionEdit], known: Collection[tuple[str, int]]
) -> Iterator[Unreached]:
    """Return lines of operations, each once, but for those that call a library's function.

    Those of one that its compiler lifted out of its line are those of its kernel that make numbers
    of sizes and of which no instruction is left: `known` are lines of which some are.
    """
    lines = {(edit.file, edit.line) for edit in idle if not edit.lifted}
    for edit in idle:
        used = source_line(candidate, edit.file, edit.line) if edit.lifted else None
        if used is None:
            continue
        text = next(one.text for one in candidate.sources if one.path == used.file)
        gone = {
            (edit.file, one.lineno)
            for one in _plain_numbers(text, edit.key.split()[0])
            if (edit.file, one.lineno) not in known
        }
        lines |= gone or {(edit.file, edit.line)}
    for file, number in sorted(lines):
        line = source_line(candidate, file, number, what="")
        if line is None or _FUNCTION.search(_LESS.sub("", line.text)):
            continue
        test = cleaned_text(f"made no difference: {line.text.strip()}", _TEXT)
        yield Unreached(file=line.file, line=number, last=number, test=test)


def _plain_numbers(text: str, kernel: str) -> Iterator[ast.Assign]:
    """Yield assignments of a Python kernel that calculate with names and numbers alone."""
    try:
        tree = parse_python(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    plain = (ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Load)
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name == kernel:
            for one in ast.walk(function):
                if not isinstance(one, ast.Assign) or not isinstance(one.value, ast.BinOp):
                    continue
                if all(isinstance(part, plain) for part in ast.walk(one.value)):
                    yield one
