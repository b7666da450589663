"""Every signature that people have can be guarded: honest kernels pass, a wrong result is found."""

from __future__ import annotations

import functools
import json
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_map_only

import cuassay
from cuassay_guard.calls import structure
from cuassay_guard.calls.signature import key_of
from cuassay_guard.calls.structure import flatten, portable, rebuild
from cuassay_guard.trusted import normal_call
from tests.support.calls import kernels, references
from tests.support.guards import QUIET

pytestmark = pytest.mark.usefixtures("quiet_guards")

_X = torch.linspace(-2.0, 3.0, 60).reshape(6, 10)
_CONFIG = kernels.Config(1e-6, torch.linspace(0.5, 2.0, 10))


def _modules() -> tuple[torch.nn.Module, torch.nn.Module]:
    torch.manual_seed(0)
    kernel, reference = kernels.Linear(10, 4), references.Linear(10, 4)
    reference.load_state_dict(kernel.state_dict())
    return kernel, reference


_KERNEL, _REFERENCE = _modules()
# name: kernel, trusted operator, arguments, keywords, parameters that are written
_CASES: dict[str, tuple[Any, Any, tuple[Any, ...], dict[str, Any], tuple[str, ...]]] = {
    "keyword-only arguments": (
        kernels.keyword_only,
        references.keyword_only,
        (_X.bfloat16(),),
        {"weight": torch.ones(10).bfloat16(), "eps": 1e-6},
        (),
    ),
    "config, string, None, enum": (
        kernels.configured,
        references.configured,
        (_X, _CONFIG),
        {"mode": "mean", "residual": None, "kind": kernels.Mode.MEAN},
        (),
    ),
    "ragged lists": (
        kernels.lists,
        references.lists,
        ([_X[:3], _X[:5]], (torch.ones(10), 2.0)),
        {},
        (),
    ),
    "nested dicts in, a named tuple out": (
        kernels.nested,
        references.nested,
        ({"a": _X, "more": {"b": _X + 1}},),
        {},
        (),
    ),
    "out=": (kernels.into, references.into, (_X, torch.zeros(6, 10)), {}, ("out",)),
    "an input changed and returned": (kernels.in_place, references.in_place, (_X,), {}, ("x",)),
    "an autograd function": (kernels.Double.apply, references.double, (_X,), {}, ()),
    "modules with parameters": (_KERNEL, _REFERENCE, (_X,), {}, ()),
}


def _worse(made: Any) -> Any:
    """Return a result whose tensors are a little off."""
    return tree_map_only(torch.Tensor, lambda t: t * 1.01 if t.is_floating_point() else t, made)


def _wrong(kernel: Any, written: tuple[str, ...]) -> Any:
    @functools.wraps(getattr(kernel, "forward", kernel))
    def run(*arguments: Any, **keywords: Any) -> Any:
        made = kernel(*arguments, **keywords)
        if not written:
            return _worse(made)
        (arguments[-1] if made is None else made).mul_(1.01)
        return made

    return run


def _copied(value: Any) -> Any:
    return tree_map_only(torch.Tensor, torch.clone, value)


@pytest.mark.parametrize("name", _CASES)
@pytest.mark.parametrize("broken", [False, True])
def test_a_signature_is_guarded(name: str, broken: bool) -> None:
    kernel, trusted, arguments, keywords, written = _CASES[name]
    run = _wrong(kernel, written) if broken else kernel
    guarded = cuassay.guard(run, trusted=trusted, mutates=written, **QUIET)
    with guarded:
        guarded(*_copied(arguments), **_copied(keywords))
    found = guarded.stats()
    assert (found.checked, found.errors) == (1, 0)
    assert found.violations == (1 if broken else 0)


@pytest.mark.parametrize("name", _CASES)
def test_another_process_can_repeat_the_call(name: str) -> None:
    kernel, _, arguments, keywords, _ = _CASES[name]
    tensors, template = structure.flatten_call(*normal_call(kernel, arguments, keywords))
    assert structure.portable(template)
    again = json.loads(json.dumps(template))
    got = structure.call_with(kernel, again, _copied(tensors))
    want = kernel(*_copied(arguments), **_copied(keywords))
    pairs = zip(structure.flatten(got)[0], structure.flatten(want)[0], strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


def test_what_only_this_process_holds_is_held_as_it_is() -> None:
    class Local(kernels.Config):
        pass

    tensors, template = structure.flatten(Local(1e-6, _X))
    assert not structure.portable(template)
    made = structure.rebuild(template, tensors)
    assert type(made) is Local
    assert made.scale is _X


def test_tensors_inside_an_object_are_part_of_the_signature() -> None:
    small, large = (kernels.Config(1e-6, torch.ones(n)) for n in (4, 8))
    assert key_of((_X, small), {}) != key_of((_X, large), {})
    assert key_of((kernels.Mode.MEAN,), {}) != key_of((kernels.Mode.SUM,), {})


def test_structures_come_back_and_say_what_travels() -> None:
    x, y = torch.zeros(2), torch.ones(3)
    value = [x, (1, 2.5, None, "s"), {"a": y, "b": [float("inf"), torch.float16]}]
    tensors, template = flatten(value)
    again = rebuild(template, tensors)
    assert again[0] is x
    assert again[2]["a"] is y
    assert again[1] == (1, 2.5, None, "s")
    assert again[2]["b"] == [float("inf"), torch.float16]
    assert portable(template)
    assert not portable(flatten([x, object()])[1])
