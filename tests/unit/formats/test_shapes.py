"""Which dimensions follow which sizes: lines, products, sums, ties, and what an output decides."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.shapes import LearntShapes, ShapeSample, learn

_SIZES = {"a": 6, "b": 10}


def _learnt(
    inputs: str,
    outputs: str,
    sizes: Mapping[str, int] | None = None,
    *,
    rule: str = "True",
    numbers: tuple[int, ...] = (),
) -> LearntShapes:
    """Learn shapes that are given as Python lists of tuples over the sizes."""

    def sample(given: Mapping[str, int]) -> ShapeSample:
        names = dict(given)
        if not eval(rule, {}, names):
            raise ValueError("these sizes do not fit")
        return ShapeSample(
            inputs=tuple(eval(inputs, {}, names)), outputs=tuple(eval(outputs, {}, names))
        )

    return learn(sample, _SIZES if sizes is None else sizes, numbers=numbers)


def test_lines_have_names_of_their_own() -> None:
    found = _learnt("[(a, 3), (2 * a + 1, b)]", "[(b - 2,)]")
    assert found.axes == ("a", "b")
    assert found.shapes == (("a", "3"), ("d0", "b"), ("d1",))
    assert found.expressions == {"d0": "2 * a + 1", "d1": "b - 2"}


@pytest.mark.parametrize(
    ("made", "text"),
    [
        ("a * b", "a * b"),
        ("3 * a * b", "3 * a * b"),
        ("a + b + 4", "a + b + 4"),
        ("a + 2 * b", "a + 2 * b"),
    ],
)
def test_dimensions_of_two_axes_are_products_or_sums(made: str, text: str) -> None:
    found = _learnt("[(a,), (b,)]", f"[({made},)]")
    assert found.axes == ("a", "b")
    assert found.expressions[found.shapes[2][0]] == text


def test_an_output_that_follows_in_no_line_is_derived() -> None:
    found = _learnt("[(a, b)]", "[((b - 1) // 4, a)]")
    assert found.axes == ("a", "b")
    assert found.shapes[1] == ("out0", "a")
    assert found.derived == {"out0": 2}


def test_groups_of_a_number_that_the_code_names_are_rounded_up() -> None:
    found = _learnt("[(a, b)]", "[((b + 3) // 4, a)]", numbers=(2, 4, 96))
    assert found.expressions == {"d0": "-(-b // 4)"}
    assert not found.derived


def test_groups_that_two_numbers_explain_are_not_written() -> None:
    found = _learnt("[(a, b)]", "[((b + 95) // 96, a, (b + 31) // 32)]", {"a": 6, "b": 31},
                    numbers=(32, 33, 96))  # fmt: skip
    assert found.shapes[1] == ("1", "a", "out0")


def test_an_input_that_follows_in_no_line_keeps_its_size() -> None:
    found = _learnt("[(a,), (b // 4,)]", "[(a,)]")
    assert found.axes == ("a",)
    assert found.shapes[1] == ("2",)


def test_a_share_of_a_size_with_divisors_is_written() -> None:
    found = _learnt("[(a, b), (a // 6, 4)]", "[(a,)]", rule="a % 6 == 0")
    assert found.axes == ("a", "b")
    assert found.expressions[found.shapes[1][0]] == "a // 6"


def test_sizes_that_are_refused_alone_are_moved_together() -> None:
    found = _learnt("[(a, b), (c,)]", "[(a, c)]", {"a": 6, "b": 10, "c": 10}, rule="b == c")
    assert found.axes == ("a", "b")
    assert found.same == {"c": "b"}
    assert found.shapes == (("a", "b"), ("b",), ("a", "b"))
    assert found.sizes({"a": 2, "b": 3}) == {"a": 2, "b": 3, "c": 3}


def test_a_size_that_never_moves_is_none() -> None:
    assert _learnt("[(a, b)]", "[(a,)]", rule="b == 10").axes == ("a",)


def test_the_first_refusal_is_told() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        _learnt("[(a,)]", "[(a,)]", rule="False")


def test_unknown_dtypes_are_one_message() -> None:
    import torch

    from cuassay.formats.shapes import dtype_of

    with pytest.raises(ProblemError, match="complex64 is not supported"):
        dtype_of(torch.empty(1, dtype=torch.complex64))


def _computing(
    inputs: str, texts: tuple[str, ...], sizes: Mapping[str, int], *, small: bool = True
) -> LearntShapes:
    """Learn inputs alone, of code that computed `texts`; `small` sizes may be sampled too."""

    def sample(given: Mapping[str, int]) -> ShapeSample:
        made = tuple(eval(inputs, {}, dict(given)))
        computed = {text: eval(text, {}, dict(given)) for text in texts}
        return ShapeSample(inputs=made, outputs=((given["a"],),), computed=computed)

    return learn(sample, sizes, inputs=(lambda given: sample(given).inputs) if small else None)


def test_what_no_line_says_is_written_as_the_code_computed_it() -> None:
    pages = "(a + b - 1) // b"
    found = _computing(f"[(a, b), ({pages},)]", (pages, "a + b"), {"a": 100, "b": 16})
    assert found.axes == ("a", "b")
    assert found.expressions[found.shapes[1][0]] == pages


def test_a_least_size_that_large_samples_do_not_show_is_seen_at_smaller_ones() -> None:
    rule, part = "max(a * b + 8, 64)", "a * b + 8"
    sizes = {"a": 40, "b": 16}
    found = _computing(f"[(a, b), ({rule},)]", (part, rule), sizes)
    assert found.expressions[found.shapes[1][0]] == rule
    blind = _computing(f"[(a, b), ({rule},)]", (part, rule), sizes, small=False)
    assert blind.expressions[blind.shapes[1][0]] == part


def test_an_expression_over_a_size_that_stays_has_its_number() -> None:
    text = "(a + c - 1) // c"
    found = _computing(f"[(a, 3), ({text},)]", (text,), {"a": 30, "c": 4})
    assert found.axes == ("a", "c")

    def sample(given: Mapping[str, int]) -> ShapeSample:
        if given["c"] != 4:
            raise ValueError("this size stays")
        made = tuple(eval(f"[(a, 3), ({text},)]", {}, dict(given)))
        return ShapeSample(inputs=made, outputs=(), computed={text: eval(text, {}, dict(given))})

    held = learn(sample, {"a": 30, "c": 4})
    assert held.axes == ("a",)
    assert held.expressions[held.shapes[1][0]] == "(a + 4 - 1) // 4"


def test_a_size_that_moves_no_shape_is_tied_to_none() -> None:
    found = _learnt("[(a,), (b,)]", "[(a,)]", {"a": 4, "b": 4, "c": 4}, rule="c % 2 == 0")
    assert found.axes == ("a", "b")
    assert found.same == {}
