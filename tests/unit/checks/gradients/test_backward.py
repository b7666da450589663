"""GRAD001: what rejects, what is a condition of use, and what is nothing to check."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.checks.base import Run
from cuassay.checks.gradients.backward import Grad001
from cuassay.checks.gradients.cases import scenarios, subsets, tried_in
from cuassay.errors import CannotJudgeError, NothingToCheckError
from cuassay.model.candidate import Convention
from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.outcome import Finding, FindingClass, Severity
from cuassay.model.problem import TensorSpec
from cuassay.model.scenario import Scenario
from cuassay.model.steps import Backward, Upstream
from cuassay.model.trace import Exited, Garbled, Killed, ResultItem, ScenarioResult, Termination
from cuassay.model.verdict import Profile
from tests.support.fake_trial import (
    FakeTrial,
    axis,
    examine,
    gather,
    judged,
    problem,
    run_one,
    scaled_add,
    tensor,
)

Derivative = Callable[[Any, Tensor, Tensor, Tensor], tuple[Tensor | None, Tensor | None]]


def row_products(*, most: int = 512) -> FakeTrial:
    """Return y = x * w, x of (rows, cols), w of (cols,), each of at most `most`."""
    made = problem(
        "row_products",
        axes=[axis("rows", maximum=most), axis("cols", maximum=most)],
        inputs=[tensor("x", "rows", "cols"), tensor("w", "cols")],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 16, "cols": 32}, {"rows": 24, "cols": 64}],
    )
    return FakeTrial(made, lambda x, w: x * w)


def kernel(derivative: Derivative) -> Callable[..., object]:
    """Return x * w with a derivative of its own."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
            return derivative(ctx, grad, *ctx.saved_tensors)

    applied: Any = Product
    return lambda x, w: applied.apply(x, w)


