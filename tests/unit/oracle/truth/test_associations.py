"""Linear attention by states that are stored in 16 bits is trusted; sums in 16 bits are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.hooks import Observed, Operation, PassThrough
from cuassay.model.dtype import DType
from cuassay.model.precision import Precision
from cuassay.oracle.compare.outputs import compare
from cuassay.oracle.truth.associations import Products, Sums
from cuassay.oracle.truth.make import make_truth
from cuassay.oracle.truth.precision import family_of
from cuassay.oracle.truth.types import OutputTruth
from tests.support.oracle_cases import normal, spec

_SCALE = 0.121
_TOKENS, _CHUNK = 96, 16
_MASK = torch.ones(_TOKENS, _TOKENS).tril()


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q.float() @ k.float().mT * _MASK
    return (scores @ v.float()).to(q.dtype)


def _chunked(q: Tensor, k: Tensor, v: Tensor, *, carried: bool = False) -> Tensor:
    """Return attention by chunks, their states read in 16 bits, or `carried` so as well."""
    wide, outputs = (q.float(), k.float(), v.float()), []
    state = torch.zeros(*q.shape[:-2], q.shape[-1], v.shape[-1])
    size = 1 if carried else _CHUNK
    for queries, keys, values in zip(*(torch.split(one, size, -2) for one in wide), strict=True):
        inner = queries @ keys.mT * torch.ones(size, size).tril()
        outputs.append(queries @ state.bfloat16().float() + inner.bfloat16().float() @ values)
        state = state + keys.mT @ values
        state = state.bfloat16().float() if carried else state
    return torch.cat(outputs, -2).to(q.dtype)


def _inputs(seed: int) -> list[Tensor]:
    """Return queries, keys and values with outliers: of some scores the terms cancel."""
    generator = torch.Generator().manual_seed(seed)
    loud = [torch.rand(8, _TOKENS, 24, generator=generator) < 0.02 for _ in range(3)]
    plain = [normal(8, _TOKENS, 24, seed=3 * seed + n) for n in range(3)]
    return [
        torch.where(where, 30.0 * one, one).bfloat16()
        for where, one in zip(loud, plain, strict=True)
    ]


def _truth(inputs: list[Tensor], seed: int, precision: Precision) -> OutputTruth:
    output = spec("bfloat16", "heads", "tokens", "width")
    family = family_of(precision, DType.BFLOAT16)
    return make_truth(_attention, inputs, [output], seed=seed, family=family).outputs[0]


def test_states_that_are_read_in_16_bits_are_another_association_of_the_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    missed = 0
    for seed in range(3):
        inputs = _inputs(seed)
        truth, honest = _truth(inputs, seed, Precision.MIXED), _chunked(*inputs)
        assert compare(honest, truth).share < 0.9
        for wrong in (_chunked(*inputs, carried=True), (honest.float() * 1.01).bfloat16()):
            assert not compare(wrong, truth).passed
        assert not compare(honest, _truth(inputs, seed, Precision.STRICT)).passed
        with monkeypatch.context() as without:
            without.setattr(Products, "excess", lambda self, operand: None)
            missed += not compare(honest, _truth(inputs, seed, Precision.MIXED)).passed
    assert missed, "the cases show nothing"


def test_the_excess_is_that_of_the_terms_norm_over_the_sum() -> None:
    q = torch.tensor([[1.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    k = torch.tensor([[1.0, -0.9], [1.0, 1.0]], dtype=torch.float64)
    sums = q @ k.T
    products = Products()
    made = _Noted(products)
    decayed = made.run(lambda: (q @ k.T) * torch.tensor([[0.5, 1.0], [1.0, 0.0]]).double())
    found = products.excess(decayed)
    assert found is not None
    norm = (q.square() @ k.square().T) / sums.square()
    assert torch.allclose(found, (norm - 1.0).clamp_min(0.0).sqrt())
    assert products.excess(decayed.T) is None  # its memory is in another order
    assert products.excess(made.run(lambda: torch.softmax(q @ k.T, -1))) is None


class _Noted(PassThrough):
    """Runs operations and shows them to `Products`."""

    def __init__(self, products: Products) -> None:
        self._products = products

    def run(self, call: Callable[[], Tensor]) -> Tensor:
        """Return what the call returns."""
        with Observed(self):
            return call()

    def after(self, operation: Operation, out: Any) -> object:
        """Note its result."""
        if isinstance(out, Tensor):
            self._products.note(operation, out)
        return out


def _eager(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q.float() @ k.float().mT * _SCALE
    return (torch.softmax(scores, -1).to(q.dtype).float() @ v.float()).to(q.dtype)


def _scaled_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return attention as models write it that store their queries scaled."""
    scores = torch.matmul(q * _SCALE, k.mT)
    return torch.matmul(torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype), v)


