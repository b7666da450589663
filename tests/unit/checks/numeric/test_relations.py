"""META001: broken relations are caught, honest kernels are silent, wrong guesses are dropped."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable

import pytest
import torch

from cuassay.checks.numeric.relation_guess import relations
from cuassay.checks.numeric.relations import Meta001
from cuassay.errors import CannotJudgeError
from cuassay.model import serial
from cuassay.model.case import Case
from cuassay.model.domain import Index
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.precision import Precision
from cuassay.model.problem import ConstAxis, TensorSpec
from cuassay.model.relation import (
    AdditiveOver,
    Conserves,
    LinearIn,
    Relation,
    RowsIndependent,
    RowsSumToOne,
    ShiftInvariant,
    text_of,
)
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.oracle.truth.types import Truth
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    OracleTrial,
    axis,
    examine,
    problem,
    row_sum,
    scaled_add,
    tensor,
    with_oracle,
)

LOW = [DType.FLOAT16, DType.BFLOAT16]


def softmax(dtype: DType = DType.FLOAT32) -> FakeTrial:
    """Return y = softmax(x, -1), x of (rows, cols)."""
    made = problem(
        "softmax",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols", dtype=dtype)],
        outputs=[tensor("y", "rows", "cols", dtype=dtype)],
        workloads=[{"rows": 16, "cols": 32}],
    )
    return FakeTrial(made, lambda x: torch.softmax(x.float(), -1).to(x.dtype))


def rotary() -> FakeTrial:
    """Return y = x * aux, both with a batch: per-sample positions, say."""
    made = problem(
        "rotary",
        axes=[axis("batch"), axis("length"), ConstAxis(name="dim", value=8)],
        inputs=[tensor("x", "batch", "length", "dim"), tensor("aux", "batch", "dim")],
        outputs=[tensor("y", "batch", "length", "dim")],
        workloads=[{"batch": 2, "length": 16}],
    )
    return FakeTrial(made, lambda x, aux: x * aux[:, None])


def square_backward(dtype: DType = DType.FLOAT32) -> FakeTrial:
    """Return dx = 2 x g[:, None] and dw = sum over rows of x g[:, None]."""
    made = problem(
        "square_backward",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("g", "rows", dtype=dtype), tensor("x", "rows", "cols", dtype=dtype)],
        outputs=[tensor("dx", "rows", "cols", dtype=dtype), tensor("dw", "cols", dtype=dtype)],
        workloads=[{"rows": 16, "cols": 32}],
    )
    return FakeTrial(made, _square_backward)


def _square_backward(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    term = x.float() * g.float()[:, None]
    return (2 * term).to(x.dtype), term.sum(0).to(x.dtype)


def attention() -> FakeTrial:
    """Return softmax(q k^T) v without a mask."""
    made = problem(
        "attention",
        axes=[axis("queries"), axis("keys"), ConstAxis(name="dim", value=4)],
        inputs=[
            tensor("q", "queries", "dim"),
            tensor("k", "keys", "dim"),
            tensor("v", "keys", "dim"),
        ],
        outputs=[tensor("o", "queries", "dim")],
        workloads=[{"queries": 16, "keys": 32}],
    )
    return FakeTrial(made, lambda q, k, v: torch.softmax(q @ k.T, -1) @ v)


def found_by(
    trial: FakeTrial, kernel: Function, *, profile: Profile = Profile.QUICK
) -> list[Finding]:
    """Return the wrong findings of META001 on a kernel, with the real oracle behind it."""
    trial = with_oracle(dataclasses.replace(trial, profile=profile))
    findings = examine(Meta001(), trial, lambda: kernel)
    return [finding for finding in findings if finding.finding_class is FindingClass.WRONG]


def used(trial: FakeTrial) -> list[str]:
    return [text_of(relation) for relation in relations(trial)]


def declaring(trial: FakeTrial, *declared: Relation) -> OracleTrial:
    return with_oracle(
        dataclasses.replace(trial, problem=dataclasses.replace(trial.problem, relations=declared))
    )


def test_the_truth_of_a_member_is_made_once_by_a_trial_that_keeps_none() -> None:
    """Large outputs: a trial has room for few truths, and a relation has laws for each output."""
    trial = square_backward()
    held: weakref.WeakValueDictionary[str, Truth] = weakref.WeakValueDictionary()
    made = [0]

    class Forgetful(OracleTrial):
        def truth(self, case: Case, precision: Precision = Precision.STRICT) -> Truth:
            key = f"{serial.dumps(case)} {precision}"
            found = held.get(key)
            if found is None:
                made[0] += 1
                found = held[key] = super().truth(case, precision)
                self.known.clear()
            return found

    forgetful = Forgetful(trial.problem, trial.reference, profile=trial.profile)
    members = sum(len(scenario.cases) for scenario in Meta001().propose(forgetful))
    assert not examine(Meta001(), forgetful, lambda: trial.reference)
    assert 0 < made[0] <= members


def test_an_auxiliary_of_the_first_sample_is_caught() -> None:
    found = found_by(rotary(), lambda x, aux: x * aux[:1, None])
    assert "right on one slice alone and wrong on all 13" in found[0].message
    assert "depends on its own inputs alone" in found[0].message
    assert found[0].where.output == "y"


def test_the_first_upstream_gradient_for_all_rows_is_caught() -> None:
    def kernel(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _square_backward(g[:1].expand(g.shape), x)

    found = found_by(square_backward(), kernel)
    assert "right on one slice alone and wrong on all 13" in found[0].message


def test_rows_coupled_through_a_shared_maximum_are_caught() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        power = torch.exp(x - x.max())  # one maximum for all rows: low rows underflow
        return power / power.sum(-1, keepdim=True)

    found = found_by(softmax(), kernel, profile=Profile.STANDARD)
    assert any("a constant added to 'x' along 'cols' changes nothing" in f.message for f in found)


def test_a_batch_beyond_what_was_tuned_for_is_caught() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1)
        y[48:] = y[:1]  # an offset that wraps
        return y

    found = found_by(softmax(), kernel)
    assert "wrong on a larger batch of copies" in found[0].message
    assert "right on all 13" in found[0].message


def test_duplicates_that_differ_are_caught() -> None:
    def kernel(x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1)
        return y if x.shape[0] < 2 else torch.cat([y[:-1], y[-1:] * 1.01])

    assert found_by(softmax(), kernel)


@pytest.mark.parametrize("dtype", [DType.FLOAT32, *LOW])
def test_a_last_chunk_that_is_dropped_is_caught(dtype: DType) -> None:
    def kernel(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        whole = len(g) - len(g) % 32 if len(g) > 32 else len(g)
        return _square_backward(g, x)[0], _square_backward(g[:whole], x[:whole])[1]

    found = found_by(square_backward(dtype), kernel)
    assert any("is the sum of its parts" in finding.message for finding in found)


def test_a_gradient_that_is_clamped_is_caught() -> None:
    def kernel(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _square_backward(g.clamp(-3.2, 3.2), x)

    found = found_by(square_backward(), kernel, profile=Profile.STANDARD)
    assert any("the result is linear in 'g'" in finding.message for finding in found)


def test_a_numerator_that_saturates_is_caught_by_values_of_one() -> None:
    def kernel(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        power = torch.exp(q @ k.T)
        return power.clamp(max=448.0) @ v / power.sum(-1, keepdim=True)

    found = found_by(attention(), kernel, profile=Profile.STANDARD)
    assert any("'v' of ones gives ones" in finding.message for finding in found)


def _split(size: int) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def add(term: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.sum(0) for part in torch.split(term, size)]).sum(0)

    return add


@pytest.mark.parametrize("profile", [Profile.QUICK, Profile.STANDARD])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, *LOW])
def test_honest_kernels_that_split_by_batch_size_are_silent(dtype: DType, profile: Profile) -> None:
    def backward(g: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        term = x.float() * g.float()[:, None]
        total = _split(7 if len(g) > 40 else 3)(term, g)
        return (2 * term).to(x.dtype), total.to(x.dtype)

    def rows(x: torch.Tensor) -> torch.Tensor:
        power = torch.exp(x.float() - x.float().amax(-1, keepdim=True))
        count = 4 if x.shape[0] > 8 else 1  # another order of the sum by batch size
        total = torch.stack([part.sum(-1) for part in power.chunk(count, -1)]).sum(0)
        return (power / total[:, None]).to(x.dtype)

    assert found_by(square_backward(dtype), backward, profile=profile) == []
    assert found_by(softmax(dtype), rows, profile=profile) == []


def test_answers_that_contradict_each_other_within_their_own_budgets_are_found() -> None:
    """A weak truth (here an ample noise scale) lets a factor pass that the relation does not."""

    def kernel(x: torch.Tensor) -> torch.Tensor:
        y = x.sum(-1)
        return y + 5.0 * noise * (-1 if len(y) == 13 else 1) * (y.abs() + y.abs().mean())

    noise = 2.0**-20
    findings = examine(Meta001(), row_sum(), lambda: kernel)
    wrong = [finding for finding in findings if finding.finding_class is FindingClass.WRONG]
    assert wrong
    assert "the answers contradict each other" in wrong[0].message
    assert wrong[0].share is not None
    assert wrong[0].share > 1.0


def test_guesses_are_kept_where_the_reference_obeys_and_dropped_where_not() -> None:
    assert used(softmax()) == [
        "RowsIndependent(axis='rows')",
        "ShiftInvariant(input='x', axis='cols')",
        "RowsSumToOne(output='y', axis='cols')",
        "PermutationEquivariant(axis='cols')",
        "DuplicatesAgree(axis='cols')",
    ]
    backward = list(relations(square_backward()))
    assert RowsIndependent(axis="rows", outputs=("dx",)) in backward
    assert AdditiveOver(axis="rows", outputs=("dw",)) in backward
    assert LinearIn(input="g", outputs=("dx", "dw")) in backward
    attended = list(relations(attention()))
    assert Conserves(input="v", outputs=("o",)) in attended
    assert RowsIndependent(axis="queries", outputs=("o",)) in attended
    assert not any(isinstance(r, RowsSumToOne) for r in attended)
    assert "LinearIn(input='k')" not in used(attention())
    scaled = used(scaled_add())
    assert "RowsIndependent(axis='rows')" in scaled
    assert not any("Linear" in text for text in scaled)  # a bias makes it affine


def test_a_mean_over_tokens_weighs_its_parts() -> None:
    made = problem(
        "mean",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "cols")],
        workloads=[{"rows": 16, "cols": 32}],
    )
    trial = FakeTrial(made, lambda x: x.mean(0))
    assert "AdditiveOver(axis='rows', mean=True)" in used(trial)
    assert "AdditiveOver(axis='rows')" not in used(trial)


def test_a_true_declaration_is_used_first() -> None:
    trial = declaring(softmax(), RowsSumToOne(output="y", axis="cols"))
    assert next(iter(relations(trial))) == RowsSumToOne(output="y", axis="cols")


@pytest.mark.parametrize(
    "relation",
    [LinearIn(input="x"), RowsIndependent(axis="cols"), ShiftInvariant(input="x", axis="rows")],
)
def test_a_false_declaration_is_a_fault_of_the_problem(relation: Relation) -> None:
    trial = declaring(softmax(), relation)
    name = text_of(relation).split("(")[0]
    with pytest.raises(CannotJudgeError, match=f"declares {name}.*breaks it for output 'y'"):
        list(Meta001().propose(trial))


def test_a_declaration_that_cannot_be_tried_is_a_fault_of_the_problem() -> None:
    ids = TensorSpec(name="ids", dtype=DType.INT64, shape=("rows",), domain=Index(axis="cols"))
    trial = softmax()
    made = dataclasses.replace(
        trial.problem,
        inputs=(*trial.problem.inputs, ids),
        relations=(RowsIndependent(axis="cols"),),
    )
    trial = FakeTrial(made, lambda x, ids: x)
    with pytest.raises(CannotJudgeError, match="an index depends on it"):
        list(Meta001().propose(trial))


@pytest.mark.parametrize(
    ("profile", "most"), [(Profile.QUICK, 3), (Profile.STANDARD, 8), (Profile.DEEP, 20)]
)
def test_scenarios_keep_to_their_budget_and_survive_json(profile: Profile, most: int) -> None:
    trial = square_backward()
    trial.profile = profile
    scenarios = list(Meta001().propose(trial))
    assert 3 <= len(scenarios) <= most
    for scenario in scenarios:
        assert scenario.relation is not None
        assert serial.loads(Scenario, serial.dumps(scenario)) == scenario


def test_undeclared_axes_keep_the_sizes_of_their_workloads() -> None:
    for scenario in Meta001().propose(row_sum(declared=False)):
        assert {case.axes["rows"] for case in scenario.cases} == {16}
        assert {case.axes["cols"] for case in scenario.cases} <= {32, 64}
