"""API002: what a call returns, and that it stays what it is."""

from __future__ import annotations

import dataclasses
import functools

import pytest
import torch

from cuassay.checks.interface.outputs import Api002
from cuassay.model.candidate import Convention
from cuassay.model.outcome import FindingClass
from tests.support.fake_trial import (
    FakeTrial,
    Function,
    axis,
    examine,
    problem,
    row_sum,
    scaled_add,
    tensor,
)


@pytest.mark.parametrize("declared", [True, False])
def test_an_honest_kernel_is_silent(declared: bool) -> None:
    trial = scaled_add(declared=declared)
    assert examine(Api002(), trial, lambda: lambda x, bias, gain: x * gain + bias) == []


def add_trial() -> FakeTrial:
    """Return a trial of the sum of two tensors of one shape."""

    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    made = problem(
        "add",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor(name, "rows", "cols") for name in ("x", "y")],
        outputs=[tensor("z", "rows", "cols")],
        workloads=[{"rows": 6, "cols": 4}],
    )
    return FakeTrial(problem=made, reference=add)


@pytest.mark.parametrize("passes", [lambda y: y, lambda y: y[:], lambda y: y.detach()])
def test_an_input_that_is_passed_through_where_another_is_zero_is_found(passes: Function) -> None:
    found = examine(
        Api002(), add_trial(), lambda: lambda x, y: x + y if bool(x.any()) else passes(y)
    )
    assert found
    assert all("shares the memory of input 'y'" in finding.message for finding in found)


def test_a_copy_where_another_input_is_zero_is_silent() -> None:
    call = lambda x, y: x + y if bool(x.any()) else y.clone()  # noqa: E731
    assert examine(Api002(), add_trial(), lambda: call) == []


def test_an_honest_destination_kernel_is_silent() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float, y: torch.Tensor) -> None:
        y.copy_(x * gain + bias)

    assert examine(Api002(), scaled_add(), lambda: call, convention=Convention.DESTINATION) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: y.double(), "is float64, expected float32"),
        (lambda y: y[:1], "has shape"),
        (lambda y: (y, y), "got 2"),
        (lambda y: None, "expected"),
        (lambda y: y.tolist(), "expected"),
    ],
)
def test_a_broken_structure_is_found(change: Function, words: str) -> None:
    found = examine(Api002(), scaled_add(), lambda: lambda x, bias, gain: change(x * gain + bias))
    assert found
    assert any(words in finding.message or "is " in finding.message for finding in found)
    assert all(finding.finding_class is FindingClass.WRONG for finding in found)


class Lazy(torch.Tensor):
    """A subclass, as a kernel that computes on comparison would return."""


