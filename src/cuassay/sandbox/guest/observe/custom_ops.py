"""Custom operators that a candidate calls, put through `torch.library.opcheck`.

The operators are those that torch's dispatcher sees in one call and that torch does not bring
itself. Each is checked on copies of the arguments it was called with: what its schema says of
mutation and aliasing, its fake kernel, its gradient registration, its tracing with sizes unknown.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from cuassay.dispatch_modes import UntracedMode, outside_of_compiler
from cuassay.model.scenario import Poison
from cuassay.model.steps import OpCheck
from cuassay.sandbox.guest.interface import Around, Host, Made

OPERATOR, FAILED, SKIPPED = "operator", "failed", "skipped"
_MOST, _TEXT = 8, 400
_TORCHS_OWN = frozenset(
    (
        *("aten", "prims", "prim", "inductor", "quantized", "_quantized", "higher_order"),
        *("c10d", "_c10d_functional", "symm_mem", "rngprims", "debugprims", "profiler"),
        *("mkldnn", "mkl", "onednn", "static_runtime", "streams", "triton", "bundled"),
        *("torchvision", "torchaudio"),
    )
)
_Called = tuple[Any, tuple[Any, ...], dict[str, Any]]
_GRADIENT_TESTS = ("test_autograd_registration", "test_aot_dispatch_dynamic")


class _Recorder(UntracedMode):
    """Notes the first call of every operator that is not torch's own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, _Called] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        fresh = func.namespace not in _TORCHS_OWN and name not in self.calls
        if fresh and len(self.calls) < _MOST:
            self.calls[name] = func, _copied(tuple(args)), _copied(dict(kwargs or {}))
        return func(*args, **(kwargs or {}))


def op_check(host: Host, step: OpCheck, around: Around) -> Made:
    """Execute an OpCheck: facts `operator NAME`, `failed NAME TEST`, or `skipped`."""
    if around.untraceable:
        return Made(facts=((SKIPPED, around.untraceable),))
    recorder = outside_of_compiler(_Recorder)()
    outputs = host.destinations(step.slot, Poison.NAN)
    try:
        with recorder:
            host.invoke(step.slot, outputs)
    except Exception as error:
        host.invoke(step.slot, outputs)  # what it raises by itself is told as its own fault
        why = f"watching its operators makes it raise {type(error).__name__}: {error}"
        return Made(facts=((SKIPPED, why[:_TEXT]),))
    facts: list[tuple[str, str]] = []
    for name, called in recorder.calls.items():
        facts.append((f"{OPERATOR} {name[:100]}", "called"))
        for test, why in _failures(*called).items():
            facts.append((f"{FAILED} {name[:100]} {test}", why))
    return Made(facts=tuple(facts))


def _failures(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """Return the tests of opcheck that fail, and why: without gradients, then with."""
    found = _layouts(operator, args, kwargs) | _opcheck(operator, args, kwargs)
    leaves = _copied(args, grad=True), _copied(kwargs, grad=True)
    if _has_gradient(operator, *leaves):
        for test in _GRADIENT_TESTS:  # tracing says nothing on a gradient that is not registered
            found |= _opcheck(operator, *leaves, tests=(test,))
            if test in found:
                break
    return found


def _layouts(operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    """Return where the fake kernel announces other strides: torch 2.11's opcheck lets it pass.

    Operators that cannot be called on fake tensors alone are left to opcheck's own words.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    try:
        real = tree_leaves(operator(*_copied(args), **_copied(kwargs)))
        with FakeTensorMode() as mode:
            given = tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
            fake = tree_leaves(operator(*given[0], **given[1]))
    except Exception:
        return {}
    for got, said in zip(real, fake, strict=False):
        if isinstance(got, torch.Tensor) and isinstance(said, torch.Tensor):
            mine, theirs = _strides(got), _strides(said)
            if got.shape == said.shape and mine != theirs:
                text = f"the fake kernel announces strides {theirs}, the kernel returns {mine}"
                return {"test_faketensor": text}
    return {}


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Return the strides that decide where an element lies: 0 along axes of one element."""
    if not tensor.numel() or tensor.layout is not torch.strided:
        return ()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return tuple(stride if size > 1 else 0 for size, stride in pairs)


def _opcheck(
    operator: Any, args: Any, kwargs: Any, *, tests: Sequence[str] | None = None
) -> dict[str, str]:
    check_: Callable[..., dict[str, Any]] = torch.library.opcheck
    more = {} if tests is None else {"test_utils": tests}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        done = check_(operator, args, kwargs, raise_exception=False, **more)
    first_lines = {}
    for test, said in done.items():
        if str(said) != "SUCCESS":
            try:
                text = str(said)
            except Exception:
                text = ""
            kind = "" if isinstance(said, str) else f"{type(said).__name__}: "
            first_lines[test] = f"{kind}{' '.join(text.split())}"[:_TEXT] or "fails"
    return first_lines


def _has_gradient(operator: Any, args: Any, kwargs: Any) -> bool:
    """Whether an operator brings a derivative: one for use forward only need not.

    Without one, torch gives outputs a node that warns or raises when it is differentiated.
    """
    from torch._library.custom_ops import OPDEFS

    made = OPDEFS.get(operator._schema.name)
    if made is not None and made._backward_fn is None:
        return False
    try:
        with torch.enable_grad():
            returned = operator(*args, **kwargs)
    except Exception:
        return False  # what it raises on leaves is no statement on its registration
    outputs = returned if isinstance(returned, list | tuple) else (returned,)
    nodes = [o.grad_fn for o in outputs if isinstance(o, torch.Tensor) and o.grad_fn is not None]
    return any("NotImplemented" not in node.name() for node in nodes)


def _copied(value: Any, *, grad: bool = False) -> Any:
    """Return arguments with tensors of their own, floating ones requiring gradients on demand."""
    if isinstance(value, torch.Tensor):
        made = value.detach().clone()
        return made.requires_grad_() if grad and made.is_floating_point() else made
    if isinstance(value, list | tuple):
        return type(value)(_copied(item, grad=grad) for item in value)
    if isinstance(value, dict):
        return {key: _copied(item, grad=grad) for key, item in value.items()}
    return value
