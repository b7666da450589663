"""Which faults the inputs can show: counted, searched for, called equivalent only after that."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pytest
import torch

from cuassay.catalog import registry
from cuassay.formats.execute import LoadedReference, load_reference
from cuassay.formats.native.declaration import problem, scalar, tensor
from cuassay.inputs.geometry import elements
from cuassay.judge.measure import power, selection
from cuassay.judge.measure.choose import choose
from cuassay.judge.measure.kills import MARGIN, all_mutants, try_case, try_cases
from cuassay.judge.measure.legal_search import search_cases
from cuassay.judge.measure.power_document import described, measure_all
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.judge.verbs import run
from cuassay.model.case import Case
from cuassay.model.device import CPU, Device
from cuassay.model.effort import Effort
from cuassay.model.events import Document, Event
from cuassay.model.jobs import PowerJob
from cuassay.model.precision import Precision
from cuassay.model.problem import Problem, Tolerance
from cuassay.model.verdict import Profile
from cuassay.oracle.mutants.kinds import KINDS, Mutant

_Matrix = Annotated[torch.Tensor, tensor("float32", "rows", "columns")]


@problem(
    axes={"rows": (1, 4096), "columns": (1, 4096)},
    workloads=[{"rows": 8, "columns": 48}],
    tolerance=Tolerance(),
)
def capped(
    x: _Matrix,
    unused: _Matrix,
    cap: Annotated[float, scalar("float32", low=20.0, high=100.0, default=30.0)],
) -> Annotated[torch.Tensor, tensor("float32", "rows", "columns", name="y")]:
    """Soft-capped, less its mean."""
    y = cap * torch.tanh(x / cap)
    return y - y.mean(dim=-1, keepdim=True)


PROBLEM: Problem = vars(capped)["__cuassay_problem__"]


_Low = Annotated[torch.Tensor, tensor("bfloat16", "rows", "inner")]
_LowRight = Annotated[torch.Tensor, tensor("bfloat16", "inner", "columns")]


@problem(
    axes={"rows": (1, 256), "inner": (1, 256), "columns": (1, 256)},
    workloads=[{"rows": 8, "inner": 48, "columns": 40}],
    tolerance=Tolerance(),
)
def product(
    x: _Low, w: _LowRight
) -> Annotated[torch.Tensor, tensor("bfloat16", "rows", "columns", name="y")]:
    """Matrix product in bfloat16."""
    return x @ w


def of_product() -> JudgeTrial:
    return open_trial(
        vars(product)["__cuassay_problem__"],
        LoadedReference(call=product, generator=None),
        profile=Profile.QUICK,
        device=CPU,
        root_seed=7,
    )


def trial(profile: Profile = Profile.QUICK) -> JudgeTrial:
    reference = LoadedReference(call=capped, generator=None)
    return open_trial(PROBLEM, reference, profile=profile, device=CPU, root_seed=7)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUASSAY_HOME", str(tmp_path))


def test_a_verdict_counts_no_mutant_that_nothing_can_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Effort, "power_search_s", 120.0)
    monkeypatch.setattr(power, "search_cases", few_cases)
    found = power.power_of_inputs(trial())
    assert found is not None
    assert found.killed + len(found.survivors) == found.mutants > 15
    assert not any("unused" in survivor for survivor in found.survivors)


def few_cases(problem: Problem, *, device: Device) -> list[Case]:
    """The search, cut down to every seventh case."""
    return list(search_cases(problem, device=device))[::7]


def test_small_logits_leave_the_cap_alive_and_the_search_names_what_kills_it() -> None:
    own = trial()
    plain = next(case for case in own.cases("numeric") if case.label.startswith("normal"))
    mutants = [m for m in all_mutants(own, [plain]) if m.words.startswith("input cap frozen")]
    found = power.measured(own, [plain], mutants, search_s=60.0)
    assert not found.killed
    assert not found.equivalent
    (survivor,) = found.survivors
    assert "cap=" in survivor.killed_by or "other scalars" in survivor.killed_by


def test_a_search_that_runs_out_of_time_calls_nothing_equivalent() -> None:
    own = trial()
    cases = power.planned(own)[:1]
    mutants = [m for m in all_mutants(own, cases) if m.words.startswith("input unused")]
    found = power.measured(own, cases, mutants, search_s=-1.0)
    assert not found.equivalent
    assert len(found.survivors) == len(mutants) >= 3
    assert all("stopped after" in survivor.why for survivor in found.survivors)


def test_an_ignored_input_is_equivalent_after_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(power, "search_cases", few_cases)
    own = trial()
    cases = power.planned(own)[:1]
    mutants = [m for m in all_mutants(own, cases) if "unused taken as zeros" in m.words]
    found = power.measured(own, cases, mutants, search_s=60.0)
    assert not found.survivors
    assert [why.split(" on each of ")[0] for why in found.equivalent.values()] == [
        "the same numbers"
    ]


def test_the_search_tries_legal_scalars_at_both_ends_and_small_shapes_only() -> None:
    cases = list(search_cases(PROBLEM, device=CPU))
    caps = {float(case.scalars["cap"]) for case in cases}
    assert {20.0, 30.0, 100.0} <= caps
    assert all(20.0 <= cap <= 100.0 for cap in caps)
    assert all(case.in_domain for case in cases)
    assert len({case.label.split(" on ")[0] for case in cases}) > 28


def test_what_the_widest_family_rejects_asks_no_lesser_one() -> None:
    own = open_trial(
        dataclasses.replace(PROBLEM, precision=Precision.MIXED),
        LoadedReference(call=capped, generator=None),
        profile=Profile.QUICK,
        device=CPU,
        root_seed=7,
    )
    case = own.cases("numeric")[0]
    halved = Mutant(
        kind="operand",
        words="halved",
        shown_by="",
        run=lambda given: (capped(*given) * 0.5,),  # type: ignore[arg-type]
    )
    before = len(own.truths.cache)
    found = try_case(own, case, {0: halved})
    assert found.killed[0] > MARGIN
    assert len(own.truths.cache) <= before + 2  # strict and mixed, and none of TF32


def test_a_killed_mutant_is_not_run_again_unless_all_pairs_are_wanted() -> None:
    own = trial()
    cases = power.planned(own)[:3]
    mutants = dict(enumerate(all_mutants(own, cases)))
    few, _ = try_cases(own, cases, mutants, until_killed=True)
    assert not few[0].killed.keys() & few[1].ran
    every, stopped = try_cases(own, cases, mutants)
    assert every[0].killed.keys() & every[1].ran
    assert not stopped


def test_the_first_cases_have_values_at_their_ends_and_sizes_with_a_part_of_a_tile() -> None:
    own = trial()
    cases = power.planned(own)[: Effort(Profile.QUICK).power_cases]
    assert any(case in own.cases("ends") for case in cases)
    shapes = [case for case in cases if case in own.cases("shapes")]
    assert shapes[0] != own.cases("shapes")[0]
    assert all(size > 32 and size % 32 for size in shapes[0].axes.values())


def test_a_factor_that_float16_cannot_hold_is_told_by_a_large_value() -> None:
    found = power.power_of_inputs(of_product())
    assert found is not None
    assert not [text for text in found.survivors if "factor rounded to float16" in text]


def test_a_first_case_that_takes_long_leaves_the_cheap_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planned cases differ by thousands of times in what they cost."""
    own = of_product()
    first = power.planned(own)[0]
    runs = 24 + 8 * 4 + 1  # for the first case, and next to none for others
    monkeypatch.setattr(
        JudgeTrial, "runs_within", lambda self, case: runs if case == first else None
    )
    tried: list[Case] = []
    measured = power.measured

    def noted(trial: JudgeTrial, cases: Sequence[Case], *more: Any, **named: Any) -> power.Measured:
        tried.extend(cases)
        return measured(trial, cases, *more, **named)

    monkeypatch.setattr(power, "measured", noted)
    assert power.power_of_inputs(own) is not None
    assert len(tried) == Effort(Profile.QUICK).power_cases


