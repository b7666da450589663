"""Backward steps: gradients of every kind of use, and reports of what there is none of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.model.candidate import Convention
from cuassay.model.case import Case
from cuassay.model.device import CPU
from cuassay.model.problem import Problem
from cuassay.model.reports import Differentiated
from cuassay.model.scenario import Allocate, ReadResult
from cuassay.model.steps import Backward, Upstream, Use
from cuassay.model.trace import StepDone, StepRaised, StepRecord
from cuassay.sandbox import upstream
from cuassay.sandbox.guest.callers.autograd import has_own_derivative, recomputed
from cuassay.sandbox.guest.interface import Given
from cuassay.sandbox.guest.interpreter import Executed, Interpreter
from tests.support.fake_trial import axis, problem, tensor

PROBLEM: Problem = problem(
    "product",
    axes=[axis("rows"), axis("cols")],
    inputs=[tensor("x", "rows", "cols"), tensor("w", "cols")],
    outputs=[tensor("y", "rows", "cols")],
    workloads=[{"rows": 3, "cols": 4}],
)
CASE = Case(label="a case", axes={"rows": 3, "cols": 4})
X, W = torch.arange(12.0).reshape(3, 4) - 5.0, torch.arange(4.0) + 1.0


class Product(torch.autograd.Function):
    """x * w with a derivative of its own."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, w = ctx.saved_tensors
        return grad * w, (grad * x).sum(0)


def apply(function: Any, x: Tensor, w: Tensor) -> Tensor:
    found: Tensor = function.apply(x, w)
    return found


def own(x: Tensor, w: Tensor) -> Tensor:
    return apply(Product, x, w)


def step(
    *wanted: str, use: Use = Use.ONCE, kind: Upstream = Upstream.CONTIGUOUS, seed: int = 3
) -> Backward:
    return Backward(
        slot="a",
        result="g",
        outputs="y",
        wanted=wanted or ("x", "w"),
        seed=seed,
        upstream=kind,
        use=use,
    )


def report_in(record: StepRecord) -> Differentiated:
    assert isinstance(record, StepDone), record
    assert isinstance(record.report, Differentiated)
    return record.report


class Worker:
    """An interpreter with the inputs of a case in slot `a`."""

    def __init__(
        self, call: Callable[..., object], *, convention: Convention = Convention.RETURNS
    ) -> None:
        self.made = Interpreter(call, PROBLEM, device=CPU, convention=convention)
        self.do(Allocate(slot="a", case=0), inputs={"x": X, "w": W})

    def do(self, what: Any, **given: Any) -> Executed:
        return self.made.execute(what, 0, cases=[CASE], given=Given(**given))

    def report(self, what: Backward) -> Differentiated:
        return report_in(self.do(what).record)

    def read(self, result: str) -> dict[str, Tensor]:
        done = self.do(ReadResult(result=result))
        assert isinstance(done.record, StepDone)
        sent = [item for item in done.record.items if item.buffer >= 0]
        return {item.name: done.tensors[item.buffer] for item in sent}


def expected(kind: Upstream = Upstream.CONTIGUOUS, *, seed: int = 3) -> tuple[Tensor, Tensor]:
    given = upstream.drawn(kind, (3, 4), torch.float32, seed=seed, number=0)
    return given * W, (given * X).sum(0)


@pytest.mark.parametrize("use", [use for use in Use if use is not Use.FORWARD])
@pytest.mark.parametrize("kind", list(Upstream))
def test_gradients_of_every_use_and_layout(use: Use, kind: Upstream) -> None:
    worker = Worker(own)
    assert worker.report(step(use=use, kind=kind)) == Differentiated(carries=("y",), own=True)
    grad_x, grad_w = expected(kind)
    found = worker.read("g")
    assert list(found) == ["grad_x", "grad_w"]
    torch.testing.assert_close(found["grad_x"], grad_x)
    torch.testing.assert_close(found["grad_w"], grad_w)
    assert torch.equal(worker.read("y")["y"], X * W)


def test_only_what_is_wanted_requires_a_gradient() -> None:
    seen: list[tuple[bool, bool]] = []

    def call(x: Tensor, w: Tensor) -> Tensor:
        seen.append((x.requires_grad, w.requires_grad))
        return own(x, w)

    worker = Worker(call)
    worker.report(step())
    worker.report(step("w"))
    assert list(worker.read("g")) == ["grad_w"]
    worker.do(step(use=Use.FORWARD))
    assert worker.read("g") == {}
    assert torch.equal(worker.read("y")["y"], X * W)
    assert seen == [(True, True), (False, True), (False, False)]


def test_operations_of_torch_are_differentiated_once() -> None:
    calls: list[int] = []

    def call(x: Tensor, w: Tensor) -> Tensor:
        calls.append(1)
        return x * w

    worker = Worker(call)
    assert not worker.report(step()).own
    torch.testing.assert_close(worker.read("g")["grad_x"], expected()[0])
    assert "torch differentiates it" in worker.report(step("w")).passed_over
    assert worker.read("g") == {}
    assert len(calls) == 1


def test_nothing_that_carries_a_gradient_costs_one_call() -> None:
    calls: list[int] = []

    def call(x: Tensor, w: Tensor) -> Tensor:
        calls.append(1)
        return (x * w).detach()

    worker = Worker(call)
    assert worker.report(step()) == Differentiated()
    assert worker.report(step()) == Differentiated(passed_over="no output carries a gradient")
    assert len(calls) == 1


