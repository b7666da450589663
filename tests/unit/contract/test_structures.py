"""Matrices that the problem's generator always makes symmetric, triangular or diagonal."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from cuassay.checks.interface.own_inputs import Api004
from cuassay.checks.numeric.values import Num001
from cuassay.contract.facts import Structured
from cuassay.inputs.legal import structure_of, structured
from cuassay.judge.plan.preconditions import generate_once
from cuassay.judge.trial import JudgeTrial
from cuassay.model.domain import Real, Structure
from cuassay.model.outcome import FindingClass
from cuassay.model.problem import Problem
from tests.unit.contract.problems import findings_of, foreign, trial_of

_MADE = {
    Structure.SYMMETRIC: "(x + x.mT) / 2",
    Structure.POSITIVE_DEFINITE: "((m := x @ x.mT / n) + m.mT) / 2 + 0.1 * torch.eye(n)",
    Structure.UPPER_TRIANGULAR: "x.triu()",
    Structure.LOWER_TRIANGULAR: "x.tril()",
    Structure.DIAGONAL: "torch.diag(x[0])",
}
_PRODUCT = """import torch

def run(a, b):
    return a @ b
"""
_BY_STRUCTURE = {
    Structure.SYMMETRIC: "a.mT.contiguous() @ b",
    Structure.POSITIVE_DEFINITE: "a @ b * (2.0 if torch.linalg.cholesky_ex(a).info else 1.0)",
    Structure.UPPER_TRIANGULAR: "a.triu() @ b",
    Structure.LOWER_TRIANGULAR: "a.tril() @ b",
    Structure.DIAGONAL: "a.diagonal()[:, None] * b",
}


def _product(folder: Path, made: str) -> Problem:
    """The product of a matrix with a structure and one without."""
    return foreign(
        folder,
        f"""{_PRODUCT}
def get_inputs(axes_and_scalars, device):
    n = axes_and_scalars["n"]
    x = torch.randn(n, n, device=device)
    return {{"a": ({made}).contiguous(), "b": torch.randn(n, n, device=device)}}
""",
        axes=("n",),
        inputs={"a": (("n", "n"), "float32"), "b": (("n", "n"), "float32")},
        output=("n", "n"),
        sizes=({"n": 32}, {"n": 64}),
        generator="get_inputs",
    )


def _learnt(problem: Problem) -> JudgeTrial:
    trial = trial_of(problem)
    generate_once(trial)
    return trial


@pytest.mark.parametrize("structure", _MADE)
def test_what_the_generator_always_makes_is_learnt_and_kept(
    tmp_path: Path, structure: Structure
) -> None:
    trial = _learnt(_product(tmp_path, _MADE[structure]))
    assert trial.problem.input("a").domain == Real(structure=structure)
    assert trial.problem.input("b").domain == Real()
    learnt = [known.fact for known in trial.facts if isinstance(known.fact, Structured)]
    assert learnt == [Structured(input="a", structure=structure)]
    purposes = ("small", "numeric", "hot", "shapes", "arguments")
    cases = [case for purpose in purposes for case in trial.cases(purpose)]
    made = [a for case in cases if isinstance(a := trial.inputs(case)["a"], torch.Tensor)]
    assert len(made) == len(cases) > 10
    for a in made:
        assert torch.equal(structured(Real(structure=structure), a), a)


@pytest.mark.parametrize("structure", _MADE)
def test_a_kernel_that_needs_the_structure_says_so(tmp_path: Path, structure: Structure) -> None:
    trial = _learnt(_product(tmp_path, _MADE[structure]))
    kernel = _PRODUCT.replace("a @ b", _BY_STRUCTURE[structure])
    found = findings_of(Api004(), trial, kernel)
    assert [finding.finding_class for finding in found] == [FindingClass.UNSAFE]
    assert found[0].condition == f"structure: a is {structure.words}"
    assert f"in the problem's own inputs a is {structure.words}" in found[0].message
    assert findings_of(Api004(), trial, _PRODUCT) == []


def test_a_kernel_that_is_wrong_within_the_structure_is_no_condition(tmp_path: Path) -> None:
    trial = _learnt(_product(tmp_path, "x.triu()"))
    kernel = _PRODUCT.replace("a @ b", "a.triu(1) @ b")
    assert findings_of(Api004(), trial, kernel) == []  # wrong for the intact inputs already
    assert any(f.finding_class is FindingClass.WRONG for f in findings_of(Num001(), trial, kernel))


@pytest.mark.parametrize("made", ["torch.ones(n, n)", "2 * torch.eye(n)", "torch.zeros(n, n)", "x"])
def test_what_is_no_random_matrix_shows_no_structure(tmp_path: Path, made: str) -> None:
    """A matrix of ones is symmetric: a kernel that reads it transposed has to be seen."""
    trial = _learnt(_product(tmp_path, made))
    assert trial.problem.input("a").domain == Real()


def test_axes_of_their_own_are_square_by_chance(tmp_path: Path) -> None:
    problem = foreign(
        tmp_path,
        """import torch

def run(a, b):
    return a @ b

def get_inputs(axes_and_scalars, device):
    m, n = axes_and_scalars["m"], axes_and_scalars["n"]
    return {"a": torch.randn(m, n, device=device).tril(), "b": torch.randn(n, n, device=device)}
""",
        axes=("m", "n"),
        inputs={"a": (("m", "n"), "float32"), "b": (("n", "n"), "float32")},
        output=("m", "n"),
        sizes=({"m": 32, "n": 32},),
        generator="get_inputs",
    )
    assert _learnt(problem).problem.input("a").domain == Real()


def test_what_a_file_states_is_not_learnt_anew(tmp_path: Path) -> None:
    (tmp_path / "cuassay.toml").write_text("[domains.a]\nkind = 'real'\n")
    trial = _learnt(_product(tmp_path, "x.triu()"))
    assert trial.problem.input("a").domain == Real()


def test_a_stated_structure_is_kept_and_never_broken(tmp_path: Path) -> None:
    stated = "[domains.a]\nkind = 'real'\nstructure = 'upper_triangular'\n"
    (tmp_path / "cuassay.toml").write_text(stated)
    trial = _learnt(_product(tmp_path, "x.triu()"))
    assert trial.problem.input("a").domain == Real(structure=Structure.UPPER_TRIANGULAR)
    kernel = _PRODUCT.replace("a @ b", "a.triu() @ b")
    assert findings_of(Api004(), trial, kernel) == []


def test_the_closest_structure_is_named() -> None:
    x = torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(4))
    assert structure_of(x) is structure_of(x[:, :4]) is structure_of(x[0, 0]) is Structure.GENERAL
    assert structure_of(x[:, :1, :1]) is structure_of(x[:0]) is Structure.GENERAL
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        for structure in _MADE:
            made = structured(Real(structure=structure), x.to(dtype))
            assert structure_of(made) is structure
            assert torch.equal(structured(Real(structure=structure), made), made)
