"""Broken versions of a reference: which inputs can tell them from the real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.lift import lift
from cuassay.oracle.mutants import Judge, Outputs, mutants_of, power


def spec(name: str, dtype: DType = DType.FLOAT32) -> TensorSpec:
    return TensorSpec(name=name, dtype=dtype, shape=(), domain=Real())


def judge(fn: Callable[..., object], inputs: Sequence[Any], *, limit: float = 1e-4) -> Judge:
    """Accept what is within `limit` of truth, relative to its largest value."""
    truth = lift(fn, inputs)

    def accepts(outputs: Outputs) -> bool:
        for out, want in zip(outputs, truth, strict=True):
            error = (out.double() - want.double()).abs().max()
            if not error <= limit * want.double().abs().max():
                return False
        return True

    return accepts


def drawn(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def softcap(x: Tensor, cap: float) -> Tensor:
    s = cap * torch.tanh(x.float() / cap)
    e = torch.exp(s - s.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)


def rmsnorm(x: Tensor, w: Tensor, eps: float) -> Tensor:
    v = x.float().pow(2).mean(-1, keepdim=True)
    return x * torch.rsqrt(v + eps) * w


def rmsnorm_literal(x: Tensor, w: Tensor) -> Tensor:
    return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6) * w


def survivors_of(fn: Callable[..., object], cases: list[list[Any]], **more: Any) -> str:
    judges = [judge(fn, case) for case in cases]
    found = power(fn, cases, judges, (spec("y"),), **more)
    assert found.killed + len(found.survivors) == found.mutants > 10
    return "\n".join(found.survivors)


def test_small_logits_leave_the_soft_cap_alive_and_large_ones_kill_it() -> None:
    small = survivors_of(softcap, [[drawn(5, 9, scale=0.01, seed=s), 30.0] for s in (1, 2)])
    assert "tanh left out in `torch.tanh(x.float() / cap)` (test_oracle_mutants.py:" in small
    assert "larger ones" in small
    large = survivors_of(softcap, [[drawn(5, 9, scale=60.0, seed=s), 30.0] for s in (1, 2)])
    assert "tanh left out" not in large


def test_only_values_beyond_88_show_a_missing_maximum() -> None:
    low = survivors_of(softcap, [[drawn(5, 9, scale=10.0), 30.0]])
    assert "nothing is subtracted before exp" in low
    high = survivors_of(softcap, [[drawn(5, 9, scale=900.0), 300.0]])
    assert "nothing is subtracted before exp" not in high


def test_only_small_values_show_epsilon() -> None:
    ones = survivors_of(rmsnorm_literal, [[drawn(5, 16), drawn(16, seed=3)]])
    assert "epsilon 1e-06 ten times as large" in ones
    tiny = survivors_of(rmsnorm_literal, [[drawn(5, 16, scale=1e-3), drawn(16, seed=3)]])
    assert "epsilon" not in tiny


def test_an_ignored_weight_of_ones_survives_by_name() -> None:
    cases = [[drawn(5, 16), torch.ones(16), 1e-6]]
    text = survivors_of(rmsnorm, cases, names=("x", "w", "eps"))
    assert "input w taken as ones" in text
    assert "input w replaced by its mean" in text
    assert "input eps ten times as large" in text
    assert "input x" not in text
    varied = survivors_of(rmsnorm, [[drawn(5, 16), drawn(16, seed=3), 1e-6]], names=("x", "w"))
    assert "input w" not in varied


def scatter(x: Tensor, index: Tensor) -> Tensor:
    return torch.zeros(4, x.shape[1]).index_add_(0, index, x.float())


def test_hot_rows_show_low_precision_accumulation() -> None:
    hot = [drawn(64, 8), torch.zeros(64, dtype=torch.int64)]
    assert "accumulated in bfloat16" not in survivors_of(scatter, [hot])
    coarse = judge(scatter, hot, limit=0.5)
    found = power(scatter, [hot], [coarse], (spec("y"),))
    assert any(s.startswith("accumulated in bfloat16") for s in found.survivors)


def scatter_put(x: Tensor, index: Tensor) -> Tensor:
    return torch.zeros(4, x.shape[1]).index_put_((index,), x.float(), accumulate=True)


def embedding_gradient(x: Tensor, index: Tensor) -> Tensor:
    table = torch.zeros(4, x.shape[1], requires_grad=True)
    return torch.autograd.grad(torch.nn.functional.embedding(index, table), table, x)[0]


def product(x: Tensor, index: Tensor) -> Tensor:
    return x.T @ x


def affine(x: Tensor, index: Tensor) -> Tensor:
    return torch.addmm(x[0], x.T, x)


@pytest.mark.parametrize("fn", [scatter, scatter_put, embedding_gradient, product, affine])
def test_every_kind_of_sum_is_broken_twice(fn: Callable[..., object]) -> None:
    cases = [[drawn(64, 8), torch.zeros(64, dtype=torch.int64)]]
    errors = dict.fromkeys(("accumulated in bfloat16", "last term"), 0)
    for _, mutant in ((m.words, m) for m in mutants_of(fn, cases, (spec("y"),))):
        for words in errors:
            if mutant.words.startswith(words):
                error = (mutant.run(cases[0])[0] - lift(fn, cases[0])[0]).abs().max()
                errors[words] += bool(1e-3 < error < 20)
    assert all(errors.values())


def test_the_limit_is_spread_over_kinds() -> None:
    cases: list[list[Any]] = [[drawn(5, 9, scale=60.0), 30.0]]
    found = power(softcap, cases, [lambda outputs: True], (spec("y"),), limit=20)
    assert found.mutants == 20
    assert found.killed == 0
    words = " ".join(found.survivors)
    for kind in ("left out", "ignored", "zeros returned", "accumulated", "input"):
        assert kind in words


def test_trivial_answers_are_tried_in_the_declared_dtype() -> None:
    seen: list[torch.dtype] = []

    def watching(outputs: Outputs) -> bool:
        seen.append(outputs[0].dtype)
        return True

    found = power(softcap, [[drawn(5, 9), 30.0]] * 2, [watching] * 2, (spec("y", DType.BFLOAT16),))
    assert set(seen) == {torch.bfloat16}
    for words in ("zeros returned", "a constant", "the negative", "first row", "an input"):
        assert any(words in survivor for survivor in found.survivors)


def test_the_benchmarks_own_kills_are_counted() -> None:
    case: list[Any] = [drawn(5, 9, scale=60.0), 30.0]

    def blind(run: Callable[[Sequence[Any]], Outputs]) -> bool:
        return run(case)[0].shape == (5, 9)

    found = power(softcap, [case], [judge(softcap, case)], (spec("y"),), theirs=blind)
    assert found.benchmark_killed == 0
    assert found.killed > 10


def test_a_reference_that_cannot_be_lifted_still_gets_input_and_trivial_mutants() -> None:
    def opaque(x: Tensor) -> Tensor:
        return torch.from_numpy(x.numpy() * 2)

    found = power(opaque, [[drawn(5, 9)]], [lambda out: False], (spec("y"),))
    assert found.killed == found.mutants >= 8


def test_loops_are_one_site() -> None:
    def loop(x: Tensor) -> Tensor:
        total = torch.zeros(x.shape[1])
        for row in x:
            total = total + row
        return total

    found = power(loop, [[drawn(30, 4)]], [lambda out: True], (spec("y"),), limit=1000)
    assert sum("`total + row`" in survivor for survivor in found.survivors) == 2


def test_cases_and_judges_must_pair() -> None:
    with pytest.raises(ValueError, match="give one judge each"):
        power(softcap, [[drawn(5, 9), 30.0]], [], (spec("y"),))