def test_a_subclass_is_wrong_and_a_parameter_is_advice() -> None:
    def subclass(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return (x * gain + bias).as_subclass(Lazy)

    found = examine(Api002(), scaled_add(), lambda: subclass)
    assert found[0].finding_class is FindingClass.WRONG
    assert "expected exactly torch.Tensor" in found[0].message

    def parameter(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return torch.nn.Parameter(x * gain + bias, requires_grad=False)

    found = examine(Api002(), scaled_add(), lambda: parameter)
    assert {finding.finding_class for finding in found} == {FindingClass.ADVICE}


def in_place(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
    return x.mul_(gain).add_(bias)


def test_an_output_that_is_an_input_is_found() -> None:
    messages = [finding.message for finding in examine(Api002(), scaled_add(), lambda: in_place)]
    assert any("shares the memory of input 'x'" in message for message in messages)


def test_an_alias_that_the_reference_has_too_is_not_reported() -> None:
    assert examine(Api002(), scaled_add(), lambda: in_place, control=in_place) == []


def test_another_memory_layout_is_advice() -> None:
    def call(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return (x * gain + bias).t().contiguous().t()

    found = examine(Api002(), scaled_add(), lambda: call)
    assert {finding.finding_class for finding in found} == {FindingClass.ADVICE}


def test_vectors_and_numbers_have_no_layout_to_complain_about() -> None:
    assert examine(Api002(), row_sum(), lambda: lambda x: x.sum(-1)) == []


def test_two_outputs_in_one_memory_are_found_unless_the_references_are_so() -> None:
    made = problem(
        "doubled_twice",
        axes=[axis("rows"), axis("cols")],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows", "cols"), tensor("z", "rows", "cols")],
        workloads=[{"rows": 16, "cols": 32}],
    )

    def trial() -> FakeTrial:
        return FakeTrial(made, lambda x: (x * 2.0, x * 2.0))

    def once(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 2.0
        return y, y.view(-1).view(x.shape)

    def slices(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        both = torch.stack((x * 2.0, x * 2.0), dim=-1)
        return both[..., 0], both[..., 1]

    found = examine(Api002(), trial(), lambda: once)
    assert {finding.message.partition(":")[0] for finding in found} == {"y shares memory with 'z'"}
    assert found[0].finding_class is FindingClass.WRONG
    assert examine(Api002(), trial(), lambda: once, control=once) == []
    apart = examine(Api002(), trial(), lambda: slices)
    assert {finding.finding_class for finding in apart} <= {FindingClass.ADVICE}  # its strides


class Pair(tuple[torch.Tensor, ...]):
    """Shows its first member to an index, and another one to who iterates."""

    def __iter__(self):  # type: ignore[no-untyped-def]
        return iter([torch.zeros(1)])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda y: (y,), "returns a tuple, the reference returns the bare output"),
        (lambda y: [y], "returns a list, the reference returns the bare output"),
        (lambda y: {"y": y}, "returns a dict, the reference returns the bare output"),
        (lambda y: Pair((y,)), "Pair, the reference returns the bare output"),
    ],
)
def test_another_container_is_wrong(change: Function, words: str) -> None:
    found = examine(Api002(), scaled_add(), lambda: lambda x, bias, gain: change(x * gain + bias))
    assert any(words in finding.message for finding in found)
    assert all(finding.finding_class is FindingClass.WRONG for finding in found)


def test_the_reference_may_return_a_container_too() -> None:
    trial = scaled_add()
    trial.reference = lambda x, bias, gain: (x * gain + bias,)
    assert examine(Api002(), trial, lambda: lambda x, bias, gain: (x * gain + bias,)) == []
    for made, kind in (([], FindingClass.ADVICE), (None, FindingClass.WRONG)):

        def other(x: torch.Tensor, bias: torch.Tensor, gain: float, made: object = made) -> object:
            y = x * gain + bias
            return y if made is None else [y]

        (found, *_) = examine(Api002(), trial, functools.partial(_same, other))
        assert found.finding_class is kind


def _same(call: Function) -> Function:
    return call


def test_where_any_container_is_taken_another_one_is_advice() -> None:
    trial = scaled_add()
    trial.problem = dataclasses.replace(trial.problem, origin="sol-execbench")
    found = examine(Api002(), trial, lambda: lambda x, bias, gain: {"y": x * gain + bias})
    assert [one.finding_class for one in found] == [FindingClass.ADVICE] * len(found)
    assert (
        examine(Api002(), trial, lambda: lambda x, bias, gain: Pair((x * gain + bias,)))[
            0
        ].finding_class
        is FindingClass.WRONG
    )


def test_a_bit_that_hides_values_is_wrong() -> None:
    def negated(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        return torch._neg_view(-(x * gain + bias))

    (found,) = examine(Api002(), scaled_add(declared=True), lambda: negated)
    assert "negative bit" in found.message
    assert found.finding_class is FindingClass.WRONG


def test_memory_kept_alive_behind_an_output_is_a_condition() -> None:
    def pooled(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        pool = torch.empty(1 << 22)
        return torch.add(x * gain, bias, out=pool[: x.numel()].view(x.shape))

    def padded(x: torch.Tensor, bias: torch.Tensor, gain: float) -> torch.Tensor:
        padded = torch.empty(128, 512)
        return torch.add(x * gain, bias, out=padded[: x.shape[0], : x.shape[1]])

    (found,) = examine(Api002(), scaled_add(declared=True), lambda: pooled)
    assert found.condition.startswith("resources: y keeps 16,777,216 bytes alive")
    kinds = {f.finding_class for f in examine(Api002(), scaled_add(), lambda: padded)}
    assert kinds <= {FindingClass.ADVICE}
