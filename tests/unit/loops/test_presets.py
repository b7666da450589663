"""Sizes of models by name, and their mixtures of experts."""

from __future__ import annotations

import pytest

from cuassay.errors import UnknownNameError, UsageError
from cuassay.model.device import CPU
from cuassay_loops import sites
from cuassay_loops.presets import PRESETS, default, holding, preset

_EXPERTS = next(one for one in sites.SITES.values() if one.experts)
_PLAIN = sites.find_site("embedding")


@pytest.mark.parametrize("name", PRESETS)
def test_heads_divide_what_they_share(name: str) -> None:
    found = preset(name)
    assert found.hidden % found.heads == 0
    assert found.heads % found.kv_heads == 0
    assert bool(found.experts) == name.endswith("-moe")


def test_a_site_of_experts_takes_the_mixture_of_the_same_size() -> None:
    tiny = preset("tiny")
    assert holding(tiny, [_PLAIN]) is tiny
    mixed = holding(tiny, [_PLAIN, _EXPERTS])
    assert (mixed.name, mixed.experts > 0, mixed.vocab) == ("tiny-moe", True, tiny.vocab)
    assert holding(mixed, [_EXPERTS]) is mixed
    with pytest.raises(UsageError, match="preset 'large' has not"):
        holding(preset("large"), [_EXPERTS])


def test_names_and_defaults() -> None:
    assert default(CPU).name == "tiny"
    with pytest.raises(UnknownNameError, match="did you mean 'small'"):
        preset("smal")
