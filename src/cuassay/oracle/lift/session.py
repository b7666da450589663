"""Runs each ATen operation of a reference in lifted precision and tells the hook.

One session is one run. A dispatch mode brings every operation here, factories included; the
tensors are `Lifted` wrappers. Low-precision tensors that the reference did not make itself
(weights of a module, module-level tables) are lifted when met; writes into them go to the
lifted copy, never to the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch._ops import OpOverload

from cuassay.dispatch_modes import UntracedMode
from cuassay.errors import LiftError
from cuassay.oracle.lift import index_range
from cuassay.oracle.lift.hooks import Following
from cuassay.oracle.lift.nominal import Nominals, nominal_at, nominals_of, tensors_in
from cuassay.oracle.lift.source import source_line
from cuassay.oracle.lift.special import SPECIAL
from cuassay.oracle.lift.tensor import LIFTABLE, Lifted, lifted_dtype, nominal_of
from cuassay.oracle.lift.traits import Traits, traits_of

_LOW = (torch.bfloat16, torch.float16)
_ROUNDS = (torch.ops.aten._to_copy.default, torch.ops.aten.copy.default)


class Hook(Protocol):
    """Watches and changes the operations of a lifted run, in the order they run.

    Tensors in `args` and `kwargs` are plain tensors in lifted precision whose `nominal_of`
    answers. Writing operations (add_, copy_, out=) are shown in their functional form where
    ATen has one, and the result is written afterwards. Views are not shown.
    """

    def replace(
        self,
        op: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        nominal: torch.dtype | None,
    ) -> object:
        """Return the result to use instead, or NotImplemented to run the operation."""

    def after(
        self,
        op: OpOverload,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        out: Any,
        nominal: torch.dtype | None,
    ) -> object:
        """Return the result, changed or not; `nominal` is that of the first floating one."""


class HookFailure(BaseException):
    """Carries a hook's own exception past the reference's `except Exception`."""

    def __init__(self, error: Exception) -> None:
        self.error = error
        super().__init__(str(error))


class Session:
    """One lifted run: the precision, the hook and the constants met so far."""

    def __init__(self, to: torch.dtype, hook: Hook | None, *, keep_low: bool) -> None:
        self.to, self.hook, self.keep_low = to, hook, keep_low
        self.bypass = False  # run operations as they come: the lift's own work
        self._constants: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def dispatch(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run one operation of the reference and return wrapped results.

        Raises LiftError for what cannot be lifted; errors of the operation pass through.
        """
        if self.bypass:
            return op(*args, **kwargs)
        if torch._C._is_any_autocast_enabled():
            with torch._C._DisableAutocast():
                return self._dispatch(op, args, kwargs)
        return self._dispatch(op, args, kwargs)

    def _dispatch(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        traits = traits_of(op)
        if traits.refusal:
            raise LiftError(str(op), source_line(), traits.refusal)
        nominals = nominals_of(op, traits, args, kwargs)
        special = SPECIAL.get(op)
        if special is not None:
            return special(self, op, args, kwargs, nominals)
        if traits.random:
            return self._random(op, traits, args, kwargs, nominals)
        return self.run(op, traits, args, kwargs, nominals)

    def run(
        self,
        op: Any,
        traits: Traits,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        nominals: Nominals,
    ) -> Any:
        """Run `op` on payloads, with the hook, and wrap or write what it gives."""
        low_args, low_kwargs = self.unwrap(args), self.unwrap(kwargs)
        if traits.written:
            return self._write(op, traits, args, kwargs, (low_args, low_kwargs, nominals))
        out = self._hooked(op, traits, low_args, low_kwargs, nominals)
        return self.wrap(out, nominals)

    def _hooked(
        self,
        op: Any,
        traits: Traits,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        nominals: Nominals,
    ) -> Any:
        if self.hook is None or traits.view:
            return self._rounded(op, self.call(op, args, kwargs), nominals)
        nominal = next((n for n in nominals if n in LIFTABLE), None)
        try:
            out: Any = self.hook.replace(op, args, kwargs, nominal)
        except Exception as error:
            raise HookFailure(error) from error
        if out is NotImplemented:
            out = self.call(op, args, kwargs)
        out = self._rounded(op, out, nominals)
        return self.after(op, args, kwargs, out, nominals)

    def after(
        self,
        op: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        out: Any,
        nominals: Nominals,
    ) -> Any:
        """Show the hook a result and return what it makes of it."""
        if self.hook is None:
            return out
        for index, tensor in enumerate(tensors_in(out)):
            if tensor.dtype in LIFTABLE:
                nominal = nominal_at(nominals, index, tensor.dtype)
                tensor.cuassay_nominal = nominal  # type: ignore[attr-defined]
        first = next((nominal_of(t) for t in tensors_in(out) if t.dtype in LIFTABLE), None)
        try:
            return self.hook.after(op, args, kwargs, out, first)
        except Exception as error:
            raise HookFailure(error) from error

    def _rounded(self, op: Any, out: Any, nominals: Nominals) -> Any:
        """Round explicit casts to 16 bits for real where the caller asked to keep them."""
        if self.keep_low and op in _ROUNDS and nominals and nominals[0] in _LOW:
            rounded: torch.Tensor = out.to(nominals[0]).to(out.dtype)
            return rounded
        return out

    def call(self, op: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operation on payloads; int/int, literals and factories give lifted floats."""
        index_range.look(op, args, kwargs)
        before = torch.get_default_dtype()
        torch.set_default_dtype(lifted_dtype(before, self.to))
        try:
            return op(*args, **kwargs)
        except (RuntimeError, NotImplementedError) as error:
            if "not implemented for" in str(error) or "not support" in str(error):
                why = f"it does not run in {str(self.to).removeprefix('torch.')}: {error}"
                raise LiftError(str(op), source_line(), why) from error
            raise
        finally:
            torch.set_default_dtype(before)

    def _write(
        self,
        op: Any,
        traits: Traits,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        low: tuple[Sequence[Any], Mapping[str, Any], Nominals],
    ) -> Any:
        low_args, low_kwargs, nominals = low
        functional = traits.functional
        if self.hook is None or functional is None or traits.metadata:
            self.call(op, low_args, low_kwargs)
            if isinstance(self.hook, Following) and not traits.metadata:
                for target in self._targets(traits, low_args, low_kwargs):
                    self.hook.written(target, None)
        else:
            inputs = {k: v for k, v in low_kwargs.items() if k in traits_of(functional).names}
            value = self._hooked(functional, traits_of(functional), low_args, inputs, nominals)
            targets = self._targets(traits, low_args, low_kwargs)
            for target, result in zip(targets, tensors_in(value), strict=True):
                target.copy_(result)
                if isinstance(self.hook, Following):
                    self.hook.written(target, result)
        if self.keep_low and op is torch.ops.aten.copy_.default and nominals[0] in _LOW:
            low_args[0].copy_(low_args[0].to(nominals[0]))
        if traits.metadata:
            with torch._C._DisableTorchDispatch():
                op(*args, **kwargs)
        self._follow_shapes(traits, args, kwargs)
        return _returned(traits, args, kwargs)

    @staticmethod
    def _targets(
        traits: Traits, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> list[torch.Tensor]:
        found = []
        for position, name in traits.written:
            found += tensors_in(args[position] if position < len(args) else kwargs.get(name))
        return found

    def _follow_shapes(
        self, traits: Traits, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        """An `out=` tensor of another shape is resized by the operation: so is its wrapper."""
        for target in self._targets(traits, args, kwargs):
            if isinstance(target, Lifted) and target.shape != target.payload.shape:
                with torch._C._DisableTorchDispatch():
                    target.resize_(target.payload.shape)

    def _random(
        self,
        op: Any,
        traits: Traits,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        nominals: Nominals,
    ) -> Any:
        """Draw in the nominal dtype, so that the same generator gives the same numbers."""
        plain_args, plain_kwargs = _as_written(args), _as_written(kwargs)
        out = op(*plain_args, **plain_kwargs)
        if not traits.written:
            lifted = self._lift_all(out)
            out = self.after(op, self.unwrap(args), self.unwrap(kwargs), lifted, nominals)
            return self.wrap(out, nominals)
        drawn = self._targets(traits, plain_args, plain_kwargs)
        low_args, low_kwargs = self.unwrap(args), self.unwrap(kwargs)
        for target, value in zip(self._targets(traits, low_args, low_kwargs), drawn, strict=True):
            if target is not value:
                lifted = value.to(target.dtype)
                target.copy_(self.after(op, low_args, low_kwargs, lifted, nominals))
        return _returned(traits, args, kwargs)

    def _lift_all(self, out: Any) -> Any:
        if isinstance(out, torch.Tensor):
            return out.to(lifted_dtype(out.dtype, self.to))
        if isinstance(out, list | tuple):
            return type(out)(self._lift_all(item) for item in out)
        return out

    def unwrap(self, value: Any) -> Any:
        """Return `value` with payloads for tensors and lifted dtypes for dtypes."""
        if isinstance(value, Lifted):
            return value.payload
        if isinstance(value, torch.Tensor):
            return self._constant(value) if value.dtype in LIFTABLE else value
        if isinstance(value, torch.dtype):
            return lifted_dtype(value, self.to)
        if isinstance(value, list | tuple):
            return type(value)(self.unwrap(item) for item in value)
        if isinstance(value, dict):
            return {name: self.unwrap(item) for name, item in value.items()}
        return value

    def wrap(self, out: Any, nominals: Nominals) -> Any:
        """Return results with floating tensors wrapped under their nominal dtypes."""
        if isinstance(out, torch.Tensor):
            return self._wrap(out, 0, nominals)
        if isinstance(out, list | tuple):
            count, found = 0, []
            for item in out:
                if isinstance(item, torch.Tensor):
                    found.append(self._wrap(item, count, nominals))
                    count += 1
                else:
                    found.append(self.wrap(item, nominals))
            return type(out)(found)
        return out

    def _wrap(self, out: torch.Tensor, index: int, nominals: Nominals) -> torch.Tensor:
        if out.dtype not in LIFTABLE:
            return out
        if out.layout is not torch.strided:
            raise LiftError(str(out.layout), source_line(), "only strided tensors are lifted")
        nominal = nominal_at(nominals, index, out.dtype)
        if out.is_complex() and out.is_conj():
            out = out.resolve_conj()
        if out.dtype is not (wanted := lifted_dtype(nominal, self.to)):
            out = out.to(wanted)
        return Lifted(out, nominal, self)

    def adopt(self, payload: torch.Tensor, nominal: torch.dtype) -> torch.Tensor:
        """Return a literal's value as a tensor of the run, shown to the hook as lift_fresh."""
        op = torch.ops.aten.lift_fresh.default
        return self._wrap(self.after(op, (payload,), {}, payload, (nominal,)), 0, (nominal,))

    def _constant(self, tensor: torch.Tensor) -> torch.Tensor:
        known = self._constants.get(id(tensor))
        if known is None:
            payload = tensor.detach().to(lifted_dtype(tensor.dtype, self.to), copy=True)
            payload.cuassay_nominal = tensor.dtype  # type: ignore[attr-defined]
            known = self._constants[id(tensor)] = (tensor, payload)
            if isinstance(self.hook, Following):
                self.hook.given(payload, number=is_number(tensor))
        return known[1]


class LiftMode(UntracedMode):
    """Brings every operation of the running thread to a session."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Hand the operation over."""
        return self.session.dispatch(func, args, kwargs or {})


def is_number(tensor: torch.Tensor) -> bool:
    """Return whether torch wrapped a Python number: it has no say beside a float32 scalar."""
    if tensor.dim() or tensor.dtype is not torch.float64:
        return False
    beside = torch.zeros((), dtype=torch.float32)
    return torch.result_type(tensor, beside) is torch.float32


def _returned(traits: Traits, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the written arguments themselves, as the operation does."""
    found = []
    for name in traits.returned:
        position = traits.names.index(name) if name else len(args)
        found.append(args[position] if position < len(args) else kwargs.get(name or ""))
    return found[0] if len(found) == 1 else tuple(found) if found else None


def _as_written(value: Any) -> Any:
    """Return `value` with plain copies in nominal dtypes for lifted tensors."""
    if isinstance(value, Lifted):
        return value.payload.to(value.dtype)
    if isinstance(value, list | tuple):
        return type(value)(_as_written(item) for item in value)
    if isinstance(value, dict):
        return {name: _as_written(item) for name, item in value.items()}
    return value
