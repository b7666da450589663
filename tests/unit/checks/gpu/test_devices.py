"""DEVICE001: what fails or answers wrongly for tensors on another device is a condition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch

from cuassay.checks.gpu.devices import Device001
from cuassay.errors import NothingToCheckError
from cuassay.model.outcome import Finding, FindingClass
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Arrange
from cuassay.model.trace import StepDone
from cuassay.sandbox.guest.interface import Around
from cuassay.sandbox.guest.production import Production
from cuassay.sandbox.ran import Ran
from tests.support.fake_trial import FakeTrial, Function, judged, run_one, scaled_add


def honest(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x * gain + bias


def second_call(change: Function) -> Function:
    """Return a callable whose second call is another's: the first is on the first device."""
    calls: Iterator[Function] = iter((honest, change))
    return lambda *given: next(calls)(*given)


def played(trial: FakeTrial, function: Function, *, skipped: str = "") -> tuple[Scenario, Ran]:
    """Return the check's scenario and a run of it that leaves the tensors where they are."""
    (scenario,) = Device001().propose(trial)
    steps = [
        dataclasses.replace(one, device=None) if isinstance(one, Arrange) else one
        for one in scenario.steps
    ]
    run = run_one(trial, function, dataclasses.replace(scenario, steps=tuple(steps)))
    records = [
        dataclasses.replace(record, facts=(("skipped", skipped),))
        if skipped and isinstance(step, Arrange) and isinstance(record, StepDone)
        else record
        for step, record in zip(scenario.steps, run.result.records, strict=False)
    ]
    result = dataclasses.replace(run.result, records=tuple(records))
    return scenario, Ran(result, run._tensors)  # type: ignore[attr-defined]


def found(function: Function, *, skipped: str = "") -> list[Finding]:
    trial = scaled_add()
    scenario, run = played(trial, function, skipped=skipped)
    return judged(Device001(), trial, scenario, run)


def raises(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    raise RuntimeError("CUDA error: invalid argument")


def wrong(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return honest(x, bias, gain) + 1.0


@pytest.mark.parametrize(
    ("there", "says"),
    [
        (raises, "fails on cuda:1 while device 0 is current: RuntimeError: CUDA error: invalid"),
        (wrong, "is wrong on cuda:1 while device 0 is current (y)"),
        (honest, "returns y on cpu for inputs on cuda:1"),
    ],
)
def test_what_goes_wrong_on_the_other_device_is_a_condition(there: Function, says: str) -> None:
    (finding,) = found(second_call(there))
    assert finding.message.startswith(says)
    assert finding.finding_class is FindingClass.UNSAFE
    assert finding.condition.startswith("devices: ")


def test_a_kernel_that_is_wrong_everywhere_is_for_other_checks() -> None:
    assert found(wrong) == []


def test_a_kernel_without_host_code_of_its_own_is_not_tried() -> None:
    bound = "a raw CUDA kernel is launched by cuassay itself, on one device"
    host: object = None  # nothing is asked of it
    made = Production(host, Around(bound=bound)).execute(  # type: ignore[arg-type]
        Arrange(slot="a", device=1),
        (),
        lambda *_: {},  # type: ignore[arg-type]
    )
    assert made.facts == (("skipped", bound),)
    with pytest.raises(NothingToCheckError, match="launched by cuassay itself"):
        found(second_call(raises), skipped=bound)
