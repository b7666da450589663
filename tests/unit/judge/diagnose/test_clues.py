"""Experiments with planted bugs name cause and line; benchmarks/diagnosis.py measures all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cuassay.checks.numeric.common import single_call
from cuassay.diagnosis.edits import Edit, EditKind
from cuassay.formats import load_problem
from cuassay.judge.diagnose import clues
from cuassay.model.case import Case
from cuassay.model.diagnosis import Basis, Cause, Diagnosis, SourceLine
from cuassay.sandbox.host.nursery import Nursery
from tests.zoo.causes import causes_of, planted_lines
from tests.zoo.judging import Gate
from tests.zoo.manifest import PAIRS, load


@pytest.fixture(scope="module")
def gate(nursery: Nursery) -> Iterator[Gate]:
    with Gate(causes=True, nursery=nursery) as made:
        yield made


def _first(gate: Gate, name: str, *, only: Sequence[str] = ()) -> Diagnosis:
    pair = next(pair for pair in PAIRS if pair.name == name)
    only = only or ("API002", "NUM001", "SHP001", *pair.codes)
    verdict = gate.judge(
        load(pair.problem), pair.bug, seed=3, only=only, require=pair.require
    ).verdict
    assert verdict.diagnoses[0].cause in causes_of(pair), verdict.diagnoses
    assert verdict.reason.startswith(verdict.diagnoses[0].words[:40])
    return verdict.diagnoses[0]


def _names_line(name: str, made: Diagnosis) -> bool:
    pair = next(pair for pair in PAIRS if pair.name == name)
    return made.line is not None and made.line.line in planted_lines(pair)


def test_a_mutant_that_is_wrong_alike_names_the_fault(gate: Gate) -> None:
    made = _first(gate, "gamma_ignored")
    assert made.basis is Basis.MUTANT
    assert _names_line("gamma_ignored", made)


def test_a_low_accumulator_is_found_where_it_is_made(gate: Gate) -> None:
    made = _first(gate, "bf16_row_sum")
    assert made.cause is Cause.LOW_ACCUMULATION
    assert _names_line("bf16_row_sum", made)


@pytest.mark.parametrize(
    ("kernel", "line"),
    [
        # The same kernel again, by the line information of another compiler.
        pytest.param("kernel_bf16_triton.py", "tl.atomic_add(target", marks=[pytest.mark.thorough]),
        ("kernel_bf16.cu", "atomicAdd(target"),
    ],
)
def test_an_atomic_sum_is_found_where_the_machine_sees_it(
    nursery: Nursery, kernel: str, line: str
) -> None:
    """Its memory is the output: no edit of one line makes it right."""
    pytest.importorskip("triton")
    folder = Path(__file__).parents[4] / "examples" / "embedding_rmsnorm_backward"
    problem = load_problem(str(folder / "problem"))
    with Gate(causes=True, machine=True, nursery=nursery) as gate:
        verdict = gate.judge(
            problem, folder / kernel, seed=3, only=("NUM001", "NUM002", "PREC101")
        ).verdict
    made = verdict.diagnoses[0]
    assert made.cause is Cause.LOW_ACCUMULATION
    assert made.basis is Basis.MACHINE
    assert made.line is not None
    assert made.line.text.startswith(line)
    assert made.line.what.startswith("its sum loses ")


def test_a_kept_answer_is_found_where_it_comes_back(gate: Gate) -> None:
    made = _first(gate, "memo_by_identity")
    assert made.cause is Cause.STALE_ANSWER
    assert _names_line("memo_by_identity", made)


def test_a_write_into_an_input_is_found(gate: Gate) -> None:
    made = _first(gate, "input_mutated")
    assert made.cause is Cause.INPUT_CHANGED
    assert _names_line("input_mutated", made)


def test_a_tail_that_is_not_written_is_told_from_numbers_where_sizes_alone_were_tried(
    gate: Gate,
) -> None:
    made = _first(gate, "unwritten_tail", only=("SHP001",))
    assert made.cause is Cause.UNWRITTEN
    assert " elements hold whatever fresh memory held, the first at [" in made.words


def test_a_name_that_is_not_there_is_found(gate: Gate) -> None:
    made = _first(gate, "missing_import")
    assert made.cause is Cause.NOT_BUILT


@pytest.mark.parametrize(("name", "code"), [("storage_reshaped", "LAYOUT001")])
def test_a_line_with_whose_edit_the_cases_tried_are_right_is_named(
    gate: Gate, name: str, code: str
) -> None:
    made = _first(gate, name, only=(code,))
    assert made.basis is Basis.REPAIR
    assert _names_line(name, made)
    assert made.line is not None
    assert made.line.what.startswith("a copy with ")
    assert made.line.what.endswith(" was right on the cases tried")


_SQUARED = '''"""Rows times the square of an argument, which is 2 unless a caller says otherwise."""
from typing import Annotated
import torch
from cuassay import problem, scalar, tensor

T = torch.Tensor


@problem(axes={"rows": (1, 512), "cols": (1, 512)}, workloads=[{"rows": 9, "cols": 5}])
def squared(
    x: Annotated[T, tensor("float32", "rows", "cols")],
    factor: Annotated[float, scalar("float32", low=0.5, high=8.0, default=2.0)],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    return x.exp() * factor**2
'''


def test_a_mutant_of_an_argument_is_wrong_alike_at_another_value_of_it(
    gate: Gate, tmp_path: Path
) -> None:
    problem, kernel = tmp_path / "squared.py", tmp_path / "kernel.py"
    problem.write_text(_SQUARED)
    kernel.write_text("def squared(x, factor):\n    return x.exp() * factor\n")
    verdict = gate.judge(load_problem(str(problem)), kernel, seed=3, only=("SHP002",)).verdict
    # `2` for `4` is right at the usual value alone. Which value is named depends on the case.
    assert "the root of `" in verdict.diagnoses[0].words


_SCALED = '''"""Rows of values with one scale for eight of them."""
from typing import Annotated
import torch
from cuassay import problem, tensor

T = torch.Tensor


@problem(axes={"rows": (1, 512), "groups": (1, 64)}, workloads=[{"rows": 9, "groups": 5}])
def scaled(
    x: Annotated[T, tensor("float32", "rows", "groups*8")],
    s: Annotated[T, tensor("float32", "rows", "groups")],
) -> Annotated[T, tensor("float32", "rows", "groups*8", name="y")]:
    return x * s.repeat_interleave(8, 1)
'''
_SCALED_KERNEL = """// cuassay-launch:
// [[launches]]
// kernel = "scaled"
// grid = ["rows"]
// block = [64]
// arguments = ["x", "s", "y", "groups"]

