"""Messages of errors: the nearest name, at most some of the others, and what to install."""

from __future__ import annotations

from cuassay.errors import (
    BuildError,
    LiftError,
    UnknownNameError,
    missing_extra,
    suggestion,
)


def test_the_nearest_name_is_suggested_and_nothing_far_away() -> None:
    assert suggestion("rmsnrom", ["softmax", "rmsnorm"]) == "did you mean 'rmsnorm'?"
    assert suggestion("xyz", ["softmax", "rmsnorm"]) == ""
    assert suggestion("x", iter(())) == ""


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    error = UnknownNameError("preset", "tny", ["tiny", "small"], hint="See the page.")
    assert str(error) == (
        "unknown preset 'tny': did you mean 'tiny'? (known: tiny, small) See the page."
    )
    assert (error.kind, error.name, error.legal) == ("preset", "tny", ("tiny", "small"))
    assert str(UnknownNameError("site", "x", [])) == "unknown site 'x' (known: none)"


def test_of_many_names_those_alike_are_listed_and_the_rest_counted() -> None:
    names = [f"norm_{number}" for number in range(40)] + [f"z{number}" for number in range(60)]
    text = str(UnknownNameError("problem", "norm_1x", names))
    assert text.endswith("and 85 more)")
    assert "norm_1," in text
    assert "z1" not in text


def test_a_log_is_kept_apart_from_the_message() -> None:
    error = BuildError("it does not build", "::error:: hostile text")
    assert str(error) == "it does not build"
    assert error.log == "::error:: hostile text"


def test_an_operation_and_its_line_are_named() -> None:
    error = LiftError("aten.foo", "ref.py:3", "no rule")
    assert str(error) == "aten.foo at ref.py:3 cannot be lifted: no rule"


def test_what_is_missing_is_told_with_its_install_line() -> None:
    assert str(missing_extra("torch", "judge")) == (
        "torch is not installed; install it with: pip install 'cuassay[judge]'"
    )
