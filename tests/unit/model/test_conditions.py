"""Conditions that an acceptance can be held to, and proofs among them."""

from __future__ import annotations

import pytest

from cuassay.errors import UnknownNameError
from cuassay.model.conditions import CONDITIONS, PROOFS, STANDING, required, wanted_proofs


def test_names_are_sorted_once_each() -> None:
    assert list(CONDITIONS) == sorted(set(CONDITIONS))
    assert set(STANDING) <= set(CONDITIONS)


def test_names_are_kept_once_in_their_order() -> None:
    assert required(["layouts", "streams", "layouts"]) == ("layouts", "streams")
    assert required(()) == ()


def test_a_name_that_no_check_covers_is_refused() -> None:
    with pytest.raises(UnknownNameError) as failure:
        required(["layouts", "layout"], option="--require")
    assert "unknown condition in --require 'layout': did you mean 'layouts'" in str(failure.value)


def test_proofs_are_told_from_conditions() -> None:
    name, what = next(iter(PROOFS.items()))
    assert required([name]) == (name,)
    assert wanted_proofs(["layouts", name]) == (what,)
