"""Functions of a source, read from its tree: which calls fit, and which names may be bound."""

from __future__ import annotations

import pytest

from cuassay.formats.signature import (
    bound_names,
    decorators,
    functions,
    syntax_tree,
    wraps_arguments,
)

_SOURCE = """
import torch, os.path as paths
from typing import *

def plain(x, y=1): ...
def all_named(x, *, out): ...
def any_number(x, *rest, scale=1.0): ...
def only(x, /, y): ...
async def later(x): ...

if True:
    def within(): ...

@torch.no_grad()
@triton.autotune(configs=[])
@triton.jit
def kept(x): ...

@pad(3)
def changed(x): ...

table: dict = {}
"""
_TREE = syntax_tree(_SOURCE, "k.py")


@pytest.mark.parametrize(
    ("name", "fitting", "shown"),
    [
        ("plain", {1, 2}, "plain(x, y)"),
        ("all_named", set(), "all_named(x)"),  # `out` has no default
        ("any_number", {1, 2, 3, 4}, "any_number(x, *args)"),
        ("only", {2}, "only(x, y)"),
        ("later", {1}, "later(x)"),
    ],
)
def test_a_call_fits_by_its_number_of_arguments(name: str, fitting: set[int], shown: str) -> None:
    found = functions(_TREE)[name]
    assert {count for count in range(5) if found.accepts(count)} == fitting
    assert str(found) == shown
    assert found.is_async == (name == "later")


def test_only_functions_of_the_top_level_count_and_the_last_of_a_name() -> None:
    assert "within" not in functions(_TREE)
    twice = syntax_tree("def f(): ...\ndef f(x): ...\n", "k.py")
    assert functions(twice)["f"].parameters == ("x",)


def test_names_that_are_bound_by_other_means() -> None:
    assert {"torch", "paths", "*", "within", "table"} <= bound_names(_TREE)
    assert "x" not in bound_names(_TREE)


def test_decorators_that_keep_parameters_are_known() -> None:
    assert decorators(_TREE)["kept"] == ("torch.no_grad", "triton.autotune", "triton.jit")
    assert not wraps_arguments(_TREE, "kept")
    assert wraps_arguments(_TREE, "changed")
    assert not wraps_arguments(_TREE, "plain")


@pytest.mark.parametrize("text", ["def f(:", "x = '\0'", "(" * 1000 + ")" * 1000])
def test_what_python_cannot_parse_is_one_kind_of_error(text: str) -> None:
    with pytest.raises(SyntaxError):
        syntax_tree(text, "k.py")
