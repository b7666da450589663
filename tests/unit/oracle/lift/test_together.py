"""Runs that are made together are the runs that would be made one after another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.hooks import Operation, PassThrough
from cuassay.oracle.lift.run import lift, lift_together
from cuassay.oracle.lift.together import NotTogether, first_run, together


class _Scaled(PassThrough):
    """Multiplies the first operation's result by one number a run."""

    def __init__(self, *factors: float) -> None:
        self._factors = factors
        self._met = False

    def after(self, operation: Operation, out: Any) -> object:
        if self._met or not isinstance(out, Tensor):
            return out
        self._met = True
        factors = torch.tensor(self._factors, dtype=torch.float64)
        return out * (together(factors) if len(factors) > 1 else factors[0])


_FACTORS = (0.5, 1.0, 3.0)
_X = torch.arange(12.0).reshape(3, 4) / 7


def _reads_places(x: Tensor) -> Tensor:
    order = (x + 1.0).argsort(-1)
    return x.gather(-1, order)


def _writes(x: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    out[1:] = (x * 2.0)[1:]
    out[0].copy_(x[0] + out[1])
    return out


def _differentiates(x: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    made = torch.softmax(leaf * 2.0, -1).square().sum()
    return torch.autograd.grad(made, leaf)[0]


def _transforms(x: Tensor) -> Tensor:
    found: Tensor = torch.vmap(lambda row: (row * 2.0).cumsum(0))(x)
    return found


@pytest.mark.parametrize(
    "reference",
    [
        lambda x: (x * 2.0) @ x.T,
        lambda x: (x + 1.0).reshape(2, 6).transpose(0, 1).contiguous().sum(0),
        lambda x: ((x * 2.0).bfloat16() + 1).float(),
        _reads_places,
        _writes,
        _differentiates,
        _transforms,
    ],
)
def test_each_run_is_the_run_by_itself(reference: Callable[[Tensor], Tensor]) -> None:
    (found,) = lift_together(reference, [_X], 3, hook=_Scaled(*_FACTORS))
    for one, factor in zip(found, _FACTORS, strict=True):
        (alone,) = lift(reference, [_X], hook=_Scaled(factor))
        torch.testing.assert_close(one, alone, rtol=1e-15, atol=0)


def test_a_copy_into_a_part_is_made_for_all_runs_at_once() -> None:
    """torch has no batching rule for `copy`: it would make one after the other, with a warning."""
    functorch: Any = torch._C._functorch
    functorch._set_vmap_fallback_enabled(False)
    try:
        (found,) = lift_together(_writes, [_X], 3, hook=_Scaled(*_FACTORS))
    finally:
        functorch._set_vmap_fallback_enabled(True)
    assert found.shape == (3, 3, 4)


def test_what_differs_in_no_run_is_given_once_for_each() -> None:
    found = lift_together(lambda x: (x * 2.0, x.double()), [_X], 3, hook=_Scaled(*_FACTORS))
    assert [one.shape for one in found] == [(3, 3, 4), (3, 3, 4)]
    assert torch.equal(found[1], _X.double().expand(3, 3, 4))


def _branches(x: Tensor) -> Tensor:
    return x * 2.0 if (x * 2.0).sum() > 1 else x


def _catches(x: Tensor) -> Tensor:
    try:
        return x * float((x * 2.0).sum())
    except Exception:
        return x


def _writes_into_an_input(x: Tensor) -> Tensor:
    x[0] = x[1] * 2.0
    return x


@pytest.mark.parametrize("reference", [_branches, _catches, _writes_into_an_input])
def test_a_single_runs_numbers_have_to_be_met_one_after_another(
    reference: Callable[[Tensor], Tensor],
) -> None:
    with pytest.raises(NotTogether):
        lift_together(reference, [_X], 3, hook=_Scaled(*_FACTORS))
    lift(reference, [_X], hook=_Scaled(2.0))


def test_outside_of_such_runs_a_tensor_is_its_own_first_run() -> None:
    assert first_run(_X) is _X
    assert first_run("words") == "words"