def test_outputs_given_to_it_carry_none_and_it_is_not_called() -> None:
    worker = Worker(pytest.fail, convention=Convention.DESTINATION)
    assert "outputs given to it" in worker.report(step()).passed_over


def test_a_refusal_ends_the_attempts_and_keeps_its_own_name() -> None:
    def call(x: Tensor, w: Tensor) -> Tensor:
        return x.mul_(w)

    worker = Worker(call)
    record = worker.do(step()).record
    assert isinstance(record, StepRaised)
    assert record.exception == "RuntimeError"
    assert "raised" in worker.report(step()).passed_over
    assert torch.equal(worker.made.slot("a").tensors["x"], X)


def test_an_exception_of_its_own_derivative_is_told_apart() -> None:
    class Half(Product):
        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            if not ctx.needs_input_grad[0]:
                raise ValueError("x must require a gradient")
            return Product.backward(ctx, grad)

    worker = Worker(lambda x, w: apply(Half, x, w))
    assert worker.report(step()).own
    record = worker.do(step("w")).record
    assert isinstance(record, StepRaised)
    assert record.exception == "BackwardError"
    assert record.message == "ValueError: x must require a gradient"
    assert worker.report(step("x")).carries == ("y",)  # the others are tried all the same


def test_what_is_written_to_is_told() -> None:
    class Scratch(Product):
        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            found = Product.backward(ctx, grad)
            x, _ = ctx.saved_tensors
            x.data.zero_()
            grad.mul_(2.0)
            return found

    worker = Worker(lambda x, w: apply(Scratch, x, w))
    assert worker.report(step()).written == ("x", "upstream gradient of y")


def test_state_between_calls_shows() -> None:
    last: list[Tensor] = []

    class Last(Product):
        @staticmethod
        def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
            last[:] = [x]
            return Product.forward(ctx, x, w)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
            return Product.backward(ctx, grad)[0], (grad * last[0]).sum(0)

    worker = Worker(lambda x, w: apply(Last, x, w))
    worker.report(step())
    torch.testing.assert_close(worker.read("g")["grad_w"], expected()[1])
    worker.report(step(use=Use.BESIDE))
    torch.testing.assert_close(worker.read("g")["grad_w"], 0.5 * expected()[1])


def test_recomputation_that_saves_something_else_is_an_error() -> None:
    turns: Iterator[bool] = iter([True, False])
    x = X.clone().requires_grad_()

    def call() -> list[tuple[str, object]]:
        return [("y", own(x, W) if next(turns) else x * 2.0)]

    ((_, y),) = recomputed(call)
    assert isinstance(y, Tensor)
    with pytest.raises(RuntimeError, match="recomputation saved 0 tensors, the forward call 2"):
        torch.autograd.backward(y, torch.ones(3, 4))


def test_a_derivative_of_its_own_is_found_behind_operations_of_torch() -> None:
    x = X.clone().requires_grad_()
    assert has_own_derivative([(own(x, W).exp() + 1.0).sum(0)])
    assert not has_own_derivative([(x * W).exp().sum(0), X])


@pytest.mark.parametrize(
    ("kind", "strides"),
    [
        (Upstream.CONTIGUOUS, (4, 1)),
        (Upstream.ONES, (0, 0)),
        (Upstream.TRANSPOSED, (1, 3)),
        (Upstream.SLICED, (9, 1)),
    ],
)
def test_layouts_keep_the_values(kind: Upstream, strides: tuple[int, ...]) -> None:
    values = upstream.drawn(kind, (3, 4), torch.bfloat16, seed=1, number=0)
    found = upstream.laid_out(kind, values)
    assert found.stride() == strides
    assert torch.equal(found, values)
    assert found.untyped_storage().data_ptr() != values.untyped_storage().data_ptr()


def test_one_axis_becomes_a_column_and_none_stays() -> None:
    row = upstream.drawn(Upstream.SLICED, (5,), torch.float32, seed=1, number=0)
    for kind in (Upstream.SLICED, Upstream.TRANSPOSED):
        found = upstream.laid_out(kind, row)
        assert found.stride() == (2,)
        assert torch.equal(found, row)
    number = upstream.drawn(Upstream.SLICED, (), torch.float32, seed=1, number=0)
    assert torch.equal(upstream.laid_out(Upstream.SLICED, number), number)


def test_values_depend_on_seed_and_output() -> None:
    draws = [
        upstream.drawn(Upstream.CONTIGUOUS, (9,), torch.float32, seed=seed, number=number)
        for seed, number in ((1, 0), (2, 0), (1, 2), (1, 0))
    ]
    assert torch.equal(draws[0], draws[3])
    assert not any(torch.equal(draws[0], other) for other in draws[1:3])


def test_codes_of_eight_bits_carry_no_gradient() -> None:
    def call(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        return (x * w).to(torch.float8_e4m3fn), x.abs().amax(-1)

    assert Worker(call).report(step()).carries == ()
    two = dataclasses.replace(
        PROBLEM, outputs=(PROBLEM.outputs[0], dataclasses.replace(PROBLEM.outputs[0], name="s"))
    )
    made = Interpreter(call, two, device=CPU, convention=Convention.RETURNS)
    made.execute(Allocate(slot="a", case=0), 0, cases=[CASE], given=Given(inputs={"x": X, "w": W}))
    record = made.execute(step("x"), 1, cases=[CASE], given=Given()).record
    assert report_in(record).carries == ("s",)
