"""LAYOUT001: strides, offsets and shared memory taken for granted are found, refusals are not."""

from __future__ import annotations

import dataclasses
import functools
import signal
from collections.abc import Callable

import pytest
import torch

from cuassay.checks.base import Run
from cuassay.checks.interface.layout_calls import tried_calls
from cuassay.checks.interface.layout_trials import (
    equal_slices,
    expandable_axes,
    fitting,
    is_gradient,
    large_scenarios,
    layout_scenarios,
    packable,
    shared_scenarios,
)
from cuassay.checks.interface.layouts import Layout001
from cuassay.errors import CannotJudgeError
from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Layout
from cuassay.model.trace import (
    Garbled,
    Killed,
    ResultItem,
    ScenarioResult,
    StepRaised,
    Termination,
    TimedOut,
)
from cuassay.model.verdict import Profile
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    axis,
    examine,
    gather,
    judged,
    problem,
    row_sum,
    run_one,
    scaled_add,
    tensor,
)

Tensor = torch.Tensor
PROFILES = (Profile.QUICK, Profile.STANDARD)


def flat(x: Tensor) -> Tensor:
    """Return what a kernel reads that takes a tensor of two axes for contiguous."""
    reach = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() :]
    missing = max(x.numel() - len(reach), 0)
    filled = torch.cat([reach, torch.full((missing,), 7.0, dtype=x.dtype)])
    return filled[: x.numel()].reshape(x.shape)