def test_constant_axes_beyond_the_limit_leave_no_purpose_without_a_case() -> None:
    large = registry.get("embedding_rmsnorm_backward_64k")
    own = open_trial(
        large, load_reference(large), profile=Profile.STANDARD, device=CPU, root_seed=7
    )
    cases = power.planned(own, limit=1 << 18)
    assert any(case in own.cases("numeric") for case in cases)
    assert any(case in own.cases("small") for case in cases)
    assert all(elements(large, case.axes) <= 1 << 21 for case in cases)


def test_a_case_that_cannot_be_made_kills_nothing() -> None:
    own = trial()
    case = own.cases("numeric")[0]
    impossible = {**case.axes, "rows": -1}
    broken = type(case)(label="impossible", axes=impossible, fills=case.fills)
    tried = try_case(own, broken, dict(enumerate(all_mutants(own, [case]))))
    assert not tried.ran
    assert not tried.killed


def test_the_document_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "search_cases", few_cases)
    own = trial()
    found, theirs = measure_all(own, lambda event: None)
    chosen = choose(own)
    document = described(own, found, theirs, chosen)
    alive = document["mutants"] - document["equivalent"] - document["killed_ours"]
    assert alive == len(document["survivors"])
    for key in ("mutants", "equivalent", "killed_ours", "killed_theirs"):
        assert sum(row[key] for row in document["by_kind"]) == document[key]
    assert {row["kind"] for row in document["by_kind"]} <= set(KINDS)
    assert document["killed_theirs"] < document["killed_ours"]
    assert document["cases"]["covering"] <= document["cases"]["full"] / 3
    assert chosen.regimes[0] == "normal"
    assert len(chosen.regimes) <= 9
    listed = document["survivors_theirs"]
    told = document["mutants"] - document["equivalent"]
    assert len(listed) == told - document["killed_theirs"]
    assert all(one["killed_by"] or one["why"] for one in listed)


def test_the_judge_measures_and_keeps_the_regimes(tmp_path: Path) -> None:
    source = tmp_path / "small_problem.py"
    source.write_text(
        "from typing import Annotated\n"
        "import torch\n"
        "from cuassay.formats.native.declaration import problem, tensor\n"
        "M = Annotated[torch.Tensor, tensor('float32', 'n', 'm')]\n"
        "@problem(axes={'n': (1, 64), 'm': (1, 64)}, workloads=[{'n': 4, 'm': 8}])\n"
        "def twice(x: M) -> Annotated[torch.Tensor, tensor('float32', 'n', 'm', name='y')]:\n"
        "    return torch.relu(x) * 2.5\n"
    )
    events: list[Event] = []
    job = PowerJob(problem=str(source), profile=Profile.QUICK, device=CPU, seed=1)
    run(job, events.append, 0.0, None)
    assert isinstance(events[-1], Document)
    from cuassay.formats import load_problem

    assert selection.read_selection(load_problem(str(source))) is not None


def test_the_benchmarks_rule_is_measured_where_a_run_in_float64_has_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judged = trial()
    assert power.benchmark_judge(judged) is not None
    monkeypatch.setattr(JudgeTrial, "has_room", lambda self, case, *, truth=True: not truth)
    assert power.benchmark_judge(judged) is None