def test_queries_that_are_scaled_before_they_are_stored_pass_where_scores_cancel(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = spec("float16", "heads", "tokens", "width")
    family = family_of(Precision.MIXED, DType.FLOAT16)
    passed = missed = 0
    for seed in range(1, 7):
        q, k, v = (normal(4, 24, 32, seed=3 * seed + n).half() for n in range(3))
        k[:, 0] = 25.0  # its scores are sums of a query, which cancel

        def truth(given: list[Tensor], number: int) -> OutputTruth:
            return make_truth(_eager, given, [output], seed=number, family=family).outputs[0]

        found = truth([q, k, v], seed)
        passed += compare(_scaled_first(q, k, v), found).passed
        assert not compare(_scaled_first(q, k * 1.02, v), found).passed
        with monkeypatch.context() as without:
            without.setattr(Products, "orders", lambda self, asked, stored: ())
            missed += not compare(_scaled_first(q, k, v), truth([q, k, v], seed)).passed
    assert passed == 6
    assert missed >= 3, "the cases show nothing"


def _frozen(x: Tensor, scale: Tensor, mean: Tensor, bias: Tensor) -> Tensor:
    wide, factor, m, b = (one.float() for one in (x, scale, mean, bias))
    return (wide * factor + (b - m * factor)).to(x.dtype)


@pytest.mark.parametrize("seed", range(4))
def test_three_terms_pass_in_any_order_also_where_a_large_one_takes_in_the_others(
    seed: int,
) -> None:
    loud = normal(256, 64, seed=4 * seed) * 40.0
    x, scale, mean, bias = (
        one.bfloat16() for one in (loud, *(normal(64, seed=4 * seed + n) for n in (1, 2, 3)))
    )
    output = spec("bfloat16", "rows", "channels")
    family = family_of(Precision.MIXED, DType.BFLOAT16)
    inputs = [x, scale, mean, bias]
    truth = make_truth(_frozen, inputs, [output], seed=seed, family=family).outputs[0]
    assert compare((x - mean) * scale + bias, truth).share < 0.95
    assert compare(x * scale + bias - mean * scale, truth).share < 0.95
    assert not compare(x * scale + bias, truth).passed


def test_orders_are_those_of_signed_terms_and_of_sums_alone() -> None:
    a, b, c = (normal(5, 3, seed=n).double() for n in range(3))
    made = Notes()
    with Observed(made):
        torch.sub(c, torch.sub(a, b, alpha=2.0), alpha=3.0)
        a * (b + c)
    assert len(made.found) == 2
    for one in made.found:
        torch.testing.assert_close(one, c - 3.0 * (a - 2.0 * b))


class Notes(PassThrough):
    """Keeps what sums of a run are in other orders."""

    def __init__(self) -> None:
        self.sums, self.found = Sums(), list[Tensor]()

    def after(self, operation: Operation, out: Any) -> object:
        """Note a result and make it in its other orders."""
        self.found += [make() for make in self.sums.orders(operation, lambda part: part)]
        self.sums.note(operation, out)
        return out
