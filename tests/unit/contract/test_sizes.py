"""Which sizes a reference accepts is found by running it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cuassay.contract.accept import Acceptor, own_case
from cuassay.contract.facts import (
    AnySize,
    DerivedSize,
    OnlySizes,
    SizeRule,
    StepOfSize,
    TiedSize,
    fact_words,
)
from cuassay.contract.sizes import learn_sizes
from cuassay.formats.execute import load_reference
from cuassay.inputs.constraints import constraint_holds
from cuassay.inputs.geometry import legal
from cuassay.judge.domain import KnownCases
from cuassay.judge.plan.smoke import smallest_case, smoke
from cuassay.model.axes import resolve
from cuassay.model.case import Case, Fill
from cuassay.model.device import CPU, Device
from cuassay.model.problem import Problem
from tests.unit.contract.problems import foreign, trial_of

_MATRIX = {"x": (("rows", "cols"), "float32")}
_SIZES = ({"rows": 32, "cols": 256}, {"rows": 64, "cols": 512})
_GROUPS = """def run(x):
    rows, cols = x.shape
    assert cols % 64 == 0, "cols must be a multiple of 64"
    return x.reshape(rows, cols // 64, 64).softmax(-1).reshape(rows, cols)
"""
_LISTED = """def run(x):
    if x.shape[1] not in (256, 512):
        raise ValueError(f"no kernel for {x.shape[1]} columns")
    return x * 2
"""
_LATER = """def run(x):
    return x.unfold(1, 3, 2).mean(-1)
"""


def _matrix(folder: Path, reference: str, sizes: Sequence[Mapping[str, int]] = _SIZES) -> Problem:
    return foreign(
        folder,
        reference,
        axes=("rows", "cols"),
        inputs=_MATRIX,
        output=("rows", "cols"),
        sizes=tuple(sizes),
    )


def test_a_step_is_learnt_and_kept_by_every_case(tmp_path: Path) -> None:
    trial = trial_of(_matrix(tmp_path, _GROUPS))
    cases = [*trial.cases("small"), *trial.cases("numeric"), *trial.cases("shapes")]
    assert len(cases) >= 8
    assert all(case.axes["cols"] % 64 == 0 for case in cases)
    assert any(case.axes["rows"] % 2 for case in cases)
    facts = [known.fact for known in trial.facts]
    assert StepOfSize(axis="cols", multiple_of=64, minimum=64) in facts
    assert any("multiple of 64" in tried.refused for tried in trial.planned.learning.tried)


def test_sizes_that_alone_are_accepted_are_listed(tmp_path: Path) -> None:
    trial = trial_of(_matrix(tmp_path, _LISTED))
    assert {case.axes["cols"] for case in trial.cases("small")} <= {256, 512}
    found = [known.fact for known in trial.facts if isinstance(known.fact, OnlySizes)]
    assert found[0].sizes == (256, 512)
    assert fact_words(found[0]) == "cols is one of 256, 512"


def test_axes_that_belong_together_change_together(tmp_path: Path) -> None:
    problem = foreign(
        tmp_path,
        "def run(x, w):\n    return x.view(x.shape[0], w.shape[0], -1).sum(1) * w.sum()\n",
        axes=("rows", "cols", "parts"),
        inputs={"x": (("rows", "cols"), "float32"), "w": (("parts",), "float32")},
        output=("rows", "4"),
        sizes=(
            {"rows": 3, "cols": 32, "parts": 8},
            {"rows": 5, "cols": 64, "parts": 16},
        ),
    )
    trial = trial_of(problem)
    for case in trial.cases("small"):
        assert case.axes["cols"] == 4 * case.axes["parts"]
    assert any(isinstance(known.fact, TiedSize) for known in trial.facts)


def test_an_output_whose_axis_follows_from_others_has_its_real_size(tmp_path: Path) -> None:
    problem = foreign(
        tmp_path,
        _LATER,
        axes=("rows", "cols", "windows"),
        inputs=_MATRIX,
        output=("rows", "windows"),
        sizes=({"rows": 4, "cols": 33, "windows": 16}, {"rows": 8, "cols": 65, "windows": 32}),
    )
    trial = trial_of(problem)
    smoke(trial)
    for case in trial.cases("small"):
        assert case.axes["windows"] == (case.axes["cols"] - 3) // 2 + 1


_MERGED = """import torch

def get_inputs(axes_and_scalars, device):
    patches = axes_and_scalars["patches"]
    x = torch.randn(patches, 3, device=device)
    return {"x": x, "counts": torch.tensor([4, patches // 4], device=device)}

def run(x, counts):
    merged = counts[COUNTED]
    return x[: 4 * merged].view(merged, 12)
"""


@pytest.mark.parametrize("by_data", [True, False])
def test_data_that_do_not_fill_the_sizes_asked_for_are_no_case(
    tmp_path: Path, by_data: bool
) -> None:
    """A kernel may count its inputs or read the data: they differ at sizes that nobody has."""
    counted = "1].item()" if by_data else "1:].shape[0] * (x.shape[0] // 4)"
    problem = foreign(
        tmp_path,
        _MERGED.replace("COUNTED]", counted),
        axes=("patches", "merged"),
        inputs={"x": (("patches", "3"), "float32"), "counts": (("2",), "int64")},
        output=("merged", "12"),
        sizes=({"patches": 16, "merged": 4}, {"patches": 64, "merged": 16}),
        generator="get_inputs",
    )
    trial = trial_of(problem)
    smoke(trial)
    cases = [*trial.cases("small"), *trial.cases("shapes")]
    assert cases
    assert all(case.axes["merged"] == case.axes["patches"] // 4 for case in cases)
    odd = any(case.axes["patches"] % 4 for case in cases)
    assert odd is not by_data  # a size that follows from those of the inputs is asked anywhere


def test_where_no_size_of_ours_is_accepted_the_workloads_are_used(tmp_path: Path) -> None:
    reference = """def run(x):
    if tuple(x.shape) not in ((32, 256), (64, 512)):
        raise ValueError("not tuned for this shape")
    return x * 2
"""
    problem = _matrix(tmp_path, reference)
    trial = trial_of(problem)
    smoke(trial)
    listed = [resolve(problem.axes, workload.axes) for workload in problem.workloads]
    for purpose in ("small", "numeric"):
        assert trial.cases(purpose)
        assert all(dict(case.axes) in listed for case in trial.cases(purpose))


def test_values_that_the_reference_refuses_give_way_to_its_own(tmp_path: Path) -> None:
    reference = """import torch

def get_inputs(axes_and_scalars, device):
    rows, cols = axes_and_scalars["rows"], axes_and_scalars["cols"]
    return {"x": torch.rand(rows, cols, device=device) + 1}

def run(x):
    if bool((x < 1).any()):
        raise ValueError("x must be at least 1")
    return x.log()
"""
    problem = foreign(
        tmp_path,
        reference,
        axes=("rows", "cols"),
        inputs=_MATRIX,
        output=("rows", "cols"),
        sizes=_SIZES,
        generator="get_inputs",
    )
    trial = trial_of(problem)
    smoke(trial)
    assert smallest_case(trial).generator
    assert len(trial.cases("numeric")) >= 2


@pytest.mark.parametrize("purpose", ["small", "numeric", "shapes"])
def test_a_reference_that_takes_everything_is_left_alone(tmp_path: Path, purpose: str) -> None:
    problem = _matrix(tmp_path, "def run(x):\n    return x.softmax(-1)\n")
    trial = trial_of(problem)
    assert trial.cases(purpose)
    assert trial.problem is problem
    assert not any(isinstance(known.fact, DerivedSize) for known in trial.facts)


def test_a_size_of_ours_at_which_a_loop_has_no_end_is_refused(tmp_path: Path) -> None:
    text = """def run(x):
    for _ in range(x.shape[0] * 200):
        x = x * float(x.sum() >= -9e9)
    return x
"""
    problem = _matrix(tmp_path, text)
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)

    def at(rows: int) -> Case:
        sizes = resolve(problem.axes, {"rows": rows, "cols": 1})
        return Case(label="", axes=sizes, scalars={}, seed=1)

    assert acceptor.settle(at(4)) is not None
    assert acceptor.settle(at(400)) is None
    assert "operations" in acceptor.tried[-1].refused
    listed = resolve(problem.axes, problem.workloads[1].axes)
    own = own_case(problem, listed, seed=1, label="")
    assert acceptor.settle(own) is not None  # the problem's own are run to their end


def test_a_listed_size_with_a_long_loop_is_taken_and_no_run_with_data_follows(
    tmp_path: Path,
) -> None:
    text = """def run(x):
    if not x.is_meta and x.numel() > 1000:
        raise ValueError("a run with data")
    for _ in range(x.shape[0] * 20):
        x = x * 0.5
    return x
"""
    problem = _matrix(tmp_path, text, [{"rows": 512, "cols": 512}])
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)
    listed = resolve(problem.axes, problem.workloads[0].axes)
    case = own_case(problem, listed, seed=1, label="")
    assert acceptor.settle(case) == case
    assert not acceptor.is_short(case)
    shorter = dataclasses.replace(case, axes={**listed, "rows": 256})
    assert acceptor.settle(shorter) is None  # nobody says that the reference takes this one


def test_sizes_are_learnt_below_workloads_too_large_for_the_data_that_a_reference_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mixture of experts skips those without tokens; its weights alone are 13 GB."""
    monkeypatch.setattr("cuassay.contract.accept._REAL_LIMIT", {"cpu": 1 << 17, "cuda": 1 << 17})
    text = """def run(x):
    assert x.numel() < 1 << 18, "the whole workload was made"
    assert x.shape[0] <= x.shape[1], "fewer columns than rows"
    return x * 2 if bool((x == x).any()) else x
"""
    problem = _matrix(tmp_path, text, [{"rows": 1024, "cols": 4096}])
    learnt, facts = learn_sizes(Acceptor(problem, load_reference(problem), device=CPU))
    assert facts
    assert legal(learnt, {"rows": 2, "cols": 7})
    assert legal(learnt, {"rows": 1024, "cols": 4096})  # what a workload lists stays legal
    assert not legal(learnt, {"rows": 8, "cols": 4})


@pytest.mark.parametrize(("steps", "sizes"), [(10, 4), (300, 2)])
def test_fewer_sizes_are_tried_where_each_run_is_a_long_loop(
    tmp_path: Path, steps: int, sizes: int
) -> None:
    text = f"""def run(x):
    for _ in range({steps}):
        x = x * 0.5 + 1.0
    return x
"""
    problem = _matrix(tmp_path, text)
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)
    _, facts = learn_sizes(acceptor)
    tried = {one.fact.axis: one.fact.tried for one in facts if isinstance(one.fact, AnySize)}
    assert {axis: sum(size % 2 for size in found) for axis, found in tried.items()} == {
        "rows": sizes,
        "cols": sizes,
    }


@pytest.mark.parametrize("built", [(), ("rows",)])
def test_on_a_gpu_the_sizes_of_modules_are_tried_without_data(
    built: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU draws what a module's generator makes: eight million numbers take half a second."""
    problem = dataclasses.replace(_matrix(tmp_path, "def run(x):\n    return x * 2\n"), built=built)
    acceptor = Acceptor(problem, load_reference(problem), device=Device("cuda"))
    real_runs: list[bool] = []

    def run(self: Acceptor, case: Case, *, real: bool) -> dict[str, int]:
        real_runs.append(real)
        return dict(case.axes)

    monkeypatch.setattr(Acceptor, "_run", run)
    for rows in (16, 1 << 14):
        case = Case(label="", axes={"rows": rows, "cols": 512}, fills={"x": Fill(kind="normal")})
        assert acceptor.settle(case) is not None
    assert real_runs == [True, not built]


_WINDOWS = """import torch

def run(x):
    return torch.nn.functional.max_pool1d(x, 2, stride=1, padding=1, dilation=3)
"""
_DEVIATION = """def run(x):
    return x / ((x - x.mean(-1, keepdim=True)).square().sum(-1, keepdim=True) / (x.shape[-1] - 1))
"""
_ALWAYS = """def run(x):
    return x.masked_fill(x > x[:, :1], float("-inf"))
"""


@pytest.mark.parametrize(("reference", "least"), [(_WINDOWS, 3), (_DEVIATION, 2)])
def test_sizes_at_which_nothing_finite_is_left_are_refused(
    tmp_path: Path, reference: str, least: int
) -> None:
    """A window over nothing but padding is -inf, and the deviation of one element is no number."""
    problem = foreign(
        tmp_path,
        reference,
        axes=("rows", "cols", "out"),
        inputs=_MATRIX,
        output=("rows", "out"),
        sizes=({"rows": 32, "cols": 256, "out": 256},),
    )
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)
    wide = Case(label="", axes={"rows": 40, "cols": 9, "out": 9}, fills={"x": Fill(kind="normal")})
    assert acceptor.settle(wide) is not None
    for kind in ("normal", "mixed_scale"):  # whatever the values are
        for cols in range(1, 5):
            fills = {"x": Fill(kind=kind)}
            case = Case(label="", axes={"rows": 4, "cols": cols, "out": 9}, fills=fills)
            assert (acceptor.settle(case) is not None) == (cols >= least), (kind, cols)
    assert any("at other sizes all are" in tried.refused for tried in acceptor.tried)
    for cols in (least - 1, least):  # so many rows are tried without data, where sizes say nothing
        many = Case(label="", axes={"rows": 1 << 15, "cols": cols, "out": 9}, fills=fills)
        assert (acceptor.settle(many) is not None) == (cols >= least), cols


def test_outputs_that_are_never_all_finite_refuse_no_size(tmp_path: Path) -> None:
    problem = _matrix(tmp_path, _ALWAYS)
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)
    for cols in (9, 3, 2):
        case = Case(label="", axes={"rows": 40, "cols": cols}, fills={"x": Fill(kind="normal")})
        assert acceptor.settle(case) is not None


def test_what_is_finite_by_chance_refuses_no_size(tmp_path: Path) -> None:
    problem = _matrix(tmp_path, "def run(x):\n    return x.log()\n")
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)
    for seed in range(4):  # some single number is positive
        for rows in (1, 40):
            fills = {"x": Fill(kind="normal")}
            one = Case(label="", axes={"rows": rows, "cols": rows + seed}, fills=fills, seed=seed)
            assert acceptor.settle(one) is not None


def test_values_that_overflow_refuse_no_size(tmp_path: Path) -> None:
    problem = _matrix(tmp_path, "def run(x):\n    return x.exp()\n")
    acceptor = Acceptor(problem, load_reference(problem), device=CPU)
    axes = {"rows": 4, "cols": 8}
    assert acceptor.settle(Case(label="", axes=axes, fills={"x": Fill(kind="normal")}))
    large = Fill(kind="normal", parameters={"scale": 1e6})
    assert acceptor.settle(Case(label="", axes=axes, fills={"x": large})) is not None


def test_inputs_that_failed_before_are_asked_where_the_reference_accepts_their_size(
    tmp_path: Path,
) -> None:
    trial = trial_of(_matrix(tmp_path, _GROUPS))
    kept = [Case(label=str(n), axes={"rows": 3, "cols": n}, seed=5) for n in (64, 63, 128)]
    trial.planned.learning.replan(KnownCases(cases=tuple(kept)))
    assert trial.cases("known") == (kept[0], kept[2])
    assert trial.cases("known") == (kept[0], kept[2])


_HEADS = """def run(q, k):
    heads, width = q.shape
    kv_heads = k.shape[0]
    assert heads % kv_heads == 0, f"{heads} heads of {kv_heads}"
    return q + k.repeat_interleave(heads // kv_heads, dim=0)
"""
_LEAST = """def run(x, picked):
    assert picked.shape[0] <= x.shape[0], "too many"
    return x[: picked.shape[0]] + picked
"""


@pytest.mark.parametrize(
    ("reference", "inputs", "output", "sizes", "rule"),
    [
        (
            _HEADS,
            {"q": (("heads", "width"), "float32"), "k": (("kv_heads", "width"), "float32")},
            ("heads", "width"),
            ({"heads": 16, "kv_heads": 4, "width": 32}, {"heads": 32, "kv_heads": 8, "width": 32}),
            "heads % kv_heads == 0",
        ),
        (
            _LEAST,
            {"x": (("rows", "width"), "float32"), "picked": (("count", "width"), "float32")},
            ("count", "width"),
            ({"rows": 512, "count": 32, "width": 16}, {"rows": 900, "count": 64, "width": 16}),
            "rows >= count",
        ),
    ],
)
def test_a_rule_over_two_axes_is_learnt_and_kept_by_every_case(
    tmp_path: Path,
    reference: str,
    inputs: dict[str, tuple[tuple[str, ...], str]],
    output: tuple[str, ...],
    sizes: tuple[dict[str, int], ...],
    rule: str,
) -> None:
    axes = tuple(sizes[0])
    trial = trial_of(
        foreign(tmp_path, reference, axes=axes, inputs=inputs, output=output, sizes=sizes)
    )
    cases = [*trial.cases("small"), *trial.cases("numeric"), *trial.cases("shapes")]
    trial.planned.learning.every_size()
    rules = [known.fact.rule for known in trial.facts if isinstance(known.fact, SizeRule)]
    assert rules == [rule]
    assert trial.problem.constraints == (rule,)
    assert all(constraint_holds(rule, case.axes) for case in cases)
    first, second = axes[:2]
    assert len({case.axes[first] for case in cases}) > 2
    assert len({case.axes[second] for case in cases}) > 2
    assert any("takes sizes of which" in fact_words(known.fact) for known in trial.facts)