def right(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    return grad * w, (grad * x).sum(0)


def found_of(call: Callable[..., object], trial: FakeTrial | None = None) -> list[Finding]:
    return examine(Grad001(), trial or row_products(), lambda: call)


def test_right_gradients_earn_nothing_at_any_profile() -> None:
    for profile in Profile:
        trial = dataclasses.replace(row_products(), profile=profile)
        assert found_of(kernel(right), trial) == []
    assert found_of(lambda x, w: x * w) == []


def test_a_wrong_gradient_of_its_own_rejects() -> None:
    (found,) = found_of(
        kernel(lambda ctx, grad, x, w: (grad[:1] * w + 0 * x, right(ctx, grad, x, w)[1]))
    )
    assert found.finding_class is FindingClass.WRONG
    assert found.severity is Severity.CRITICAL
    assert found.message.startswith("grad_x is wrong, where the forward call is right: grad_x[")
    assert found.where.output == "grad_x"
    assert found.share is not None
    assert found.share > 2.0


@pytest.mark.parametrize("most", [512, 1 << 16])
def test_partial_sums_have_no_room_for_a_large_call(most: int) -> None:
    """Where no call may be large nothing is wrong."""
    few = kernel(lambda ctx, grad, x, w: (grad * w, (grad * x)[:4096].sum(0)))
    found = found_of(few, row_products(most=most))
    assert [one.finding_class for one in found] == [FindingClass.WRONG] * (most > 4096)
    assert found_of(kernel(right), row_products(most=most)) == []


def test_large_calls_ask_for_gradients_that_add_up_along_the_axis() -> None:
    (large,) = [one for one in scenarios(row_products(most=1 << 16)) if _is_large(one)]
    assert {step.wanted for step in large.steps if isinstance(step, Backward)} == {("w",)}
    pointwise = problem(
        "doubled",
        axes=[axis("rows", maximum=1 << 16), axis("cols", maximum=1 << 16)],
        inputs=[tensor("x", "rows", "cols")],
        outputs=[tensor("y", "rows", "cols")],
        workloads=[{"rows": 16, "cols": 32}],
    )
    assert not any(map(_is_large, scenarios(FakeTrial(pointwise, lambda x: 2 * x))))


def _is_large(scenario: Scenario) -> bool:
    return scenario.cases[0].label.startswith("large ")


def test_nan_rejects_and_a_wrong_shape_cannot_pass_torch() -> None:
    nan = kernel(lambda ctx, grad, x, w: (grad * torch.nan, (grad * x).sum(0)))
    (found,) = found_of(nan)
    assert "NaN" in found.message or "nan" in found.message
    (found,) = found_of(kernel(lambda ctx, grad, x, w: (grad * w, grad.T)))
    assert found.finding_class is FindingClass.UNSAFE
    assert "the backward pass raises RuntimeError: Function" in found.message


def test_a_strided_upstream_gradient_is_a_condition() -> None:
    def flat(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        if not grad.stride(-1):
            grad = grad.contiguous()
        grad = grad.as_strided(grad.shape, (grad.shape[1], 1))
        return right(ctx, grad, x, w)

    (found,) = found_of(kernel(flat))
    assert found.finding_class is FindingClass.UNSAFE
    assert (
        found.condition
        == "autograd: grad_x is wrong with the upstream gradient transposed in memory"
    )
    (rest,) = (text for name, text in found.details if name == "so do others")
    assert rest.startswith(
        "grad_w is wrong with the upstream gradient transposed in memory; grad_x"
    )


def test_a_frozen_input_is_a_condition() -> None:
    def unless(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return grad * w, (grad * x).sum(0) * ctx.needs_input_grad[0]

    (found,) = found_of(kernel(unless))
    assert found.condition == "autograd: grad_w is wrong with gradients of w alone"


def test_a_missing_gradient_is_a_condition() -> None:
    (found,) = found_of(kernel(lambda ctx, grad, x, w: (grad * w, None)))
    assert found.condition == "autograd: w gets no gradient"
    assert found.finding_class is FindingClass.UNSAFE
    assert "so do others" not in dict(found.details)


def test_one_buffer_for_all_gradients_is_a_condition() -> None:
    buffers: dict[object, Tensor] = {}

    def kept(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        held = buffers.setdefault(x.shape, torch.empty_like(x))
        return held.copy_(grad * w), (grad * x).sum(0)

    (found,) = found_of(kernel(kept))
    assert (
        found.condition
        == "autograd: grad_x is wrong with another call and its backward pass between"
    )


def test_a_second_pass_that_differs_from_the_first_rejects() -> None:
    sums: dict[object, Tensor] = {}

    def adding(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        total = sums.setdefault(x.shape, torch.zeros_like(w)).add_((grad * x).sum(0))
        return grad * w, total.clone()

    (found,) = found_of(kernel(adding))
    assert found.finding_class is FindingClass.WRONG
    assert found.message.startswith("grad_w is wrong with the same call made again, where")


def test_an_input_written_over_rejects_and_an_upstream_gradient_is_a_condition() -> None:
    def input_(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        found = right(ctx, grad, x, w)
        x.data.copy_(found[0])
        return found

    def upstream(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        found = right(ctx, grad, x, w)
        if grad.is_contiguous():
            grad.data.zero_()
        return found

    (found,) = found_of(kernel(input_))
    assert found.finding_class is FindingClass.WRONG
    assert found.message == "x is overwritten by the call or its backward pass"
    (found,) = found_of(kernel(upstream))
    assert found.finding_class is FindingClass.UNSAFE
    assert found.condition.startswith("autograd: upstream gradient of y is overwritten")


def test_what_torch_derives_is_a_condition_at_most() -> None:
    (found,) = found_of(lambda x, w: x * w.detach() + 0.0 * w)
    assert found.finding_class is FindingClass.UNSAFE
    assert found.condition == "autograd: grad_w is wrong"


def test_a_forward_call_that_is_wrong_in_training_alone_rejects() -> None:
    good = kernel(right)

    def call(x: Tensor, w: Tensor) -> object:
        return good(x, w) if not x.requires_grad else good(x * 1.5, w)

    (found,) = found_of(call)
    assert found.finding_class is FindingClass.WRONG
    assert found.message.startswith("y is wrong as soon as an input requires a gradient")


def only(trial: FakeTrial, call: Callable[..., object], **how: Any) -> list[Finding]:
    scenario = next(iter(Grad001().propose(trial)))
    return judged(Grad001(), trial, scenario, run_one(trial, call, scenario, **how))


@pytest.mark.parametrize(
    "call",
    [lambda x, w: (x * w).detach(), lambda x, w: x.mul_(w)],
    ids=["detached", "in place"],
)
def test_nothing_differentiable_is_nothing_to_check(call: Callable[..., object]) -> None:
    with pytest.raises(NothingToCheckError):
        only(row_products(), call)


def test_destinations_are_nothing_to_check() -> None:
    with pytest.raises(NothingToCheckError, match="outputs given to it"):
        only(row_products(), lambda x, w, y: None, convention=Convention.DESTINATION)


def test_a_reference_that_cannot_be_differentiated_is_nothing_to_check() -> None:
    trial = dataclasses.replace(row_products(), reference=lambda x, w: (x * w).detach())
    with pytest.raises(NothingToCheckError, match="reference cannot be differentiated"):
        only(trial, kernel(right))


def test_a_wrong_forward_call_is_left_to_others() -> None:
    good = kernel(right)
    for call in (lambda x, w: good(x, w * 2.0), lambda x, w: x * w * 2.0):
        with pytest.raises(CannotJudgeError, match="plain call is wrong"):
            only(row_products(), call)


def test_an_error_near_the_edge_is_not_blamed() -> None:
    def noisy(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        exact = right(ctx, grad, x, w)
        return exact[0] * (1.0 + 2.0**-22), exact[1]

    assert found_of(kernel(noisy)) == []


class Ended:
    """A run that ended within a step."""

    def __init__(self, run: Run, index: int, end: Termination) -> None:
        self._run = run
        self.result = ScenarioResult(records=run.result.records[:index], termination=end)

    def tensor(self, item: ResultItem) -> Tensor:
        return self._run.tensor(item)


def ended(end: Killed | Exited | Garbled, number: int) -> list[Finding]:
    trial = row_products()
    scenario = next(iter(Grad001().propose(trial)))
    run = run_one(trial, kernel(right), scenario)
    index = tried_in(scenario)[number].index
    return judged(
        Grad001(), trial, scenario, Ended(run, index, dataclasses.replace(end, index=index))
    )


def test_a_death_in_a_backward_pass_is_a_condition() -> None:
    (found,) = ended(Killed(index=0, signal=int(signal.SIGSEGV)), 0)
    assert found.condition == "autograd: the process dies of SIGSEGV (segmentation fault)"
    (found,) = ended(Exited(index=0, exit_code=3), 4)
    words = "with the upstream gradient transposed in memory"
    assert found.condition == f"autograd: the process ends with exit code 3 {words}"


def test_tampering_is_reported() -> None:
    (found,) = ended(Garbled(index=0, what="bytes"), 4)
    assert found.code == "RUN005"


def test_problems_without_floating_inputs_or_outputs_are_skipped() -> None:
    trial = row_products()
    whole = dataclasses.replace(
        trial.problem,
        outputs=(TensorSpec(name="y", dtype=DType.INT32, shape=("rows",), domain=Real()),),
    )
    assert "no output" in Grad001().skip(dataclasses.replace(trial, problem=whole))
    given = dataclasses.replace(
        trial.problem,
        inputs=(TensorSpec(name="x", dtype=DType.INT32, shape=("rows",), domain=Real()),),
    )
    assert "no input" in Grad001().skip(dataclasses.replace(trial, problem=given))
    assert Grad001().skip(trial) == ""


def test_integer_inputs_require_no_gradient() -> None:
    trial = gather()
    assert found_of(lambda ids, table: table[ids], trial) == []
    first = tried_in(next(scenarios(trial)))[0].step
    assert first.wanted == ("table",)


def test_the_first_tries_are_the_plain_ones_and_every_subset_has_its_turn() -> None:
    words = [tried.words for tried in tried_in(next(scenarios(scaled_add())))]
    assert words[0] == words[1] == ""
    assert words[2] == "the same call made again"
    assert words[-2:] == ["gradients of x alone", "gradients of bias alone"]
    assert subsets(("a", "b", "c")) == [("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c")]
    assert subsets(("a",)) == []
    assert len(subsets("abcd")) == 8


def test_truth_is_the_derivative_in_float64() -> None:
    trial = row_products()
    case = trial.cases("small")[0]
    truth = trial.gradients(case, ["y"], upstream=Upstream.ONES, seed=1)
    x, w = (v.double() for v in trial.inputs(case).values() if isinstance(v, Tensor))
    assert [o.name for o in truth.outputs] == ["grad_x", "grad_w"]
    assert torch.equal(truth.outputs[0].value, w.expand_as(x))
    torch.testing.assert_close(truth.outputs[1].value, x.sum(0))
    assert truth.kind == "float64"


def test_an_input_that_may_be_made_anew_of_others_is_a_condition() -> None:
    def generate(axes: Any, device: torch.device) -> dict[str, Tensor]:
        x = torch.randn(axes["rows"], axes["cols"])
        return {"x": x, "w": x[0]}

    def of_first_row(ctx: Any, grad: Tensor, x: Tensor, w: Tensor) -> tuple[Tensor, None]:
        grad_x = grad * w
        grad_x[0] += (grad * x).sum(0)
        return grad_x, None

    trial = row_products()
    trial.generator = generate
    for generated, expected in ((True, FindingClass.UNSAFE), (False, FindingClass.WRONG)):
        scenario = next(iter(Grad001().propose(trial)))
        case = dataclasses.replace(scenario.cases[0], generator=generated, fills={})
        scenario = dataclasses.replace(scenario, cases=(case,))
        run = run_one(trial, kernel(of_first_row), scenario)
        (found,) = judged(Grad001(), trial, scenario, run)
        assert found.finding_class is expected


class _Scaled(torch.autograd.Function):
    """x * gain + bias, whose derivative may leave out the factor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor, gain: float, forget: bool) -> Tensor:
        ctx.factor = 1.0 if forget else gain
        return x * gain + bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return grad * ctx.factor, grad.sum(0), None, None


@pytest.mark.parametrize("forgets", [True, False])
def test_a_derivative_that_forgets_a_scalar_is_wrong(forgets: bool) -> None:
    applied: Any = _Scaled
    trial = scaled_add()

    def call(x: Tensor, bias: Tensor, gain: float) -> Tensor:
        return applied.apply(x, bias, gain, forgets)  # type: ignore[no-any-return]

    found = examine(Grad001(), trial, lambda: call)
    assert [f.finding_class for f in found] == [FindingClass.WRONG] * forgets