extern "C" __global__ void scaled(const float* x, const float* s, float* y,
                                  long long groups) {
  const int row = blockIdx.x;
  for (int i = threadIdx.x; i < groups * 8; i += blockDim.x) {
    const long long at = (long long)row * groups * 8 + i;
    y[at] = x[at] * s[row * groups + i / SIZE];
  }
}
"""


@pytest.mark.parametrize(("size", "is_wrong"), [("16", True), ("8", False)])
def test_an_edited_instruction_names_the_line_of_a_kernel_that_no_edit_of_its_text_reaches(
    nursery: Nursery, tmp_path: Path, size: str, is_wrong: bool
) -> None:
    """One scale is used for two groups; the twin uses each for its own."""
    (tmp_path / "problem.py").write_text(_SCALED)
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(_SCALED_KERNEL.replace("SIZE", size))
    problem = load_problem(f"{tmp_path / 'problem.py'}:scaled")
    with Gate(causes=True, machine=True, nursery=nursery) as gate:
        verdict = gate.judge(problem, kernel, seed=3, only=("NUM001", "SHP001")).verdict
    assert bool(verdict.diagnoses) is is_wrong, verdict.reason
    for made in verdict.diagnoses:
        assert made.cause is Cause.INPUT_MISREAD
        assert made.basis is Basis.REPAIR
        assert made.line is not None
        assert made.line.text == "y[at] = x[at] * s[row * groups + i / SIZE];".replace("SIZE", size)


_SCANNED = '''"""Sums of each row up to a place."""
from typing import Annotated
import torch
from cuassay import problem, tensor

T = torch.Tensor


@problem(axes={"rows": (1, 64), "cols": (1, 128)}, workloads=[{"rows": 3, "cols": 100}])
def scanned(
    x: Annotated[T, tensor("float32", "rows", "cols")],
) -> Annotated[T, tensor("float32", "rows", "cols", name="y")]:
    return x.cumsum(1)
'''
_SCANNED_KERNEL = """// cuassay-launch:
// [[launches]]
// kernel = "scanned"
// grid = ["rows"]
// block = [128]
// arguments = ["x", "y", "cols"]

