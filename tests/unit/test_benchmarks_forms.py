"""The benchmark of written forms: honest ones change roundings, wrong ones answers."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import torch
from torch import Tensor

from tests.support.benchmark_modules import loaded
from tests.support.oracle_cases import normal

_FORMULAS = ["written_out", "reciprocal", "exp2", "root", "lanes", "shuffled", "folded", "fma"]
_WRONG = ["sums_in_16_bits", "no_epsilon", "last_dropped", "tail_dropped", "no_scale"]


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "written_forms", "gate_trials")


def normed(forms: ModuleType, *rewrites: str) -> Tensor:
    given = [1e-2 * normal(*shape, seed=seed) for seed, shape in enumerate([(6, 70), (70,), (70,)])]
    found: Tensor = forms.formed("layernorm", "float32", rewrites, 1)(*given, 1e-5)
    return found.double()


@pytest.mark.parametrize("form", _FORMULAS)
def test_another_formula_errs_by_roundings(forms: ModuleType, form: str) -> None:
    assert form in forms.HONEST
    assert float((normed(forms, form) - normed(forms)).abs().max()) < 1e-6


@pytest.mark.parametrize("form", _WRONG)
def test_a_wrong_form_errs_by_more(forms: ModuleType, form: str) -> None:
    assert form in forms.WRONG
    assert float((normed(forms, form) - normed(forms)).abs().max()) > 1e-5


def test_what_is_stored_errs_by_a_few_roundings_to_16_bits(forms: ModuleType) -> None:
    gate, up = (normal(6, 70, seed=seed).to(torch.bfloat16) for seed in (1, 2))
    right, stored = (
        forms.formed("swiglu", "bfloat16", rewrites, 1)(gate, up).double()
        for rewrites in ((), ("stored",))
    )
    assert bool((right != stored).any())
    assert bool(((right - stored).abs() <= 2.0**-6 * right.abs()).all())


def test_what_meets_16_bits_is_cast_and_what_is_summed_is_not(forms: ModuleType) -> None:
    q, k, v = (normal(1, 2, 9, 8, seed=seed).half() for seed in (1, 2, 3))
    decays, state = -normal(1, 2, 9, seed=4).abs(), normal(1, 2, 8, 8, seed=5)

    def outputs(*rewrites: str, state: Tensor) -> Tensor:
        call = forms.formed("gated_linear_attention", "float16", rewrites, 1)
        found: Tensor = call(q, k, v, decays, state)[0]
        return found

    cast = state.half().float()
    assert bool((outputs("sides", state=cast) == outputs(state=cast)).all())
    assert bool((outputs("sides", state=state) != outputs(state=state)).any())
