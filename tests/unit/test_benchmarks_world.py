"""benchmarks/world: kernels are taken from packages' files with what they need, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.benchmark_modules import loaded

_MODEL = '''
"""A model."""
import math
from dataclasses import dataclass

from ..helpers import register, scaled as grown


@register("kernel")
class Layer:
    """Doubles."""

    @property
    def factor(self: "Layer") -> float:
        """Return two."""
        return FACTORS["two"]

    def __call__(self, x: float) -> float:
        return grown(x, self.factor)


def untouched():
    raise RuntimeError("not taken")


def of(name):
    return FACTORS[name]


FACTORS = dict(two=math.sqrt(4.0))
'''
_HELPERS = """
def register(name):
    raise RuntimeError("a decorator of the package")


def scaled(x, factor):
    return x * factor * ONE


ONE = 1.0
"""


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "world_kernels", "world_sources")


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    yield from loaded(monkeypatch, "world_problems")


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    (tmp_path / "models" / "toy").mkdir(parents=True)
    for folder in ("models", "models/toy"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "models" / "toy" / "model.py").write_text(_MODEL)
    (tmp_path / "models" / "helpers.py").write_text(_HELPERS)
    return tmp_path


def test_a_definition_is_taken_with_what_it_names(packages: Path, kernels: ModuleType) -> None:
    text = kernels.extract(packages, ["models.toy.model:Layer"])
    assert "untouched" not in text
    assert "register" not in text
    assert "Doubles" not in text
    names: dict[str, object] = {}
    exec(compile(text, "layer.py", "exec"), names)
    assert names["Layer"]()(3.0) == 6.0  # type: ignore[operator]


def test_a_name_that_a_function_binds_itself_is_not_the_scripts(
    packages: Path, kernels: ModuleType
) -> None:
    script = "def total(a):\n    for b in a:\n        c = b\n    return c\n\n\na = lost\nb = a.c\n"
    (packages / "models" / "script.py").write_text(script)
    names: dict[str, object] = {}
    exec(kernels.extract(packages, ["models.script:total"]), names)
    assert names["total"]([1, 2]) == 2  # type: ignore[operator]


def test_what_a_decorator_calls_stands_before_it(packages: Path, kernels: ModuleType) -> None:
    script = (
        "from toybox import tuned\n\n\n@tuned(choices())\ndef kernel(x):\n    return x\n\n\n"
        "def choices():\n    return one()\n\n\ndef one():\n    return 1\n"
    )
    (packages / "models" / "script.py").write_text(script)
    text = kernels.extract(packages, ["models.script:kernel"])
    assert text.index("def one") < text.index("def choices") < text.index("def kernel")


def test_a_name_that_is_not_there_is_an_error(packages: Path, kernels: ModuleType) -> None:
    with pytest.raises(LookupError, match=r"models\.toy\.model does not define 'Lost'"):
        kernels.extract(packages, ["models.toy.model:Lost"])


def test_a_name_that_two_modules_define_is_an_error(packages: Path, kernels: ModuleType) -> None:
    other = (
        "from .helpers import scaled\n\n\nONE = 2.0\n\n\ndef twice(x):\n    return scaled(x, ONE)\n"
    )
    (packages / "models" / "other.py").write_text(other)
    with pytest.raises(LookupError, match=r"'ONE' is defined by models\.other and models\.helpers"):
        kernels.extract(packages, ["models.other:twice"])


def test_an_adapter_writes_one_file_that_runs(
    packages: Path, tmp_path: Path, kernels: ModuleType
) -> None:
    adapter = kernels.Adapter(
        name="layer",
        problem="world:relu",
        package="toy",
        needs=("models.toy.model:Layer",),
        text="\n\ndef run(x):\n    return Layer()(x)\n",
    )
    names: dict[str, object] = {}
    exec(adapter.written(tmp_path, packages).read_text(), names)
    assert names["run"](2.0) == 4.0  # type: ignore[operator]


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_problems_take_every_working_dtype(dtype: str, problems: ModuleType) -> None:
    found = problems.get("softmax", dtype)
    assert {str(spec.dtype) for spec in found.outputs} == {dtype}


def test_a_kernel_is_judged_in_the_sizes_that_it_documents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for trials in loaded(monkeypatch, "gate_trials"):
        given = {"kind": "world", "name": "k", "path": "k.py", "problem": "layernorm"}
        whole = trials.trial_problem(trials.Trial(**given))
        narrow = trials.trial_problem(trials.Trial(**given, limits=(("hidden", 4096),)))
        most = {axis.name: axis.maximum for axis in narrow.var_axes()}
        assert most == {axis.name: axis.maximum for axis in whole.var_axes()} | {"hidden": 4096}
        sizes = [one.axes["hidden"] for one in whole.workloads]
        kept = [one.axes["hidden"] for one in narrow.workloads]
        assert kept == [one for one in sizes if one <= 4096] != sizes
