"""Stated domains are checked for sense, and the generator's values against them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from cuassay.errors import ProblemError, ReferenceError_
from cuassay.formats.domain_rules import check_domain, domain_words, within
from cuassay.formats.generated import check_made
from cuassay.model.domain import (
    Choice,
    Domain,
    Index,
    IntegerRange,
    Mask,
    Offsets,
    Positive,
    Probability,
    Real,
    Structure,
)
from cuassay.model.dtype import DType
from cuassay.model.problem import ConstAxis, Problem, Reference, ScalarSpec, TensorSpec, VarAxis


def _spec(domain: Domain, dtype: DType = DType.FLOAT32, *shape: str) -> TensorSpec:
    return TensorSpec(
        name="x", dtype=dtype, shape=shape or ("n",), domain=domain, domain_source="declared"
    )


@pytest.mark.parametrize(
    ("domain", "dtype"),
    [
        (Real(), DType.FLOAT4_E2M1FN_X2),
        (Real(low=-math.inf, high=0.0), DType.FLOAT32),
        (Real(low=-3.0, high=-2.0), DType.FLOAT8_E4M3FN),
        (Real(low=1e-8, high=1e-7), DType.FLOAT16),
        (Positive(low=2.0, high=2.0), DType.BFLOAT16),
        (Mask(additive=True), DType.FLOAT32),
        (Mask(), DType.BOOL),
        (IntegerRange(low=0, high=255), DType.UINT8),
        (Offsets(axis="n"), DType.INT32),
        (Choice(values=(True,)), DType.BOOL),
    ],
)
def test_sensible_domains_pass(domain: Domain, dtype: DType) -> None:
    check_domain(_spec(domain, dtype), where="here")


@pytest.mark.parametrize(
    ("domain", "dtype", "message"),
    [
        (Real(low=2.0, high=1.0), DType.FLOAT32, "low 2.0 is above high 1.0"),
        (Real(low=math.nan), DType.FLOAT32, "a bound is NaN"),
        (Real(low=math.inf), DType.FLOAT32, "no float32 number"),
        (Real(low=-1e-8, high=-1e-9), DType.FLOAT16, "no float16 number"),
        (Real(low=70000.0), DType.FLOAT16, "no float16 number is real in"),
        (Real(high=-70000.0), DType.FLOAT16, "no float16 number"),
        (Real(low=0.0), DType.FLOAT4_E2M1FN_X2, "two numbers a byte"),
        (Positive(low=-1.0), DType.FLOAT32, "expected a number above 0"),
        (Mask(kind="casual"), DType.BOOL, "did you mean 'causal'"),
        (Mask(additive=True), DType.INT32, "an additive mask does not fit"),
        (Index(axis="n"), DType.FLOAT32, "kind 'index' does not fit"),
        (IntegerRange(low=-1, high=3), DType.UINT8, "-1 is no uint8, which holds 0 to 255"),
        (IntegerRange(low=3, high=1), DType.INT32, "low 3 is above high 1"),
        (Choice(values=()), DType.FLOAT32, "values is empty"),
        (Choice(values=(0.5,)), DType.INT32, "0.5 is no value of"),
        (Choice(values=(1e6,)), DType.FLOAT16, "is no value of"),
        (Probability(axis=1), DType.FLOAT32, "axis is 1"),
        (Offsets(axis="n"), DType.BOOL, "kind 'offsets' does not fit"),
    ],
)
def test_bad_domains_are_one_message(domain: Domain, dtype: DType, message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        check_domain(_spec(domain, dtype), where="here")
    assert message in str(caught.value)
    assert str(caught.value).startswith("here: ")


def test_what_is_no_domain_at_all() -> None:
    wrong: Any = Real
    with pytest.raises(ProblemError, match=r"is no domain; expected one of cuassay\.domains"):
        check_domain(_spec(wrong), where="here")


_NATIVE = """
from typing import Annotated
import torch
from cuassay import problem, tensor
from cuassay.model.domain import Real

@problem(axes={"n": (1, 64)}, workloads=[{"n": 8}])
def op(
    x: Annotated[torch.Tensor, tensor("float32", "n", domain=Real(low=2.0, high=1.0))],
) -> Annotated[torch.Tensor, tensor("float32", "n", name="y")]:
    return x
