"""The line of a kernel follows from what its instructions gave, beside the reference's values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch

from cuassay.judge.diagnose import blamed_lines
from cuassay.judge.diagnose.alike import WrongOutputs
from cuassay.judge.trial import JudgeTrial
from cuassay.model.candidate import Candidate, SourceFile
from cuassay.model.case import Case
from cuassay.model.diagnosis import Cause, SourceLine
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.machine import FloatRange, LaunchEvidence
from cuassay.model.problem import Problem, Reference, TensorSpec, VarAxis
from cuassay.sandbox.guest.observe.call_trace import SeenOperation, sketch

# Small, so that an epsilon matters.
X = 3e-3 * torch.randn(5, 40, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _rms(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)


def _trial(reference: Callable[..., torch.Tensor]) -> JudgeTrial:
    tensor = TensorSpec(name="x", dtype=DType.FLOAT64, shape=("rows", "cols"), domain=Real())
    out = TensorSpec(name="y", dtype=DType.FLOAT64, shape=("rows", "cols"), domain=Real())
    problem = Problem(
        name="op",
        axes=(VarAxis(name="rows", minimum=1), VarAxis(name="cols", minimum=1)),
        inputs=(tensor,),
        outputs=(out,),
        reference=Reference(path=Path("reference.py"), function="op"),
        workloads=(),
        origin="native",
    )
    made: Any = SimpleNamespace(
        problem=problem,
        inputs=lambda case: {"x": X.clone()},
        reference=SimpleNamespace(call=reference),
    )
    return cast(JudgeTrial, made)


def _candidate() -> Candidate:
    text = "".join(f"line {number}\n" for number in range(1, 30))
    return Candidate(
        name="k",
        sources=(SourceFile(path="kernel.py", text=text),),
        entry_file="kernel.py",
        entry_function="op",
    )


def _range(line: int, value: torch.Tensor, *, opcode: str = "mul.f32") -> FloatRange:
    size = value.abs()
    return FloatRange(
        file="kernel.py",
        line=line,
        opcode=opcode,
        largest=float(size.max()),
        smallest=float(size.min()),
        stored=opcode.startswith("st"),
    )


def _found(*floats: FloatRange) -> SourceLine | None:
    launch = LaunchEvidence(
        kernel="k", grid=(1, 1, 1), block=(32, 1, 1), target="sm_80", floats=floats
    )
    case = Case(label="c", axes={"rows": 5, "cols": 40}, fills={}, seed=1)
    answer = WrongOutputs(case=case, outputs=(), truth=cast(Any, None))
    return blamed_lines.of_ranges(_trial(_rms), (launch,), _candidate(), answer, None)


def _line(*floats: FloatRange) -> int:
    found = _found(*floats)
    assert found is not None
    return found.line


MEAN = X.square().mean(-1, keepdim=True)


def test_it_is_the_first_value_that_the_reference_has_not() -> None:
    root = MEAN.sqrt() + 1e-5
    assert (
        _line(
            _range(3, X, opcode="cvt"),
            _range(4, X.square()),
            _range(6, MEAN),
            _range(9, root),
            _range(12, X, opcode="cvt"),  # the input is read again
            _range(13, X / root),
            _range(14, X / root, opcode="st.global.f32"),
        )
        == 9
    )


def test_parts_of_an_unrolled_value_are_one_value() -> None:
    halves = X.square()[:, :20], X.square()[:, 20:]
    floats = [_range(4, half) for half in halves]
    assert _line(*floats, _range(6, MEAN), _range(9, MEAN * 3.0)) == 9


def test_where_the_last_number_is_right_no_line_is_named() -> None:
    wrong = X * 770.0 + 3.0
    assert (
        _found(_range(4, wrong), _range(6, MEAN), _range(8, MEAN, opcode="st.global.f32")) is None
    )


def test_where_nothing_is_known_it_is_the_line_that_stores() -> None:
    wrong = X * 770.0 + 3.0
    assert _line(_range(5, wrong), _range(8, wrong, opcode="st.global.f32")) == 8


def test_where_nothing_is_known_a_multiple_of_a_value_is_the_line() -> None:
    """Twice the squares, and what follows from that."""
    squares = 2 * X.square()
    root = torch.rsqrt(squares.mean(-1, keepdim=True) + 1e-5)
    floats = _range(4, X + 1.0), _range(6, squares), _range(9, root), _range(12, X * root)
    assert _line(*floats) == 6


def test_without_launches_nothing_is_said() -> None:
    case = Case(label="c", axes={"rows": 5, "cols": 40}, fills={}, seed=1)
    answer = WrongOutputs(case=case, outputs=(), truth=cast(Any, None))
    found = blamed_lines.of_ranges(_trial(_rms), (), _candidate(), answer, None)
    assert found is None


def test_in_a_large_value_numbers_that_are_near_by_chance_say_nothing() -> None:
    generator = torch.Generator().manual_seed(2)
    value = torch.rand(1 << 17, generator=generator, dtype=torch.float64).sort().values
    sketch = (float(value.numel()), float(value.mean()), 0.577, 1.0)
    right = blamed_lines._Values(sketches=(sketch,), elements=(value,))

    def made(sketch: tuple[float, ...], sample: torch.Tensor) -> blamed_lines._Made:
        return blamed_lines._Made(
            file="kernel.py",
            line=3,
            dtype="float32",
            rounded=False,
            sketches=(sketch,),
            sample=tuple(sample.tolist()),
        )

    other = (sketch[0], 0.3, 0.4, 1.0)
    assert not right.hold(made(other, torch.rand(12, generator=generator) * 0.9 + 0.05))
    assert right.hold(made((12.0, 0.3, 0.4, 1.0), value[::10_000]))  # some rows of it
    few = blamed_lines._Values(sketches=(sketch,), elements=(value[::1000].clone(),))
    assert few.hold(made(other, value[::10_000]))  # in another order, with other numbers between


def test_where_few_numbers_of_the_answer_are_wrong_no_end_is_blamed() -> None:
    case = Case(label="c", axes={"rows": 5, "cols": 40}, fills={}, seed=1)
    answer = WrongOutputs(case=case, outputs=(), truth=cast(Any, None))

    def blamed(last: torch.Tensor) -> SourceLine | None:
        half = X * 0.5
        seen = tuple(
            SeenOperation(
                file="kernel.py",
                line=line,
                op="mul",
                dtype="float64",
                sketch=sketch(value),
                sample=tuple(value.flatten()[:12].tolist()),
            )
            for line, value in ((3, half), (4, last))
        )
        trace = blamed_lines.Traced(ran={}, returned=("", 0), seen=list(seen))
        return blamed_lines.of_numbers(
            _trial(lambda x: x * 0.5 + 1.0), trace, _candidate(), answer, None, Cause.WRONG_VALUES
        )

    right = X * 0.5 + 1.0
    nearly = right.clone()
    nearly[0, 20] += 1e-3
    assert blamed(nearly) is None
    left_out = blamed(X * 0.5)
    assert left_out is not None
    assert left_out.what == "ends before what the reference still does"
