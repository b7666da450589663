"""Draws that are made together give the truth of draws that are made one after another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.truth import make
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import Family, family_of
from cuassay.oracle.truth.runs import ReferenceRunner
from tests.support.oracle_cases import normal, spec


def _backward(x: Tensor, upstream: Tensor) -> Tensor:
    leaf = x.detach().clone().requires_grad_()
    made = torch.nn.functional.silu(torch.nn.functional.layer_norm(leaf.float(), leaf.shape[-1:]))
    return torch.autograd.grad(made.to(x.dtype), leaf, upstream)[0]


def _scattered(x: Tensor, upstream: Tensor) -> Tensor:
    places = torch.arange(len(x)) % 5
    return torch.zeros(64, x.shape[1]).index_add(0, places, x.float() * upstream.float())


def _norm(x: Tensor, upstream: Tensor) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * upstream[0].float()).to(x.dtype)


def _centred(x: Tensor, upstream: Tensor) -> Tensor:
    wide = x.float() - x.float().mean(-1, keepdim=True)
    return (wide / wide.square().mean(-1, keepdim=True).sqrt()).to(x.dtype)


def _forms(x: Tensor, upstream: Tensor) -> Tensor:
    made = torch.softmax(x, -1) @ upstream.T
    return torch.tanh(made) + torch.nn.functional.gelu(made) + torch.cumsum(made, -1)


def _counts(x: Tensor, upstream: Tensor) -> Tensor:
    return x * ((x > 0).float().cumsum(-1) + 1.0)


def _copied(x: Tensor, upstream: Tensor) -> Tensor:
    keys = upstream.float().T.contiguous()  # in 16 bits still, whatever the type says
    return (torch.softmax(x.float().clone() @ keys, -1) @ upstream.float()).to(x.dtype)


_REFERENCES = [_copied, _backward, _scattered, _norm, _centred, _forms, _counts]
_FAMILIES = [Family(), family_of(Precision.TF32, DType.BFLOAT16)]
_FAMILIES += [family_of(Precision.MIXED, low) for low in (DType.BFLOAT16, DType.FLOAT16)]


def _both(
    reference: Callable[..., Tensor],
    inputs: list[Tensor],
    family: Family,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[make.Truth, make.Truth, list[int]]:
    """Return the truth of draws made together, of single ones, and what was made together."""
    counts: list[int] = []
    usual = ReferenceRunner.together

    def noted(runner: ReferenceRunner, count: int, hook: object) -> tuple[Tensor, ...]:
        found = usual(runner, count, hook)  # type: ignore[arg-type]
        counts.append(count)
        return found

    monkeypatch.setattr(ReferenceRunner, "together", noted)
    shape = reference(*inputs)
    name = str(shape.dtype).removeprefix("torch.")
    asked = [spec(name, *"mn"[: shape.dim()])]
    first = make_truth(reference, inputs, asked, seed=3, family=family)
    monkeypatch.setattr(make, "is_small", lambda *_, **__: False)
    return first, make_truth(reference, inputs, asked, seed=3, family=family), counts


@pytest.mark.parametrize("family", _FAMILIES)
@pytest.mark.parametrize("reference", _REFERENCES)
@pytest.mark.parametrize("repeats", [False, True])
def test_the_achievable_error_is_the_same(
    reference: Callable[..., Tensor],
    family: Family,
    repeats: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dtype = torch.float32 if reference in (_forms, _counts) else torch.bfloat16
    x, upstream = normal(40, 64, dtype=dtype), normal(40, 64, dtype=dtype, seed=9)
    if repeats:
        x[1::2] = x[0::2]
    one, other, counts = _both(reference, [x, upstream], family, monkeypatch)
    assert counts == ([8] if family.intermediates is None else [8, 7])  # and the programs
    assert one.reason == other.reason
    first, second = one.outputs[0].yardsticks, other.outputs[0].yardsticks
    if first is not None and second is not None:
        assert first.gain.members == pytest.approx(second.gain.members, rel=1e-5, abs=1e-9)
    found, wanted = one.outputs[0].scale, other.outputs[0].scale
    assert found is not None
    assert wanted is not None
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)
    assert one.outputs[0].ill_conditioned == other.outputs[0].ill_conditioned


@pytest.mark.parametrize("tokens", [64, 512])
def test_a_table_of_few_gradients_has_its_draws_in_one_run(
    tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reference(x: Tensor, upstream: Tensor) -> Tensor:
        table = torch.zeros(1000, x.shape[1])
        return table.index_add(0, torch.arange(len(x)) % 5, x.float() * upstream.float())

    given = [normal(tokens, 128, seed=seed, dtype=torch.bfloat16) for seed in (0, 9)]
    one, other, counts = _both(reference, given, Family(), monkeypatch)
    assert counts == ([8] if tokens == 64 else [])
    assert one.outputs[0].scale is not None
    assert other.outputs[0].scale is not None
    torch.testing.assert_close(one.outputs[0].scale, other.outputs[0].scale, rtol=1e-6, atol=0)


def test_a_branch_on_a_number_has_its_draws_one_after_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reference(x: Tensor) -> Tensor:
        return x * 2.0 if float(x.exp().sum()) > 0 else x

    one, other, counts = _both(reference, [normal(8, 8)], Family(), monkeypatch)
    assert not counts
    assert torch.equal(one.outputs[0].value, other.outputs[0].value)
    assert one.outputs[0].scale is not None
    assert other.outputs[0].scale is not None
    assert torch.equal(one.outputs[0].scale, other.outputs[0].scale)