"""


def test_a_native_problem_with_a_bad_domain_is_a_usage_error(tmp_path: Path) -> None:
    from cuassay.formats import load_problem

    (tmp_path / "op.py").write_text(_NATIVE)
    with pytest.raises(ProblemError, match=r"problem 'op': the domain of 'x': low 2\.0 is"):
        load_problem(str(tmp_path / "op.py"))


def _problem(spec: TensorSpec | ScalarSpec) -> Problem:
    return Problem(
        name="op",
        axes=(VarAxis(name="n"), ConstAxis(name="k", value=4)),
        inputs=(spec,),
        outputs=(),
        reference=Reference(path=Path("op.py")),
        workloads=(),
        origin="native",
    )


def _made(spec: TensorSpec | ScalarSpec, value: object) -> None:
    check_made(_problem(spec), {spec.name: value}, {"n": 3, "k": 4}, where="the generator 'g'")


_T = torch.tensor
_GOOD: list[tuple[Domain, torch.Tensor]] = [
    (Real(low=0.1, high=0.3), _T([0.1, 0.2, 0.3])),
    (Real(low=0.1, high=0.3), _T([0.1, 0.2, 0.3], dtype=torch.bfloat16)),
    (Positive(), _T([1.0, 2.0, 1e3])),
    (Probability(), _T([0.25, 0.25, 0.5])),
    (Index(axis="k", sentinels=(-100,), unique=True), _T([3, -100, 0])),
    (Offsets(axis="k"), _T([0, 0, 4])),
    (IntegerRange(low=-1, high=1), _T([-1, 0, 1])),
    (Choice(values=(1, 3)), _T([1, 3, 3])),
    (Mask(), _T([True, False, True])),
]
_BAD: list[tuple[Domain, torch.Tensor, str]] = [
    (
        Real(low=0.0),
        _T([1.0, -0.5, 2.0]),
        "made -0.5 for input 'x', which is not real in [0.0, inf]",
    ),
    (Real(low=0.0), _T([1.0, math.nan, 2.0]), "made NaN"),
    (Positive(), _T([1.0, 2.0, 1e4]), "made 10000.0"),
    (Probability(), _T([0.5, 0.5, 0.5]), "sum is off by 0.5"),
    (Index(axis="k"), _T([0, 4, 1]), "made 4 for input 'x', which is not an index into k"),
    (Index(axis="k"), _T([0, -1, 1]), "made -1"),
    (Index(axis="k", unique=True), _T([0, 1, 1]), "made repeated indices"),
    (Offsets(axis="k"), _T([0, 3, 2]), "which is not sorted offsets from 0 to k"),
    (IntegerRange(low=-1, high=1), _T([-1, 0, 2]), "made 2"),
    (Choice(values=(1, 3)), _T([1, 2, 3]), "made 2 for input 'x', which is not one of 1, 3"),
    (Real(), _T([1.0, 2.0]), "made shape [2] for input 'x', expected [3]"),
    (Real(), _T([1, 2, 3]), "made dtype int64 for input 'x', expected float32"),
]


def _dtype(value: torch.Tensor) -> DType:
    return DType(str(value.dtype).removeprefix("torch."))


@pytest.mark.parametrize(("domain", "value"), _GOOD)
def test_values_inside_a_stated_domain(domain: Domain, value: torch.Tensor) -> None:
    _made(_spec(domain, _dtype(value)), value)


@pytest.mark.parametrize(("domain", "value", "message"), _BAD)
def test_values_outside_a_stated_domain(domain: Domain, value: torch.Tensor, message: str) -> None:
    dtype = DType.FLOAT32 if isinstance(domain, Real) else _dtype(value)
    with pytest.raises(ReferenceError_) as caught:
        _made(_spec(domain, dtype), value)
    assert message in str(caught.value)
    assert str(caught.value).startswith("the generator 'g' made ")
    assert "; correct the generator or" in str(caught.value)


def test_an_inferred_domain_is_a_guess_that_the_generator_may_contradict() -> None:
    guessed = TensorSpec(
        name="x", dtype=DType.FLOAT32, shape=("n",), domain=Positive(), domain_source="inferred"
    )
    _made(guessed, torch.tensor([-1.0, 0.0, 1.0]))


_LOWER = [[1.0, 0.0, 0.0], [2.0, 3.0, 0.0], [4.0, 5.0, 6.0]]


@pytest.mark.parametrize(
    ("structure", "said"),
    [
        (Structure.GENERAL, ""),
        (Structure.LOWER_TRIANGULAR, ""),
        (Structure.UPPER_TRIANGULAR, "made numbers below the diagonal for input 'x', which is not"),
        (Structure.DIAGONAL, "made numbers beside the diagonal"),
        (Structure.SYMMETRIC, "made numbers that are not symmetric"),
    ],
)
def test_matrices_are_held_to_their_structure(structure: Structure, said: str) -> None:
    spec = _spec(Real(structure=structure), DType.FLOAT32, "n", "n")
    check_domain(spec, where="here")
    if not said:
        _made(spec, _T(_LOWER))
        return
    with pytest.raises(ReferenceError_, match=said):
        _made(spec, _T(_LOWER))


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [
        (("n",), DType.FLOAT32, "expected two last dimensions of one axis"),
        (("n", "k"), DType.FLOAT32, "structure 'symmetric' does not fit 'x', float32[n, k]"),
        (("n", "n"), DType.FLOAT8_E4M3FN, "expected a dtype of 16 bits or more"),
    ],
)
def test_a_structure_needs_square_matrices(
    shape: tuple[str, ...], dtype: DType, message: str
) -> None:
    with pytest.raises(ProblemError) as caught:
        check_domain(_spec(Real(structure=Structure.SYMMETRIC), dtype, *shape), where="here")
    assert message in str(caught.value)


def test_scalars_are_held_to_their_domain() -> None:
    spec = ScalarSpec(
        name="gain", dtype=DType.FLOAT32, domain=Real(high=1.0), domain_source="declared"
    )
    _made(spec, 0.5)
    with pytest.raises(ReferenceError_, match=r"made 2\.0 for input 'gain'"):
        _made(spec, 2.0)


def test_words_and_membership() -> None:
    assert domain_words(Real(low=0.0)) == "real in [0.0, inf]"
    assert domain_words(Mask()) == "arbitrary mask"
    assert within(3, Choice(values=(1, 3)))
    assert not within(1e9, Positive())
    assert within(5, Index(axis="k"))
