"""The interpreter in-process: every step, result structures, poison, aliases."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
import torch

from cuassay.model.candidate import Convention
from cuassay.model.dtype import DType
from cuassay.model.scenario import (
    Allocate,
    Call,
    HashResult,
    Poison,
    ReadInputs,
    ReadResult,
    Refill,
    Release,
)
from cuassay.model.trace import Claim, Exited, Finished, StepDone, StepRaised
from cuassay.oracle.bits import raw_bytes
from cuassay.sandbox.guest.items import DTYPES
from cuassay.sandbox.local import LocalRunner
from cuassay.sandbox.ran import Ran
from tests.support import workers
from tests.support.workers import items, problem, ramp, scenario, tensor_spec


def tensor(run: Ran, index: int) -> torch.Tensor:
    return run.tensor(items(run.result, index)[0])


def test_identity_reports_the_alias_and_the_values() -> None:
    run = LocalRunner(lambda x: x, problem()).run(scenario(), ramp)
    assert run.result.termination == Finished()
    (item,) = items(run.result, 2)
    assert (item.type_name, item.aliases, item.name) == ("torch.Tensor", ("x",), "y")
    assert torch.equal(run.tensor(item), torch.arange(100.0))


@pytest.mark.parametrize("dtype", [d.value for d in DType if d is not DType.BOOL])
def test_uninitialised_memory_of_every_dtype_is_poisoned(dtype: str) -> None:
    run = LocalRunner(lambda x: torch.empty(5000, dtype=DTYPES[dtype]), problem()).run(
        scenario(), ramp
    )
    assert (tensor(run, 2).view(torch.uint8) == 0xFF).all()


def test_a_single_element_may_have_any_stride() -> None:
    odd = torch.arange(100.0).reshape(10, 10)[:1, 0]  # contiguous, with a stride of 10
    assert odd.is_contiguous()
    run = LocalRunner(lambda x: odd, problem()).run(scenario(), ramp)
    assert torch.equal(tensor(run, 2), odd)
    assert raw_bytes(odd).numel() == 4


def test_an_input_that_every_call_changes_holds_its_values_before_each() -> None:
    spec = replace(problem(), updated=("x",))
    steps = (
        Allocate(slot="a", case=0),
        Call(slot="a", result="first"),
        Call(slot="a", result="second"),
        ReadResult(result="first"),
        ReadResult(result="second"),
        ReadInputs(slot="a"),
        Refill(slot="a", case=0),
        Call(slot="a", result="third"),
        ReadResult(result="third"),
    )
    run = LocalRunner(lambda x: x.add_(1.0), spec).run(replace(scenario(), steps=steps), ramp)
    for index in (3, 4, 8):
        (item,) = items(run.result, index)
        assert torch.equal(run.tensor(item), torch.arange(100.0) + 1.0)
        assert item.aliases == ()
    assert float(run.tensor(items(run.result, 5)[0]).view(torch.float32)[0]) == 1.0


def test_small_results_that_are_not_written_are_wrong() -> None:
    run = LocalRunner(torch.empty_like, problem()).run(scenario(), ramp)
    assert tensor(run, 2)[8:].isnan().all()  # the allocator's own links lie in the first bytes


def test_memory_that_the_candidate_holds_is_not_recycled() -> None:
    held: list[torch.Tensor] = []
    steps = (
        Allocate(slot="s", case=0),
        Call(slot="s", result="r"),
        Release(name="s"),
        Allocate(slot="s", case=1),
    )

    def hold(x: torch.Tensor) -> torch.Tensor:
        held.append(x)
        return x + 0

    run = LocalRunner(hold, problem()).run(scenario(steps, sizes=(9, 9)), ramp)
    assert items(run.result, 3)[0].scalar == 0.0
    assert torch.equal(held[0], torch.arange(9.0))
    run = LocalRunner(lambda x: x + 0, problem()).run(scenario(steps, sizes=(9, 9)), ramp)
    assert items(run.result, 3)[0].scalar == 1.0


def test_zero_poison_gives_zeros() -> None:
    steps = (Allocate(slot="s", case=0), Call(slot="s", result="r", poison=Poison.ZEROS))
    run = LocalRunner(lambda x: torch.empty(5000), problem()).run(
        scenario((*steps, ReadResult(result="r"))), ramp
    )
    assert (tensor(run, 2) == 0).all()


@pytest.mark.parametrize(
    ("poison", "expected"),
    [
        (Poison.ZEROS, 0.0),
        (Poison.NAN, float("nan")),
        (Poison.RIGHT, 7.0),
        (Poison.NEGATED, -7.0),
    ],
)
def test_destinations_hold_the_poison(poison: Poison, expected: float) -> None:
    steps = (Allocate(slot="s", case=0), Call(slot="s", result="r", poison=poison))
    runner = LocalRunner(lambda x, y: None, problem(), convention=Convention.DESTINATION)
    run = runner.run(
        scenario((*steps, ReadResult(result="r"))), ramp, lambda case: [torch.full((100,), 7.0)]
    )
    assert torch.equal(tensor(run, 2).nan_to_num(99.0), torch.full((100,), expected).nan_to_num(99))


def test_refill_keeps_the_storage_and_a_held_result_shows_it() -> None:
    steps = (
        Allocate(slot="s", case=0),
        Call(slot="s", result="r"),
        Refill(slot="s", case=1),
        ReadResult(result="r"),
    )
    run = LocalRunner(lambda x: x, problem()).run(scenario(steps, sizes=(9, 9)), ramp)
    assert torch.equal(tensor(run, 3), torch.arange(9.0) + 1)


def test_refill_with_another_shape_is_refused() -> None:
    steps = (Allocate(slot="s", case=0), Refill(slot="s", case=1))
    run = LocalRunner(lambda x: x, problem()).run(scenario(steps, sizes=(9, 8)), ramp)
    assert cast(StepRaised, run.result.records[1]).claim is Claim.INPUT_CHANGED


def test_inputs_are_read_as_their_whole_storage() -> None:
    def spoil(x: torch.Tensor) -> torch.Tensor:
        x[3] = -1.0
        return x + 0

    steps = (Allocate(slot="s", case=0), Call(slot="s", result="r"), ReadInputs(slot="s"))
    run = LocalRunner(spoil, problem()).run(scenario(steps), ramp)
    item, now = items(run.result, 2)
    assert (now.name, now.shape, now.buffer) == ("x", (100,), -1)
    assert (item.name, item.dtype, item.shape) == ("x", "uint8", (400,))
    assert run.tensor(item).view(torch.float32)[3] == -1.0


def test_a_raise_leaves_no_result_and_the_rest_goes_on() -> None:
    def fail(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no")

    run = LocalRunner(fail, problem()).run(
        scenario((*workers.ONE_CALL, ReadInputs(slot="s"))), ramp
    )
    kinds = [type(record) for record in run.result.records]
    assert kinds == [StepDone, StepRaised, StepRaised, StepDone]
    raised = cast(StepRaised, run.result.records[1])
    assert (raised.exception, raised.message) == ("ValueError", "no")
    assert "interpreter.py" not in raised.traceback


def test_sys_exit_ends_the_run() -> None:
    def leave(x: torch.Tensor) -> torch.Tensor:
        raise SystemExit(4)

    run = LocalRunner(leave, problem()).run(scenario(), ramp)
    assert run.result.termination == Exited(index=1, exit_code=4)


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ((torch.ones(2), torch.ones(1)), [("tensor", "a"), ("tensor", "b")]),
        ({"b": torch.ones(1), "a": torch.ones(2)}, [("tensor", "a"), ("tensor", "b")]),
        ([1.5, None, "x"], [("scalar", ""), ("none", ""), ("other", "")]),
        (torch.ones(2).to_sparse(), [("other", "")]),
    ],
)
def test_structures_are_described(returned: object, expected: list[tuple[str, str]]) -> None:
    outputs = (tensor_spec("a", "float32", "n"), tensor_spec("b", "float32", "1"))
    run = LocalRunner(lambda x: returned, problem(outputs=outputs)).run(scenario(), ramp)
    assert [(item.kind, item.name) for item in items(run.result, 1)] == expected


class Lazy(torch.Tensor):
    """Computes its values when it is read, not when it is described."""

    computed = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        Lazy.computed += 1
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


def test_a_subclass_is_named_and_not_evaluated_by_the_call() -> None:
    lazy = torch.ones(3).as_subclass(Lazy)
    Lazy.computed = 0
    run = LocalRunner(lambda x: lazy, problem()).run(scenario(workers.ONE_CALL[:2]), ramp)
    (item,) = items(run.result, 1)
    assert item.type_name.endswith(".Lazy")
    assert item.shape == (3,)
    assert Lazy.computed == 0


def test_hashes_tell_results_apart() -> None:
    steps = (
        Allocate(slot="s", case=0),
        Call(slot="s", result="r"),
        HashResult(result="r"),
        HashResult(result="r"),
        Refill(slot="s", case=1),
        HashResult(result="r"),
    )
    run = LocalRunner(lambda x: x, problem()).run(scenario(steps, sizes=(9, 9)), ramp)
    first, second, third = (cast(StepDone, run.result.records[i]).digest for i in (2, 3, 5))
    assert first == second != third


def test_a_released_result_cannot_be_read() -> None:
    steps = (*workers.ONE_CALL, Release(name="r"), ReadResult(result="r"))
    run = LocalRunner(lambda x: x, problem()).run(scenario(steps), ramp)
    assert isinstance(run.result.records[4], StepRaised)


def test_out_of_memory_is_marked() -> None:
    run = LocalRunner(lambda x: torch.empty(1 << 50), problem()).run(scenario(), ramp)
    assert cast(StepRaised, run.result.records[1]).claim is Claim.NO_MEMORY
