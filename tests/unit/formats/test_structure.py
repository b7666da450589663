"""Calls with any arguments written as text around flat inputs, and results taken apart."""

from __future__ import annotations

import collections
import dataclasses
import enum
import inspect
import math
from typing import Any, NamedTuple

import pytest
import torch

from cuassay.errors import ProblemError
from cuassay.formats.structure import (
    CALL,
    PRELUDE,
    PathStep,
    Written,
    library_import,
    output_text,
    outputs,
    tensors_in,
)


class Way(enum.Enum):
    FAST = "fast"


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclasses.dataclass
class Options:
    scale: torch.Tensor
    eps: float


class Slotted:
    __slots__ = ("gone", "kept")
    gone: int
    kept: int


def _again(value: object) -> tuple[object, Written]:
    """Write an argument and build it again around the same leaves."""
    written = Written()
    text = written.argument("a", value)
    scope: dict[str, Any] = {**written.classes, **written.leaves, "torch": torch}
    exec(PRELUDE, scope)
    scope["importlib"] = __import__("importlib")
    return eval(text, scope), written


_X = torch.ones(2)


@pytest.mark.parametrize(
    "value",
    [
        None, "mode", True, 3, 2.5, math.inf, 1 + 2j, b"bytes", (1, 2), (1,), [3, None], {"a": 1},
        {1, 2}, frozenset([1]), Way.FAST, Pair(1, "x"), torch.bfloat16, torch.Size([2, 3]),
        torch.nn.functional.gelu,
    ],
    ids=repr,
)  # fmt: skip
def test_an_argument_is_built_again_as_it_was(value: object) -> None:
    again, _ = _again(value)
    assert again == value
    assert type(again) is type(value)


def test_numbers_are_inputs_where_they_stand_alone_and_held_elsewhere() -> None:
    _, written = _again(2.5)
    assert written.leaves == {"a": 2.5}
    _, written = _again([2.5, _X])
    assert list(written.leaves) == ["a_1"]
    _, written = _again("mode")
    assert written.held == ["a = 'mode'"]


def test_objects_keep_their_attributes_without_their_constructors() -> None:
    again, written = _again(Options(scale=_X, eps=1e-5))
    assert isinstance(again, Options)
    assert again.scale is _X
    assert again.eps == 1e-5
    slotted = Slotted()
    slotted.kept = 3
    found, _ = _again(slotted)
    assert isinstance(found, Slotted)
    assert found.kept == 3
    assert not hasattr(found, "gone")
    assert written.held == ["a = Options with its fields"]


def test_one_tensor_is_one_input_and_two_of_a_name_are_two() -> None:
    other = torch.zeros(2)
    _, written = _again({"x y": _X, "x.y": other, "again": {"x y": _X}})
    assert list(written.leaves) == ["a_x_y", "a_x_y_2", "a_again_x_y"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (lambda x: x, "which another process cannot be given"),
        ({(1, 2): 3}, "a dict with a tuple as key"),
        ([[[[[[[[[[[[[[[1]]]]]]]]]]]]]]], "more than 12 levels"),
    ],
)
def test_what_cannot_be_written_is_refused(value: object, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Written().argument("a", value)


def test_a_class_inside_a_function_is_refused() -> None:
    class Inside(NamedTuple):
        x: int

    with pytest.raises(ProblemError, match="at the top level"):
        Written().argument("a", Inside(1))


def test_results_are_named_by_the_way_to_them() -> None:
    result = {"out": (_X, 2), "rest": Pair(None, Options(scale=_X, eps=0.5))}
    found = {name: (steps, value) for name, steps, value in outputs(result)}
    assert list(found) == ["out_0", "out_1", "rest_second_scale", "rest_second_eps"]
    scope: dict[str, Any] = {"_result": result}
    exec(PRELUDE, scope)
    for steps, value in found.values():
        assert eval(output_text(steps), scope) is value
    missing = (PathStep(kind="[", name="gone"), PathStep(kind=".", name="x"))
    assert eval(output_text(missing), scope) is None
    assert output_text(()) == "_result"


def test_a_result_that_is_no_container_is_refused_and_passed_over_by_who_looks_for_tensors() -> (
    None
):
    odd = collections.deque([_X])
    with pytest.raises(ProblemError, match="returned a deque"):
        list(outputs(odd))
    assert [value for _, value in tensors_in([odd, {"x": _X}])] == [_X]


def test_a_call_goes_by_name_where_the_function_says_so() -> None:
    scope: dict[str, Any] = {"inspect": inspect}
    exec(CALL, scope)
    call = scope["_call"]

    def by_name(x: int, *, y: int) -> list[int]:
        return [x, y]

    def other_names(a: int, b: int, *, y: int = 0) -> list[int]:
        return [a, b, y]

    def anything(**given: int) -> list[int]:
        return list(given.values())

    assert call(by_name, {"y": 2, "x": 1}) == [1, 2]
    assert call(other_names, {"x": 1, "z": 2, "y": 3}) == [1, 2, 3]
    assert call(anything, {"x": 1, "z": 2}) == [1, 2]
    assert call(max, {"x": 1, "z": 2}) == 2


def test_only_classes_of_libraries_are_imported() -> None:
    assert library_import(torch.nn.Linear, "L") == "from torch.nn.modules.linear import Linear as L"
    assert library_import(Options, "O") == ""
