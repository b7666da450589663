"""STATE001: a module whose weights change between calls, and what it made of them before."""

from __future__ import annotations

from pathlib import Path

import pytest

from cuassay import build
from cuassay.checks.state.earlier_calls import State001
from cuassay.checks.state.histories import history_scenarios
from cuassay.formats import load_candidate, load_problem
from cuassay.formats.execute import load_reference
from cuassay.judge.run.executor import Executor
from cuassay.judge.trial import JudgeTrial, open_trial
from cuassay.model.device import CPU
from cuassay.model.diagnosis import Cause
from cuassay.model.problem import Problem, StateSource
from cuassay.model.scenario import Scenario
from cuassay.model.verdict import Profile
from cuassay.sandbox.host.nursery import Nursery
from cuassay.sandbox.local import LocalRunner
from tests.support import foreign, trees

_PACKS = """
        if KEY != getattr(self, "packed_of", None):
            self.packed_of = KEY
            self.packed = self.linear.weight.detach().t().contiguous()
        y = torch.addmm(self.linear.bias, x, self.packed)
"""


def _packing(key: str) -> str:
    """Return a module that packs its weight where `key` is another than at the call before."""
    body = _PACKS.replace("KEY", key) + "        return self.bn(y) + self.bias"
    text = foreign.MODEL_NEW.replace("        return self.bn(self.linear(x)) + self.bias", body[1:])
    assert text != foreign.MODEL_NEW
    return text


_WEIGHT = "self.linear.weight"
_KERNELS = {
    "as the reference": (foreign.MODEL_NEW, True),
    "packs at every call": (_packing("object()"), True),
    "packs again where the version or the place is another": (
        _packing(f"({_WEIGHT}._version, {_WEIGHT}.data_ptr())"),
        True,
    ),
    "packs again where the version is another": (_packing(f"{_WEIGHT}._version"), True),
    "packs at the first call": (_packing("True"), False),
    "packs again where the place is another": (_packing(f"{_WEIGHT}.data_ptr()"), False),
    "packs again for another tensor": (_packing(f"id({_WEIGHT})"), False),
    "packs again where the shape of a call is another": (_packing("x.shape"), False),
    "packs again where a fingerprint is another": (_packing(f"{_WEIGHT}.shape"), False),
}


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    return load_problem(str(foreign.kernelbench(tmp_path_factory.mktemp("problem"))))


@pytest.fixture(scope="module")
def trial(problem: Problem) -> JudgeTrial:
    return _opened(problem)


def _opened(problem: Problem) -> JudgeTrial:
    reference = load_reference(problem)
    return open_trial(problem, reference, profile=Profile.QUICK, device=CPU, root_seed=7)


def _scenario(trial: JudgeTrial) -> Scenario:
    (found,) = (one for one in history_scenarios(trial) if "state changes" in one.label)
    return found


@pytest.mark.parametrize("name", _KERNELS)
def test_what_a_module_made_of_earlier_weights_is_found(
    name: str, trial: JudgeTrial, tmp_path: Path
) -> None:
    text, right = _KERNELS[name]
    # Under a name of its own: kernels of one process share their modules.
    file = trees.write(tmp_path / f"kernel_{list(_KERNELS).index(name)}.py", text)
    candidate, scenario = load_candidate(str(file), trial.problem), _scenario(trial)
    built = build.load(candidate, trial.problem, device=CPU, folder=tmp_path)
    runner = LocalRunner(built.call, trial.problem, device=CPU, convention=candidate.convention)
    run = runner.run(scenario, trial.truths.inputs, trial.truths.answers)
    found = State001().judge(trial, scenario, run).findings
    if right:
        assert not found
        return
    (finding,) = found
    assert "state_linear_weight takes other values" in finding.message
    assert finding.cause is Cause.CALL_HISTORY
    assert "the same tensors are refilled" in finding.message


@pytest.mark.parametrize(
    ("name", "right"),
    [("packs again where the version is another", True), ("packs at the first call", False)],
)
def test_it_is_found_in_processes_of_their_own_too(
    name: str, right: bool, trial: JudgeTrial, nursery: Nursery, tmp_path: Path
) -> None:
    file = trees.write(tmp_path / "kernel.py", _KERNELS[name][0])
    candidate, scenario = load_candidate(str(file), trial.problem), _scenario(trial)
    with Executor(trial, candidate, device=CPU, nursery=nursery, spares=0) as executor:
        run = executor(scenario)
    assert bool(State001().judge(trial, scenario, run).findings) is not right


def test_a_module_that_keeps_the_state_it_was_built_with_is_called_with_that_alone(
    problem: Problem,
) -> None:
    kept = _opened(problem.with_state_from(StateSource.INITIAL))
    assert not [one for one in history_scenarios(kept) if "state changes" in one.label]