def flat_x(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    return flat(x) * gain + bias


def flat_bias(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    return x * gain + flat(bias)


def from_storage(x: Tensor, bias: Tensor, gain: float) -> Tensor:
    start = torch.empty(0).set_(x.untyped_storage())
    return start[: x.numel()].reshape(x.shape) * gain + bias if x.is_contiguous() else x * gain


def square_gradient() -> FakeTrial:
    """Return dx = 2 x dy, dy of (rows,): the gradient of a sum along the columns."""
    made = problem(
        "square_gradient",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("grad_y", "rows"), tensor("x", "rows", "cols")],
        outputs=[tensor("dx", "rows", "cols")],
        workloads=[{"rows": 16, "cols": 32}],
    )
    return FakeTrial(made, lambda g, x: 2.0 * x * g[:, None])


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("kernel", [flat_x, flat_bias, from_storage])
def test_strides_taken_for_granted_are_unsafe(kernel: Function, profile: Profile) -> None:
    trial = dataclasses.replace(scaled_add(), profile=profile)
    found = examine(Layout001(), trial, lambda: kernel)
    assert found
    for finding in found:
        assert finding.finding_class is FindingClass.UNSAFE
        assert finding.severity is Severity.HIGH
        assert finding.condition.startswith("layouts: contiguous, aligned inputs only (")
        assert "gives wrong numbers" in finding.message


def test_the_message_names_the_input_and_its_layout() -> None:
    found = examine(Layout001(), scaled_add(), lambda: flat_x)
    assert found[0].message.startswith("x transposed gives wrong numbers, right where it is cont")
    assert found[0].where.output == "y"
    assert "x sliced with step 2 gives wrong numbers" in found[0].details[0][1]
    assert not any("bias" in text for _, text in found[0].details)
    bias, large = examine(Layout001(), scaled_add(), lambda: flat_bias)
    assert large.message.startswith("x transposed and bias sliced with step 2 gives wrong numbers")
    assert bias.condition.endswith("(bias sliced with step 2 gives wrong numbers)")


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("make", [scaled_add, row_sum, gather, square_gradient])
def test_kernels_that_follow_strides_are_silent(
    make: Callable[[], FakeTrial], profile: Profile
) -> None:
    trial = dataclasses.replace(make(), profile=profile)
    assert examine(Layout001(), trial, lambda: trial.reference) == []


def test_an_expanded_gradient_is_tried() -> None:
    def kernel(g: Tensor, x: Tensor) -> Tensor:
        return 2.0 * x * (flat(g) if g.stride(0) == 0 else g)[:, None]

    (found,) = examine(Layout001(), square_gradient(), lambda: kernel)
    assert found.message.startswith("grad_y expanded (stride 0) gives wrong numbers")
    assert found.where.fills["grad_y"].endswith("take=(0,), take_axis=rows, take_of=13)")


def test_indices_are_laid_out_too() -> None:
    def kernel(ids: Tensor, table: Tensor) -> Tensor:
        return table[ids.as_strided(ids.shape, (ids.shape[1], 1)).clamp(0)]

    found = examine(Layout001(), gather(), lambda: kernel)
    assert found
    assert "ids transposed gives wrong numbers" in found[0].message


@pytest.mark.parametrize("error", [ValueError, TypeError, RuntimeError, AssertionError])
def test_an_explicit_refusal_is_no_finding(error: type[Exception]) -> None:
    def kernel(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if not (x.is_contiguous() and bias.is_contiguous()):
            raise error("expected contiguous inputs")
        return x * gain + bias

    assert examine(Layout001(), scaled_add(), lambda: kernel) == []


def test_a_kernel_that_is_wrong_anyway_is_left_to_others() -> None:
    trial = scaled_add()
    for scenario in Layout001().propose(trial):
        run = run_one(trial, lambda x, bias, gain: x * gain, scenario)
        with pytest.raises(CannotJudgeError, match="plain call is wrong"):
            judged(Layout001(), trial, scenario, run)


def test_a_kernel_that_is_wrong_from_its_second_call_on_is_left_to_others() -> None:
    trial = scaled_add()
    calls: list[int] = []

    def second(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        calls.append(1)
        return x * gain + bias * len(calls)

    scenario = next(iter(Layout001().propose(trial)))
    run = run_one(trial, second, scenario)
    with pytest.raises(CannotJudgeError, match="plain call is wrong"):
        judged(Layout001(), trial, scenario, run)


def test_an_answer_near_the_edge_in_both_is_not_blamed() -> None:
    def kernel(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        exact = (x.double() * gain + bias).float()
        plain = x.is_contiguous() and bias.is_contiguous() and not x.storage_offset()
        noise = (exact.abs() + exact.abs().mean()) * 2.0**-20
        return exact + noise * (5.0 if plain else 8.0)

    assert examine(Layout001(), scaled_add(), lambda: kernel) == []


def test_a_refused_size_is_a_condition_on_shapes() -> None:
    def kernel(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        if x.shape[0] not in (16, 24):
            raise ValueError("unsupported size")
        return flat_x(x, bias, gain)

    trial = dataclasses.replace(scaled_add(declared=False), profile=Profile.STANDARD)
    conditions = {f.condition.split(":")[0] for f in examine(Layout001(), trial, lambda: kernel)}
    assert conditions == {"layouts", "shapes"}


class Ended:
    """A run that ended within a step."""

    def __init__(self, run: Run, index: int, end: Termination) -> None:
        records = run.result.records[:index]
        self._run, self.result = run, ScenarioResult(records=records, termination=end)

    def tensor(self, item: ResultItem) -> Tensor:
        return self._run.tensor(item)


def first_scenario(trial: FakeTrial) -> tuple[Scenario, Run, int]:
    """Return the first scenario, its honest run, and the step of its second strange call."""
    scenario = next(iter(Layout001().propose(trial)))
    run = run_one(trial, trial.reference, scenario)
    return scenario, run, list(tried_calls(scenario))[1].call


def judge_end(end: Termination, *, records: int | None = None) -> list[Finding]:
    trial = scaled_add()
    scenario, run, index = first_scenario(trial)
    ended = Ended(run, index if records is None else records, end)
    return judged(Layout001(), trial, scenario, ended)


def test_a_crash_names_the_layout() -> None:
    trial = scaled_add()
    _, _, index = first_scenario(trial)
    (found,) = judge_end(Killed(index=index, signal=int(signal.SIGSEGV)))
    assert found.finding_class is FindingClass.UNSAFE
    assert (
        found.message == "bias sliced with step 2 ends the process by SIGSEGV (segmentation fault)"
    )
    assert found.condition.startswith("layouts: contiguous, aligned inputs only (bias sliced")


def test_a_misaligned_address_names_the_layout() -> None:
    trial = scaled_add()
    scenario, run, index = first_scenario(trial)
    text = "CUDA error: misaligned address\nCUDA kernel errors might be"
    records = (*run.result.records[:index], StepRaised(index=index, exception="E", message=text))
    ended = Ended(run, index, run.result.termination)
    ended.result = dataclasses.replace(ended.result, records=records)
    (found,) = judged(Layout001(), trial, scenario, ended)
    assert found.message == "bias sliced with step 2 ends in E: CUDA error: misaligned address"


def test_a_slow_compilation_decides_nothing() -> None:
    trial = scaled_add()
    _, _, index = first_scenario(trial)
    with pytest.raises(CannotJudgeError, match="no end within 60 s"):
        judge_end(TimedOut(index=index, limit_s=60.0))


def test_a_plain_call_that_crashes_is_left_to_others_and_tampering_is_not() -> None:
    with pytest.raises(CannotJudgeError, match="plain call fails"):
        judge_end(Killed(index=1, signal=int(signal.SIGSEGV)), records=1)
    (found,) = judge_end(Garbled(index=1, what="bytes"), records=1)
    assert found.code == "RUN005"


def overlapping(x: Tensor, bias: Tensor, gain: float, y: Tensor) -> None:
    y.copy_(x * 2.0)
    y.copy_(x * gain + bias)


def in_place(x: Tensor, bias: Tensor, gain: float, y: Tensor) -> None:
    y.copy_(x * gain + bias)


def test_outputs_in_the_memory_of_inputs() -> None:
    run = functools.partial(examine, Layout001(), scaled_add(), convention=Convention.DESTINATION)
    (found,) = run(lambda: overlapping)
    assert found.condition == "aliasing: outputs must not share memory with inputs"
    assert found.message.startswith("y in the memory of x gives wrong numbers, right in memory of")
    assert run(lambda: in_place) == []


def test_a_kernel_that_takes_two_inputs_for_two_tensors_is_unsafe() -> None:
    made = problem(
        "gated",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("gate", "rows", "cols"), tensor("up", "rows", "cols")],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 16, "cols": 32}],
    )

    def by_address(gate: Tensor, up: Tensor) -> Tensor:
        known = {gate.data_ptr(): torch.sigmoid(gate)}
        return known[gate.data_ptr()] * known.setdefault(up.data_ptr(), up)

    def by_role(gate: Tensor, up: Tensor) -> Tensor:
        return torch.sigmoid(gate) * up

    trial = FakeTrial(made, by_role)
    (found,) = examine(Layout001(), trial, lambda: by_address)
    assert found.finding_class is FindingClass.UNSAFE
    assert found.condition == "aliasing: inputs must not share memory with one another"
    assert found.message.startswith("one tensor as gate and up gives wrong numbers")
    assert examine(Layout001(), trial, lambda: by_role) == []


def test_a_kernel_that_returns_shares_nothing() -> None:
    assert examine(Layout001(), scaled_add(), lambda: scaled_add().reference) == []
    assert len(list(shared_scenarios(scaled_add()))) == 1
    assert list(shared_scenarios(row_sum())) == []


def test_quick_tries_each_input_and_standard_all_layouts() -> None:
    quick = list(layout_scenarios(scaled_add()))
    assert [t.words for t in tried_calls(quick[0])] == [
        "x transposed",
        "bias sliced with step 2",
        "x offset by one element",
        "x sliced with step 2",
        "x packed in a wider buffer",
    ]
    assert [t.words for t in tried_calls(quick[1])] == ["x expanded (stride 0)"]
    standard = dataclasses.replace(scaled_add(), profile=Profile.STANDARD)
    words = [t.words for s in layout_scenarios(standard) for t in tried_calls(s)]
    assert words == [
        "x transposed",
        "x sliced with step 2",
        "x offset by one element",
        "x packed in a wider buffer",
        "bias sliced with step 2",
        "bias offset by one element",
        "x expanded (stride 0)",  # along the first axis, then along the last
        "x expanded (stride 0)",
    ]


def test_a_large_case_has_all_inputs_in_another_layout() -> None:
    def flat_if_large(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return (flat(x) if x.numel() > 64 else x) * gain + bias

    trial = FakeTrial(scaled_add().problem, flat_if_large)
    small = [s.cases[0].axes for s in layout_scenarios(trial)]
    (large,) = large_scenarios(trial)
    assert large.cases[0].axes not in small
    (tried,) = tried_calls(large)
    assert tried.words == "x transposed and bias sliced with step 2"


def test_which_layouts_fit() -> None:
    case = Case(label="c", axes={"a": 2, "b": 3, "c": 4, "d": 5})
    image = tensor("image", "a", "b", "c", "d")
    assert Layout.CHANNELS_LAST in fitting(image, case)
    assert fitting(tensor("bias", "a"), case) == [Layout.STEPPED, Layout.OFFSET]
    assert expandable_axes(image, case) == ("a", "d")
    assert expandable_axes(tensor("weight", "a"), case) == ()
    assert expandable_axes(tensor("grad_loss", "a"), case) == ("a",)
    assert expandable_axes(tensor("flags", "a", "b", dtype=DType.BOOL), case) == ()
    parameters = equal_slices(case, image, "d").fills["image"].parameters
    assert (parameters["take"], parameters["take_axis"], parameters["take_of"]) == ((0,), "d", 5)


def test_inputs_that_one_buffer_may_hold() -> None:
    made = problem(
        "qkv",
        axes=[axis("rows"), axis("wide"), axis("narrow")],
        inputs=[
            tensor("q", "rows", "wide"),
            tensor("k", "rows", "narrow"),
            tensor("mask", "rows", "wide", dtype=DType.INT8),
            tensor("weight", "wide"),
        ],
        outputs=[tensor("y", "rows", "wide")],
        workloads=[{"rows": 4, "wide": 8, "narrow": 2}],
    )
    case = Case(label="c", axes={"rows": 4, "wide": 8, "narrow": 2})
    assert packable(made, case) == [{"q": Layout.PACKED, "k": Layout.PACKED}]


@pytest.mark.parametrize("name", ["grad_output", "dy", "dout", "grad", "dloss", "d_x"])
def test_gradients_by_name(name: str) -> None:
    assert is_gradient(tensor(name, "rows"))


@pytest.mark.parametrize("name", ["x", "delta", "d2", "decay", "depth", "weight"])
def test_other_names(name: str) -> None:
    assert not is_gradient(tensor(name, "rows"))
