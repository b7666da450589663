"""On a GPU: draws of a truth that are made in one run give the error of draws one after another."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.support.oracle_cases import normal, spec
from torch import Tensor

from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.truth import make
from cuassay.oracle.truth.make import Truth, make_truth
from cuassay.oracle.truth.precision import Family, family_of
from cuassay.oracle.truth.runs import ReferenceRunner

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def _norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return (wide * weight[0].float()).to(x.dtype)


def _attention(x: Tensor, keys: Tensor) -> Tensor:
    scores = torch.einsum("md,nd->mn", x.float(), keys.float()) * 0.125
    return torch.einsum("mn,nd->md", torch.softmax(scores, dim=-1), keys.float()).to(x.dtype)


def _written_by_rows(x: Tensor, keys: Tensor) -> Tensor:
    made = torch.zeros(*x.shape, device=x.device)
    for row in range(8):
        made[row] = (x[row].float() * keys.float().exp()).sum(0)
    for row in range(1, 8):
        made[row] = made[row] + made[row - 1].clone() * 0.5
    return made.to(x.dtype)


def _scattered(x: Tensor, upstream: Tensor) -> Tensor:
    places = torch.arange(len(x), device=x.device) % 5
    made = torch.zeros(64, x.shape[1], device=x.device)
    return made.index_add(0, places, x.float() * upstream.float()).to(x.dtype)


def _forms(x: Tensor, upstream: Tensor) -> Tensor:
    made = torch.softmax(x.float(), -1) @ upstream.float().T
    made = torch.tanh(made) + torch.nn.functional.silu(made) + torch.cumsum(made, -1)
    return made.masked_fill(made.isinf(), 0.0).to(x.dtype)


_REFERENCES = [_norm, _attention, _written_by_rows, _scattered, _forms]
_FAMILIES = [
    Family(),
    *(family_of(one, DType.BFLOAT16) for one in (Precision.TF32, Precision.MIXED)),
]


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("family", _FAMILIES)
@pytest.mark.parametrize("reference", _REFERENCES)
def test_the_achievable_error_is_the_same(
    reference: Callable[..., Tensor], family: Family, repeats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, other = (normal(48, 64, dtype=torch.bfloat16, seed=n).cuda() for n in (0, 9))
    if repeats:
        x[1::2] = x[0::2]
    counts: list[int] = []
    usual = ReferenceRunner.together

    def noted(runner: ReferenceRunner, count: int, hook: object) -> tuple[Tensor, ...]:
        found = usual(runner, count, hook)  # type: ignore[arg-type]
        counts.append(count)
        return found

    def truth() -> Truth:
        return make_truth(
            reference, [x, other], [spec("bfloat16", "m", "n")], seed=3, family=family
        )

    monkeypatch.setattr(ReferenceRunner, "together", noted)
    one = truth()
    assert counts == [8]
    monkeypatch.setattr(make, "is_small", lambda *_, **__: False)
    single = truth()
    assert counts == [8]
    assert one.reason == single.reason
    found, wanted = one.outputs[0].scale, single.outputs[0].scale
    assert found is not None
    assert wanted is not None
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=0)
    assert one.outputs[0].ill_conditioned == single.outputs[0].ill_conditioned
