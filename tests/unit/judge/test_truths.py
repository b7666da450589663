"""Truth is made once for the same values, whoever asks."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from torch import Tensor

from cuassay.catalog import registry
from cuassay.formats.execute import load_reference
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.judge.truths import TruthCache, Truths
from cuassay.model.device import CPU
from cuassay.model.problem import Reference
from cuassay.model.verdict import Lane, Profile
from tests.support.fake_trial import row_sum


@pytest.fixture
def trial() -> JudgeTrial:
    problem = registry.get("rmsnorm")
    return open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )


def _made(trial: JudgeTrial) -> int:
    return sum(span.lane is Lane.TRUTH for span in trial.timeline.spans)


def test_a_reference_that_makes_a_constant_on_a_gpu_has_a_truth_without_one(tmp_path: Path) -> None:
    text = (
        "import torch\n"
        "def run(x):\n"
        "    return (x * torch.arange(x.shape[1], device='cuda')).sum(-1)\n"
    )
    path = tmp_path / "reference.py"
    path.write_text(text)
    problem = dataclasses.replace(row_sum().problem, reference=Reference(path=path, source=text))
    opened = open_trial(
        problem, load_reference(problem), profile=Profile.QUICK, device=CPU, root_seed=7
    )
    case = opened.cases("small")[0]
    x = opened.inputs(case)["x"]
    assert isinstance(x, Tensor)
    right = (x.double() * torch.arange(x.shape[1])).sum(-1)
    assert torch.allclose(opened.truths.truth(case).outputs[0].value, right)


def test_candidates_of_one_problem_share_the_runs_that_truths_begin_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, kept = registry.get("rmsnorm"), TruthCache()
    reference = load_reference(problem)
    first, second = (
        open_trial(problem, reference, profile=Profile.QUICK, device=CPU, root_seed=7, truths=kept)
        for _ in range(2)
    )
    (case, *_) = first.cases("small")
    made = first.exact(case)
    monkeypatch.setattr(Truths, "inputs", None)  # nothing is drawn or run again
    assert second.exact(case) is made


def test_cases_that_differ_in_words_alone_share_truth(trial: JudgeTrial) -> None:
    case = trial.cases("small")[0]
    again = dataclasses.replace(case, label="under another name", fact="said otherwise")
    assert trial.truth(case) is trial.truth(again)
    other = dataclasses.replace(case, seed=case.seed + 1)
    assert trial.truth(case) is not trial.truth(other)
    assert _made(trial) == 2


def test_a_case_is_looked_at_in_one_run_whoever_asks(trial: JudgeTrial) -> None:
    calls: list[int] = []

    def counted(x: Tensor, weight: Tensor, eps: float) -> list[Tensor]:
        calls.append(len(calls))
        return [(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight).sort()[0]]

    reference = dataclasses.replace(trial.reference, call=counted)
    watched = open_trial(trial.problem, reference, profile=Profile.QUICK, device=CPU, root_seed=7)
    case = watched.cases("small")[0]
    calls.clear()
    look = watched.truths.look(case)
    assert look.orders
    assert watched.container(case) == look.container == "list"
    assert watched.magnitudes(case) == look.magnitudes
    x, weight = (watched.inputs(case)[name] for name in ("x", "weight"))
    assert isinstance(x, Tensor)
    assert isinstance(weight, Tensor)
    assert look.magnitudes[:3] == (
        float(x.abs().max()),
        float(weight.abs().max()),
        float((x * x).max()),
    )
    assert len(calls) == 1
    watched.container(dataclasses.replace(case, seed=case.seed + 1))
    assert len(calls) == 2
