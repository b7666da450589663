"""Guard modules in place: names, parameters and state dicts stay what they are.

A matched module's `forward` is the kernel. Its parameters and buffers are inputs of the call:
they are copied with it, so that an optimizer may change them before the check, and their
gradients are checked like any other's. Works below DDP and FSDP, which replace what a module's
parameters are, not its `forward`.
"""

from __future__ import annotations

import copy
import fnmatch
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from cuassay.errors import UnknownNameError, UsageError
from cuassay_guard.calls.signature import fits, key_of
from cuassay_guard.entry import guard
from cuassay_guard.wrap import Guarded, _apart, _is_compiling

State = Mapping[str, Tensor]


def guard_module(
    model: nn.Module, specs: Mapping[str, object], **options: Any
) -> dict[str, Guarded]:
    """Guard every submodule whose name a pattern of `specs` matches; return them by name.

    A pattern is as in `fnmatch`: `*.norm` matches `norm` and `layers.3.norm`. Its value is
    what to compare with: a module of the same parameters, a function of (module, *inputs), or
    a mapping of options with `trusted` and perhaps `problem` and `arguments`, the attributes of
    the module that `trusted` and the problem take after the inputs. `options` are GuardConfig's.
    Raises UsageError for a pattern that matches nothing and for a trusted module of other
    parameters.
    """
    if not isinstance(model, nn.Module):
        raise UsageError(f"guard_module was given {model!r}, expected a torch.nn.Module")
    names = dict(model.named_modules())
    found: dict[str, Guarded] = {}
    for pattern, spec in specs.items():
        matched = [
            name
            for name in names
            if fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(f".{name}", pattern)
        ]
        if not matched:
            raise UnknownNameError("module pattern", pattern, [name for name in names if name][:40])
        for name in matched:
            if name in found:
                raise UsageError(f"module '{name}' is matched by two patterns, one is '{pattern}'")
            found[name] = _guarded(names[name], name, _options(spec, options, pattern))
    return found


def _options(spec: object, options: Mapping[str, Any], pattern: str) -> dict[str, Any]:
    if isinstance(spec, Mapping):
        return {**options, **spec}
    if callable(spec):
        return {**options, "trusted": spec}
    raise UsageError(
        f"guard_module: the value of '{pattern}' is {spec!r}, expected a module, a function of "
        f"(module, *inputs), or a mapping of options with 'trusted'"
    )


def _guarded(module: nn.Module, name: str, options: dict[str, Any]) -> Guarded:
    if isinstance(module.__dict__.get("forward"), GuardedForward):
        raise UsageError(f"module '{name}' is guarded already; unguard it first")
    extra = options.pop("arguments", None)
    options.setdefault("name", name or type(module).__name__)
    trusted = options.pop("trusted", None)
    if extra is None:
        made = guard(_Kernel(module), trusted=_Trusted(module, name, trusted), **options)
    else:
        extra = tuple(extra)
        for attribute in extra:
            if not hasattr(module, attribute):
                raise UsageError(
                    f"module '{name}' has no attribute '{attribute}' for its trusted operator"
                )
        if trusted is None and options.get("problem") is None:
            raise UsageError(f"module '{name}': 'arguments' needs a 'trusted' or a 'problem'")
        made = guard(_ArgumentKernel(module, extra), trusted=trusted, **options)
    module.forward = GuardedForward(module, made, extra)
    return made


def unguard(model: nn.Module) -> int:
    """Give every guarded submodule its own forward back; return how many there were."""
    count = 0
    for module in model.modules():
        if isinstance(module.__dict__.get("forward"), GuardedForward):
            del module.forward
            count += 1
    return count


