"""Broken versions of a reference: which inputs can tell them from the real one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
import torch
from torch import Tensor

from cuassay.model.domain import Real
from cuassay.model.dtype import DType
from cuassay.model.problem import TensorSpec
from cuassay.oracle.lift.run import lift
from cuassay.oracle.mutants.detect import (
    CANNOT_RUN,
    Mutant,
    Outputs,
    Theirs,
    mutants_of,
    spread,
    theirs_accepts,
    unused,
)
from cuassay.oracle.mutants.faults import first_tile, tf32, whole_tiles
from cuassay.oracle.mutants.kinds import KINDS

Judge: TypeAlias = Callable[[Outputs], bool]


@dataclass
class Found:
    """What some cases make of a reference's mutants."""

    mutants: int = 0
    killed: int = 0
    benchmark_killed: int = 0
    survivors: list[str] = field(default_factory=list)


def power(
    fn: Callable[..., object],
    cases: Sequence[Sequence[Any]],
    judges: Sequence[Judge],
    specs: Sequence[TensorSpec],
    *,
    limit: int = 40,
    theirs: Theirs | None = None,
    **more: Any,
) -> Found:
    """Run the mutants of `fn` on cases; a judge says whether it accepts an answer to its case."""
    found = Found()
    for mutant in spread(mutants_of(fn, cases, specs, **more), limit):
        verdicts = [accepts(mutant, c, j) for c, j in zip(cases, judges, strict=True)]
        alive = False not in verdicts
        if verdicts == [None] * len(verdicts) or (alive and unused(fn, mutant, cases)):
            continue
        found.mutants += 1
        found.killed += not alive
        found.survivors += [f"{mutant.words}; inputs that would show it: {mutant.shown_by}"] * alive
        found.benchmark_killed += theirs is not None and not theirs_accepts(theirs, mutant)
    return found


def accepts(mutant: Mutant, case: Sequence[Any], judge: Judge) -> bool | None:
    try:
        return judge(mutant.run(case))
    except CANNOT_RUN:
        return None


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
    assert "tanh left out in `torch.tanh(x.float() / cap)` (test_detect.py:" in small
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


@pytest.mark.parametrize(("own", "other"), [("none", "tanh"), ("tanh", "erf")])
def test_gelus_other_forms_are_told_apart_in_float32_and_not_in_bfloat16(
    own: str, other: str
) -> None:
    def activated(x: Tensor) -> Tensor:
        return torch.nn.functional.gelu(x * 2.0 + 1.0, approximate=own) * 3.0 - 0.5

    made = mutants_of(activated, [[drawn(5, 64)]], (spec("y"),))
    forms = [mutant.words for mutant in made if mutant.kind == "form"]
    assert [words.partition(" in `")[0] for words in forms] == [
        f"gelu in its {other} form",
        "gelu as x * sigmoid(1.702 x)",
    ]
    told: dict[float, bool] = {}
    for limit in (1e-6, 4e-3):  # of float32, and of bfloat16
        right = judge(activated, [drawn(5, 64)], limit=limit)
        found = power(activated, [[drawn(5, 64)]], [right], (spec("y"),))
        told[limit] = not any(f"gelu in its {other} form" in text for text in found.survivors)
    assert told == {1e-6: True, 4e-3: False}


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
    for words in (
        *("zeros returned", "ones returned", "a constant", "the negative", "first row"),
        *("first column broadcast", "an input"),
    ):
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
    assert sum("`total + row`" in survivor for survivor in found.survivors) == 3


def wrongs(fn: Callable[..., object], case: list[Any], start: str) -> dict[str, float]:
    """Return the largest error that each mutant whose words begin so makes on a case."""
    truth = lift(fn, case)[0]
    found = {}
    for mutant in mutants_of(fn, [case], (spec("y"),)):
        if mutant.words.startswith(start):
            found[mutant.words.split(" in `")[0]] = float((mutant.run(case)[0] - truth).abs().max())
    return found


def test_every_kind_is_described_and_belongs_to_a_failure_class() -> None:
    cases: list[list[Any]] = [[drawn(40, 48), drawn(48, seed=3), 1e-6]]
    for mutant in mutants_of(rmsnorm, cases, (spec("y"),), names=("x", "w", "eps")):
        assert mutant.classes == KINDS[mutant.kind].classes != ()
        assert mutant.words
        assert mutant.shown_by


def test_partial_tiles_are_dropped_only_where_there_are_some() -> None:
    def total(x: Tensor) -> Tensor:
        return x.sum(-1)

    assert wrongs(total, [torch.ones(4, 64)], "last partial") == {
        "last partial tile of 32 dropped": 0.0
    }
    assert list(wrongs(total, [torch.ones(4, 70)], "last partial").values()) == [6.0]
    assert list(wrongs(total, [torch.ones(4, 20)], "last partial").values()) == [0.0]
    assert list(wrongs(total, [torch.ones(4, 70)], "only the first").values()) == [6.0]
    assert list(wrongs(total, [torch.ones(4, 64)], "only the first").values()) == [32.0]
    assert [first_tile(n) for n in (1, 2, 3, 64, 65)] == [1, 1, 2, 32, 64]
    assert [whole_tiles(n) for n in (5, 32, 33, 96)] == [5, 32, 32, 96]