extern "C" __global__ void scanned(const float* x, float* y, long long cols) {
  __shared__ float held[128];
  const int t = threadIdx.x;
  held[t] = t < cols ? x[blockIdx.x * cols + t] : 0.0f;
  __syncthreads();
  for (int step = 1; step < 128; step *= 2) {
    const float left = t >= step ? held[t - step] : 0.0f;
    BARRIER
    held[t] += left;
    __syncthreads();
  }
  if (t < cols) y[blockIdx.x * cols + t] = held[t];
}
"""


@pytest.mark.parametrize(("barrier", "is_wrong"), [("", True), ("__syncthreads();", False)])
def test_a_race_in_a_failing_call_is_its_cause_where_no_check_of_races_has_run(
    nursery: Nursery, tmp_path: Path, barrier: str, is_wrong: bool
) -> None:
    (tmp_path / "problem.py").write_text(_SCANNED)
    kernel = tmp_path / "kernel.cu"
    kernel.write_text(_SCANNED_KERNEL.replace("BARRIER", barrier))
    problem = load_problem(f"{tmp_path / 'problem.py'}:scanned")
    with Gate(causes=True, machine=True, nursery=nursery) as gate:
        verdict = gate.judge(problem, kernel, seed=3, only=("SHP002",)).verdict
    assert bool(verdict.diagnoses) is is_wrong, verdict.reason
    for made in verdict.diagnoses[:1]:
        assert made.cause is Cause.RACE
        assert made.basis is Basis.MACHINE
        assert "expected" not in made.words  # what the threads do, not what came of it
        assert made.line is not None
        assert "held[t" in made.line.text


@pytest.mark.parametrize("cause", [Cause.TAIL, Cause.SIZES])
def test_no_other_axis_is_tried_where_other_sizes_are_right(cause: Cause) -> None:
    """Chunks of 96 along an axis of five elements are one chunk, whatever the fault in chunks."""
    line = SourceLine(file="kernel.py", line=28, text="for chunk in x.split(96, dim=1):")
    made = Diagnosis(
        cause=cause, words="wrong at cols=97 and right at cols=96", remedy="", basis=Basis.CHECK,
        line=line,
    )  # fmt: skip
    edits = [Edit(kind=kind, line=28, words="", text="") for kind in EditKind]
    worth = {edit.kind for edit in edits if clues._may_repair(made, edit)}
    assert set(EditKind) - worth == {EditKind.AXIS}
    other = replace(made, cause=Cause.WRONG_VALUES)
    assert all(clues._may_repair(other, edit) for edit in edits)


def test_where_the_machine_saw_bits_go_other_precision_is_tried_there_or_where_it_is_kept() -> None:
    line = SourceLine(file="kernel.py", line=28, text="total += x")
    made = Diagnosis(
        cause=Cause.LOW_ACCUMULATION, words="", remedy="", basis=Basis.MACHINE, line=line
    )
    there = Edit(kind=EditKind.PRECISION, line=28, words="", text="")
    assert clues._may_repair(made, there)
    assert not clues._may_repair(made, replace(there, kind=EditKind.NUMBER))
    elsewhere = replace(there, line=12)
    assert not clues._may_repair(made, elsewhere)
    assert clues._may_repair(made, replace(elsewhere, filled=True))
    assert clues._may_repair(made, replace(elsewhere, carried=True))


def test_a_call_that_begins_a_process_is_made_once() -> None:
    runs: list[Any] = [object() for _ in range(3)]
    left = iter(runs)
    asked = clues._AskedOnce(lambda scenario: next(left))
    first = replace(single_call(Case(label="small", axes={}), label="first"), fresh=True)
    assert not asked.knows(first)
    assert asked(first) is asked(first) is runs[0]
    assert asked.knows(first)
    later = replace(first, fresh=False)
    assert [asked(later), asked(later)] == runs[1:]
    assert not asked.knows(later)
