"""A reference cut out of its file with what it uses, and nothing else."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from cuassay.errors import ProblemError
from cuassay.formats.slicing import aliased, class_text, parameters, standalone

_MODULE = """
import math as m
from os import sep, path
import kernel_on_trial

SCALE, SHIFT = 2.0, 1.0
OTHER: float = 5.0
run = 17

class Config:
    factor = SCALE

def helper(x):
    return x * Config.factor + m.floor(SHIFT)

def unused(x):
    return kernel_on_trial.run(x)

def reference(x, y):
    return helper(x) + y + run

def with_default(x, y=OTHER):
    return x + y

def recursive(x):
    return x if x < 1 else recursive(x - 1)

def outer():
    def inner(x):
        return x
    return inner
"""


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    file = tmp_path_factory.mktemp("slicing") / "test_theirs.py"
    file.write_text(_MODULE.replace("import kernel_on_trial\n", ""))
    spec = importlib.util.spec_from_file_location("test_theirs", file)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.modules["test_theirs"] = made
    try:
        spec.loader.exec_module(made)
        file.write_text(_MODULE)
        yield made
    finally:
        del sys.modules["test_theirs"]


def _run(text: str, name: str = "run") -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(compile(text, "cut.py", "exec"), scope)
    found: Callable[..., Any] = scope[name]
    return found


def test_what_a_function_uses_comes_with_it_and_nothing_else(module: ModuleType) -> None:
    text = standalone(module.reference, ["x", "y"])
    assert _run(text)(3.0, 4.0) == module.reference(3.0, 4.0) == 3 * 2 + 1 + 4 + 17
    for name in ("kernel_on_trial", "unused", "OTHER", "sep"):
        assert name not in text, name
    assert "import math as m" in text


def test_a_function_that_takes_more_than_the_inputs_is_called_with_them(module: ModuleType) -> None:
    assert _run(standalone(module.with_default, ["x"]))(1.0) == 6.0
    assert _run(standalone(module.recursive, ["x"]))(3.5) == 0.5


def test_what_another_process_cannot_read_is_refused(module: ModuleType) -> None:
    for function in (module.outer(), lambda x: x, Path.exists):
        with pytest.raises(ProblemError, match="a lambda, a method or a closure"):
            standalone(function, ["x"])


def test_a_function_of_a_library_is_imported(module: ModuleType) -> None:
    text = standalone(math.sqrt, ["x"])
    assert text.startswith("from math import sqrt as _reference")
    assert _run(text)(9.0) == 3.0


def test_an_alias_comes_with_the_classes_that_are_asked_for(module: ModuleType) -> None:
    text = aliased(module.helper, "mine", classes={"Config_0": module.Config, "Place": Path})
    assert _run(text, "mine")(3.0) == 7.0
    assert _run(text, "Config_0").factor == 2.0  # type: ignore[attr-defined]
    assert "from pathlib import Path as Place" in text
    assert class_text(Path, "P") == "from pathlib import Path as P"


def test_parameters_are_those_that_go_by_position(module: ModuleType) -> None:
    def some(a: int, /, b: int, *rest: int, c: int = 1) -> None: ...

    assert parameters(some) == ("a", "b")
    assert parameters(module.with_default) == ("x", "y")