def test_wrong_scales_and_axes_of_a_mean() -> None:
    def mean(x: Tensor) -> Tensor:
        return x.mean(-1)

    x = torch.arange(24.0).reshape(4, 6)
    assert wrongs(mean, [x], "divided by n - 1")["divided by n - 1"] == pytest.approx(20.5 / 5)
    assert wrongs(mean, [x], "not divided")["not divided by n"] == pytest.approx(20.5 * 5)
    padded = wrongs(mean, [x], "divided by the length padded")
    assert list(padded.values()) == [pytest.approx(20.5 * (1 - 6 / 64))]
    assert list(wrongs(mean, [x], "reduced along axis 0").values()) == [pytest.approx(8.5)]


@pytest.mark.parametrize("words", ["bfloat16", "float16", "TF32"])
def test_factors_are_rounded_only_where_it_changes_them(words: str) -> None:
    fine = wrongs(product, [drawn(16, 8), torch.zeros(1)], f"left factor rounded to {words}")
    assert all(0 < error < 0.2 for error in fine.values())
    assert len(fine) == 1
    coarse = [torch.ones(16, 8), torch.zeros(1)]
    exact = wrongs(product, coarse, f"left factor rounded to {words}")
    assert list(exact.values()) == ([0.0] if words == "float16" else [])  # for its range


@pytest.mark.parametrize(
    ("dtype", "kinds"), [(torch.float8_e4m3fn, []), (torch.bfloat16, ["float16"])]
)
def test_codes_of_8_bits_have_no_values_beyond_16(dtype: torch.dtype, kinds: list[str]) -> None:
    def multiply(x: Tensor, weight: Tensor) -> Tensor:
        return (x.to(torch.bfloat16) @ weight.to(torch.bfloat16).T).float()

    case = [drawn(16, 8).to(dtype), drawn(16, 8).flip(0).to(dtype)]
    words = [m.words for m in mutants_of(multiply, [case], (spec("y"),))]
    found = {w.split(" in `")[0].split()[-1] for w in words if " factor rounded to " in w}
    assert sorted(found) == kinds


def rounded_product(x: Tensor, index: Tensor) -> Tensor:
    gains = torch.exp(x).to(torch.bfloat16).to(torch.float32)
    first = gains[:, ::2].clone() @ x[:, :4].T
    second = (3.0 * gains) @ x.T
    return first + second


def test_a_rounding_that_the_reference_makes_itself_is_no_fault() -> None:
    case = [drawn(16, 8), torch.zeros(1)]
    words = [m.words for m in mutants_of(rounded_product, [case], (spec("y"),))]
    left = {w.split("` (")[0] for w in words if w.startswith("left factor rounded to")}
    bfloat16 = {w for w in left if "bfloat16" in w}
    assert {w.split(" in `")[1] for w in bfloat16} == {"(3.0 * gains) @ x.T"}
    assert sum("float16 in" in w for w in left - bfloat16) == 2
    assert sum(w.startswith("right factor rounded to bfloat16") for w in words) == 2


def test_tf32_keeps_ten_fraction_bits_and_what_is_not_finite() -> None:
    one, inf = 1.0, float("inf")
    x = torch.tensor([one, one + 2**-10, one + 2**-11, one + 2**-12, -3.0, inf, -inf])
    want = torch.tensor([one, one + 2**-10, one + 2**-10, one, -3.0, inf, -inf])
    assert torch.equal(tf32(x.double()), want.double())
    assert bool(tf32(torch.tensor([float("nan")])).isnan())


def gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + torch.tanh((x + 0.044715 * x * x * x) * 0.79788))


def test_constants_are_moved_and_exchanged() -> None:
    found = wrongs(gelu, [drawn(64)], "constant")
    assert "constant 0.044715 one percent off" in found
    assert "constant 0.044715 exchanged for 0.79788" in found
    assert all(error > 0 for error in found.values())


def test_scalars_freeze_and_inputs_are_exchanged() -> None:
    def scaled(x: Tensor, y: Tensor, a: float, b: float) -> Tensor:
        return a * x - b * y

    x, y = drawn(4, 8), drawn(4, 8, seed=1)
    case: list[Any] = [x, y, 2.0, 3.0]
    names = ("x", "y", "a", "b")
    found = mutants_of(scaled, [case], (spec("y"),), names=names, usual={"a": 1.5, "b": 3.0})
    by_words = {mutant.words: mutant.run(case)[0] for mutant in found}
    torch.testing.assert_close(by_words["input a frozen at 1.5"], 1.5 * x - 3 * y)
    torch.testing.assert_close(by_words["input b frozen at 3"], 2 * x - 3 * y)
    torch.testing.assert_close(by_words["inputs x and y exchanged"], 2 * y - 3 * x)
    torch.testing.assert_close(by_words["inputs a and b exchanged"], 3 * x - 2 * y)
    left = next(words for words in by_words if words.startswith("left side of '-' ignored"))
    torch.testing.assert_close(by_words[left], -3 * y)


def test_stale_answers_come_from_another_call_of_the_same_shapes() -> None:
    def double(x: Tensor) -> Tensor:
        return 2 * x

    first, second, odd = drawn(5, 3), drawn(5, 3, seed=1), drawn(2, 2)
    mutants = mutants_of(double, [[first], [odd], [second]], (spec("y"),))
    stale = {m.words: m.run([first])[0] for m in mutants if m.kind == "stale answer"}
    assert torch.equal(stale["another seed's answer returned"], 2 * second)
    kept = stale["last row left from the call before"]
    assert torch.equal(kept[:-1], 2 * first[:-1])
    assert torch.equal(kept[-1], 2 * second[-1])
    torch.testing.assert_close(
        stale["added to the answer of the call before"], 2 * (first + second)
    )