class GuardedForward:
    """A module's forward under guard; the hot path is Guarded's, the key the inputs' alone."""

    __slots__ = ("_extra", "_fast", "_forward", "_gate", "_module", "_off", "guarded")

    def __init__(self, module: nn.Module, guarded: Guarded, extra: tuple[str, ...] | None) -> None:
        self._module, self.guarded, self._extra = module, guarded, extra
        self._forward: Callable[..., Any] = _bare_forward(module)
        self._gate, self._fast = guarded.watch.gate, guarded.watch.fast
        self._off = guarded.off

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Return what the module's forward returns, or the trusted one's where that serves."""
        if self._off:
            return self._forward(*arguments, **keywords)
        if _is_compiling():
            return _apart(self, arguments, keywords)
        gate = self._gate
        number = gate.draw()
        if number < gate.due:
            same = gate.same
            if same is None or keywords:
                if fits(gate.memo, arguments, keywords):
                    return self._forward(*arguments, **keywords)
            else:
                try:
                    known = same(*arguments)
                except TypeError:  # another number of tensors
                    known = False
                if known:
                    return self._forward(*arguments)
        key = key_of(arguments, keywords)
        if number < gate.due and key in self._fast:
            return self._forward(*arguments, **keywords)
        if self._extra is not None and not keywords:
            attributes = [getattr(self._module, name) for name in self._extra]
            return self.guarded.seldom(
                number, key, (*arguments, *attributes), {}, call=(arguments, {})
            )
        if self._extra is not None:
            return self._forward(*arguments, **keywords)
        state = state_of(self._module)
        given = (state, arguments, keywords)
        return self.guarded.seldom(number, key, given, {}, call=(arguments, keywords))

    def __reduce__(self) -> Any:
        """Saving a whole model saves it without its guards."""
        return _bare_forward, (self._module,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy of the module is guarded by the same guard, on its own parameters."""
        return GuardedForward(copy.deepcopy(self._module, memo), self.guarded, self._extra)


def _bare_forward(module: nn.Module) -> Any:
    return type(module).forward.__get__(module)


def state_of(module: nn.Module) -> dict[str, Tensor]:
    """Return the parameters and buffers of a module by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def with_state(module: nn.Module, state: State) -> nn.Module:
    """Return a copy of the module's structure with other tensors in it; nothing is shared.

    The live module is not touched: other threads may be inside it. Its own `forward` is the
    class's, its hooks are not called.
    """
    # Not copy.copy: the class that FSDP makes runs __init__ again, which may draw random numbers.
    made = object.__new__(type(module))
    made.__dict__.update(module.__dict__)
    made.__dict__.pop("forward", None)
    own: dict[str, Any] = {"_parameters": dict(module._parameters)}
    own["_buffers"] = dict(module._buffers)
    for name, tensor in state.items():
        if "." not in name:
            kind = "_parameters" if name in own["_parameters"] else "_buffers"
            own[kind][name] = tensor
    own["_modules"] = {
        name: child
        if child is None
        else with_state(
            child,
            {k[len(name) + 1 :]: v for k, v in state.items() if k.startswith(f"{name}.")},
        )
        for name, child in module._modules.items()
    }
    made.__dict__.update(own)
    return made


class _Kernel:
    """The module's forward as a function of (state, arguments, keywords)."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self.__name__ = type(module).__name__

    def __call__(self, state: State, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        module, live = self._module, state_of(self._module)
        if any(live.get(name) is not tensor for name, tensor in state.items()):
            module = with_state(module, state)  # watched views, or a probe's copies
        return type(module).forward(module, *arguments, **keywords)


class _ArgumentKernel:
    """The module's forward as a function of its inputs and then some of its attributes."""

    def __init__(self, module: nn.Module, extra: tuple[str, ...]) -> None:
        self._module, self._extra = module, extra
        self.__name__ = type(module).__name__

    def __call__(self, *arguments: Any) -> Any:
        module, count = self._module, len(self._extra)
        given = dict(zip(self._extra, arguments[-count:] if count else (), strict=True))
        tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
        if any(getattr(module, name) is not tensor for name, tensor in tensors.items()):
            module = with_state(module, tensors)
        return type(module).forward(module, *arguments[: len(arguments) - count])


class _Trusted:
    """What a user gave to compare with, as a function of (state, arguments, keywords)."""

    def __init__(self, module: nn.Module, name: str, trusted: Any) -> None:
        if trusted is None or not callable(trusted):
            raise UsageError(f"module '{name}' needs a trusted operator: a module or a function")
        self._module, self._trusted = module, trusted
        self.__name__ = getattr(trusted, "__name__", type(trusted).__name__)
        if isinstance(trusted, nn.Module):
            mine = {key: tuple(value.shape) for key, value in state_of(module).items()}
            theirs = {key: tuple(value.shape) for key, value in state_of(trusted).items()}
            if mine != theirs:
                raise UsageError(
                    f"module '{name}' has parameters {mine}, its trusted module {theirs}; "
                    "expected the same, so that one can serve for the other"
                )
        elif inspect.isclass(trusted):
            raise UsageError(f"module '{name}': trusted is the class {trusted}, expected a module")

    def __call__(self, state: State, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if isinstance(self._trusted, nn.Module):
            module = with_state(self._trusted, state)
            return type(module).forward(module, *arguments, **keywords)
        return self._trusted(with_state(self._module, state), *arguments, **keywords)
