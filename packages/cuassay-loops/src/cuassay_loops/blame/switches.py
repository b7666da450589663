"""Places in a user's own training script at which a kernel and its trusted twin are exchanged.

A place is a module of an nn.Module, a function that is looked up in a Python module or object, or a
custom operator of torch.library. Whatever it is, it becomes a `Switch`: one callable that answers
with the kernel, with the trusted implementation, with the one forward and the other backward, or
with the one for some outputs only.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from cuassay.dispatch_modes import UntracedMode
from cuassay.errors import UsageError, suggestion

FORWARD, BACKWARD = "forward pass", "backward pass"
# Relative noise of the trusted twin: one unit of rounding, four for a float32 sum's order.
_NOISE = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-22}


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """A place: the name of the site, where it is, and what to trust there.

    `where` is a dotted path in the model (`blocks.0.norm`), `package.module:function`, or
    `library::operator`. `trusted` takes the same arguments; for a module it is a function of
    the module that is replaced, which returns a module (sharing its parameters).
    `kernel` overrides what is found there.
    """

    name: str
    where: str
    trusted: Callable[..., Any]
    kernel: Callable[..., Any] | None = None

    @property
    def kind(self) -> str:
        """module, function or operator."""
        if "::" in self.where:
            return "operator"
        return "function" if ":" in self.where else "module"

    @property
    def parts(self) -> tuple[str, ...]:
        """The passes that can be told apart: an operator of torch.library is one pass."""
        return () if self.kind == "operator" else (FORWARD, BACKWARD)


class Switch:
    """Answers for one place. `state` is trusted, noise, kernel, a pass, or `output N`."""

    def __init__(self, name: str, kernel: Callable[..., Any], trusted: Callable[..., Any]) -> None:
        self.name, self._kernel, self._trusted = name, kernel, trusted
        self.state = "trusted"
        self.gain = 0.0  # relative error planted to measure what would be seen
        self.outputs = 1
        self.generator: torch.Generator | None = None

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Answer a call in the present state."""
        if self.state == "kernel":
            return self._counted(self._kernel(*arguments, **keywords))
        if self.state in ("trusted", "noise"):
            found = self._counted(self._trusted(*arguments, **keywords))
            if self.state == "noise":
                return _each(found, self._noised)
            return _each(found, lambda t: t * (1.0 + self.gain)) if self.gain else found
        kernel = self._kernel(*arguments, **keywords)
        trusted = self._trusted(*arguments, **keywords)
        if self.state == FORWARD:
            return _paired(kernel, trusted)
        if self.state == BACKWARD:
            return _paired(trusted, kernel)
        chosen = int(self.state.removeprefix("output "))
        pairs = zip(_flat(kernel), _flat(trusted), strict=True)
        return _like(kernel, [k if i == chosen else t for i, (k, t) in enumerate(pairs)])

    def _counted(self, found: Any) -> Any:
        self.outputs = len(_flat(found))
        return found

    def _noised(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.dtype not in _NOISE:
            return tensor
        return _Noise.apply(tensor, self.generator)  # type: ignore[no-any-return,no-untyped-call]


class _Noise(torch.autograd.Function):
    """Perturbs a tensor and its gradient by one rounding."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, generator: torch.Generator | None) -> Any:
        ctx.generator = generator
        return _perturbed(tensor, generator)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return _perturbed(grads[0], ctx.generator), None


def _perturbed(tensor: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    drawn = torch.rand(tensor.shape, generator=generator).to(tensor.device) * 2.0 - 1.0
    return (tensor.double() * (1.0 + _NOISE.get(tensor.dtype, 0.0) * drawn)).to(tensor.dtype)


class _Mix(torch.autograd.Function):
    """The value of one tensor, the gradient of another."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, carrier: torch.Tensor) -> Any:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return None, grads[0]


def _paired(values: Any, carriers: Any) -> Any:
    """Return the values of the one answer with the backward pass of the other."""
    mixed = [
        _Mix.apply(value.detach(), carrier) if isinstance(value, torch.Tensor) else value  # type: ignore[no-untyped-call]
        for value, carrier in zip(_flat(values), _flat(carriers), strict=True)
    ]
    return _like(values, mixed)


def _flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def _like(found: Any, parts: Sequence[Any]) -> Any:
    if isinstance(found, tuple | list):
        return type(found)(parts) if type(found) in (tuple, list) else tuple(parts)
    return parts[0]


def _each(found: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    parts = [
        change(part) if isinstance(part, torch.Tensor) and part.is_floating_point() else part
        for part in _flat(found)
    ]
    return _like(found, parts)


class _Routed(nn.Module):
    """Stands in a model where a module was; its parameters stay where they were."""

    def __init__(self, switch: Switch, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        self._switch = [switch]  # a list, so that nothing of it is registered

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """Ask the switch."""
        return self._switch[0](*arguments, **keywords)


class _Operators(UntracedMode):
    """Routes calls of custom operators to their switches, below autograd."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Stay outside of what a compiled model compiles."""
        return True

    def __init__(self, switches: Mapping[str, Switch]) -> None:
        super().__init__()
        self._switches = switches

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        switch = self._switches.get(func.name().partition(".")[0])
        if switch is None:
            return func(*args, **(kwargs or {}))
        return switch(*args, **(kwargs or {}))


@contextlib.contextmanager
def installed(model: nn.Module, swaps: Sequence[Swap]) -> Iterator[dict[str, Switch]]:
    """Put a switch at every place; yield them by name, and put back what was there.

    Raises UsageError for a place that is not there.
    """
    switches: dict[str, Switch] = {}
    operators: dict[str, Switch] = {}
    with contextlib.ExitStack() as stack:
        for swap in swaps:
            if swap.name in switches:
                raise UsageError(f"two sites are called '{swap.name}'; names tell them apart")
            match swap.kind:
                case "operator":
                    library, _, name = swap.where.partition("::")
                    packet = getattr(getattr(torch.ops, library), name, None)
                    if packet is None:
                        raise UsageError(
                            f"site '{swap.name}': torch.ops has no operator '{swap.where}'"
                        )
                    kernel = swap.kernel or packet.default
                    switch = operators[swap.where] = Switch(
                        swap.name, _below(kernel), _below(swap.trusted)
                    )
                case "function":
                    module, _, attribute = swap.where.partition(":")
                    *path, name = attribute.split(".")
                    try:
                        owner: Any = importlib.import_module(module)
                        for part in path:
                            owner = getattr(owner, part)
                        kernel = getattr(owner, name)
                    except (ImportError, AttributeError) as error:
                        raise UsageError(
                            f"site '{swap.name}': '{swap.where}' is not there: {error}"
                        ) from None
                    switch = Switch(swap.name, swap.kernel or kernel, swap.trusted)
                    setattr(owner, name, switch)
                    stack.callback(setattr, owner, name, kernel)
                case _:
                    switch = _module(model, swap, stack)
            switches[swap.name] = switch
        if operators:
            stack.enter_context(_Operators(operators))
        yield switches


def _module(model: nn.Module, swap: Swap, stack: contextlib.ExitStack) -> Switch:
    parent_path, _, name = swap.where.rpartition(".")
    try:
        parent = model.get_submodule(parent_path)
        inner = parent.get_submodule(name)
    except AttributeError:
        known = [path for path, _ in model.named_modules() if path]
        hint = suggestion(swap.where, known)
        raise UsageError(
            f"site '{swap.name}': the model has no module '{swap.where}'. {hint}".strip()
        ) from None
    switch = Switch(swap.name, swap.kernel or inner, swap.trusted(inner))
    setattr(parent, name, _Routed(switch, inner))
    stack.callback(setattr, parent, name, inner)
    return switch


def _below(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return `call` as it runs below autograd: nothing it does is recorded."""

    def run(*arguments: Any, **keywords: Any) -> Any:
        with torch.no_grad():
            return call(*arguments, **keywords)

    return run
